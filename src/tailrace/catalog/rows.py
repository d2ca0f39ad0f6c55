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
from tailrace.tuples.deform import LZ4, MISSING, NULL, PGLZ, PLAIN, deform
from tailrace.tuples.gather import column_of
from tailrace.tuples.toast import Chunks
from tailrace.types.encodings.server_encodings import UTF8

NAMEDATALEN = 64
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


@dataclass(frozen=True, slots=True)
class Names:
    """A column of type name as it is stored, in `codec`; made strings where it is asked for, since hardly any row ever is."""

    stored: NDArray[np.bytes_]
    codec: str

    def __getitem__(self, rows: NDArray[np.int64] | slice) -> NDArray:
        """As str objects; bytes that are none in the codec as surrogates."""
        return np.array([raw.decode(self.codec, "surrogateescape") for raw in self.stored[rows].tolist()], object)


@dataclass(slots=True)
class CatalogRows:
    """Rows of one catalog. `columns` by name: integers as int64, varlenas as bytes or None; those of type name in `names`."""

    columns: dict[str, NDArray]
    names: dict[str, Names]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    made_by: NDArray[np.int64]
    unmade_by: NDArray[np.int64]
    added: NDArray[np.int64]
    deleted: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.begin)

    def taken(self, rows: NDArray[np.int64]) -> CatalogRows:
        """Some rows, without the others."""
        return CatalogRows(
            {name: values[rows] for name, values in self.columns.items() if name not in self.names},
            {name: Names(values.stored[rows], values.codec) for name, values in self.names.items()},
            self.begin[rows], self.end[rows], self.made_by[rows], self.unmade_by[rows], self.added[rows], self.deleted[rows],
        )  # fmt: skip

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


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """`starts[i], starts[i] + 1, …`, `counts[i]` of them, one after another."""
    ends = np.cumsum(counts)
    return np.repeat(starts - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)


@dataclass(slots=True)
class _Groups:
    """Row numbers in the order of a column's values: those of the value at place i are `order[bounds[i] : bounds[i + 1]]`, and the last LSN at which
    one of them began or ended is `last[i]`."""

    values: NDArray
    order: NDArray[np.int64]
    bounds: NDArray[np.int64]
    last: NDArray[np.int64]
    places: dict[int | str, int]

    def places_of(self, values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The place of each value, and whether it is there at all."""
        if not len(self.values):
            return np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_)
        place = np.minimum(np.searchsorted(self.values, values), len(self.values) - 1)
        return place, self.values[place] == values


class CatalogTable:
    """A catalog with its rows grouped by one or more keys."""

    def __init__(self, rows: CatalogRows) -> None:
        self.rows = rows
        self._groups: dict[str, _Groups] = {}

    def _grouped(self, column: str) -> _Groups:
        if column not in self._groups:
            values = self[column]
            order = np.argsort(values, kind="stable")
            keys, starts = np.unique(values[order], return_index=True)
            changed = np.maximum(self.rows.begin, np.where(self.rows.end == NEVER, 0, self.rows.end))[order]
            last = np.maximum.reduceat(changed, starts) if len(starts) else _EMPTY
            bounds = np.append(starts, len(order)).astype(np.int64)
            self._groups[column] = _Groups(keys, order, bounds, last, dict(zip(keys.tolist(), range(len(keys)), strict=True)))
        return self._groups[column]

    def where(self, column: str, value: int | str) -> NDArray[np.int64]:
        """Row numbers whose `column` equals `value`."""
        groups = self._grouped(column)
        place = groups.places.get(value)
        return _EMPTY if place is None else groups.order[groups.bounds[place] : groups.bounds[place + 1]]

    def where_any(self, column: str, values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row numbers whose `column` equals one of `values`, value by value, and for each the number of the value."""
        groups = self._grouped(column)
        place, there = groups.places_of(values)
        count = (
            np.where(there, groups.bounds[place + 1] - groups.bounds[place], 0)
            if len(groups.values)
            else np.zeros(len(values), np.int64)
        )
        return groups.order[ranges(groups.bounds[place], count)], np.repeat(np.arange(len(values)), count)

    def last_change(self, column: str, value: int | str) -> int:
        """The last LSN at which one of those rows began or ended."""
        groups = self._grouped(column)
        place = groups.places.get(value)
        return 0 if place is None else int(groups.last[place])

    def last_changes(self, column: str, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same for each of `values`."""
        groups = self._grouped(column)
        place, there = groups.places_of(values)
        return np.where(there, groups.last[place], 0) if len(groups.values) else np.zeros(len(values), np.int64)

    def seen_where(self, column: str, value: int | str, lsn: int, ordinal: int) -> NDArray[np.int64]:
        return self.rows.seen(self.where(column, value), lsn, ordinal)

    def __getitem__(self, column: str) -> NDArray:
        """A column whole."""
        if column not in self.rows.columns:
            self.rows.columns[column] = self.rows.names[column][:]
        return self.rows.columns[column]

    def of(self, column: str, rows: NDArray[np.int64] | slice) -> NDArray:
        """A column of some rows."""
        names = self.rows.names.get(column)
        return self.rows.columns[column][rows] if names is None else names[rows]

    def name(self, column: str, row: int) -> str:
        """The name in a row."""
        return str(self.of(column, slice(row, row + 1))[0])


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
    columns: dict[str, NDArray] = {}
    names: dict[str, Names] = {}
    for name in wanted:
        i = layout.index(name)
        found = _column(versions.store, at[i], size[i], form[i], layout.lengths[i])
        if layout.lengths[i] == NAMEDATALEN:
            names[name] = Names(found, codec or "utf-8")
        else:
            columns[name] = found
    return CatalogRows(
        columns, names, spans.begin[mine], spans.end[mine], spans.made_by[mine], spans.unmade_by[mine], tuples[:, V_ADDED].copy(),
        tuples[:, V_DELETED].copy(),
    )  # fmt: skip


def _column(
    store: NDArray[np.uint8], at: NDArray[np.int64], size: NDArray[np.int32], form: NDArray[np.uint8], length: int
) -> NDArray:
    epoch = np.zeros(len(at), np.int64)
    if length > 0:
        fixed = column_of(store, at, size, form, length, None, epoch, _no_chunks()).fixed
        assert fixed is not None
        stored = np.ascontiguousarray(fixed)
        if length == NAMEDATALEN:
            return stored.view(f"S{NAMEDATALEN}")[:, 0]
        return stored.view(f"<i{length}" if length != 4 else "<u4")[:, 0].astype(np.int64)
    inline = (form == PLAIN) | (form == PGLZ) | (form == LZ4)
    values = column_of(store, at, size, np.where(inline, form, NULL).astype(np.uint8), -1, None, epoch, _no_chunks())
    assert values.offsets is not None
    assert values.data is not None
    raw, bounds = values.data.tobytes(), values.offsets
    found = np.empty(len(at), object)
    # An external value is not NULL, and nothing that decoding asks of a catalog is ever that long.
    for row in np.flatnonzero((form != NULL) & (form != MISSING)).tolist():
        found[row] = raw[bounds[row] : bounds[row + 1]]
    return found
