"""Changes on their way into tables: Parquet files that workers write where decoding happens, and what they could not write.

In: stretches with their plans, and which tables are wanted as of which version. Out: a file per stretch and version of a table, below a folder that
the driver made and removes. A worker may run twice: files have names of their own, and only those that a result names are used. What one table's
values do not fit is told of that table (`Refused`), and keeps no other from being written.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.apply.net import OrderKey
from tailrace.changes import change_batch
from tailrace.decode import Batch
from tailrace.errors import TailraceError
from tailrace.feed import Decoder, Feed
from tailrace.model import Lsn, Relation
from tailrace.plan.pieces import Piece
from tailrace.types.registry import ArrowStyle

Progress = Callable[[int, int], None]
"""Told how much is done, and of how much."""


def counting(progress: Progress | None, of: int) -> Callable[[int], None]:
    """To be told of every few of so many steps: tells `progress`."""
    done = 0

    def step(more: int) -> None:
        nonlocal done
        done += more
        if progress and more:
            progress(done, of)

    return step


@dataclass(frozen=True, slots=True)
class Wanted:
    """A table whose changes are wanted: the version to write them as, how, and from which commit on."""

    relation: Relation
    style: ArrowStyle
    since: int


@dataclass(frozen=True, slots=True)
class FileWritten:
    """A Parquet file of one table's changes; `path` is relative to the staging folder, `first_commit` to `last_commit` what it holds, and
    `first_lsn` the first record; `size` is the file's, `memory` what its rows take once they are read. `rewrite` is the transient heap of the ALTER
    TABLE that wrote all its rows anew (0: they are changes)."""

    oid: int
    path: str
    size: int
    memory: int
    rows: int
    first_commit: int
    last_commit: int
    first_lsn: int
    rewrite: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """Changes of one table that could not be written, since their values do not fit its columns: when the first commits and where the last stands."""

    oid: int
    first_commit: int
    last: OrderKey
    error: TailraceError


@dataclass(slots=True)
class Staged:
    """What all workers wrote of one table, and could not write."""

    files: list[FileWritten] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)

    @property
    def rewrites(self) -> list[OrderKey]:
        """Where the rows of the table were written anew: before the first of each rewrite's."""
        firsts: dict[int, OrderKey] = {}
        for file in self.files:
            if file.rewrite:
                here = (file.first_commit, file.first_lsn, -1)
                firsts[file.rewrite] = min(here, firsts.get(file.rewrite, here))
        return list(firsts.values())

    def seen_by_others(self, dropped: int) -> Staged:
        """Without what only the transaction saw that dropped the table, at `dropped`: rows that it wrote anew, and columns of its own."""
        files = [file for file in self.files if not file.rewrite or file.last_commit != dropped]
        return Staged(files, [each for each in self.refused if (each.first_commit, each.last[0]) != (dropped, dropped)])

    def check(self, swept: OrderKey | None = None) -> None:
        """Raise what was refused, unless all rows of before `swept` are gone anyway."""
        for each in self.refused:
            if swept is None or each.last > swept:
                raise each.error


@contextmanager
def staging(directory: Path) -> Iterator[Path]:
    """A folder below `directory`, on the same file system, for as long as it is needed."""
    folder = Path(tempfile.mkdtemp(dir=directory, prefix="_staging-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def stage_changes(
    feed: Feed,
    oids: frozenset[int],
    wanted: Mapping[int, Wanted],
    folder: Path,
    *,
    fill_missing: bool,
    done: Callable[[int], None],
) -> dict[int, Staged]:
    """Decode the changes of these relations, wherever the feed's workers are, into `folder`: by oid, what became of each table. `done` is told of how
    many stretches."""
    staged: dict[int, Staged] = {oid: Staged() for oid in wanted}
    work = partial(write_changes, folder, wanted, feed.decoder, fill_missing)
    for part in feed.parts(oids, min((each.since for each in wanted.values()), default=0)):
        done(part.stretches - len(part.pieces))
        for results in feed.run(work, part.pieces):
            for each in results:
                of_table = staged[each.oid]
                if isinstance(each, Refused):
                    of_table.refused.append(each)
                else:
                    of_table.files.append(each)
            done(1)
    return staged


@dataclass(frozen=True, slots=True)
class Run:
    """Files of one table's changes: all that commit from where the run before ends up to `stop`."""

    files: list[FileWritten]
    stop: Lsn


def runs_of(files: Sequence[FileWritten], stop: Lsn, most_bytes: int) -> list[Run]:
    """The files in the order of their commits, up to `stop`: cut before what would take a run beyond `most_bytes` of memory, where every transaction
    lies on one side. There is at least one run, if an empty one."""
    runs: list[Run] = []
    run: list[FileWritten] = []
    memory = last = 0
    for file in sorted(files, key=lambda each: each.first_commit):
        if file.first_commit > last and memory + file.memory > most_bytes and run:
            runs.append(Run(run, Lsn(file.first_commit)))
            run, memory = [], 0
        run.append(file)
        memory += file.memory
        last = max(last, file.last_commit)
    return [*runs, Run(run, stop)]


def write_changes(
    folder: Path, wanted: Mapping[int, Wanted], decode: Decoder, fill_missing: bool, piece: Piece
) -> list[FileWritten | Refused]:
    """Decode a stretch and write the changes of the tables `wanted` (by oid), a file per version of a relation. Runs in a worker."""
    written: list[FileWritten | Refused] = []
    oids = {each.oid for each in piece.plan.relations if (each.rewrite_of or each.oid) in wanted}
    for batch in decode(piece, oids):
        oid = batch.relation.rewrite_of or batch.relation.oid
        target = wanted[oid]
        commits = piece.facts.commit_lsn[batch.ordinal]
        later = commits >= target.since
        if not later.any():
            continue
        try:
            changes = _changes_of(batch, piece, target, fill_missing)
        except TailraceError as error:
            last = int(commits.max())
            written.append(Refused(oid, int(commits[later].min()), (last, int(batch.lsn[commits == last].max()), 0), error))
            continue
        changes = changes if later.all() else changes.filter(pa.array(later))
        path, size = _write(folder, oid, changes)
        written.append(
            FileWritten(
                oid, path, size, changes.nbytes, int(later.sum()), int(commits[later].min()), int(commits.max()), int(batch.lsn[later].min()),
                batch.relation.oid if batch.relation.rewrite_of else 0,
            )
        )  # fmt: skip
    return written


def _changes_of(batch: Batch, piece: Piece, target: Wanted, fill_missing: bool) -> pa.RecordBatch:
    style = replace(target.style, text=replace(target.style.text, names=batch.names))
    return change_batch(batch, piece.facts, target.relation, style=style, codec=piece.plan.codec, fill_missing=fill_missing)


def _write(folder: Path, oid: int, changes: pa.RecordBatch) -> tuple[str, int]:
    """A file for them: its path below `folder`, and its size."""
    path = f"{oid}/part-{uuid.uuid4()}.parquet"
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.Table.from_batches([changes]), folder / path, compression="snappy", write_statistics=False, use_dictionary=["kind"]
    )
    return path, (folder / path).stat().st_size
