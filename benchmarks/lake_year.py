"""A year of small commits to a table, at a small scale: what a commit costs, and what lies in the store, at its beginning and at its end.

    python benchmarks/lake_year.py --commits 20000
    python benchmarks/lake_year.py --commits 20000 --no-maintenance

Every ten seconds of a clock that is moved a window changes a few rows, drawn at random, and adds a few; every so many commits the table is
maintained, as a worker does when the log is quiet. Retention is scaled as the year is: with 20,000 commits for the 3,153,600 of a year, one step of
the clock is half an hour, and a week of retention is so many commits less. Printed are, of each part of the year, medians of the time of a commit,
the CPU's time of commits and of maintenance per commit, and the number and the bytes of objects in the store. It ends with status 1 if the last part
costs more than the one in which the first retention was over.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from tailrace.lake.delta.checkpoint import retention
from tailrace.lake.delta.rows import read_rows
from tailrace.lake.delta.table import DeltaVersion
from tailrace.lake.files.data_files import DataFiles
from tailrace.lake.files.table_edit import TableEdit
from tailrace.lake.maintenance import maintain
from tailrace.lake.table import CommitNote, FileLayout
from tailrace.storage.local_store import LocalStore

LAYOUT = FileLayout(("id",))
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.int64())])
YEAR = 365 * 86_400


@dataclass
class MovedClock:
    """What `time.time` says of the year that passes. Time in which we work is measured by `perf_counter`."""

    at: float = field(default_factory=time.time)

    def install(self) -> None:
        time.time = lambda: self.at
        time.time_ns = lambda: int(self.at * 1e9)


@dataclass(frozen=True)
class Part:
    """Of a part of the year: the median of a commit's seconds, the CPU's seconds per commit, and the most that lay in the store."""

    commit: float
    of_commits: float
    upkeep: float
    files: int
    objects: int
    bytes: int


def rows_of(ids: np.ndarray, salt: int) -> pa.Table:
    return pa.table(
        [pa.array(ids), pa.array([f"name {number} {salt}" for number in ids.tolist()]), pa.array(ids * 7 + salt)], schema=SCHEMA
    )


@dataclass
class Year:
    """A table and its year. `last` is which window each row was written by last: what the table must hold at the end."""

    folder: Path
    commits: int
    rows: int
    every: int
    retained: int
    clock: MovedClock
    looks: int = 1
    last: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(1)
        self.step = YEAR / self.commits
        self.found = DeltaVersion(LocalStore(self.folder))

    def begin(self) -> None:
        edit = self._edit()
        ids = np.arange(self.rows)
        edit.insert(rows_of(ids, 0))
        self.last = dict.fromkeys(ids.tolist(), 0)
        seconds = int(self.retained * self.step)
        settings = {f"delta.{name}RetentionDuration": f"interval {seconds} seconds" for name in ("deletedFile", "log")}
        note = CommitNote(settings=settings).with_vectors()
        self.found = self.found.make("t", "t", SCHEMA, note, edit.changes()[0])
        assert retention(self.found.snapshot.metadata.configuration) == seconds

    def _edit(self) -> TableEdit:
        data = DataFiles(self.found.store, SCHEMA, uuid.uuid4().hex, known=self.found.bounds)
        return TableEdit(data, self.found.open().files if self.found.is_there else [], LAYOUT.by, keeps_vectors=True)

    def commit(self, number: int) -> None:
        """A window: some rows updated, one deleted, and as many added."""
        self.clock.at += self.step
        ids = self.rng.choice(np.fromiter(self.last, np.int64), 6, replace=False)
        new = np.array([max(self.last) + 1])
        edit = self._edit()
        edit.delete(pa.table({"id": pa.array(ids)}))
        edit.insert(rows_of(np.concatenate([ids[1:], new]), number))
        del self.last[int(ids[0])]
        self.last |= dict.fromkeys([*ids[1:].tolist(), *new.tolist()], number)
        self.found = self.found.refreshed().commit("t", edit.changes()[0], CommitNote())

    def maintain(self) -> None:
        self.found = maintain(self.found, "t", LAYOUT, orphans_older_than=self.retained * self.step).version

    def part(self, first: int, last: int, *, maintained: bool) -> Part:
        commits, most = [], (0, 0)
        of_commits = upkeep = 0.0
        for number in range(first, last):
            begin, cpu = time.perf_counter(), time.process_time()
            self.commit(number)
            commits.append(time.perf_counter() - begin)
            of_commits += time.process_time() - cpu
            if number % self.every != self.every - 1:
                continue
            if number // self.every % self.looks == 0:
                there = [each.size for each in self.found.store.list()]
                most = max(most, (len(there), sum(there)))
            if maintained:
                cpu = time.process_time()
                self.maintain()
                upkeep += time.process_time() - cpu
        count = last - first
        return Part(statistics.median(commits), of_commits / count, upkeep / count, len(self.found.open().files), *most)

    def check(self) -> None:
        """The table holds what was committed."""
        rows = pa.Table.from_batches(read_rows(self.found.store, self.found.refreshed().snapshot), SCHEMA)
        expected = sorted((number, number * 7 + salt) for number, salt in self.last.items())
        assert sorted(zip(rows["id"].to_pylist(), rows["amount"].to_pylist(), strict=True)) == expected


def simulate(
    folder: Path, commits: int, *, parts: int = 8, rows: int = 20_000, retained: int = 0, maintained: bool = True
) -> list[Part]:
    """The parts of a year, in their order. Changes `time.time` of this process, for good."""
    clock = MovedClock()
    clock.install()
    year = Year(folder, commits, rows, 10, retained or max(60, commits // 52), clock, max(1, commits // 2000))
    year.begin()
    each = commits // parts
    found = [year.part(1 + number * each, 1 + (number + 1) * each, maintained=maintained) for number in range(parts)]
    year.check()
    return found


def is_bounded(parts: list[Part]) -> bool:
    """Whether the last part costs about what those in the beginning did, once the first retention was over."""
    early, late = parts[1], parts[-1]
    return (
        late.of_commits < 1.5 * early.of_commits + 0.002 and late.objects < 1.5 * early.objects and late.bytes < 1.5 * early.bytes
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=20_000)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--no-maintenance", action="store_true")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lake-year-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        parts = simulate(folder, asked.commits, rows=asked.rows, maintained=not asked.no_maintenance)
    finally:
        shutil.rmtree(folder)
    table = Table("part of the year", "commit ms", "CPU ms per commit", "… of maintenance", "files", "objects", "MB in the store")
    for number, part in enumerate(parts, 1):
        table.add_row(
            f"{number} of {len(parts)}", f"{1000 * part.commit:.1f}", f"{1000 * part.of_commits:.1f}", f"{1000 * part.upkeep:.1f}",
            f"{part.files:,}", f"{part.objects:,}", f"{part.bytes / 1e6:.1f}",
        )  # fmt: skip
    Console(width=140).print(table)
    if not asked.no_maintenance and not is_bounded(parts):
        sys.exit("what a year of commits costs grows")


if __name__ == "__main__":
    main()
