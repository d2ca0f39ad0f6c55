"""A stretch and its plan -> batches of changes.

In: the WAL of a stretch, and for each transaction that is wanted its xids and for each file what it meant (`StretchPlan`). Out: `Batch`es, one per
version of a relation, as columns, in WAL order. Rows of aborted, foreign or unwanted work are dropped where they stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.references import pointing_types
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

__all__ = ["DELETE", "INSERT", "NO_OLD", "OLD_KEY", "OLD_ROW", "UPDATE", "Batch", "Reader", "decode"]


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


def decode(plan: StretchPlan, read: Reader) -> Iterator[Batch]:
    """The wanted changes of a stretch, a batch per relation version. `read` gives bytes of the log.

    Raises CorruptWal if the WAL is not the one that was indexed, MissingHistory for rows of a file that no relation had.
    """
    wal, rows, chunks = references(plan, read)
    numbers, bounds = grouped(rows, len(plan.relations))
    for number, relation in enumerate(plan.relations):
        mine = rows if len(rows) == bounds[number + 1] - bounds[number] else rows[numbers[bounds[number] : bounds[number + 1]]]
        if len(mine):
            try:
                for names, part in _moments(plan, relation, mine):
                    yield _batch(relation, part, wal.buf, chunks, names)
            except TailraceError as error:
                error.context = error.context or f"table {relation}, stretch {plan.stretch}"
                raise


def _moments(plan: StretchPlan, relation: Relation, rows: NDArray[np.int64]) -> Iterator[tuple[NameOf | None, NDArray[np.int64]]]:
    """The rows, apart where names that they print were others."""
    if plan.names is None or not pointing_types(relation):
        yield None, rows
        return
    for names, part in plan.names.parts(rows[:, R_LSN], rows[:, R_ORDINAL]):
        yield names, rows[part]


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
