"""Decode a stretch: from its WAL and its `StretchPlan` to batches of changes, a column at a time.

In: the WAL of a stretch, and its `StretchPlan`: the xids of the transactions that are wanted, and which relation each file held. Out:
`Batch`es as columns, in WAL order, each of relations with one tuple descriptor, which is what thousands of partitions are decoded
as, or of one relation. Rows of aborted, foreign or unwanted work are dropped where they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, starmap

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.names.oid_names import oid_alias_types
from tailrace.dataclass import dataclass
from tailrace.decode.rows import DELETE, INSERT, UPDATE, WalRows, grouped, wanted_rows
from tailrace.errors import TailraceError
from tailrace.model import Column, Lsn, Relation
from tailrace.plan.stretch_plan import Commits, StretchPlan
from tailrace.tuples.deform import AttributesRoom, deform
from tailrace.tuples.errors import CorruptTuple
from tailrace.tuples.gather import column_of
from tailrace.tuples.toast import Chunks
from tailrace.types.style import NameOf
from tailrace.types.values import Mask, Values
from tailrace.wal.heap import NO_OLD, OLD_KEY, OLD_ROW
from tailrace.wal.pages import WalBytes
from tailrace.wal.stretch_bytes import Reader

__all__ = [
    "DELETE",
    "INSERT",
    "NO_OLD",
    "OLD_KEY",
    "OLD_ROW",
    "UPDATE",
    "Batch",
    "Reader",
    "columns_of_tuples",
    "decode",
    "decode_by_descriptor",
]

SLICE, SLICED_FROM = 4 << 20, 48 << 20
"""Of a large stretch, rows become columns, and columns texts, some at a time: so much of their tuples, each row counting as
_ROW_COST bytes more. At once, a stretch of 64 MB would need four times as much as it holds. Stretches of 32 MB are not cut:
putting texts end to end takes time, too."""
_ROW_COST = 64


@dataclass(slots=True, kw_only=True)
class Batch:
    """Changes of relations with one tuple descriptor (the same columns, stored alike), in WAL order. `decode` makes it.

    Row i is of `relations[number[i]]`, and an outlet shows it as a row of `published_as[number[i]]`; `columns` are those that it
    shows, which `new` and `old` hold one `Values` each for. As they come out of decoding, relations are published as themselves,
    with all live columns.

    The order key of a row is (its transaction's commit LSN, `lsn`, `sequence`), the last being its number within its record;
    `ordinal` names the transaction. Rows without a new or an old tuple are invalid there, and `old_kind` says which have an old
    one and whether it is only a key. `names` is what columns of regclass and their kin print, if there are such columns. Where
    rows are streamed, `stream` is the xid of the transaction that each is given as a part of, before its end is known (0: it is
    not), and `xid` that of the subtransaction which it is of. `commits` has a row for each, where a plan was asked for them.
    """

    relations: tuple[Relation, ...]
    published_as: tuple[Relation, ...]
    number: NDArray[np.int64]
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
    def relation(self) -> Relation:
        """The relation, of a batch of one; else the first."""
        return self.relations[0]

    @property
    def published_relation(self) -> Relation:
        """The relation as which the first one is published."""
        return self.published_as[0]

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
            self, number=self.number[rows], ordinal=self.ordinal[rows], lsn=self.lsn[rows], sequence=self.sequence[rows],
            kind=self.kind[rows], old_kind=self.old_kind[rows], new=new, old=old,
            stream=None if self.stream is None else self.stream[rows], xid=None if self.xid is None else self.xid[rows],
            commits=None if self.commits is None else self.commits.take(rows),
        )  # fmt: skip

    def as_of_one(self, relation: Relation, published_as: Relation) -> Batch:
        """The same changes, all of this relation."""
        return replace(self, relations=(relation,), published_as=(published_as,), number=np.zeros(len(self), np.int64))

    @property
    def rows_by_relation(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """The number of each relation that has changes here, and their row numbers."""
        least, most = (int(self.number.min()), int(self.number.max())) if len(self.number) else (0, -1)
        if least >= most:  # nearly always
            yield from ((number, np.arange(len(self.number))) for number in range(least, most + 1))
            return
        order = np.argsort(self.number, kind="stable")
        present, starts = np.unique(self.number[order], return_index=True)
        yield from zip(present.tolist(), np.split(order, starts[1:]), strict=True)

    def by_relation(self) -> Iterator[Batch]:
        """The changes of each relation by themselves."""
        if len(self.relations) == 1:
            yield self
            return
        numbers, rows = zip(*self.rows_by_relation, strict=True) if len(self) else ((), ())
        whole, stop = self.take(np.concatenate(rows)) if len(self) else self, 0
        for number, mine in zip(numbers, rows, strict=True):
            start, stop = stop, stop + len(mine)
            yield whole.part(start, stop).as_of_one(self.relations[number], self.published_as[number])


def decode(plan: StretchPlan, read: Reader, oids: Container[int] | None = None) -> Iterator[Batch]:
    """The wanted changes of a stretch, those of a relation version one after another, in batches as SLICE says; with `oids`,
    those of these relations. `read` gives bytes of the log.

    Raises CorruptWal if the WAL is not the one that was indexed, MissingHistory for rows of a file that no relation had.
    """
    for batch in _batches(plan, read, oids, slices_many=False):
        yield from batch.by_relation()


def decode_by_descriptor(plan: StretchPlan, read: Reader, oids: Container[int] | None = None) -> Iterator[Batch]:
    """The same with the changes of all relations that have one tuple descriptor together."""
    yield from _batches(plan, read, oids, slices_many=True)


def _batches(plan: StretchPlan, read: Reader, oids: Container[int] | None, *, slices_many: bool) -> Iterator[Batch]:
    """Unless `slices_many`, what several relations share is not cut: each has its changes together."""
    wal, rows, chunks = wanted_rows(plan, read)
    descriptors = _by_descriptor(plan.relations, oids)
    room = AttributesRoom()
    descriptor_of, number_of = (np.full(len(plan.relations), -1, np.int64) for _ in range(2))
    for descriptor, members in enumerate(descriptors):
        descriptor_of[members] = descriptor
        number_of[members] = np.arange(len(members))
    numbers, bounds = grouped(rows.relation, rows.kind, descriptor_of, len(descriptors))
    for descriptor, members in enumerate(descriptors):
        every = len(rows.kind) == bounds[descriptor + 1] - bounds[descriptor]
        mine = rows if every else rows.take(numbers[bounds[descriptor] : bounds[descriptor + 1]])
        if len(mine.kind):
            relations = tuple(plan.relations[member] for member in members)
            slices = _slices if slices_many or len(relations) == 1 else _whole
            yield from _decoded(plan, relations, mine, number_of[mine.relation], wal, chunks, slices, room)


def _by_descriptor(relations: Sequence[Relation], oids: Container[int] | None) -> list[list[int]]:
    """Numbers of the relations that are wanted, those with one tuple descriptor together, which the history has as one object."""
    members: dict[int, list[int]] = {}
    for number, relation in enumerate(relations):
        if oids is None or relation.oid in oids:
            members.setdefault(id(relation.columns), []).append(number)
    return list(members.values())


def _decoded(
    plan: StretchPlan,
    relations: tuple[Relation, ...],
    rows: WalRows,
    number: NDArray[np.int64],
    wal: WalBytes,
    chunks: Chunks,
    slices: Callable[[WalRows], Iterable[slice]],
    room: AttributesRoom,
) -> Iterator[Batch]:
    """The rows as columns, as many at a time as `slices` tells; an error names the relation, and the record if it is one
    row's."""
    try:
        for names, part in _by_names(plan, relations[0], rows):
            same, numbers = rows.take(part), number[part]
            for few in slices(same):
                yield _batch(plan, relations, numbers[few], same.take(few), wal, chunks, names, room)
    except TailraceError as error:
        if len(relations) > 1:  # whose row was it?
            for i, relation in enumerate(relations):
                alone = rows.take(number == i)
                list(_decoded(plan, (relation,), alone, np.zeros(len(alone.kind), np.int64), wal, chunks, slices, room))
        where = f"stretch {plan.stretch}" if error.lsn is None else f"WAL record at {error.lsn}{wal.in_file(error.lsn)}"
        error.context = error.context or f"table {relations[0]}, {where}"
        raise


def _by_names(plan: StretchPlan, relation: Relation, rows: WalRows) -> Iterator[tuple[NameOf | None, slice | NDArray[np.int64]]]:
    """The rows in parts, each with the names that regclass and its kin print there."""
    if plan.names is None or not oid_alias_types(relation):
        yield None, slice(None)
        return
    yield from plan.names.parts(rows.lsn, rows.ordinal)


def _whole(rows: WalRows) -> Iterable[slice]:
    return (slice(0, len(rows.kind)),)


def _slices(rows: WalRows) -> Iterable[slice]:
    """The rows in order, as many at a time as SLICE says."""
    costs = np.cumsum(rows.new_length + rows.old_length + _ROW_COST)
    if costs[-1] < SLICED_FROM:
        return _whole(rows)
    cuts = [0, *(np.flatnonzero(np.diff(costs // SLICE)) + 1).tolist(), len(costs)]
    return starmap(slice, pairwise(cuts))


def _batch(
    plan: StretchPlan, relations: tuple[Relation, ...], number: NDArray[np.int64], rows: WalRows, wal: WalBytes, chunks: Chunks,
    names: NameOf | None, room: AttributesRoom,
) -> Batch:  # fmt: skip
    relation = relations[0]
    try:
        new = columns_of_tuples(relation, wal.buf, rows.new, rows.new_length, rows.turn, chunks, room)
        old = (
            columns_of_tuples(relation, wal.buf, rows.old, rows.old_length, rows.turn, chunks, room)
            if (rows.old >= 0).any()
            else None
        )
    except CorruptTuple as error:
        error.lsn = Lsn(int(rows.lsn[error.row]))
        error.file = wal.name_at(error.lsn)
        raise
    is_streamed = bool(plan.stream.any())
    return Batch(
        relations=relations, published_as=relations, number=number, columns=relation.live_columns, ordinal=rows.ordinal,
        lsn=rows.lsn, sequence=rows.sequence, kind=rows.kind, old_kind=rows.old_kind, new=new, old=old, names=names,
        stream=plan.stream[rows.owner] if is_streamed else None, xid=plan.xid[rows.owner].astype(np.uint32) if is_streamed else None,
        commits=None if plan.commits is None else plan.commits.take(rows.owner),
    )  # fmt: skip


def columns_of_tuples(
    relation: Relation,
    buf: NDArray[np.uint8],
    at: NDArray[np.int64],
    length: NDArray[np.int64],
    turn: NDArray[np.int64],
    chunks: Chunks,
    room: AttributesRoom | None = None,
) -> list[Values]:
    """The live columns of tuples of the relation; `turn` says which chunks serve a row. In the `room` nothing of it stays. Raises CorruptTuple."""
    lengths = np.array([column.length for column in relation.columns], np.int64)
    aligns = np.array([column.align for column in relation.columns], np.int64)
    attributes = deform(buf, at, length, lengths, aligns, room)
    return [
        column_of(buf, attributes.of(i), column.length, column.missing, turn, chunks)
        for i, column in enumerate(relation.columns)
        if not column.dropped
    ]
