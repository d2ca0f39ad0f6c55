"""Changes of single rows, each a value of its own: what a few rows of a log are told as.

In: a batch, of the rows that are wanted. Out: `RowChange`s, with PostgreSQL's text of every value; and the keys that tell of
which row they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import partial
from itertools import starmap

import numpy as np
import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.decode import DELETE, NO_OLD, OLD_ROW, UPDATE, Batch
from tailrace.model import Column, PgType, Relation
from tailrace.plan.pieces import Piece
from tailrace.types import registry
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_string

TRUNCATE = 0
"""Beside the kinds of decode: all rows are gone."""


class Absent(Enum):
    """Instead of a value: it is TOASTed and was not logged again, or nothing tells what it was."""

    UNCHANGED = "unchanged"
    UNKNOWN = "unknown"


Cell = str | None | Absent
"""A value as PostgreSQL prints it, None for NULL, or why there is none."""
Key = tuple[str | None, ...]
"""The values of some columns, which tell a row from others."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """What happened to a row: `kind` as in decode, or TRUNCATE. `new` and `old` hold a cell for each live column of `relation`;
    of an old tuple that is only a key, the others are unknown. `xid` is full, `time` microseconds since PG_EPOCH."""

    relation: Relation
    commit_lsn: int
    lsn: int
    sequence: int
    xid: int
    time: int
    kind: int
    new: tuple[Cell, ...] | None
    old: tuple[Cell, ...] | None
    is_whole: bool

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands in the order of changes."""
        return self.commit_lsn, self.lsn, self.sequence


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """Columns of table `oid`. In its partitions they are found by name. If `as_compared`, values are equal that are so in SQL
    though their texts differ."""

    oid: int
    numbers: tuple[int, ...]
    names: tuple[str, ...]
    as_compared: bool = False

    def places(self, relation: Relation) -> list[int] | None:
        """Where they are among the live columns of a version of the table, or of a partition; None if one was not there."""
        mine = self.oid in (relation.oid, relation.rewrite_of)
        there = {column.number if mine else column.name: place for place, column in enumerate(relation.live_columns)}
        wanted: Sequence[int | str] = self.numbers if mine else self.names
        return [there[each] for each in wanted] if all(each in there for each in wanted) else None


@dataclass(frozen=True, slots=True)
class TextOf:
    """Values as UTF-8 text, NULL where there is none."""

    style: TextStyle
    codec: str

    def __call__(self, values: Values, pg_type: PgType) -> pa.Array:
        texts = to_utf8(registry.format_values(values, pg_type, self.style), self.codec)
        return texts.to_arrow(values.valid)


def strings_of(texts: pa.Array) -> list[Cell]:
    """As Python strings. Where a database says nothing of its encoding (SQL_ASCII), text may be no UTF-8."""
    return [None if raw is None else as_string(raw) for raw in texts.cast(pa.large_binary()).to_pylist()]


def texts_of(cells: Sequence[str | None]) -> pa.Array:
    """Put cells into an Arrow column of text."""
    valid = np.array([cell is not None for cell in cells], np.bool_)
    return Texts.of([cell or "" for cell in cells]).to_arrow(valid)


def changes_of(batch: Batch, piece: Piece, texts: TextOf) -> list[RowChange]:
    """Every change of a batch as an object."""
    new = _cells(batch.columns, batch.new, texts, batch.kind != DELETE)
    old: list[tuple[Cell, ...] | None] = [None] * len(batch)
    if batch.old is not None:
        whole = batch.old_kind == OLD_ROW
        told = [whole if column.number not in batch.relation.identity else None for column in batch.columns]
        old = _cells(batch.columns, batch.old, texts, batch.old_kind != NO_OLD, told)
    facts, ordinal = piece.facts, batch.ordinal
    numbers = (
        facts.commit_lsn[ordinal], batch.lsn, batch.sequence, facts.full_xid[ordinal], facts.time[ordinal], batch.kind,
    )  # fmt: skip
    sides = new, old, (batch.old_kind == OLD_ROW).tolist()
    return list(starmap(partial(RowChange, batch.relation), zip(*(each.tolist() for each in numbers), *sides, strict=True)))


def _cells(
    columns: Sequence[Column], side: Sequence[Values], texts: TextOf, there: Mask, told: Sequence[Mask | None] | None = None
) -> list[tuple[Cell, ...] | None]:
    """By row a cell for each column, where it is `there`; where a column is not `told`, it is unknown."""
    by_column: list[list[Cell]] = []
    for place, (column, values) in enumerate(zip(columns, side, strict=True)):
        cells: list[Cell] = strings_of(texts(values, column.live_type))
        if values.unchanged is not None:
            for row in np.flatnonzero(values.unchanged).tolist():
                cells[row] = Absent.UNCHANGED
        mask = told[place] if told is not None else None
        if mask is not None:
            for row in np.flatnonzero(~mask).tolist():
                cells[row] = Absent.UNKNOWN
        by_column.append(cells)
    rows = zip(*by_column, strict=True) if by_column else iter([()] * len(there))
    return [cells if here else None for cells, here in zip(rows, there.tolist(), strict=True)]


def keys_of(change: RowChange, columns: KeyColumns) -> tuple[Key | None, Key | None]:
    """The key before and after; None where there is no row, or where nothing tells it. An UPDATE whose record has no old key left
    that as it is."""
    places = columns.places(change.relation)
    if not places:
        return None, None
    live = change.relation.live_columns
    is_told = change.is_whole or {live[place].number for place in places} <= set(change.relation.identity)
    old = None if change.old is None or not is_told else [change.old[place] for place in places]
    new = None if change.new is None else [change.new[place] for place in places]
    if new is not None and old is not None:
        new = [was if cell is Absent.UNCHANGED else cell for cell, was in zip(new, old, strict=True)]
    after = _key(new)
    if old is None and new is not None and change.kind == UPDATE and is_told:
        return after, after
    return _key(old), after


def _key(cells: Sequence[Cell] | None) -> Key | None:
    if cells is None or any(isinstance(cell, Absent) for cell in cells):
        return None
    return tuple(cell for cell in cells if not isinstance(cell, Absent))


def in_order(changes: Iterable[RowChange]) -> list[RowChange]:
    """Sort changes by commit, and keep each once."""
    return [each for _, each in sorted({(change.place, change.relation.oid): change for change in changes}.items())]
