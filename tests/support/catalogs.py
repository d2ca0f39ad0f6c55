"""A history of catalogs that nobody wrote: rows of catalogs as a table, each with the time for which it was there.

    history = history_of(
        *table(20000, "t", "id int4, v text", file=500, until=200),
        row("pg_class", oid=20001, relname="u", relfilenode=501, since=200),
    )

Times are LSNs: others see a row for `since` < LSN <= `until`. A transaction that is decoded, by its ordinal, sees what it made itself (`by`, at
`at`) and no longer what it unmade (`gone_by`, at `gone_at`), wherever it commits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.catalog.history.history import History
from tailrace.catalog.redo.replay import Versions
from tailrace.catalog.rows.catalog_rows import CatalogRows, CatalogTable, Names, Spans
from tailrace.model import Relation
from tailrace.transactions.commit_or_abort import NEVER

DATABASE = 5
TABLESPACE = 1663
PUBLIC = 2200
MAJOR = 16

_DEFAULTS: dict[str, dict[str, Any]] = {
    "pg_class": {
        "oid": 0, "relname": "", "relnamespace": PUBLIC, "relam": 2, "relfilenode": 0, "reltablespace": 0, "relpersistence": "p", "relkind": "r",
        "relreplident": "d", "relrewrite": 0, "relnatts": 1,
    },
    "pg_attribute": {
        "attrelid": 0, "attname": "", "atttypid": 23, "attlen": 4, "attnum": 1, "atttypmod": -1, "attalign": "i", "attnotnull": 0,
        "atthasmissing": 0, "attgenerated": "\0", "attisdropped": 0, "attmissingval": None,
    },
    "pg_type": {
        "oid": 0, "typname": "", "typnamespace": 11, "typlen": 4, "typtype": "b", "typdelim": ",", "typrelid": 0, "typsubscript": 0, "typelem": 0,
        "typalign": "i", "typbasetype": 0, "typtypmod": -1, "typbyval": 1, "typinput": 0, "typoutput": 0, "typreceive": 0, "typsend": 0,
    },
    "pg_proc": {"oid": 0, "prolang": 12, "prosrc": b""},
    "pg_namespace": {"oid": 0, "nspname": ""},
    "pg_replication_origin": {"roident": 0},
    "pg_index": {
        "indexrelid": 0, "indrelid": 0, "indnkeyatts": 1, "indisprimary": 1, "indimmediate": 1, "indisvalid": 1, "indislive": 1,
        "indisreplident": 0, "indkey": b"", "indpred": None,
    },
    "pg_enum": {"oid": 0, "enumtypid": 0, "enumsortorder": 0, "enumlabel": ""},
    "pg_range": {"rngtypid": 0, "rngsubtype": 0, "rngmultitypid": 0},
    "pg_database": {"oid": DATABASE, "dattablespace": TABLESPACE},
}  # fmt: skip
_NAMES = frozenset({"relname", "attname", "typname", "nspname", "enumlabel"})
_TIMES = ("since", "until", "by", "gone_by", "at", "gone_at")
TYPES = {"int4": (23, 4, "i"), "int8": (20, 8, "d"), "text": (25, -1, "i"), "mood": (20500, 4, "i")}
"""oid, length and alignment of the types that columns may have."""


@dataclass(frozen=True)
class Row:
    """A row of a catalog, and when it was there."""

    catalog: str
    values: dict[str, Any]
    since: int = 0
    until: int = int(NEVER)
    by: int = -1
    at: int = 0
    gone_by: int = -1
    gone_at: int = 0


def row(catalog: str, **given: Any) -> Row:
    """Its columns and its times, by name; what is not given is as in most rows."""
    times = {name: given.pop(name) for name in _TIMES if name in given}
    unknown = given.keys() - _DEFAULTS[catalog].keys()
    assert not unknown, f"{catalog} has no {unknown}"
    return Row(catalog, _DEFAULTS[catalog] | given, **times)


def table(oid: int, name: str, columns: str = "id int4", *, file: int = 0, **given: Any) -> list[Row]:
    """A row of pg_class, and those of pg_attribute, which were there for the same time."""
    times = {each: given.pop(each) for each in _TIMES if each in given}
    named = [column.split() for column in columns.split(", ")]
    rows = [row("pg_class", oid=oid, relname=name, relfilenode=file, relnatts=len(named), **given, **times)]
    return [*rows, *(attribute(oid, number, *each, **times) for number, each in enumerate(named, 1))]


def attribute(relation: int, number: int, name: str, kind: str, **when: int) -> Row:
    oid, length, align = TYPES[kind]
    return row(
        "pg_attribute", attrelid=relation, attnum=number, attname=name, atttypid=oid, attlen=length, attalign=align, **when
    )


def primary_key(relation: int, number: int, **when: int) -> Row:
    """An index on one column. indkey is an int2vector: a one-dimensional array, from 0."""
    vector = b"".join(each.to_bytes(4, "little") for each in (1, 0, 21, 1, 0)) + number.to_bytes(2, "little")
    return row("pg_index", indexrelid=relation + 1, indrelid=relation, indkey=vector, **when)


BUILT_IN = (
    row("pg_namespace", oid=11, nspname="pg_catalog"),
    row("pg_namespace", oid=PUBLIC, nspname="public"),
    row("pg_database"),
    row("pg_type", oid=23, typname="int4"),
    row("pg_type", oid=20, typname="int8", typlen=8, typalign="d"),
    row("pg_type", oid=25, typname="text", typlen=-1 & 0xFFFF),
)


class HistoryByHand(History):
    """See the module."""

    def __init__(self, rows: tuple[Row, ...], known_from: int) -> None:
        nothing = np.zeros(0, np.int64)
        super().__init__(
            Versions.none(), Spans(nothing, nothing, nothing, nothing), MAJOR, database=DATABASE, default_tablespace=TABLESPACE,
            known_from=known_from,
        )  # fmt: skip
        self._by_hand = {name: _table_of(name, [each for each in rows if each.catalog == name]) for name in _DEFAULTS}

    def table(self, name: str) -> CatalogTable:
        return self._by_hand[name]


def history_of(*rows: Row, known_from: int = 0) -> HistoryByHand:
    """With public and a few types, which were always there."""
    return HistoryByHand((*BUILT_IN, *rows), known_from)


def _table_of(catalog: str, rows: list[Row]) -> CatalogTable:
    columns: dict[str, Any] = {}
    names: dict[str, Names] = {}
    for name, default in _DEFAULTS[catalog].items():
        values = [each.values[name] for each in rows]
        if name in _NAMES:
            names[name] = Names(np.array([value.encode() for value in values], "S64"), "utf-8")
        elif default is None or isinstance(default, bytes):
            columns[name] = np.array([*values, None], object)[:-1]
        else:
            columns[name] = np.array([ord(value) if isinstance(value, str) else value for value in values], np.int64)
    times = (np.array([getattr(each, part) for each in rows], np.int64) for part in _TIMES)
    return CatalogTable(CatalogRows(columns, names, *times))


def told(relation: Relation | None) -> str:
    """A relation in few words: its name, its columns with types that are not int4, `*` for those of its replica identity."""
    if relation is None:
        return "nothing"
    columns = []
    for column in relation.live_columns:
        assert column.type is not None
        kind = "" if column.type.name == "int4" else f" {column.type.name}"
        labels = f" {'|'.join(label for _, label in column.type.labels)}" if column.type.labels else ""
        columns.append(f"{column.name}{'*' if column.number in relation.identity else ''}{kind}{labels}")
    return f"{relation.schema}.{relation.name}({', '.join(columns)})"
