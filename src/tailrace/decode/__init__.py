"""A stretch and its plan -> batches of changes.

In: the WAL of a stretch, and for each transaction that is wanted its xids and for each file what it meant (`StretchPlan`). Out: `Batch`es, one per
version of a relation, as columns, in WAL order; or all changes of relations that are stored alike together (`Alike`), which is what thousands of
partitions are decoded as. Rows of aborted, foreign or unwanted work are dropped where they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, starmap

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.names.lookup import oid_alias_types
from tailrace.decode.rows import DELETE, INSERT, UPDATE, Rows, grouped, wanted_rows
from tailrace.errors import TailraceError
from tailrace.model import Column, Lsn, Relation
from tailrace.plan.stretch import Commits, StretchPlan
from tailrace.tuples.deform import deform
from tailrace.tuples.errors import CorruptTuple
from tailrace.tuples.gather import column_of
from tailrace.tuples.toast import Chunks
from tailrace.types.style import NameOf
from tailrace.types.values import Mask, Values
from tailrace.wal.heap import NO_OLD, OLD_KEY, OLD_ROW
from tailrace.wal.pages import WalBytes
from tailrace.wal.reading import Reader

__all__ = ["DELETE", "INSERT", "NO_OLD", "OLD_KEY", "OLD_ROW", "UPDATE", "Alike", "Batch", "Reader", "decode", "decode_alike"]

SLICE, SLICED_FROM = 4 << 20, 48 << 20
"""Of a large stretch, rows become columns, and columns texts, some at a time: so much of their tuples, each row counting as _ROW_COST bytes more. At
once, a stretch of 64 MB would need four times as much as it holds. Stretches of 32 MB are not cut: putting texts end to end takes time, too."""
_ROW_COST = 64


@dataclass(slots=True, kw_only=True)
class Batch:
    """Changes of one version of a relation, in WAL order.

    `relation` is whose rows they are; `published_as` the table that an outlet shows them of, and `columns` those that it shows, which are what `new`
    and `old` hold one `Values` each for: the relation itself, and its live columns, as they come out of decoding.

    The order key of a row is (its transaction's commit LSN, `lsn`, `sequence`), the last being its number within its record; `ordinal` names the
    transaction. Rows without a new or an old tuple are invalid there, and `old_kind` says which have an old one and whether it is only a key. `names`
    is what columns of regclass and their kin print, if there are such columns. Where rows are streamed, `stream` is the xid of the transaction that
    each is given as a part of, before its end is known (0: it is not), and `xid` that of the subtransaction which it is of. `commits` has a row for
    each, where a plan was asked for them.
    """

    relation: Relation
    published_as: Relation
    columns: tuple[Column, ...]
    ordinal: NDArray[np.int64]
    lsn: NDArray[np.int64]
    sequence: NDArray[np.int64]
    kind: NDArray[np.uint8]
    old_kind: NDArray[np.uint8]
    new: list[Values]
    old: list[Values] | None
    names: NameOf | None = None
    stream: NDArray[np.uint32] | None = None
    xid: NDArray[np.uint32] | None = None
    commits: Commits | None = None

    def __len__(self) -> int:
        return len(self.lsn)

    @property
    def has_old(self) -> Mask:
        return self.old_kind != NO_OLD

    def take(self, rows: NDArray[np.int64]) -> Batch:
        """The changes at `rows`, in that order."""
        return self._of_rows(
            rows,
            [values.take(rows) for values in self.new],
            None if self.old is None else [values.take(rows) for values in self.old],
        )

    def part(self, start: int, stop: int) -> Batch:
        """The changes `[start, stop)`, sharing memory; without old tuples where none of them has one."""
        mine = slice(start, stop)
        old = self.old if self.old is not None and self.has_old[mine].any() else None
        return self._of_rows(
            mine,
            [values.part(start, stop) for values in self.new],
            None if old is None else [values.part(start, stop) for values in old],
        )

    def _of_rows(self, rows: slice | NDArray[np.int64], new: list[Values], old: list[Values] | None) -> Batch:
        return replace(
            self, ordinal=self.ordinal[rows], lsn=self.lsn[rows], sequence=self.sequence[rows], kind=self.kind[rows],
            old_kind=self.old_kind[rows], new=new, old=old, stream=None if self.stream is None else self.stream[rows],
            xid=None if self.xid is None else self.xid[rows],
            commits=None if self.commits is None else self.commits.take(rows),
        )  # fmt: skip


@dataclass(slots=True)
class Alike:
    """Changes of relations with the same columns, in WAL order. Row i of `batch`, which names the first of them, is of `relations[number[i]]`, and
    published as `published_as[number[i]]`."""

    relations: tuple[Relation, ...]
    published_as: tuple[Relation, ...]
    number: NDArray[np.int64]
    batch: Batch

    @classmethod
    def of(cls, batch: Batch) -> Alike:
        """One relation's."""
        return cls((batch.relation,), (batch.published_as,), np.zeros(len(batch), np.int64), batch)

    def take(self, rows: NDArray[np.int64]) -> Alike:
        """The changes at `rows`, in that order."""
        return Alike(self.relations, self.published_as, self.number[rows], self.batch.take(rows))

    @property
    def by_relation(self) -> NDArray[np.int64]:
        """Row numbers in the order of `batches`."""
        return np.argsort(self.number, kind="stable")

    @property
    def rows_by_relation(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """The number of each relation that has changes here, and their row numbers."""
        least, most = (int(self.number.min()), int(self.number.max())) if len(self.number) else (0, -1)
        if least >= most:  # nearly always
            yield from ((number, np.arange(len(self.number))) for number in range(least, most + 1))
            return
        order = self.by_relation
        present, starts = np.unique(self.number[order], return_index=True)
        yield from zip(present.tolist(), np.split(order, starts[1:]), strict=True)

    def batches(self) -> Iterator[Batch]:
        """The changes of each relation by themselves."""
        if len(self.relations) == 1:
            yield self.batch
            return
        order = self.by_relation
        whole = self.batch.take(order)
        present, starts = np.unique(self.number[order], return_index=True)
        for number, start, stop in zip(present.tolist(), starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
            yield replace(whole.part(start, stop), relation=self.relations[number], published_as=self.published_as[number])


def decode(plan: StretchPlan, read: Reader, oids: Container[int] | None = None) -> Iterator[Batch]:
    """The wanted changes of a stretch, those of a relation version one after another, in batches as SLICE says; with `oids`, those of these
    relations. `read` gives bytes of the log.

    Raises CorruptWal if the WAL is not the one that was indexed, MissingHistory for rows of a file that no relation had.
    """
    for alike in _all_alike(plan, read, oids, slices_many=False):
        yield from alike.batches()


def decode_alike(plan: StretchPlan, read: Reader, oids: Container[int] | None = None) -> Iterator[Alike]:
    """The same with relations that are stored alike in one."""
    yield from _all_alike(plan, read, oids, slices_many=True)


def _all_alike(plan: StretchPlan, read: Reader, oids: Container[int] | None, *, slices_many: bool) -> Iterator[Alike]:
    """Unless `slices_many`, what several relations share is not cut: each has its changes together."""
    wal, rows, chunks = wanted_rows(plan, read)
    families = _families(plan.relations, oids)
    family_of, number_of = (np.full(len(plan.relations), -1, np.int64) for _ in range(2))
    for family, members in enumerate(families):
        family_of[members] = family
        number_of[members] = np.arange(len(members))
    numbers, bounds = grouped(rows.relation, rows.kind, family_of, len(families))
    for family, members in enumerate(families):
        every = len(rows.kind) == bounds[family + 1] - bounds[family]
        mine = rows if every else rows.take(numbers[bounds[family] : bounds[family + 1]])
        if len(mine.kind):
            relations = tuple(plan.relations[member] for member in members)
            slices = _slices if slices_many or len(relations) == 1 else _whole
            yield from _decoded(plan, relations, mine, number_of[mine.relation], wal, chunks, slices)


def _families(relations: Sequence[Relation], oids: Container[int] | None) -> list[list[int]]:
    """Numbers of the relations that are wanted, those with the same columns together. The history has columns that are alike as one object."""
    families: dict[int, list[int]] = {}
    for number, relation in enumerate(relations):
        if oids is None or relation.oid in oids:
            families.setdefault(id(relation.columns), []).append(number)
    return list(families.values())


def _decoded(
    plan: StretchPlan,
    relations: tuple[Relation, ...],
    rows: Rows,
    number: NDArray[np.int64],
    wal: WalBytes,
    chunks: Chunks,
    slices: Callable[[Rows], Iterable[slice]],
) -> Iterator[Alike]:
    """The rows as columns, as many at a time as `slices` tells; an error names the relation, and the record if it is one row's."""
    try:
        for names, part in _moments(plan, relations[0], rows):
            same, numbers = rows.take(part), number[part]
            for few in slices(same):
                yield Alike(relations, relations, numbers[few], _batch(plan, relations[0], same.take(few), wal, chunks, names))
    except TailraceError as error:
        if len(relations) > 1:  # whose row was it?
            for i, relation in enumerate(relations):
                alone = rows.take(number == i)
                list(_decoded(plan, (relation,), alone, np.zeros(len(alone.kind), np.int64), wal, chunks, slices))
        where = f"stretch {plan.stretch}" if error.lsn is None else f"WAL record at {error.lsn}{wal.in_file(error.lsn)}"
        error.context = error.context or f"table {relations[0]}, {where}"
        raise


def _moments(plan: StretchPlan, relation: Relation, rows: Rows) -> Iterator[tuple[NameOf | None, slice | NDArray[np.int64]]]:
    """The rows, apart where names that they print were others."""
    if plan.names is None or not oid_alias_types(relation):
        yield None, slice(None)
        return
    yield from plan.names.parts(rows.lsn, rows.ordinal)


def _whole(rows: Rows) -> Iterable[slice]:
    return (slice(0, len(rows.kind)),)


def _slices(rows: Rows) -> Iterable[slice]:
    """The rows in order, as many at a time as SLICE says."""
    costs = np.cumsum(rows.new_length + rows.old_length + _ROW_COST)
    if costs[-1] < SLICED_FROM:
        return _whole(rows)
    cuts = [0, *(np.flatnonzero(np.diff(costs // SLICE)) + 1).tolist(), len(costs)]
    return starmap(slice, pairwise(cuts))


def _batch(plan: StretchPlan, relation: Relation, rows: Rows, wal: WalBytes, chunks: Chunks, names: NameOf | None) -> Batch:
    try:
        new = _columns(relation, wal.buf, rows.new, rows.new_length, rows.turn, chunks)
        old = _columns(relation, wal.buf, rows.old, rows.old_length, rows.turn, chunks) if (rows.old >= 0).any() else None
    except CorruptTuple as error:
        error.lsn = Lsn(int(rows.lsn[error.row]))
        error.file = wal.name_at(error.lsn)
        raise
    is_streamed = bool(plan.stream.any())
    return Batch(
        relation=relation, published_as=relation, columns=relation.live_columns, ordinal=rows.ordinal, lsn=rows.lsn,
        sequence=rows.sequence, kind=rows.kind, old_kind=rows.old_kind, new=new, old=old, names=names,
        stream=plan.stream[rows.owner] if is_streamed else None, xid=plan.xid[rows.owner].astype(np.uint32) if is_streamed else None,
        commits=None if plan.commits is None else plan.commits.take(rows.owner),
    )  # fmt: skip


def _columns(
    relation: Relation,
    buf: NDArray[np.uint8],
    at: NDArray[np.int64],
    length: NDArray[np.int64],
    turn: NDArray[np.int64],
    chunks: Chunks,
) -> list[Values]:
    lengths = np.array([column.length for column in relation.columns], np.int64)
    aligns = np.array([column.align for column in relation.columns], np.int64)
    attributes = deform(buf, at, length, lengths, aligns)
    return [
        column_of(buf, attributes.of(i), column.length, column.missing, turn, chunks)
        for i, column in enumerate(relation.columns)
        if not column.dropped
    ]
