"""A stretch and its plan -> batches of changes.

In: the WAL of a stretch, and for each transaction that is wanted its xids and for each file what it meant (`StretchPlan`). Out: `Batch`es, one per
version of a relation, as columns, in WAL order; or all changes of relations that are stored alike together (`Alike`), which is what thousands of
partitions are decoded as. Rows of aborted, foreign or unwanted work are dropped where they stand.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.names.lookup import oid_alias_types
from tailrace.decode.rows import (
    DELETE,
    INSERT,
    NO_OLD,
    OLD_KEY,
    OLD_ROW,
    R_EPOCH,
    R_KIND,
    R_LSN,
    R_NEW,
    R_NEW_LENGTH,
    R_OLD,
    R_OLD_KIND,
    R_OLD_LENGTH,
    R_ORDINAL,
    R_RELATION,
    R_SUB,
    UPDATE,
    Reader,
    grouped,
    references,
)  # fmt: skip
from tailrace.errors import TailraceError
from tailrace.model import Relation
from tailrace.plan.stretch import StretchPlan
from tailrace.tuples.deform import deform
from tailrace.tuples.gather import column_of
from tailrace.tuples.toast import Chunks
from tailrace.types.style import NameOf
from tailrace.types.values import Mask, Values

__all__ = ["DELETE", "INSERT", "NO_OLD", "OLD_KEY", "OLD_ROW", "UPDATE", "Alike", "Batch", "Reader", "decode", "decode_alike"]


@dataclass(slots=True)
class Batch:
    """Changes of one version of a relation, in WAL order.

    The order key of a row is (its transaction's commit LSN, `lsn`, `sub`); `ordinal` names the transaction.
    `new` and `old` hold one `Values` per live column; rows without such a tuple are invalid there, and `old_kind` says
    which have an old tuple and whether it is only a key. `names` is what columns of regclass and their kin print, if there are such columns.
    """

    relation: Relation
    ordinal: NDArray[np.int64]
    lsn: NDArray[np.int64]
    sub: NDArray[np.int64]
    kind: NDArray[np.uint8]
    old_kind: NDArray[np.uint8]
    new: list[Values]
    old: list[Values] | None
    names: NameOf | None = None

    def __len__(self) -> int:
        return len(self.lsn)

    @property
    def has_old(self) -> Mask:
        return self.old_kind != NO_OLD

    def take(self, rows: NDArray[np.int64]) -> Batch:
        """The changes at `rows`, in that order."""
        return replace(
            self, ordinal=self.ordinal[rows], lsn=self.lsn[rows], sub=self.sub[rows], kind=self.kind[rows], old_kind=self.old_kind[rows],
            new=[values.take(rows) for values in self.new], old=None if self.old is None else [values.take(rows) for values in self.old],
        )  # fmt: skip

    def part(self, start: int, stop: int) -> Batch:
        """The changes `[start, stop)`, sharing memory; without old tuples where none of them has one."""
        mine = slice(start, stop)
        old = self.old if self.old is not None and self.has_old[mine].any() else None
        return replace(
            self, ordinal=self.ordinal[mine], lsn=self.lsn[mine], sub=self.sub[mine], kind=self.kind[mine], old_kind=self.old_kind[mine],
            new=[values.part(start, stop) for values in self.new], old=None if old is None else [values.part(start, stop) for values in old],
        )  # fmt: skip


@dataclass(slots=True)
class Alike:
    """Changes of relations with the same columns, in WAL order. Row i of `batch`, which names the first of them, is of `relations[number[i]]`."""

    relations: tuple[Relation, ...]
    number: NDArray[np.int64]
    batch: Batch

    @classmethod
    def of(cls, batch: Batch) -> Alike:
        """One relation's."""
        return cls((batch.relation,), np.zeros(len(batch), np.int64), batch)

    @property
    def by_relation(self) -> NDArray[np.int64]:
        """Row numbers in the order of `batches`."""
        return np.argsort(self.number, kind="stable")

    def batches(self) -> Iterator[Batch]:
        """The changes of each relation by themselves."""
        if len(self.relations) == 1:
            yield self.batch
            return
        order = self.by_relation
        whole = self.batch.take(order)
        present, starts = np.unique(self.number[order], return_index=True)
        for number, start, stop in zip(present.tolist(), starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
            yield replace(whole.part(start, stop), relation=self.relations[number])


def decode(plan: StretchPlan, read: Reader, oids: Container[int] | None = None) -> Iterator[Batch]:
    """The wanted changes of a stretch, a batch per relation version; with `oids`, those of these relations. `read` gives bytes of the log.

    Raises CorruptWal if the WAL is not the one that was indexed, MissingHistory for rows of a file that no relation had.
    """
    for alike in decode_alike(plan, read, oids):
        yield from alike.batches()


def decode_alike(plan: StretchPlan, read: Reader, oids: Container[int] | None = None) -> Iterator[Alike]:
    """The same with relations that are stored alike in one."""
    wal, rows, chunks = references(plan, read)
    families = _families(plan.relations, oids)
    family_of, number_of = (np.full(len(plan.relations), -1, np.int64) for _ in range(2))
    for family, members in enumerate(families):
        family_of[members] = family
        number_of[members] = np.arange(len(members))
    numbers, bounds = grouped(rows, family_of, len(families))
    for family, members in enumerate(families):
        every = len(rows) == bounds[family + 1] - bounds[family]
        mine = rows if every else rows[numbers[bounds[family] : bounds[family + 1]]]
        if len(mine):
            relations = tuple(plan.relations[member] for member in members)
            yield from _decoded(plan, relations, mine, number_of[mine[:, R_RELATION]], wal.buf, chunks)


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
    rows: NDArray[np.int64],
    number: NDArray[np.int64],
    buf: NDArray[np.uint8],
    chunks: Chunks,
) -> Iterator[Alike]:
    """The rows as columns; an error names the relation."""
    try:
        for names, part in _moments(plan, relations[0], rows):
            yield Alike(relations, number[part], _batch(relations[0], rows[part], buf, chunks, names))
    except TailraceError as error:
        if len(relations) > 1:  # whose row was it?
            for i, relation in enumerate(relations):
                alone = rows[number == i]
                list(_decoded(plan, (relation,), alone, np.zeros(len(alone), np.int64), buf, chunks))
        error.context = error.context or f"table {relations[0]}, stretch {plan.stretch}"
        raise


def _moments(
    plan: StretchPlan, relation: Relation, rows: NDArray[np.int64]
) -> Iterator[tuple[NameOf | None, slice | NDArray[np.int64]]]:
    """The rows, apart where names that they print were others."""
    if plan.names is None or not oid_alias_types(relation):
        yield None, slice(None)
        return
    yield from plan.names.parts(rows[:, R_LSN], rows[:, R_ORDINAL])


def _batch(relation: Relation, rows: NDArray[np.int64], buf: NDArray[np.uint8], chunks: Chunks, names: NameOf | None) -> Batch:
    epoch = np.ascontiguousarray(rows[:, R_EPOCH])
    new = _columns(relation, buf, rows[:, R_NEW], rows[:, R_NEW_LENGTH], epoch, chunks)
    old = _columns(relation, buf, rows[:, R_OLD], rows[:, R_OLD_LENGTH], epoch, chunks) if (rows[:, R_OLD] >= 0).any() else None
    return Batch(
        relation,
        np.ascontiguousarray(rows[:, R_ORDINAL]),
        np.ascontiguousarray(rows[:, R_LSN]),
        np.ascontiguousarray(rows[:, R_SUB]),
        rows[:, R_KIND].astype(np.uint8),
        rows[:, R_OLD_KIND].astype(np.uint8),
        new,
        old,
        names,
    )


def _columns(
    relation: Relation,
    buf: NDArray[np.uint8],
    at: NDArray[np.int64],
    length: NDArray[np.int64],
    epoch: NDArray[np.int64],
    chunks: Chunks,
) -> list[Values]:
    lengths = np.array([column.length for column in relation.columns], np.int64)
    aligns = np.array([column.align for column in relation.columns], np.int64)
    positions, sizes, forms = deform(buf, np.ascontiguousarray(at), np.ascontiguousarray(length), lengths, aligns)
    return [
        column_of(buf, positions[i], sizes[i], forms[i], column.length, column.missing, epoch, chunks)
        for i, column in enumerate(relation.columns)
        if not column.dropped
    ]
