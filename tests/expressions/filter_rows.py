"""A table with a column of every type and rows of edge values, on a server and as stored values; and what filters do with both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from edge_values import VALUES

from tailrace.errors import UsageError
from tailrace.expressions.evaluate import Facts, Refused, compile_filter
from tailrace.expressions.node_tree import read_node_tree
from tailrace.model import Column
from tailrace.types.built_in import built_in_types
from tailrace.types.registry import parse_texts
from tailrace.types.style import TextStyle
from tailrace.types.values import Texts, Values

COLUMNS = {
    "b": "boolean", "i2": "smallint", "i4": "integer", "i8": "bigint", "f4": "real", "f8": "double precision", "n": "numeric", "m": "money",
    "o": "oid",
    "x": "xid", "x8": "xid8", "l": "pg_lsn", "td": "tid", "t": "text", "v": "character varying", "c": "character(5)", "nm": "name", "by": "bytea",
    "d": "date",
    "ti": "time without time zone", "tz": "time with time zone", "ts": "timestamp without time zone", "tt": "timestamp with time zone",
    "iv": "interval",
    "u": "uuid", "ip": "inet", "ci": "cidr", "ma": "macaddr", "m8": "macaddr8", "vb": "bit varying", "pt": "point", "ls": "lseg", "bx": "box",
    "pa": "path",
    "po": "polygon", "li": "line", "cr": "circle", "j": "json", "jb": "jsonb", "tv": "tsvector", "tq": "tsquery", "ia": "integer[]", "ta": "text[]",
    "na": "numeric[]", "r4": "int4range", "rn": "numrange", "rd": "daterange", "mr": "int4multirange", "t2": "text", "i4b": "integer",
    "f8b": "double precision",
}  # fmt: skip
ROWS = 36
LABELS = {pg_type.label: pg_type for pg_type in built_in_types().values()}


def value_of(name: str, row: int) -> str | None:
    """Rows go through the values of a type at a pace of the column's own, so that pairs vary; each column has NULLs."""
    if (row + len(name) * 7 + list(COLUMNS).index(name)) % 13 == 12:
        return None
    values = VALUES[COLUMNS[name].replace("(5)", "")]
    start = list(COLUMNS).index(name)
    return values[(row + (start * (1 + row // len(values)) if name[-1] in "2b" and len(name) > 1 else 0)) % len(values)]


def make_table(server: psycopg.Connection[Any]) -> None:
    columns = ", ".join(f"{name} {label}" for name, label in COLUMNS.items())
    server.execute(f"DROP TABLE IF EXISTS filtered CASCADE; CREATE TABLE filtered (id int PRIMARY KEY, {columns})")
    for row in range(ROWS):
        values = [value_of(name, row) for name in COLUMNS]
        casts = ", ".join(f"%s::text::{label}" for label in COLUMNS.values())
        server.execute(f"INSERT INTO filtered VALUES ({row}, {casts})", values)


def model_columns() -> list[Column]:
    found = [Column(1, "id", LABELS["integer"], -1, 4, 4)]
    for number, (name, label) in enumerate(COLUMNS.items(), 2):
        pg_type = LABELS[label.replace("(5)", "")]
        found.append(Column(number, name, pg_type, 9 if label == "character(5)" else -1, pg_type.length, pg_type.align))
    return found


def stored_rows(server: psycopg.Connection[Any]) -> dict[int, Values]:
    """The table's columns in stored form, by attribute number."""
    found = {}
    for column in model_columns():
        rows = server.execute(
            f"SELECT {column.name} IS NOT NULL, format('%s', {column.name}) FROM filtered ORDER BY id"
        ).fetchall()
        valid = np.array([row[0] for row in rows], np.bool_)
        assert column.type is not None
        found[column.number] = parse_texts(Texts.of([row[1] if row[0] else "" for row in rows]), valid, column.type)
    return found


@dataclass
class Outcome:
    """What became of a filter: `agrees`, `refused` with a reason, `invalid` on the server, or `wrong` with both answers."""

    kind: str
    said: str = ""


def judge(server: psycopg.Connection[Any], expression: str, stored: dict[int, Values], major: int) -> Outcome:
    server.execute("DROP PUBLICATION IF EXISTS judged")
    try:
        server.execute(f"CREATE PUBLICATION judged FOR TABLE filtered WHERE ({expression})".encode())
    except psycopg.Error as error:
        return Outcome("invalid", f"{error.diag.message_primary}: {error.diag.message_detail}")
    (tree_text,) = server.execute("SELECT prqual::text FROM pg_publication_rel").fetchone()  # type: ignore[misc]
    try:
        expected: Any = [
            row[0] is True for row in server.execute(f"SELECT ({expression}) FROM filtered ORDER BY id".encode()).fetchall()
        ]
    except psycopg.Error as error:
        expected = (error.diag.sqlstate, error.diag.message_primary)
    try:
        chosen = compile_filter(read_node_tree(tree_text), model_columns(), Facts(style=TextStyle(major=major)))
        found: Any = chosen.matches({number: stored[number] for number in chosen.columns}, ROWS).tolist()
    except Refused as error:
        return Outcome("refused", error.message)
    except UsageError as error:
        found = (error.sqlstate, error.message)
    return Outcome("agrees") if found == expected else Outcome("wrong", f"{expression}: expected {expected}, found {found}")
