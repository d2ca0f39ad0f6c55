"""Tables as they were copied, as a `Feed`: each row is one that was inserted at the snapshot.

In: tables, their rows in the columns of `row_schema`, as they come, and the LSN of the snapshot that they are of. Out: a `Feed` of one
transaction that commits there. Nothing in it is in memory but the batch that is at hand, where the rows are given so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import field
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tailrace.changes import COLUMNS, change_schema
from tailrace.dataclass import dataclass
from tailrace.feed import (
    ChangesOf,
    Feed,
    FeedPart,
    FeedSpan,
    FeedTable,
    PassedOver,
    QuarantinedChanges,
    RefusedChanges,
    Result,
    TableChanges,
    UnplannedFeed,
    WantedTable,
)
from tailrace.model import Comments, Lsn, Relation
from tailrace.quarantine.unfit_rows import UnfitRows
from tailrace.threads import Threads

_A_WHILE = 0.3
"""Seconds."""

Rows = Callable[[], Iterable[pa.RecordBatch | UnfitRows]]
"""Gives rows, each time that it is called; a worker may call it. What the lake's columns cannot hold may come as it is."""


def _nothing() -> None:
    """What is done meanwhile where nothing is."""


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table, and its rows in parts that can be read apart from each other, as ranges of ctid are."""

    relation: Relation
    parts: Sequence[Rows]
    size: int = 0
    """In bytes at the source, as far as it is known."""
    comments: Comments | None = None


@dataclass(frozen=True, slots=True)
class CopyPiece:
    """A part of a table's rows; `number` tells it from the table's other parts. `commit` is where its rows count as inserted, at `time`."""

    oid: int
    number: int
    commit: Lsn
    rows: Rows
    time: int | None

    def quarantined(self, unfit: UnfitRows, relation: Relation, first: int) -> QuarantinedChanges:
        """Rows that go into quarantine; before them there are so many others in the part."""
        return QuarantinedChanges(self.oid, 0, unfit.quarantined(relation, int(self.commit), self.number, first, self.time))


@dataclass(frozen=True, slots=True)
class LeftPart:
    """A worker could not copy a part, and says why; what it may have written is of no use."""

    why: str


class CopyWorkers(Protocol):
    """Workers in other processes."""

    def run(self, work: Callable[[CopyPiece], Result], pieces: Sequence[CopyPiece]) -> Generator[Result | LeftPart]:
        """`work` on each piece; results in the order of the pieces."""
        ...


@dataclass(slots=True)
class ReadSoFar:
    """State: of each part that was begun, by its table and number, how many rows and bytes were read; and whether nobody wants the rest any more."""

    parts: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class CopyFeed(UnplannedFeed):
    """`span` ends just behind the snapshot: its rows count as committed there, at `time` (in microseconds of Unix's clock; None: not known). So many
    `threads` read parts at once, or else `workers`; while they are waited for, `meanwhile` is called now and then, and what it raises ends that."""

    span: FeedSpan
    copied: Sequence[CopiedTable]
    time: int | None = None
    threads: int = 1
    meanwhile: Callable[[], None] = _nothing
    workers: CopyWorkers | None = None
    read: ReadSoFar = field(default_factory=ReadSoFar, compare=False, repr=False)

    def for_tables(self, outlet: str, *, rewrites: bool = False) -> Feed:
        return self

    def tables(self, names: Sequence[tuple[str, str]] = ()) -> Mapping[int, FeedTable]:
        return {each.relation.oid: FeedTable(each.relation, comments=each.comments) for each in self.copied}

    def table(self, oid: int) -> FeedTable | None:
        return self.tables().get(oid)

    @property
    def stretches(self) -> int:
        return sum(len(each.parts) for each in self.copied)

    @property
    def changes(self) -> ChangesOf:
        return changes_of_copy

    def run(self, work: Callable[[Any], Result], pieces: Sequence[Any]) -> Generator[Result]:
        if self.workers is not None:
            yield from self._run_elsewhere(self.workers, work, pieces)
            return
        if self.threads == 1:
            yield from map(work, pieces)
            return
        with Threads(self.threads) as threads:
            waiting = deque(threads.submit(work, piece) for piece in pieces)
            try:
                while waiting:
                    yield self._awaited(waiting.popleft())
            finally:
                self.read.is_over = True
                for each in waiting:
                    each.cancel()

    def _run_elsewhere(self, workers: CopyWorkers, work: Callable[[Any], Result], pieces: Sequence[Any]) -> Generator[Result]:
        """What workers leave is done here. Where that ends before its time, what they have begun is waited for."""
        with closing(workers.run(work, pieces)) as results, Threads(1) as one, Threads(self.threads) as threads:
            coming = deque[Future[Result]]()
            for piece in pieces:
                result = self._awaited(one.submit(next, results))
                coming.append(threads.submit(work, piece) if isinstance(result, LeftPart) else _at_hand(result))
                while coming and (coming[0].done() or len(coming) > self.threads):
                    yield self._awaited(coming.popleft())
            while coming:
                yield self._awaited(coming.popleft())

    def _awaited(self, coming: Future[Result]) -> Result:
        while not wait([coming], _A_WHILE).done:
            self.meanwhile()
        return coming.result()

    def _counting(self, oid: int, number: int, rows: Rows) -> Rows:
        """What is read elsewhere, nobody counts here before it is there."""
        return partial(_counted, self.read, (oid, number), rows) if self.workers is None else rows

    def parts(self, oids: frozenset[int], since: int = 0) -> Iterator[FeedPart]:
        commit = Lsn(self.span.stop - 1)
        pieces = [
            CopyPiece(each.relation.oid, number, commit, self._counting(each.relation.oid, number, rows), self.time)
            for each in self.copied
            if each.relation.oid in oids and commit >= since
            for number, rows in enumerate(each.parts)
        ]
        yield FeedPart(pieces, len(pieces))


def _at_hand(result: Result) -> Future[Result]:
    future = Future[Result]()
    future.set_result(result)
    return future


class _GivenUp(Exception):
    """Nobody wants the rest of a part any more."""


def _counted(read: ReadSoFar, part: tuple[int, int], rows: Rows) -> Iterator[pa.RecordBatch | UnfitRows]:
    count = size = 0
    for batch in rows():
        if read.is_over:
            raise _GivenUp
        if isinstance(batch, pa.RecordBatch):
            count, size = count + len(batch), size + batch.nbytes
            read.parts[part] = count, size
        yield batch


def changes_of_copy(
    piece: CopyPiece, wanted: Mapping[int, WantedTable]
) -> Iterator[TableChanges | RefusedChanges | QuarantinedChanges | PassedOver]:
    """As a `Feed` gives them: rows of a table with the same number within one LSN are told apart by their part and their place."""
    table = wanted[piece.oid]
    schema = change_schema(table.relation, style=table.style)
    first = 0
    for batch in piece.rows():
        if isinstance(batch, UnfitRows):
            yield piece.quarantined(batch, table.relation, first)
            first += len(batch.reasons)
            continue
        count = len(batch)
        row = pa.StructArray.from_arrays(batch.columns, fields=list(schema.field("new").type)) if batch.num_columns else None
        commit = pa.array(np.full(count, int(piece.commit), np.int64))
        arrays: dict[str, pa.Array] = {
            "commit_lsn": commit, "end_lsn": commit, "lsn": pa.array(np.full(count, piece.number, np.int64)),
            "sequence": pa.array((first + np.arange(count)).astype(np.int32)), "kind": pa.array(["insert"] * count),
            "unchanged": pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], pa.string())),
            "commit_timestamp": pa.array([piece.time] * count, pa.int64()).cast(schema.field("commit_timestamp").type),
            "new": row if row is not None else pa.array([{}] * count, schema.field("new").type),
        }  # fmt: skip
        columns = [arrays[name] if name in arrays else pa.nulls(count, schema.field(name).type) for name in COLUMNS]
        yield TableChanges(piece.oid, 0, pa.RecordBatch.from_arrays(columns, schema=schema))
        first += count
