"""Versions of one catalog's rows as columns, with the span of WAL in which each was visible.

In: `redo.Versions` and the fates of transactions. Out: `CatalogRows`: the attributes asked for as NumPy arrays, and for each
row `begin` and `end`, the
commit LSNs between which others see it (strictly after `begin`, up to and including `end`), and `added` and `deleted`, where its own transaction
began and ceased to see it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.layouts import CatalogLayout
from tailrace.catalog.pages import COMMITTED, CommitStatus
from tailrace.catalog.redo import (
    V_ADDED,
    V_AT,
    V_CATALOG,
    V_DELETED,
    V_LENGTH,
    V_STATE,
    V_XMAX,
    V_XMIN,
    XMAX_COMMITTED,
    XMIN_ABORTED,
    XMIN_COMMITTED,
    XMIN_FROZEN,
    Versions,
)  # fmt: skip
from tailrace.transactions.fates import NEVER, Fates
from tailrace.tuples.deform import LZ4, NULL, PGLZ, PLAIN, deform
from tailrace.tuples.gather import column_of
from tailrace.tuples.toast import Chunks
from tailrace.types.encodings import UTF8

_EMPTY = np.zeros(0, np.int64)


@cache
def _no_chunks() -> Chunks:
    """What TOASTed values of catalog rows are read from. Not made on import, since that would load a kernel."""
    return Chunks.of(np.zeros(0, np.uint8), _EMPTY, _EMPTY, _EMPTY)


@dataclass(slots=True)
class Spans:
    """Per version: visible to others for begin < lsn <= end; ordinals of the transactions that made and unmade it (-1: none that we decode)."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    made_by: NDArray[np.int64]
    unmade_by: NDArray[np.int64]


def spans_of(versions: Versions, fates: Fates, status: CommitStatus | None) -> Spans:
    """When each version was there. What WAL says comes first; then hint bits, which only speak of what WAL does not reach; then pg_xact."""
    rows = versions.rows
    begin, made_by = _ends_of(rows[:, V_XMIN], rows[:, V_STATE], XMIN_COMMITTED, XMIN_ABORTED, fates, status)
    frozen = (rows[:, V_STATE] & XMIN_FROZEN) != 0
    begin[frozen] = 0
    made_by[frozen] = -1
    end, unmade_by = _ends_of(rows[:, V_XMAX], rows[:, V_STATE], XMAX_COMMITTED, 0, fates, status)
    end[rows[:, V_XMAX] == 0] = NEVER
    unmade_by[rows[:, V_XMAX] == 0] = -1
    return Spans(begin, end, made_by, unmade_by)


def _ends_of(
    xids: NDArray[np.int64], state: NDArray[np.int64], committed: int, aborted: int, fates: Fates, status: CommitStatus | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    lsn, ordinal = fates.seen_of(xids)
    unseen = ordinal == -2
    hinted = unseen & ((state & committed) != 0)
    lsn[hinted] = 0
    if status is not None:
        asked = unseen & ~hinted & (xids > 2) & (((state & aborted) == 0) if aborted else True)
        lsn[np.flatnonzero(asked)[status.of(xids[asked]) == COMMITTED]] = 0
    return lsn, np.where(ordinal >= 0, ordinal, -1)


@dataclass(slots=True)
class CatalogRows:
    """Rows of one catalog. `columns` by name: integers as int64, names as str objects, varlenas as bytes or None."""

    columns: dict[str, NDArray]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    made_by: NDArray[np.int64]
    unmade_by: NDArray[np.int64]
    added: NDArray[np.int64]
    deleted: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.begin)

    def lifetimes(self, rows: NDArray[np.int64], ordinal: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Begin and end of each of `rows` as transaction `ordinal` (-1: nobody's) sees them: what it did itself, from where it did it."""
        if ordinal < 0:
            return self.begin[rows], self.end[rows]
        begin = np.where(self.made_by[rows] == ordinal, self.added[rows], self.begin[rows])
        return begin, np.where(self.unmade_by[rows] == ordinal, self.deleted[rows], self.end[rows])

    def seen(self, rows: NDArray[np.int64], lsn: int, ordinal: int) -> NDArray[np.int64]:
        """Those of `rows` that a change at `lsn` in transaction `ordinal` (-1: nobody's) sees."""
        begin, end = self.lifetimes(rows, ordinal)
        return rows[(begin < lsn) & (end >= lsn)]


_NO_ROWS: tuple[NDArray[np.int64], int] = (np.zeros(0, np.int64), 0)


class CatalogTable:
    """A catalog with its rows grouped by one or more keys."""

    def __init__(self, rows: CatalogRows) -> None:
        self.rows = rows
        self._groups: dict[str, dict[int | str, tuple[NDArray[np.int64], int]]] = {}

    def _group(self, column: str, value: int | str) -> tuple[NDArray[np.int64], int]:
        """Row numbers whose `column` equals `value`, and the last LSN at which one of them began or ended."""
        if column not in self._groups:
            values = self.rows.columns[column]
            order = np.argsort(values, kind="stable")
            keys, starts = np.unique(values[order], return_index=True)
            changed = np.maximum(self.rows.begin, np.where(self.rows.end == NEVER, 0, self.rows.end))[order]
            rows = np.split(order, starts[1:]) if len(starts) else []
            last = np.maximum.reduceat(changed, starts).tolist() if len(starts) else []
            self._groups[column] = dict(zip(keys.tolist(), zip(rows, last, strict=True), strict=True))
        return self._groups[column].get(value, _NO_ROWS)

    def where(self, column: str, value: int | str) -> NDArray[np.int64]:
        """Row numbers whose `column` equals `value`."""
        return self._group(column, value)[0]

    def last_change(self, column: str, value: int | str) -> int:
        """The last LSN at which one of those rows began or ended."""
        return self._group(column, value)[1]

    def seen_where(self, column: str, value: int | str, lsn: int, ordinal: int) -> NDArray[np.int64]:
        return self.rows.seen(self.where(column, value), lsn, ordinal)

    def __getitem__(self, column: str) -> NDArray:
        return self.rows.columns[column]


def rows_of(
    versions: Versions, spans: Spans, catalog: int, layout: CatalogLayout, wanted: tuple[str, ...], codec: str = UTF8
) -> CatalogRows:
    """The columns `wanted` of every version of `catalog` that was ever visible to anyone we decode for; names are in `codec`."""
    mine = np.flatnonzero((versions.rows[:, V_CATALOG] == catalog) & ((spans.begin != NEVER) | (spans.made_by >= 0)))
    tuples = versions.rows[mine]
    last = max(layout.index(name) for name in wanted) + 1
    at, size, form = deform(
        versions.store, np.ascontiguousarray(tuples[:, V_AT]), np.ascontiguousarray(tuples[:, V_LENGTH]),
        np.array(layout.lengths[:last], np.int64), np.array(layout.aligns[:last], np.int64),
    )  # fmt: skip
    columns = {
        name: _column(
            versions.store, at[i], size[i], form[i], layout.lengths[i], name_codec=codec if layout.lengths[i] == 64 else None
        )
        for name in wanted
        for i in (layout.index(name),)
    }
    return CatalogRows(
        columns, spans.begin[mine], spans.end[mine], spans.made_by[mine], spans.unmade_by[mine], tuples[:, V_ADDED].copy(), tuples[:, V_DELETED].copy()  # noqa: E501
    )  # fmt: skip


def _column(
    store: NDArray[np.uint8],
    at: NDArray[np.int64],
    size: NDArray[np.int32],
    form: NDArray[np.uint8],
    length: int,
    *,
    name_codec: str | None,
) -> NDArray:
    epoch = np.zeros(len(at), np.int64)
    if length > 0:
        fixed = column_of(store, at, size, form, length, None, epoch, _no_chunks()).fixed
        assert fixed is not None
        if name_codec is not None:
            return np.char.decode(np.ascontiguousarray(fixed).view("S64")[:, 0], name_codec or "utf-8", "surrogateescape").astype(
                object
            )
        return np.ascontiguousarray(fixed).view(f"<i{length}" if length != 4 else "<u4")[:, 0].astype(np.int64)
    inline = (form == PLAIN) | (form == PGLZ) | (form == LZ4)
    values = column_of(store, at, size, np.where(inline, form, NULL).astype(np.uint8), -1, None, epoch, _no_chunks())
    assert values.offsets is not None
    assert values.data is not None
    raw, bounds = values.data.tobytes(), values.offsets.tolist()
    found = np.empty(len(at), object)
    for row, (start, stop, kind) in enumerate(zip(bounds, bounds[1:], form.tolist(), strict=False)):
        # An external value is not NULL, and nothing that decoding asks of a catalog is ever that long.
        found[row] = None if kind in (NULL, 2) else raw[start:stop]
    return found
