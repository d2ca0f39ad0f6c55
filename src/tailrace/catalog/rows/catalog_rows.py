"""Versions of one catalog's rows as columns, and where in WAL each was visible, to whom.

In: `row_versions.Versions` and the outcomes of transactions. Out: `CatalogRows`, the columns asked for as NumPy arrays with the LSNs between which a
row is seen; and `CatalogTable`, the same with rows looked up by the value of a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.data_directory.commit_status import COMMITTED, CommitStatus
from tailrace.catalog.rows.layouts import TOAST_TABLES, CatalogLayout
from tailrace.catalog.rows.row_versions import XMAX_COMMITTED, XMIN_ABORTED, XMIN_COMMITTED, XMIN_FROZEN, Versions
from tailrace.dataclass import dataclass
from tailrace.model import NAMEDATALEN, Lsn
from tailrace.ragged import ranges, taken_of
from tailrace.transactions.commit_or_abort import NEVER, NO_END, Outcomes
from tailrace.tuples.deform import Attributes, deform
from tailrace.tuples.errors import CorruptTuple
from tailrace.tuples.gather import column_of
from tailrace.tuples.toast import Chunks
from tailrace.tuples.varlena import MISSING, NULL
from tailrace.types.encodings.server_encodings import UTF8
from tailrace.wal.index import TRACKED_CATALOGS

NO_NUMBER = -(1 << 63)
"""Stands for NULL in an integer column, of those that 0 would not do for."""
_NULLABLE = frozenset({"attstattarget"})
_EMPTY = np.zeros(0, np.int64)


@cache
def _no_chunks() -> Chunks:
    """The TOAST chunks of catalogs of which no column is read that may be stored out of line. Not made on import, as that would load a kernel."""
    return Chunks.none()


@dataclass(slots=True)
class Spans:
    """Where each version is visible. Transactions other than its own see it at `begin` < LSN <= `end`: the LSNs of the commits that made and ended
    it, 0 if it was there before the WAL at hand, NEVER if that did not happen. `made_by` and `unmade_by` are the ordinals of those transactions, -1
    if they committed before the WAL at hand, or not at all."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    made_by: NDArray[np.int64]
    unmade_by: NDArray[np.int64]


def spans_of(versions: Versions, outcomes: Outcomes, status: CommitStatus | None) -> Spans:
    """Where each version is visible. Whether its transactions committed is what the WAL at hand says; of transactions that ended before it, what hint
    bits say; of those that have none, what pg_xact says."""
    columns = versions.columns
    begin, made_by = _ends_of(columns.xmin, columns.hints, XMIN_COMMITTED, XMIN_ABORTED, outcomes, status)
    frozen = (columns.hints & XMIN_FROZEN) != 0
    begin[frozen] = 0
    made_by[frozen] = -1
    end, unmade_by = _ends_of(columns.xmax, columns.hints, XMAX_COMMITTED, 0, outcomes, status)
    end[columns.xmax == 0] = NEVER
    unmade_by[columns.xmax == 0] = -1
    return Spans(begin=begin, end=end, made_by=made_by, unmade_by=unmade_by)


def _ends_of(
    xids: NDArray[np.int64],
    hints: NDArray[np.int64],
    committed: int,
    aborted: int,
    outcomes: Outcomes,
    status: CommitStatus | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The commit of each transaction, and its ordinal or -1; `committed` and `aborted` are the hint bits that tell of it (0: there is none)."""
    lsn, ordinal = outcomes.seen_of(xids)
    unseen = ordinal == NO_END
    hinted = unseen & ((hints & committed) != 0)
    lsn[hinted] = 0
    if status is not None:
        asked = unseen & ~hinted & (xids > 2) & (((hints & aborted) == 0) if aborted else True)
        lsn[np.flatnonzero(asked)[status.of(xids[asked]) == COMMITTED]] = 0
    return lsn, np.where(ordinal >= 0, ordinal, -1)


@dataclass(frozen=True, slots=True)
class Names:
    """A column of type name, as stored, in `codec`. Strings are made of the rows that are asked for, which are few."""

    stored: NDArray[np.bytes_]
    codec: str

    def __getitem__(self, rows: NDArray[np.int64] | slice) -> NDArray:
        """These rows as str objects; bytes that the codec does not know become surrogates."""
        return np.array([raw.decode(self.codec, "surrogateescape") for raw in self.stored[rows].tolist()], object)


@dataclass(slots=True)
class CatalogRows:
    """Row versions of one catalog. `columns` by name: integers as int64, varlenas as bytes or None; those of type name are in `names`.

    `begin`, `end`, `made_by` and `unmade_by` are those of `Spans`; `added` and `deleted` are the LSNs of the records that put the row there and
    ended it, from and up to which its own transaction sees it.
    """

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
        """These rows alone."""
        return taken_of(
            self, rows, columns={name: values[rows] for name, values in self.columns.items() if name not in self.names},
            names={name: Names(values.stored[rows], values.codec) for name, values in self.names.items()},
        )  # fmt: skip

    def lifetimes(self, rows: NDArray[np.int64], ordinal: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Between which LSNs transaction `ordinal` (-1: one that did none of it) sees each of `rows`: what it did itself, from the record on."""
        if ordinal < 0:
            return self.begin[rows], self.end[rows]
        begin = np.where(self.made_by[rows] == ordinal, self.added[rows], self.begin[rows])
        return begin, np.where(self.unmade_by[rows] == ordinal, self.deleted[rows], self.end[rows])

    def seen(self, rows: NDArray[np.int64], lsn: int, ordinal: int) -> NDArray[np.int64]:
        """Those of `rows` that a change at `lsn` in transaction `ordinal` (-1: one that touched no catalog) sees."""
        begin, end = self.lifetimes(rows, ordinal)
        return rows[(begin < lsn) & (end >= lsn)]


@dataclass(slots=True)
class _Groups:
    """Row numbers by the value of a column: rows with `values[i]`, which ascend, are `order[bounds[i] : bounds[i + 1]]`, and `last[i]` is the last
    LSN at which one of them began or ended. `places` has the i of each value."""

    values: NDArray
    order: NDArray[np.int64]
    bounds: NDArray[np.int64]
    last: NDArray[np.int64]
    places: dict[int | str, int]

    def places_of(self, values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The place i of each of these values, and whether there are any rows with it."""
        if not len(self.values):
            return np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_)
        place = np.minimum(np.searchsorted(self.values, values), len(self.values) - 1)
        return place, self.values[place] == values


class CatalogTable:
    """A catalog whose rows are looked up by a column's value. A column is sorted when it is first asked for."""

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
            places = {key: place for place, key in enumerate(keys.tolist())}
            self._groups[column] = _Groups(values=keys, order=order, bounds=bounds, last=last, places=places)
        return self._groups[column]

    def where(self, column: str, value: int | str) -> NDArray[np.int64]:
        """Row numbers whose `column` equals `value`."""
        groups = self._grouped(column)
        place = groups.places.get(value)
        return _EMPTY if place is None else groups.order[groups.bounds[place] : groups.bounds[place + 1]]

    def where_any(self, column: str, values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row numbers whose `column` equals one of `values`, value by value, and for each row the index of its value."""
        groups = self._grouped(column)
        place, there = groups.places_of(values)
        count = (
            np.where(there, groups.bounds[place + 1] - groups.bounds[place], 0)
            if len(groups.values)
            else np.zeros(len(values), np.int64)
        )
        return groups.order[ranges(groups.bounds[place], count)], np.repeat(np.arange(len(values)), count)

    def last_change(self, column: str, value: int | str) -> int:
        """The last LSN at which a row whose `column` equals `value` began or ended; 0 if there is none."""
        groups = self._grouped(column)
        place = groups.places.get(value)
        return 0 if place is None else int(groups.last[place])

    def last_changes(self, column: str, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """`last_change` of each of `values`."""
        groups = self._grouped(column)
        place, there = groups.places_of(values)
        return np.where(there, groups.last[place], 0) if len(groups.values) else np.zeros(len(values), np.int64)

    def seen_where(self, column: str, value: int | str, lsn: int, ordinal: int) -> NDArray[np.int64]:
        """Row numbers whose `column` equals `value`, of those that a change at `lsn` in transaction `ordinal` sees."""
        return self.rows.seen(self.where(column, value), lsn, ordinal)

    def __getitem__(self, column: str) -> NDArray:
        """All of a column."""
        if column not in self.rows.columns:
            self.rows.columns[column] = self.rows.names[column][:]
        return self.rows.columns[column]

    def of(self, column: str, rows: NDArray[np.int64] | slice) -> NDArray:
        """A column of these rows."""
        names = self.rows.names.get(column)
        return self.rows.columns[column][rows] if names is None else names[rows]

    def name(self, column: str, row: int) -> str:
        """The value of a column of type name in a row."""
        return str(self.of(column, slice(row, row + 1))[0])


@contextmanager
def of_a_version(versions: Versions, rows: NDArray[np.int64], where: str) -> Iterator[None]:
    """An error over the tuple of one of these versions says which record put it there; of what was there before the WAL at hand, `where` alone."""
    try:
        yield
    except CorruptTuple as error:
        added = Lsn(int(versions.columns.added[rows[error.row]])) if error.row >= 0 else Lsn(0)
        error.context = f"{where}, WAL record at {added}" if added else where
        error.lsn = added or None
        raise


def rows_of(
    versions: Versions, spans: Spans, catalog: int, layout: CatalogLayout, wanted: tuple[str, ...], codec: str = UTF8,
    chunks: Chunks | None = None,
) -> CatalogRows:  # fmt: skip
    """The columns `wanted` of every version of `catalog` that some transaction saw; names are in `codec`, values out of line in `chunks`. One that is
    not there is empty. Raises CorruptTuple for a row that has not the columns of its catalog."""
    stored = versions.columns
    mine = _seen_by_some(versions, spans, catalog)
    places = {name: layout.index(name) for name in wanted}
    last = max(places.values()) + 1
    columns: dict[str, NDArray] = {}
    names: dict[str, Names] = {}
    with of_a_version(versions, mine, f'catalog "{TRACKED_CATALOGS[catalog]}"'):
        attributes = deform(
            versions.tuples, stored.at[mine], stored.length[mine],
            np.array(layout.lengths[:last], np.int64), np.array(layout.aligns[:last], np.int64),
        )  # fmt: skip
        found = {
            name: _column(versions.tuples, attributes.of(i), layout.lengths[i], chunks or _no_chunks())
            for name, i in places.items()
        }
    for name, values in found.items():
        i = places[name]
        if name in _NULLABLE:
            values = np.where(np.isin(attributes.of(i).form, (NULL, MISSING)), NO_NUMBER, values)  # noqa: PLW2901
        if layout.lengths[i] == NAMEDATALEN:
            names[name] = Names(values, codec or "utf-8")
        else:
            columns[name] = values
    return CatalogRows(
        columns=columns,
        names=names,
        begin=spans.begin[mine],
        end=spans.end[mine],
        made_by=spans.made_by[mine],
        unmade_by=spans.unmade_by[mine],
        added=stored.added[mine],
        deleted=stored.deleted[mine],
    )


def oid_of(catalog: str) -> int:
    """The oid of a catalog that is read."""
    return next(oid for oid, name in TRACKED_CATALOGS.items() if name == catalog)


def toast_of(versions: Versions, spans: Spans, name: str, layouts: Mapping[str, CatalogLayout]) -> Chunks | None:
    """The chunks of a catalog's TOAST table, of all versions that some transaction saw; None if nothing that lies there is asked for. A value's id is
    given to no other while anybody could see it, so the last chunk with a number is the one."""
    toast = TOAST_TABLES.get(name, "")
    if toast not in layouts:
        return None
    catalog = oid_of(toast)
    chunks = rows_of(versions, spans, catalog, layouts[toast], ("chunk_id", "chunk_seq")).columns
    mine = _seen_by_some(versions, spans, catalog)
    order = np.lexsort((chunks["chunk_seq"], chunks["chunk_id"]))
    key = np.stack([chunks["chunk_id"], chunks["chunk_seq"]])[:, order]
    last = np.ones(len(order), np.bool_)
    last[:-1] = (key[:, 1:] != key[:, :-1]).any(0)
    whole = _from_the_first(key[:, last])
    ordered = mine[order[last]][whole]
    stored = versions.columns
    with of_a_version(versions, ordered, f'catalog "{toast}"'):
        return Chunks.of(versions.tuples, stored.at[ordered], stored.length[ordered], np.zeros(len(whole), np.int64))


def _from_the_first(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of chunks in order of value and number, those of values of which none is missing before another."""
    _, start, count = np.unique(key[0], return_index=True, return_counts=True)
    in_place = key[1] == np.arange(key.shape[1]) - np.repeat(start, count)
    complete = np.logical_and.reduceat(in_place, start) if len(start) else np.zeros(0, np.bool_)
    return np.flatnonzero(np.repeat(complete, count))


def _seen_by_some(versions: Versions, spans: Spans, catalog: int) -> NDArray[np.int64]:
    return np.flatnonzero((versions.columns.catalog == catalog) & ((spans.begin != NEVER) | (spans.made_by >= 0)))


def _column(tuples: NDArray[np.uint8], attribute: Attributes, length: int, chunks: Chunks) -> NDArray:
    """A column's values by where they lie; `length` is its attlen."""
    form = attribute.form
    turn = np.zeros(len(form), np.int64)
    if length > 0:
        fixed = column_of(tuples, attribute, length, None, turn, chunks).fixed
        assert fixed is not None
        stored = np.ascontiguousarray(fixed)
        if length == NAMEDATALEN:
            return stored.view(f"S{NAMEDATALEN}")[:, 0]
        return stored.view(f"<i{length}" if length != 4 else "<u4")[:, 0].astype(np.int64)
    values = column_of(tuples, attribute, -1, None, turn, chunks)
    assert values.offsets is not None
    assert values.data is not None
    raw, bounds = values.data.tobytes(), values.offsets
    payloads = np.empty(len(form), object)
    # An external value is not NULL, be it here or not.
    for row in np.flatnonzero((form != NULL) & (form != MISSING)).tolist():
        payloads[row] = raw[bounds[row] : bounds[row + 1]]
    return payloads
