"""Every type that a column may have, as a running server lists them, each with values to try.

Values are SQL expressions. Base types have theirs from `literals`; arrays, domains and row types are made of their parts' values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from literals import LITERALS  # type: ignore[import-not-found]
from server_types import describe_oid, literal, make_table, names_of, read_back, sent  # type: ignore[import-not-found]
from types_vectors import build  # type: ignore[import-not-found]

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.registry import TextStyle, format_binary, format_values, has_binary
from tailrace.types.values import Values

COLUMN_TYPES = """
    SELECT t.oid::int8, typtype FROM pg_type t LEFT JOIN pg_class c ON c.oid = typrelid
    WHERE typtype IN ('b', 'c', 'd', 'e', 'r', 'm') AND coalesce(relkind, 'c') IN ('c', 'r', 'v', 'm', 'f', 'p') ORDER BY 1
"""
"""A row type of an index or a sequence cannot be a column's, nor can one with a pseudo-type in it: those the server refuses."""
REFUSED = {"42P16", "42809", "42704"}
"""invalid_table_definition and its kin: what CREATE TABLE says of a type that no column may have."""
PREPARE = """
    CREATE TABLE live.counted (a int DEFAULT 1 + 2, b int, c text);
    INSERT INTO live.counted SELECT i % 3, i % 3, i % 5 FROM generate_series(1, 100) i;
    CREATE STATISTICS live.counts ON a, b, c FROM live.counted;
    ANALYZE live.counted;
"""
_STATISTICS = "(SELECT {} FROM pg_statistic_ext_data LIMIT 1)"
XML = "XMLPARSE(CONTENT '<a b=\"c\">it''s</a>')"
EXPRESSIONS = {
    "pg_node_tree": ["(SELECT adbin FROM pg_attrdef LIMIT 1)"],
    "pg_ndistinct": [_STATISTICS.format("stxdndistinct")],
    "pg_dependencies": [_STATISTICS.format("stxddependencies")],
    "pg_mcv_list": [_STATISTICS.format("stxdmcv")],
    "xml": [XML],
    "information_schema.yes_or_no": ["'YES'", "'NO'"],
    "information_schema.cardinal_number": ["0", "2147483647"],
}
"""Types whose input functions refuse all texts, or whose values are few."""
NO_VALUES = frozenset({"gtsvector", "pg_brin_bloom_summary", "pg_brin_minmax_multi_summary"})
"""Types of which no value ever reaches a table."""
MENTIONING_OTHERS = ("mood", "vectors", '"Odd table"', '"odd', "UPPER", "é")
"""Literals about things that only `record_vectors` makes."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A type, and how many rows with it came out as the server's in each form. `binary` is None where the server has none."""

    type: PgType
    rows: int
    values: int
    text: int
    binary: int | None

    @property
    def is_right(self) -> bool:
        return self.text == self.rows and self.binary in {None, self.rows}


def column_types(server: psycopg.Connection[Any]) -> list[PgType]:
    """All types of which the server lets a column be made."""
    server.execute("SET client_min_messages = error; DROP SCHEMA IF EXISTS live CASCADE; CREATE SCHEMA live")
    known: dict[int, dict[str, Any]] = {}
    found = []
    for oid, _ in server.execute(COLUMN_TYPES).fetchall():
        made = build(describe_oid(server, oid, known))
        try:
            make_table(server, f"live.t{oid}", full_name(made))
        except psycopg.Error as error:
            if error.sqlstate not in REFUSED:
                raise
            continue
        found.append(made)
    return found


def full_name(pg_type: PgType) -> str:
    """As CREATE TABLE wants it, whatever the search path."""
    if is_array(pg_type) and pg_type.element is not None:
        return full_name(pg_type.element) + "[]"
    return f'"{pg_type.schema}"."{pg_type.name}"'


def is_array(pg_type: PgType) -> bool:
    """int2vector and oidvector are subscripted as arrays are, but are types of their own."""
    return pg_type.kind == "a" and pg_type.name.startswith("_")


def try_all(server: psycopg.Connection[Any], data: Path) -> list[Tried]:
    """Every type: its values in a table, read from the file, printed and sent by us and by the server."""
    types = column_types(server)
    server.execute(PREPARE)
    for pg_type in types:
        rows = ", ".join(f"({value})" for value in ["NULL", *sample(pg_type)])
        if not has_xml(server):
            rows = rows.replace(XML, "NULL")
        server.execute(f"INSERT INTO live.t{pg_type.oid} VALUES {rows}")
    server.execute("CHECKPOINT")
    names = names_of(server)
    style = TextStyle(names=lambda reg_type, oid: names.get(f"{reg_type} {oid}"), major=server.info.server_version // 10000)
    return [_try(server, data, pg_type, style) for pg_type in types]


@cache
def has_xml(server: psycopg.Connection[Any]) -> bool:
    """Whether the server was built with libxml; without it there are no values of xml."""
    try:
        server.execute(f"SELECT {XML}")
    except psycopg.errors.FeatureNotSupported:
        return False
    return True


def sample(pg_type: PgType) -> list[str]:
    """A few values, as SQL expressions of exactly that type."""
    label, shown = full_name(pg_type), f"{pg_type.schema}.{pg_type.name}"
    own = EXPRESSIONS.get(pg_type.name) or EXPRESSIONS.get(shown)
    if pg_type.name in NO_VALUES:
        return []
    if own:
        return [f"{value}::{label}" for value in own]
    assert (
        is_array(pg_type) or pg_type.kind in "cd" or pg_type.label in LITERALS or pg_type.name in LITERALS or pg_type.name in LIKE
    ), pg_type
    if is_array(pg_type) and pg_type.element is not None:
        inner = sample(pg_type.element)[:3]
        listed = ", ".join([*inner, "NULL"])
        # No array is made of arrays, which these two are to the grammar of ARRAY[].
        odd = pg_type.element.name in {"int2vector", "oidvector"}
        square = [] if odd or not inner else [f"ARRAY[ARRAY[{inner[0]}], ARRAY[{inner[-1]}]]::{label}"]
        return [
            "'{}'::" + label,
            f"ARRAY[{listed}]::{label}" if not odd else f"array_append('{{}}'::{label}, {inner[0]})",
            *square,
        ]
    if pg_type.kind == "d" and pg_type.element is not None:
        return [f"{value}::{label}" for value in sample(pg_type.element)[:3]]
    if pg_type.kind == "c":
        parts = [sample(field.type) or ["NULL"] for field in pg_type.fields if field.type is not None]
        rows = [[part[-1] for part in parts], ["NULL" if place % 2 else part[0] for place, part in enumerate(parts)]]
        return [f"ROW({', '.join(row)})::{label}" for row in rows]
    texts = LITERALS.get(pg_type.label) or LITERALS.get(pg_type.name) or LITERALS[LIKE[pg_type.name]]
    small = [text for text in texts if len(text) < 40 and not any(word in text for word in MENTIONING_OTHERS)]
    if pg_type.name == "interval":
        small = [text for text in small if "infinity" not in text and not text.startswith("25620477")]  # refused before 17
    # Row types are made of the first and the last: those are to be short, so that a row of many columns fits a page.
    small.sort(key=lambda text: -abs(len(text) - 8))
    return [f"{literal(text)}::{label}" for text in small or texts]


LIKE = {
    "varchar": "varchar(3000)",
    "bpchar": "bpchar(10)",
    "bit": "bit(1)",
}


def _try(server: psycopg.Connection[Any], data: Path, pg_type: PgType, style: TextStyle) -> Tried:
    table = f"live.t{pg_type.oid}"
    rows = read_back(server, data, table, pg_type.length)
    values = Values.of_payloads([raw for _, raw in rows], pg_type.length)
    texts = format_values(values, pg_type, style).to_list()
    right = sum(ours == (theirs or "") for ours, (theirs, _) in zip(texts, rows, strict=True))
    there = int(values.valid.sum())
    theirs = sent(server, table)
    if theirs is None:
        assert _refuses_binary(values, pg_type, style), pg_type
        return Tried(pg_type, len(rows), there, right, None)
    assert has_binary(pg_type)
    forms = format_binary(values, pg_type, style).to_bytes()
    return Tried(pg_type, len(rows), there, right, sum(ours == (form or b"") for ours, form in zip(forms, theirs, strict=True)))


def _refuses_binary(values: Values, pg_type: PgType, style: TextStyle) -> bool:
    try:
        format_binary(values, pg_type, style)
    except UsageError as error:
        return error.sqlstate == "42883"
    return not np.any(values.valid)
