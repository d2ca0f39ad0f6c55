"""Catalogs and user catalog tables as a callback sees them: rows as mappings of names to values, like those of changes.

In: the history of a plan, and the historic snapshot of a callback. Out: relations, and rows that are the caller's own: there is nothing to
write to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.history import History
from tailrace.catalog.history.table_rows import Places, TableRows, named_columns
from tailrace.catalog.names.oid_names import names_at, oid_alias_types
from tailrace.dataclass import dataclass
from tailrace.decode import INSERT, NO_OLD, Batch
from tailrace.errors import MissingHistory, UsageError
from tailrace.model import Column, Relation
from tailrace.plan.stretch_plan import Commits
from tailrace.plugins.callbacks.change import plain_changes
from tailrace.types import oids
from tailrace.types.style import TextStyle

"""The type of attmissingval alone, of which no row says what it is an array of."""


class HistoricSnapshot(NamedTuple):
    """What a change at `lsn` in the transaction of that ordinal sees (`catalog.history`)."""

    lsn: int
    ordinal: int


class CatalogRow(dict[str, Any]):
    """A row, by column. A value that is stored where nobody followed it is an error when it is asked for."""

    elsewhere: frozenset[str] = frozenset()

    def __missing__(self, column: str) -> Any:
        if column in self.elsewhere:
            raise MissingHistory(f'column "{column}" is stored out of line in a TOAST table that is not followed')
        raise KeyError(column)


@dataclass(slots=True)
class _Read:
    """Rows that were read, and what they were read of."""

    relation: Relation
    rows: NDArray[np.int64]
    chunks: NDArray[np.int64]
    values: list[tuple[Any, ...]]


class CatalogReader:
    """Of one plan. What a callback reads again, as nothing has changed it, is not made again."""

    def __init__(self, history: History, style: TextStyle, codec: str, *, typed: bool) -> None:
        self._tables = TableRows(history)
        self._style = style
        self._codec = codec
        self._typed = typed
        self._read: dict[tuple[int, tuple[str, ...]], _Read] = {}

    def relation(self, name: str | int, snapshot: HistoricSnapshot) -> Relation:
        return self._tables.relation(name, *snapshot)

    def rows(self, name: str | int, columns: Sequence[str], snapshot: HistoricSnapshot) -> Iterator[CatalogRow]:
        """The rows that the snapshot sees, in the order in which they were written; with `columns`, these alone."""
        relation = self.relation(name, snapshot)
        wanted = _printable(named_columns(relation, columns), columns)
        places = self._tables.places(relation, *snapshot)
        names = tuple(column.name for column in wanted)
        for values in self._values(places, wanted, snapshot, names):
            row = CatalogRow(zip(names, values, strict=True))
            if ... in values:
                row = CatalogRow((name, value) for name, value in row.items() if value is not ...)
                row.elsewhere = frozenset(names) - row.keys()
            yield row

    def _values(
        self, places: Places, columns: tuple[Column, ...], snapshot: HistoricSnapshot, names: tuple[str, ...]
    ) -> list[tuple[Any, ...]]:
        key = (places.relation.oid, names)
        known = self._read.get(key)
        if known is not None and known.relation is places.relation and np.array_equal(known.rows, places.rows):
            if np.array_equal(known.chunks, places.chunks):
                return known.values
        aliases = oid_alias_types(replace(places.relation, columns=columns))
        style = self._style
        if aliases:
            there = names_at(self._tables.history, aliases, *snapshot)
            style = replace(style, names=lambda reg_type, oid: there.get((reg_type, oid)))
        batch = self._batch(places, columns)
        values = [new or () for _, new, _, _ in plain_changes(batch, style, self._codec, typed=self._typed)]
        if not aliases:  # whose names may be others' under another snapshot
            self._read[key] = _Read(*places, values)
        return values

    def _batch(self, places: Places, columns: tuple[Column, ...]) -> Batch:
        """As if each row were inserted."""
        count = len(places.rows)
        zeros = np.zeros(count, np.int64)
        return Batch(
            relations=(places.relation,), published_as=(replace(places.relation, columns=columns),), number=zeros, columns=columns,
            ordinal=zeros, lsn=zeros, sequence=zeros, kind=np.full(count, INSERT, np.uint8), old_kind=np.full(count, NO_OLD, np.uint8),
            new=self._tables.values(places, columns), old=None,
            commits=Commits(zeros.astype(np.uint32), zeros, zeros, zeros.astype(np.uint16)),
        )  # fmt: skip


def _printable(columns: tuple[Column, ...], asked: Sequence[str]) -> tuple[Column, ...]:
    """Those of types that values can be printed of. Raises UsageError for one that was asked for by name."""
    without = [column.name for column in columns if column.type is None or column.type.oid == oids.ANYARRAY]
    if without and asked:
        raise UsageError(f'column "{without[0]}" has pseudo-type anyarray', sqlstate="42P16")
    return tuple(column for column in columns if column.name not in without)
