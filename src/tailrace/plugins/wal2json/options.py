"""wal2json's options, as it reads them, and in its words where it cannot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, fields
from typing import Any, NamedTuple

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.settings import bool_option, parse_int

LATEST_FORMAT, FIRST_FORMAT = 2, 1
ACTIONS = ("insert", "update", "delete", "truncate")
_INVALID_NAME, _INVALID_VALUE, _NOT_SUPPORTED = "42602", "22023", "0A000"
_SPACES = " \t\n\v\f\r"


class Tables(NamedTuple):
    """A pattern of `filter-tables` and `add-tables`: `schema.table`, where `*` is any. None is any, too."""

    schema: str | None
    table: str | None

    def match(self, schema: str, table: str) -> bool:
        return self.schema in (None, schema) and self.table in (None, table)


EVERY_TABLE = Tables(None, None)


@dataclass(frozen=True, slots=True)
class Wal2JsonOptions:
    """By the names that wal2json has for them."""

    include_transaction: bool = True
    include_xids: bool = False
    include_timestamp: bool = False
    include_origin: bool = False
    include_schemas: bool = True
    include_types: bool = True
    include_type_oids: bool = False
    include_typmod: bool = True
    include_domain_data_type: bool = False
    include_column_positions: bool = False
    include_not_null: bool = False
    include_default: bool = False
    include_pk: bool = False
    numeric_data_types_as_string: bool = False
    pretty_print: bool = False
    write_in_chunks: bool = False
    include_lsn: bool = False
    actions: frozenset[str] = field(default=frozenset(ACTIONS))
    filter_origins: tuple[int, ...] = ()
    filter_tables: tuple[Tables, ...] = ()
    add_tables: tuple[Tables, ...] = (EVERY_TABLE,)
    filter_msg_prefixes: tuple[str, ...] = ()
    add_msg_prefixes: tuple[str, ...] = ()
    format_version: int = FIRST_FORMAT

    def writes_table(self, schema: str, table: str) -> bool:
        """Whether changes of it are written."""
        if any(each.match(schema, table) for each in self.filter_tables):
            return False
        return any(each.match(schema, table) for each in self.add_tables)

    def writes_prefix(self, prefix: str) -> bool:
        """Whether messages with it are written."""
        return prefix not in self.filter_msg_prefixes and (not self.add_msg_prefixes or prefix in self.add_msg_prefixes)


FLAGS = {each.name.replace("_", "-"): each.name for each in fields(Wal2JsonOptions) if each.type == "bool"}


def parse_options(options: Mapping[str, str | None]) -> Wal2JsonOptions:
    """In the order in which they are given. Raises UsageError."""
    parsed: dict[str, Any] = {}
    for name, value in options.items():
        attribute = name.replace("-", "_")
        if name in FLAGS:
            parsed[attribute] = bool_option(name, value)
        elif name == "include-unchanged-toast":
            raise UsageError(f'parameter "{name}" was deprecated', sqlstate=_INVALID_NAME)
        elif name == "format-version":
            parsed[attribute] = _format_version(name, value)
        elif name in _LISTS:
            if value is not None or name == "add-tables":
                parsed[attribute] = _LISTS[name](name, value)
        else:
            raise UsageError(
                f'option "{name}" = "{value if value is not None else "(null)"}" is unknown', sqlstate=_INVALID_VALUE
            )
    return Wal2JsonOptions(**parsed)


def _format_version(name: str, value: str | None) -> int:
    version = LATEST_FORMAT if value is None else parse_int(value)
    if version is None:
        raise _unreadable(name, value or "", _INVALID_VALUE)
    if not FIRST_FORMAT <= version <= LATEST_FORMAT:
        bound = f"{LATEST_FORMAT} or lower" if version > LATEST_FORMAT else f"{FIRST_FORMAT} or higher"
        raise UsageError(f"client sent format_version={version} but we only support format {bound}", sqlstate=_NOT_SUPPORTED)
    return version


def _unreadable(name: str, value: str, sqlstate: str) -> UsageError:
    return UsageError(f'could not parse value "{value}" for parameter "{name}"', sqlstate=sqlstate)


def _items(name: str, value: str, *, may_be_empty: bool = False) -> Iterator[str]:
    """Between commas, without white space around them. What stands behind a backslash separates nothing; the backslash stays."""
    text = value.lstrip(_SPACES)
    while text:
        found = re.match(r"(?:\\.|[^,\s\\])*", text, re.DOTALL | re.ASCII)
        item = found[0] if found else ""
        rest = text[len(item) :].lstrip(_SPACES)
        if (not item and not may_be_empty) or (rest and not rest.startswith(",")):
            raise _unreadable(name, value, _INVALID_NAME)
        yield item
        if not rest:
            return
        text = rest[1:].lstrip(_SPACES)
        if not text:  # a comma at the end: an item that is empty
            if not may_be_empty:
                raise _unreadable(name, value, _INVALID_NAME)
            yield ""


def _texts(name: str, value: str | None) -> tuple[str, ...]:
    return tuple(_items(name, value or ""))


def _actions(name: str, value: str | None) -> frozenset[str]:
    items = _texts(name, value)
    for item in items:
        if item not in ACTIONS:
            raise _unreadable(name, item, _INVALID_VALUE)
    return frozenset(items)


def _origins(name: str, value: str | None) -> tuple[int, ...]:
    """As atoi() reads them: what is no number is 0, which no origin is."""
    numbers = (re.match(r"[+-]?\d+", item) for item in _items(name, value or "", may_be_empty=True))
    return tuple(sorted({int(number[0]) & 0xFFFFFFFF for number in numbers if number} - {0}))


def _tables(name: str, value: str | None) -> tuple[Tables, ...]:
    return tuple(_table(name, value or "", item) for item in _items(name, value or ""))


def _table(name: str, value: str, item: str) -> Tables:
    found = re.match(r"((?:\\.|[^.\\])*)\.(.*)\Z", item, re.DOTALL)
    if found is None:
        raise _unreadable(name, value, _INVALID_NAME)
    schema, table = found[1], found[2]
    return Tables(None if schema == "*" else _unescaped(schema), None if table == "*" else _unescaped(table))


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


_LISTS: dict[str, Callable[[str, str | None], object]] = {
    "actions": _actions, "filter-origins": _origins, "filter-tables": _tables, "add-tables": _tables, "filter-msg-prefixes": _texts,
    "add-msg-prefixes": _texts,
}  # fmt: skip


MEANINGS = {
    "format-version": "1, an object a transaction, or 2, an object a change (1)",
    "include-transaction": "objects for BEGIN and COMMIT (on; format 2)",
    "include-xids": "the transaction's xid (off)",
    "include-timestamp": "when it committed, in TimeZone (off)",
    "include-origin": "the number of its replication origin (off)",
    "include-lsn": "positions; of BEGIN and COMMIT also where the next record begins (off)",
    "include-schemas": "schemas of tables (on)",
    "include-types": "types of columns, with their modifiers (on)",
    "include-type-oids": "oids of types (off)",
    "include-domain-data-type": "of a domain the type beneath (off)",
    "include-not-null": "whether a column may be NULL (off)",
    "include-column-positions": "attribute numbers (off)",
    "include-pk": "columns of the primary key (off)",
    "numeric-data-types-as-string": "numbers in quotes, NaN and infinities instead of null (off; since wal2json 2.6)",
    "include-default": "expressions of defaults, in quotes as they are (off)",
    "include-typmod": "types with their modifiers and in SQL's words, as varchar(4) and integer; off: their names in pg_type (on; format 1)",
    "pretty-print": "lines and tabs (off; format 1)",
    "write-in-chunks": "a row for each part of a transaction (off; format 1)",
    "actions": "of insert, update, delete, truncate those to tell (all)",
    "filter-tables, add-tables": "tables not to tell, and those to tell alone: schema.table with commas between them, * for any",
    "filter-msg-prefixes, add-msg-prefixes": "prefixes of logical messages, likewise",
    "filter-origins": "numbers of replication origins nothing of which is told",
}
"""For the reference."""
