"""An hour of one-second commits to a lake of many tables, without the waiting: what a commit costs in its first minute and in its last.

    python benchmarks/lake_hour.py --windows 3600 --tables 50 --changed 5

A server's tables change, some of them from second to second, drawn at random; a worker follows it as `tailrace mirror --follow --every 1s` does, with
the upkeep that it does by itself, but the next second begins as soon as it has nothing to do. The lake lies in a directory, and then on a server of
S3's protocol (SeaweedFS). Printed are, of the first and of the last minute, medians of a commit's seconds (from the look at the log until the lake's
catalog and its readers' table say so), of the CPU seconds that this process takes from the source's commit to the lake's, whatever else the machine
does, and of the upkeep behind it. It ends with status 1 if the last minute's commits take over twice the first's.
"""

from __future__ import annotations

import argparse
import io
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "tests")]

import numpy as np
import psycopg
from rich.console import Console
from rich.table import Table

from support.acquired import acquired
from support.s3_servers import SeaweedFS
from support.servers import Server
from tailrace.cli.verbs.slot import create
from tailrace.lake.lake import Lake
from tailrace.pipeline.following import NothingNew
from tailrace.pipeline.runner import LocalRunner
from tailrace.replication.apply_worker import ApplyWorker, Pace, WindowApplied
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.waiting import Waiter
from tailrace.storage.open_store import open_store
from tailrace.storage.store import Store

_MINUTE, _TELLS, _EVERY = 60, 300, 1.0
_ROWS, _UPDATED, _ADDED = 1000, 20, 5
_WORSE = 2.0


class Seconds(Waiter):
    """A worker that would wait for the next second gets it at once."""

    def __init__(self, next_second: Callable[[], None]) -> None:
        super().__init__()
        self._next_second = next_second

    def sleep(self, until: float) -> None:
        self._next_second()

    def wait(self, nothing: NothingNew, until: float = 0.0) -> None:
        """For the log, which has what was committed in a moment."""
        time.sleep(0.001)


@dataclass
class Hour:
    """What is done to the source, and how long the lake takes with it."""

    connection: psycopg.Connection
    windows: int
    tables: int
    changed: int
    commits: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    upkeep: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._dice = np.random.default_rng(1)
        self._told = self._began = 0.0
        self.worker: ApplyWorker

    def begin(self) -> None:
        for number in range(self.tables):
            self.connection.execute(
                f"CREATE TABLE t{number} (id bigint PRIMARY KEY, v text, n numeric(12,2), at timestamptz DEFAULT now())"
            )
            self.connection.execute(f"INSERT INTO t{number} SELECT g, md5(g::text), g FROM generate_series(1, {_ROWS}) g")

    def follow(self, store: Store, slot: str, state: Path) -> None:
        with acquired(SlotLocation.open(state), slot, LocalRunner()) as position:
            pace = Pace(every=_EVERY, follows=True)
            self.worker = ApplyWorker(position, Lake.open(store), pace, tell=self._tell, waiter=Seconds(self._next_second))
            self.worker.run()
        assert len(self.commits) == self.windows, f"{len(self.commits)} of {self.windows} seconds"

    def _tell(self, done: WindowApplied) -> None:
        self._told = time.monotonic()
        if len(done.tables) == self.changed:  # the first window has all tables
            self.commits.append(done.seconds)
            self.cpu.append(time.process_time() - self._began)
            if len(self.commits) % _TELLS == 0:
                print(
                    f"{len(self.commits):,} commits, the last minute's {1000 * statistics.median(self.commits[-_MINUTE:]):.0f} ms",
                    flush=True,
                )

    def _next_second(self) -> None:
        if self.commits:
            self.upkeep.append(time.monotonic() - self._told)
        if len(self.commits) == self.windows:
            self.worker.stop()
            return
        with self.connection.transaction():
            for number in self._dice.choice(self.tables, self.changed, replace=False):
                rows = self._dice.choice(_ROWS, _UPDATED, replace=False) + 1
                self.connection.execute(f"UPDATE t{number} SET v = md5(v), n = n + 1 WHERE id = ANY(%s)", [rows.tolist()])
                self.connection.execute(
                    f"INSERT INTO t{number} SELECT m + g, 'new', g FROM generate_series(1, {_ADDED}) g, (SELECT max(id) AS m FROM t{number})"
                )
        self._began = time.process_time()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=3600)
    parser.add_argument("--tables", type=int, default=50)
    parser.add_argument("--changed", type=int, default=5)
    parser.add_argument("--where", choices=("directory", "s3", "both"), default="both")
    options = parser.parse_args()
    columns = (
        "where", "first minute ms", "last minute ms", "CPU ms, first", "last", "upkeep ms, first", "last", "all s", "objects", "MB",
    )  # fmt: skip
    table = Table(
        *columns, title=f"{options.windows:,} commits a second apart, {options.changed} of {options.tables} tables each"
    )
    is_worse = False
    with tempfile.TemporaryDirectory(prefix="tailrace-hour-") as home, ExitStack() as stack:
        stores = {"a directory": open_store(Path(home, "lake"))} if options.where != "s3" else {}
        if options.where != "directory":
            seaweedfs = stack.enter_context(SeaweedFS())
            stores["S3"] = open_store(seaweedfs.url, seaweedfs.options)
        for number, (where, store) in enumerate(stores.items()):
            began = time.monotonic()
            with Server(
                18, {"fsync": "off", "max_wal_size": "1GB"}, dbname="app", wal_segment_mb=16, test_decoding=False
            ) as server:
                with redirect_stdout(io.StringIO()):
                    create(f"hour{number}", server.data_dir, Path(home, f"state{number}"), "app")
                with server.connect() as connection:
                    hour = Hour(connection, options.windows, options.tables, options.changed)
                    hour.begin()
                    hour.follow(store, f"hour{number}", Path(home, f"state{number}"))
            first, last = statistics.median(hour.commits[:_MINUTE]), statistics.median(hour.commits[-_MINUTE:])
            minutes = hour.cpu[:_MINUTE], hour.cpu[-_MINUTE:]
            is_worse |= last > _WORSE * first
            there = list(store.list())
            table.add_row(
                where, f"{first * 1000:.0f}", f"{last * 1000:.0f}", *(f"{statistics.median(each) * 1000:.0f}" for each in minutes),
                f"{statistics.mean(hour.upkeep[:_MINUTE]) * 1000:.0f}",
                f"{statistics.mean(hour.upkeep[-_MINUTE:]) * 1000:.0f}", f"{time.monotonic() - began:.0f}", f"{len(there):,}",
                f"{sum(each.size for each in there) / 1e6:.1f}",
            )  # fmt: skip
    Console(width=120).print(table)
    return int(is_worse)


if __name__ == "__main__":
    sys.exit(main())
