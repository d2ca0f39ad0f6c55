"""Changes as wal2json prints them in its format 2:
`{"action":"I","schema":"public","table":"t","columns":[{"name":"id",…,"value":1}]}`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.decode import DELETE, INSERT, UPDATE, Batch
from tailrace.kernels import inner_kernel, kernel
from tailrace.model import Column, PgType, Relation
from tailrace.plan.stretch_plan import Commits
from tailrace.plugins.column_texts import UNCHANGED, Words, put, put_word
from tailrace.plugins.formatter import Formatter
from tailrace.plugins.json_text.columns import (
    BOOLEAN,
    HEX,
    LONGEST_LITERAL,
    NUMBER,
    NUMBERS,
    STRING,
    literal_columns,
    printed,
    put_literal,
)
from tailrace.plugins.json_text.strings import json_string
from tailrace.plugins.wal2json.options import ACTIONS, Wal2JsonOptions
from tailrace.types import oids, registry
from tailrace.types.codec.ascii import COMMA
from tailrace.types.format_type import format_type_with_typemod
from tailrace.types.style import TextStyle
from tailrace.types.times.text import timestamptz_to_str
from tailrace.types.values import Texts, Values, as_writable

_FULL = "f"
_PG_LSN = PgType(oids.PG_LSN, "pg_catalog", "pg_lsn", "pg_lsn", "b", 8, 8)
_KINDS = (INSERT, UPDATE, DELETE)


@dataclass(frozen=True)
class Format2Formatter(Formatter):
    """An object a change; nothing of a change that is not written."""

    options: Wal2JsonOptions

    def warnings(self, batch: Batch) -> frozenset[str]:
        lost = selected_changes(self.options, batch) & ~batch.has_old & lacking_identity(batch)
        verbs = {UPDATE: "UPDATE", DELETE: "DELETE"}
        return frozenset(
            f'no tuple identifier for {verbs[kind]} in table "{each.schema}"."{each.name}"'
            for kind, each in kinds_and_tables(batch, lost)
        )

    def change_texts(self, batch: Batch) -> Texts:
        rows, relations = len(batch), batch.published_as
        written = selected_changes(self.options, batch) & (batch.has_old | ~lacking_identity(batch))
        words = self._words(relations, batch.columns)
        new, old = (literal_columns(each, batch.columns, rows, self._text_of) for each in (batch.new, batch.old))
        facts = facts_of(self.options, self.style, rows, batch.commits, batch.lsn)
        changes = ObjectRows(written, batch.number, batch.kind, batch.has_old, as_writable(facts.data), facts.offsets)
        # Room for the longest that it could be; pages that stay untouched cost nothing. The identity may be taken from the new row.
        heads = np.diff(facts.offsets)[written].sum() + int(written.sum()) * (
            words.tables.longest + _FIXED + 2 * len(words.befores.data) + 2 * len(words.afters.data) + 2 * len(words.keys.data)
            + 2 * len(batch.columns) * (LONGEST_LITERAL + 2)
        )  # fmt: skip
        out = np.empty(int(heads) + 2 * new.room + old.room, np.uint8)
        offsets = np.zeros(rows + 1, np.int64)
        write_objects(changes, words, self._keys(relations, batch.columns), new, old, offsets, out)
        return Texts(offsets, out[: offsets[-1]])

    def _words(self, relations: Sequence[Relation], columns: Sequence[Column]) -> PlainWords:
        descriptions = [self._description(column) for column in columns]
        return PlainWords(
            Words.of([self._table(relation) for relation in relations]),
            Words.of([f'{description},"value":' for description in descriptions]),
            Words.of([self._behind_value(column) for column in columns]),
            Words.of([f"{description}}}" for description in descriptions]),
        )

    def _table(self, relation: Relation) -> str:
        schema = f',"schema":{json_string(relation.schema)}' if self.options.include_schemas else ""
        return f'{schema},"table":{json_string(relation.name)}'

    def _description(self, column: Column) -> str:
        pg_type = column.type
        assert pg_type is not None, "dropped columns are not shown"
        text = f'{{"name":{json_string(column.name)}'
        if self.options.include_types:
            label = format_type_with_typemod(pg_type, column.typmod)
            if self.options.include_domain_data_type and pg_type.kind == "d" and pg_type.element is not None:
                label = format_type_with_typemod(pg_type.element, pg_type.typmod)
            # A name in quotes is taken for a string as it stands.
            text += ',"type":' + (label if label.startswith('"') and not label.endswith("]") else json_string(label))
        if self.options.include_type_oids:
            text += f',"typeoid":{pg_type.oid - (pg_type.oid >> 31 << 32)}'
        return text

    def _behind_value(self, column: Column) -> str:
        optional = f',"optional":{"false" if column.not_null else "true"}' if self.options.include_not_null else ""
        position = f',"position":{column.number}' if self.options.include_column_positions else ""
        default = f',"default":{default_of(column)}' if self.options.include_default else ""
        return f"{optional}{position}{default}}}"

    def _keys(self, relations: Sequence[Relation], columns: Sequence[Column]) -> Keys:
        numbers = np.array([column.number for column in columns], np.int64)
        primary = np.array([np.isin(numbers, relation.primary_key) for relation in relations])
        identity = np.array([np.isin(numbers, relation.identity or numbers) for relation in relations])
        obtainable = np.array([bool(relation.primary_key or relation.identity) for relation in relations])
        return Keys(identity, primary, obtainable, self.options.include_pk)

    def _text_of(self, stored: Values, column: Column) -> tuple[Texts, int]:
        return written_as(column.live_type, stored, self.options, self.style, self.codec)


def selected_changes(options: Wal2JsonOptions, batch: Batch) -> NDArray[np.bool_]:
    """Which changes are of actions and tables that are written."""
    written: NDArray[np.bool_] = np.array([options.writes_table(each.schema, each.name) for each in batch.published_as])[
        batch.number
    ]
    for kind, action in zip(_KINDS, ACTIONS, strict=False):
        if action not in options.actions:
            written &= batch.kind != kind
    return written


def lacking_identity(batch: Batch) -> NDArray[np.bool_]:
    """Which are UPDATEs and DELETEs of tables of whose rows nothing says which they were."""
    lacking = np.array([not each.identity and each.replica_identity != _FULL for each in batch.published_as])
    found: NDArray[np.bool_] = (batch.kind != INSERT) & lacking[batch.number]
    return found


def kinds_and_tables(batch: Batch, those: NDArray[np.bool_]) -> list[tuple[int, Relation]]:
    """What happened to which tables, each once."""
    pairs = np.unique(np.stack([batch.kind[those].astype(np.int64), batch.number[those]]), axis=1)
    return [(kind, batch.published_as[number]) for kind, number in pairs.T.tolist()]


def written_as(pg_type: PgType, stored: Values, options: Wal2JsonOptions, style: TextStyle, codec: str) -> tuple[Texts, int]:
    """Values of a type as texts, and how these become literals."""
    form = STRING
    if pg_type.oid in NUMBERS:
        form = STRING if options.numeric_data_types_as_string else NUMBER
    elif pg_type.oid == oids.BOOL:
        form = BOOLEAN
    elif pg_type.oid == oids.BYTEA:
        form = HEX
    return printed(stored, pg_type, style, codec), form


def default_of(column: Column) -> str:
    """Its default expression in quotes, as it is: nothing in it is escaped."""
    return "null" if column.default is None or column.generated else f'"{column.default}"'


def facts_of(
    options: Wal2JsonOptions,
    style: TextStyle,
    rows: int,
    commits: Commits | None,
    lsn: NDArray[np.int64],
    *more: NDArray[np.int64],
) -> Texts:
    """What is written of the transaction of each row: xid, when it committed, its origin, and positions, `lsn` and more."""
    parts: list[str | NDArray[np.integer] | Texts] = []
    if commits is not None and options.include_xids:
        parts += [',"xid":', commits.xid]
    if commits is not None and options.include_timestamp:
        parts += [',"timestamp":"', timestamptz_to_str(commits.time, style), '"']
    if commits is not None and options.include_origin:
        parts += [',"origin":', commits.origin]
    if options.include_lsn:
        for name, each in zip(("lsn", "nextlsn"), (lsn, *more), strict=False):
            parts += [f',"{name}":"', positions(each, style), '"']
    return Texts.joined(*parts, rows=rows) if parts else Texts(np.zeros(rows + 1, np.int64), np.zeros(0, np.uint8))


def positions(lsns: NDArray[np.int64], style: TextStyle) -> Texts:
    """As pg_lsn prints them."""
    return registry.format_values(Values.of_numbers(lsns), _PG_LSN, style)


class PlainWords(NamedTuple):
    """What tables are called; by column what stands before and behind its value, and what describes it alone."""

    tables: Words
    befores: Words
    afters: Words
    keys: Words


class Keys(NamedTuple):
    """By table and column, whether it is one of the replica identity (all are, where there is none) and of the primary key; by
    table, whether an UPDATE without an old row has its identity from the new one; and whether primary keys are written."""

    identity: NDArray[np.bool_]
    primary: NDArray[np.bool_]
    is_obtainable: NDArray[np.bool_]
    tells_primary: bool


class ObjectRows(NamedTuple):
    """By row: whether it is written, which of the tables it is of, what happened, whether there is an old tuple, and what is
    written of its transaction."""

    written: NDArray[np.bool_]
    number: NDArray[np.int64]
    kind: NDArray[np.uint8]
    has_old: NDArray[np.bool_]
    facts: NDArray[np.uint8]
    bounds: NDArray[np.int64]


_ACTION = 13
_COLUMN, _OLD, _NAME = 0, 1, 2
_VERBS, _COLUMNS, _IDENTITY, _PK, _BRACKET, _BRACE = (
    np.frombuffer(word, np.uint8)
    for word in (b'{"action":"I"{"action":"U"{"action":"D"', b',"columns":[', b',"identity":[', b',"pk":[', b"]", b"}")
)
_FIXED = _ACTION + len(_COLUMNS) + len(_IDENTITY) + len(_PK) + 8


@kernel
def write_objects(changes, words, keys, new, old, offsets, out):  # type: ignore[no-untyped-def]
    """The objects of a batch, one after another; offsets[i + 1] becomes the end of row i."""
    to = np.int64(0)
    every = np.ones(len(new.form), np.bool_)
    for row in range(len(changes.kind)):
        if changes.written[row]:
            kind, number, has_old = changes.kind[row], changes.number[row], changes.has_old[row]
            to = put(out, to, _VERBS, _ACTION * (kind - 1), _ACTION * kind)
            to = put(out, to, changes.facts, changes.bounds[row], changes.bounds[row + 1])
            to = put_word(out, to, words.tables, number)
            if kind != DELETE:
                to = put(out, to, _COLUMNS, 0, len(_COLUMNS))
                to = put_columns(out, to, words, new, row, every, _COLUMN)
            if has_old:
                to = put(out, to, _IDENTITY, 0, len(_IDENTITY))
                to = put_columns(out, to, words, old, row, keys.identity[number], _OLD)
            elif kind == UPDATE and keys.is_obtainable[number]:
                to = put(out, to, _IDENTITY, 0, len(_IDENTITY))
                to = put_columns(out, to, words, new, row, keys.identity[number], _OLD)
            if keys.tells_primary:
                to = put(out, to, _PK, 0, len(_PK))
                to = put_columns(out, to, words, old if has_old else new, row, keys.primary[number], _NAME)
            to = put(out, to, _BRACE, 0, 1)
        offsets[row + 1] = to


@inner_kernel
def put_columns(out, to, words, side, row, wanted, how):  # type: ignore[no-untyped-def]
    """Append the wanted columns of one side of a row, but for those that were not sent, and the bracket behind them: with values
    and what stands behind these, with values alone, or without."""
    first = True
    for column in range(len(side.form)):
        if not wanted[column] or side.state[column, row] == UNCHANGED:
            continue
        if not first:
            out[to] = COMMA
            to += 1
        first = False
        if how == _NAME:
            to = put_word(out, to, words.keys, column)
            continue
        to = put_word(out, to, words.befores, column)
        to = put_literal(out, to, side, column, row)
        to = put_word(out, to, words.afters, column) if how == _COLUMN else put(out, to, _BRACE, 0, 1)
    return put(out, to, _BRACKET, 0, 1)
