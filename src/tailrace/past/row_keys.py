"""Which row is meant, as a person writes it: `5`, `id=5`, `order_id=7,line=2`.

In: the text, and the table. Out: the columns, and their values as the table's types print them. Values that hold commas stand in
single quotes, as in SQL; names are SQL's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from tailrace.errors import UsageError
from tailrace.model import Column, Relation
from tailrace.past.row_changes import Key, KeyColumns
from tailrace.past.trails import columns_named, identity_columns
from tailrace.types import registry
from tailrace.types.quoting import quote_identifier, split_identifiers
from tailrace.types.values import Texts

_PAIR = re.compile(r"""\s*("(?:[^"]|"")+"|[^\s"'=,]+)\s*=\s*(?:'((?:[^']|'')*)'\s*|([^,]*))(,|\Z)""")


def read_key(text: str, relation: Relation) -> tuple[KeyColumns, Key]:
    """The columns that are named, or the one of the key if none is, and their values. Raises UsageError for columns that the
    table does not have, for values that are none of their types, and for a value alone where the key has several columns."""
    columns = {column.name: column for column in relation.live_columns}
    pairs = _pairs(text)
    key = relation.primary_key or identity_columns(relation)
    if not pairs or (len(pairs) == 1 and next(iter(pairs)) not in columns and len(key) == 1):
        if len(key) != 1:
            raise UsageError(f"the key of table {relation} is not one column", hint=_hint(relation, key), sqlstate="42704")
        return _of_one(text, next(each for each in columns.values() if each.number == key[0]), relation, pairs)
    for name in pairs:
        if name not in columns:
            raise _no_column(name, relation, key)
    named = [columns[name] for name in pairs]
    return _read(named, tuple(_value(column, pairs[column.name]) for column in named), relation)


def _of_one(text: str, column: Column, relation: Relation, pairs: Mapping[str, str]) -> tuple[KeyColumns, Key]:
    """The value of the only column of the key; or what looks like NAME=VALUE, is no value of that column, and names none."""
    try:
        return _read([column], (_value(column, text),), relation)
    except UsageError:
        if not pairs:
            raise
        raise _no_column(next(iter(pairs)), relation, (column.number,)) from None


def _no_column(name: str, relation: Relation, key: tuple[int, ...]) -> UsageError:
    message = f'column "{name}" of relation "{relation.name}" does not exist'
    return UsageError(message, hint=_hint(relation, key), sqlstate="42703")


def _read(named: Sequence[Column], values: Key, relation: Relation) -> tuple[KeyColumns, Key]:
    found = columns_named(relation, [column.number for column in named])
    return KeyColumns(found.oid, found.numbers, found.names, as_compared=True), values


def _pairs(text: str) -> dict[str, str]:
    """Names and values; none if the text is not made of them."""
    pairs: dict[str, str] = {}
    at = 0
    while match := _PAIR.match(text, at):
        name, quoted, bare, behind = match.groups()
        read = split_identifiers(name)
        if not read or len(read) != 1:
            return {}
        pairs[read[0]] = bare if quoted is None else quoted.replace("''", "'")
        if not behind:
            return pairs
        at = match.end()
    return {}


def _value(column: Column, text: str) -> str:
    """The text as the column's type prints it."""
    try:
        stored = registry.parse_texts(Texts.of([text]), np.ones(1, np.bool_), column.live_type)
    except UsageError as error:
        error.context = error.context or f"column {quote_identifier(column.name)}"
        raise
    return registry.format_values(stored, column.live_type).to_list()[0]


def _hint(relation: Relation, key: tuple[int, ...]) -> str:
    names = {column.number: column.name for column in relation.live_columns}
    shown = ",".join(f"{quote_identifier(names[number])}=…" for number in key if number in names)
    return f"Write the key as {shown}." if shown else "The table has no key: name columns that tell the row, as name=value."
