"""Changes of single rows, each a value of its own, for those who want a few of a log: the rows of a key, or of a transaction.

In: pieces of a log, and which rows are sought. Out: `RowChange`s, with PostgreSQL's text of every value. Whole columns are compared in workers, and
only what is found becomes objects and leaves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace.catalog.partitions import Partitions
from tailrace.decode import DELETE, INSERT, NO_OLD, OLD_ROW, UPDATE, Batch
from tailrace.feed import Decoder
from tailrace.model import Column, PgType, Relation
from tailrace.plan.pieces import Piece
from tailrace.types import registry
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Values


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
    """What happened to a row: `kind` as in decode, or TRUNCATE. `new` and `old` hold a cell for each live column of `relation`; of an old tuple that is only a
    key, the others are unknown. `xid` is full, `time` microseconds since PG_EPOCH."""

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
    """Columns of table `oid`. In its partitions they are found by name. If `as_compared`, values are equal that are so in SQL though their texts
    differ."""

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
class Sought:
    """Changes of these relations (None: of all): every one; or those of rows that, before or after, have one of `keys` in `columns`. `partitions`
    says which changes are a partitioned table's."""

    oids: frozenset[int] | None
    columns: KeyColumns | None = None
    keys: frozenset[Key] = frozenset()
    partitions: Partitions | None = None
    style: TextStyle = TextStyle()  # noqa: RUF009 - frozen


@dataclass(slots=True)
class Found:
    """The changes; and how many there were besides that do not tell of which row they are."""

    changes: list[RowChange]
    untold: int = 0


def found(decode: Decoder, sought: Sought, piece: Piece) -> Found:
    """Those of a piece. Runs in a worker."""
    result = Found([])
    for batch in decode(piece, sought.oids):
        texts = _TextOf(replace(sought.style, names=batch.names), piece.plan.codec)
        held = np.ones(len(batch), np.bool_)
        if sought.partitions is not None:
            held = sought.partitions.held(batch.relation.oid, batch.lsn, piece.ordinals[batch.ordinal])
        if sought.columns is not None:
            has_key = _has_key(batch, sought.columns, sought.keys, texts)
            result.untold += int((held & ~has_key & ~_tells_key(batch, sought.columns)).sum())
            held &= has_key
        rows = np.flatnonzero(held)
        if len(rows):
            result.changes += _changes(batch.take(rows), piece, texts)
    return result


@dataclass(frozen=True, slots=True)
class _TextOf:
    """Values as UTF-8 text, NULL where there is none."""

    style: TextStyle
    codec: str

    def __call__(self, values: Values, pg_type: PgType) -> pa.Array:
        texts = to_utf8(registry.format_values(values, pg_type, self.style), self.codec)
        return texts.to_arrow(values.valid)


def _has_key(batch: Batch, columns: KeyColumns, keys: frozenset[Key], texts: _TextOf) -> Mask:
    """Which changes have one of the keys, in the old tuple or the new."""
    places = columns.places(batch.relation)
    if places is None:
        return np.zeros(len(batch), np.bool_)
    types = [_type(batch.columns[place]) for place in places]
    comparable = _comparable if columns.as_compared else _as_it_is
    wanted = pa.array(
        [_joined([comparable(pa.array([text], pa.large_string()), each) for text, each in zip(key, types, strict=True)])[0].as_py()
         for key in keys], pa.large_string(),
    )  # fmt: skip

    def among(side: list[Values], others: list[Values] | None) -> Mask:
        parts = []
        for place, each in zip(places, types, strict=True):
            text = texts(side[place], each)
            left_out = side[place].unchanged
            if others is not None and left_out is not None and left_out.any():
                text = pc.if_else(pa.array(left_out), texts(others[place], each), text)
            parts.append(comparable(text, each))
        mask: Mask = pc.is_in(_joined(parts), wanted).to_numpy(zero_copy_only=False)
        return mask

    held = among(batch.new, batch.old) & (batch.kind != DELETE)
    if batch.old is not None:
        held |= among(batch.old, None) & batch.has_old & _tells_key(batch, columns)
    return held


def _tells_key(batch: Batch, columns: KeyColumns) -> Mask:
    """Which changes say of which row they are, before and after: an old tuple has the whole row, or the columns of the replica identity."""
    places = columns.places(batch.relation)
    if places is None:
        return np.zeros(len(batch), np.bool_)
    tells = (batch.kind == INSERT) | (batch.old_kind == OLD_ROW)
    if {batch.columns[place].number for place in places} <= set(batch.relation.identity):
        tells |= batch.has_old | (batch.kind == UPDATE)
    return tells


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    """One text a row, the same for equal values: no value has a zero byte, and NULL has another mark than they."""
    marked = [pc.fill_null(pc.binary_join_element_wise(pa.scalar("v", pa.large_string()), each, pa.scalar("", pa.large_string())), "n") for each in parts]  # noqa: E501
    return pc.binary_join_element_wise(*marked, pa.scalar("\0", pa.large_string()))


def _as_it_is(texts: pa.Array, pg_type: PgType) -> pa.Array:
    return texts


def _comparable(texts: pa.Array, pg_type: PgType) -> pa.Array:
    """Texts that are the same where values are equal: a numeric's trailing zeros, a character's trailing blanks and the case of a citext do not
    count."""
    base = pg_type.base
    if base.oid == 1700:
        return pc.replace_substring_regex(pc.replace_substring_regex(texts, r"(\.\d*?)0+$", r"\1"), r"\.$", "")
    if base.oid == 1042:
        return pc.utf8_rtrim(texts, " ")
    return pc.utf8_lower(texts) if base.name == "citext" else texts


def _type(column: Column) -> PgType:
    assert column.type is not None, "dropped columns are not shown"
    return column.type


def _changes(batch: Batch, piece: Piece, texts: _TextOf) -> list[RowChange]:
    """Every change of a batch as an object."""
    new = _cells(batch.columns, batch.new, texts, batch.kind != DELETE)
    old: list[tuple[Cell, ...] | None] = [None] * len(batch)
    if batch.old is not None:
        whole = batch.old_kind == OLD_ROW
        told = [whole if column.number not in batch.relation.identity else None for column in batch.columns]
        old = _cells(batch.columns, batch.old, texts, batch.old_kind != NO_OLD, told)
    facts, ordinal = piece.facts, batch.ordinal
    columns = (
        facts.commit_lsn[ordinal], batch.lsn, batch.sequence, facts.full_xid[ordinal], facts.time[ordinal], batch.kind,
    )  # fmt: skip
    return [
        RowChange(batch.relation, *row, new=after, old=before, is_whole=whole)
        for *row, after, before, whole in zip(
            *(column.tolist() for column in columns), new, old, (batch.old_kind == OLD_ROW).tolist(), strict=True
        )
    ]


def _cells(
    columns: Sequence[Column], side: Sequence[Values], texts: _TextOf, there: Mask, told: Sequence[Mask | None] | None = None
) -> list[tuple[Cell, ...] | None]:
    """By row a cell for each column, where it is `there`; where a column is not `told`, it is unknown."""
    by_column: list[list[Cell]] = []
    for place, (column, values) in enumerate(zip(columns, side, strict=True)):
        cells: list[Cell] = texts(values, _type(column)).to_pylist()
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
    """The key before and after; None where there is no row, or where nothing tells it. An UPDATE whose record has no old key left that as it is."""
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
    """In commit order, each once."""
    return [each for _, each in sorted({(change.place, change.relation.oid): change for change in changes}.items())]


def committing(piece: Piece, wanted: Callable[[NDArray[np.int64]], Mask]) -> Piece | None:
    """The same with only the transactions whose commit LSNs are `wanted`; None if there are none of them."""
    keep = wanted(piece.facts.commit_lsn)
    if keep.all():
        return piece
    if not keep.any():
        return None
    ordinals = piece.ordinals[keep]
    mask = np.zeros(int(piece.ordinals.max()) + 1, np.bool_)
    mask[ordinals] = True
    plan = piece.plan.restricted_to(mask)
    return None if plan is None else Piece(plan, ordinals, piece.facts.subset(np.flatnonzero(keep)))
