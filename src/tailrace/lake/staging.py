"""Changes on their way into tables: Parquet files that workers write where decoding happens, and what they could not write.

In: stretches with their plans, and which tables are wanted as of which version. Out: a file per stretch and version of a table,
below a folder that the driver made and removes. A worker may run twice: files have names of their own, and only those that a
result names are used. What one table's values do not fit is told of that table (`RefusedChanges`), and keeps no other from being
written.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import field, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tailrace.apply.net import OrderKey
from tailrace.changes import change_batch
from tailrace.dataclass import dataclass
from tailrace.decode import Batch
from tailrace.errors import TailraceError
from tailrace.feed import Decoder, Feed
from tailrace.model import Lsn, Relation
from tailrace.plan.pieces import Piece
from tailrace.publications.publishing.published_pieces import PublishedPiece
from tailrace.publications.publishing.published_relation import warn_of_missing
from tailrace.storage.scratch_folder import scratch_folder
from tailrace.types.registry import ArrowStyle

_NONE_YET = 2**63 - 1
_PREFIX = "_staging-"

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
class WantedTable:
    """A table whose changes are wanted: the version to write them as, how, and from which commit on."""

    relation: Relation
    style: ArrowStyle
    since: int


@dataclass(frozen=True, slots=True)
class FileWritten:
    """A Parquet file of one table's changes; `path` is relative to the staging folder, `first_commit` to `last_commit` what it
    holds, and `first_lsn` the first record; `size` is the file's, `memory` what its rows take once they are read. `rewrite` is
    the transient heap of the ALTER TABLE that wrote all its rows anew (0: they are changes)."""

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
class RefusedChanges:
    """Changes of one table that could not be written, since their values do not fit its columns: when the first commits and where
    the last stands."""

    oid: int
    first_commit: int
    last: OrderKey
    error: TailraceError


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Publications that were asked for and are not there."""

    names: frozenset[str]


@dataclass(slots=True)
class Staged:
    """What all workers wrote of one table, and could not write."""

    files: list[FileWritten] = field(default_factory=list)
    refused: list[RefusedChanges] = field(default_factory=list)

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
        """Without what only the transaction saw that dropped the table, at `dropped`: rows that it wrote anew, and columns of its
        own."""
        files = [file for file in self.files if not file.rewrite or file.last_commit != dropped]
        return Staged(files, [each for each in self.refused if (each.first_commit, each.last[0]) != (dropped, dropped)])

    def check(self, swept: OrderKey | None = None) -> None:
        """Raise what was refused, unless all rows of before `swept` are gone anyway."""
        for each in self.refused:
            if swept is None or each.last > swept:
                raise each.error


def staging(directory: Path) -> AbstractContextManager[Path]:
    """A folder below `directory`, on the same file system, for as long as it is needed. Those whose runs were killed are
    removed."""
    return scratch_folder(directory, _PREFIX)


def stage_changes(
    feed: Feed,
    oids: frozenset[int],
    wanted: Mapping[int, WantedTable],
    folder: Path,
    *,
    fill_missing: bool,
    done: Callable[[int], None],
) -> dict[int, Staged]:
    """Decode the changes of these relations, wherever the feed's workers are, into `folder`: by oid, what became of each table.
    `done` is told of how many stretches."""
    staged: dict[int, Staged] = {oid: Staged() for oid in wanted}
    passed_over: set[str] = set()
    work = partial(write_changes, folder, wanted, feed.decoder, fill_missing)
    for part in feed.parts(oids, min((each.since for each in wanted.values()), default=0)):
        done(part.stretches - len(part.pieces))
        for results in feed.run(work, part.pieces):
            for each in results:
                if isinstance(each, PassedOver):
                    passed_over |= each.names
                    continue
                of_table = staged[each.oid]
                if isinstance(each, RefusedChanges):
                    of_table.refused.append(each)
                else:
                    of_table.files.append(each)
            done(1)
    if passed_over:
        warn_of_missing(passed_over)
    return staged


@dataclass(frozen=True, slots=True)
class Run:
    """Files of one table's changes: all that commit from where the run before ends up to `stop`."""

    files: list[FileWritten]
    stop: Lsn


def runs_of(files: Sequence[FileWritten], stop: Lsn, most_bytes: int) -> list[Run]:
    """The files in the order of their commits, up to `stop`: cut before what would take a run beyond `most_bytes` of memory,
    where every transaction lies on one side. There is at least one run, if an empty one."""
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
    folder: Path, wanted: Mapping[int, WantedTable], decode: Decoder, fill_missing: bool, piece: Piece
) -> list[FileWritten | RefusedChanges | PassedOver]:
    """Decode a stretch and write the changes of the tables `wanted` (by oid), a file per version of a relation. Runs in a
    worker."""
    written: list[FileWritten | RefusedChanges | PassedOver] = []
    oids = {each.oid for each in piece.relations if (each.rewrite_of or each.oid) in wanted}
    for relation, batches in groupby(decode(piece, oids), attrgetter("relation")):
        oid = relation.rewrite_of or relation.oid
        with _ChangesFile(folder, oid, relation.oid if relation.rewrite_of else 0) as file:
            for batch in batches:
                commits = piece.facts.commit_lsn[batch.ordinal]
                later = commits >= wanted[oid].since
                if not later.any():
                    continue
                try:
                    changes = _changes_of(batch, piece, wanted[oid], fill_missing)
                except TailraceError as error:
                    last = int(commits.max())
                    where = (last, int(batch.lsn[commits == last].max()), 0)
                    written.append(RefusedChanges(oid, int(commits[later].min()), where, error))
                    continue
                file.add(changes if later.all() else changes.filter(pa.array(later)), commits[later], int(batch.lsn[later].min()))
        written += file.written
    if isinstance(piece, PublishedPiece) and piece.publisher.passed_over:
        written.append(PassedOver(frozenset(piece.publisher.passed_over)))
    return written


def _changes_of(batch: Batch, piece: Piece, target: WantedTable, fill_missing: bool) -> pa.RecordBatch:
    style = target.style
    if batch.names is not None:
        style = replace(style, text=replace(style.text, names=batch.names))
    return change_batch(batch, piece.facts, target.relation, style=style, codec=piece.plan.codec, fill_missing=fill_missing)


class _ChangesFile:
    """A Parquet file that is written a batch at a time, and is there only if there was one; `written` then tells of it."""

    def __init__(self, folder: Path, oid: int, rewrite: int) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._writer: pq.ParquetWriter | None = None
        self._so_far = FileWritten(oid, f"{oid}/part-{uuid.uuid4()}.parquet", 0, 0, 0, _NONE_YET, 0, _NONE_YET, rewrite)
        self.written: list[FileWritten] = []

    def __enter__(self) -> _ChangesFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        if self._writer is not None:
            self.written = [replace(self._so_far, size=(self._folder / self._so_far.path).stat().st_size)]

    def add(self, changes: pa.RecordBatch, commits: NDArray[np.int64], first_lsn: int) -> None:
        """Rows of these commits, the first record of which is at `first_lsn`."""
        of = self._so_far
        if self._writer is None:
            path = self._folder / of.path
            path.parent.mkdir(parents=True, exist_ok=True)
            writer = pq.ParquetWriter(path, changes.schema, compression="snappy", write_statistics=False, use_dictionary=["kind"])
            self._writer = self._stack.enter_context(writer)
        self._writer.write_batch(changes)
        self._so_far = replace(
            of, memory=of.memory + changes.nbytes, rows=of.rows + len(changes), first_lsn=min(of.first_lsn, first_lsn),
            first_commit=min(of.first_commit, int(commits.min())), last_commit=max(of.last_commit, int(commits.max())),
        )  # fmt: skip
