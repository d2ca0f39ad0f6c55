"""Row filters, and what servers made of them: `filters.txt` and `forbidden.txt` by family, `filters.json.gz` with the answers of majors 15 to 18.

    PYTHONPATH=src:tests python tests/expressions/recorded_filters.py          (records anew)

An answer is what CREATE PUBLICATION stored (prqual), its text (pg_get_expr), or its error: SQLSTATE, message, detail, hint, position in the filter.
"""

from __future__ import annotations

import gzip
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg

from support.servers import Server
from tailrace.expressions.analysis.catalog import FunctionRow, OperatorRow, UserObjects
from tailrace.expressions.expression_session import ExpressionSession
from tailrace.model import Column, PgType, Relation
from tailrace.types.built_in import built_in_type
from tailrace.types.style import TextStyle

FOLDER = Path(__file__).parent
RECORDED = FOLDER / "filters.json.gz"
MAJORS = (15, 16, 17, 18)
BEFORE = "CREATE PUBLICATION p FOR TABLE t WHERE ("
REFUSED_BY_US = {
    "jb @? '$.a'": "the input function of jsonpath is not written",
    "jsonb_path_exists(jb, '$.a')": "the input function of jsonpath is not written",
    "ts = '20200131 101112.5'": "a time of day without colons is not read",
    "nextval('sq') > 1": "the name behind a regclass is not known",
}
"""What we refuse, by name, and a server does not, or otherwise."""
SETTINGS = "SET search_path = rf, public; SET timezone = 'UTC'; SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres'"

PREPARE = """
CREATE SCHEMA rf;
SET search_path = rf, public;
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE DOMAIN dm AS int;
CREATE TYPE comp AS (q int, w text);
CREATE COLLATION mycoll FROM "C";
CREATE SEQUENCE sq;
CREATE FUNCTION uf(int) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT $1 > 1';
CREATE FUNCTION ueq(int, int) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT $1 = $2';
CREATE OPERATOR === (leftarg = int, rightarg = int, function = ueq);
CREATE TABLE t (
    i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric, n82 numeric(8,2), b bool, t text, v varchar(10), vv varchar, c char(5),
    nm name, ch "char", by bytea, d date, tm time, tz timetz, ts timestamp, tsz timestamptz, iv interval, u uuid, j json, jb jsonb,
    ip inet, ci cidr, mc macaddr, bt bit(8), vb varbit, o oid, ai int4[], at text[], av varchar(5)[], an numeric[], r int4range,
    nr numrange, tr tsrange, mr int4multirange, p point, bx box, ls pg_lsn, x xml, tv tsvector, tq tsquery, mo money,
    g int GENERATED ALWAYS AS (i4 + 1) STORED, e mood, em mood[], dm dm, cc comp, tc text COLLATE "C", tx text COLLATE "POSIX",
    ts3 timestamp(3), "Mixed Case" int, "select" int
)"""

ROWS = """SELECT attnum::int, attname::text, atttypid::int8, atttypmod, attlen::int, attgenerated::text,
CASE WHEN attcollation <> typcollation THEN attcollation::int END, typname::text, typtype::text, nspname::text, format_type(atttypid, NULL)
FROM pg_attribute JOIN pg_type y ON y.oid = atttypid JOIN pg_namespace s ON s.oid = typnamespace
WHERE attrelid = 'rf.t'::regclass AND attnum > 0 ORDER BY attnum"""


def families(name: str) -> dict[str, list[str]]:
    """The filters of a file, below the headings that they stand under."""
    found: dict[str, list[str]] = {}
    for line in (FOLDER / name).read_text().splitlines():
        if line.startswith("# "):
            found[line[2:]] = family = []
        elif line.strip():
            family.append(line)
    return found


def every_filter() -> list[str]:
    """Each of both files, once."""
    return list(
        dict.fromkeys(line for name in ("filters.txt", "forbidden.txt") for lines in families(name).values() for line in lines)
    )


@cache
def recorded() -> dict[str, Any]:
    return json.loads(gzip.decompress(RECORDED.read_bytes()))


def answer(connection: psycopg.Connection[Any], where: str) -> dict[str, Any]:
    """What the server says of a filter."""
    try:
        connection.execute(f"{BEFORE}{where})".encode())
    except psycopg.Error as error:
        told = error.diag
        at = None if told.statement_position is None else int(told.statement_position) - len(BEFORE)
        said = [told.sqlstate, told.message_primary, told.message_detail or "", told.message_hint or "", at]
        return {"error": said, "context": told.context or ""}
    row = connection.execute("SELECT prqual::text, pg_get_expr(prqual, prrelid) FROM pg_publication_rel").fetchone()
    connection.execute("DROP PUBLICATION p")
    assert row is not None
    return {"prqual": row[0], "text": row[1]}


def prepare(connection: psycopg.Connection[Any]) -> None:
    connection.execute(PREPARE.encode())
    connection.execute(SETTINGS.encode())


def columns(connection: psycopg.Connection[Any]) -> list[list[Any]]:
    return [list(row) for row in connection.execute(ROWS.encode()).fetchall()]


def recorded_session(major: int) -> tuple[ExpressionSession, Relation]:
    """The table and the database as they were when the answers of a major were recorded."""
    return session_and_relation(major, recorded()[str(major)]["columns"], recorded()[str(major)]["ucs_basic"])


def session_and_relation(major: int, rows: list[list[Any]], ucs_basic: int) -> tuple[ExpressionSession, Relation]:
    """What analysis is given: the table as its server describes it, and what the database has of its own. The oid of ucs_basic is fixed since 16."""
    user = {row[6 + 1]: _user_type(row, rows) for row in rows if built_in_type(row[2]) is None}
    made = tuple(
        Column(row[0], row[1], built_in_type(row[2]) or user[row[7]], row[3], row[4], 1, generated=row[5]) for row in rows
    )
    relation = Relation(16400, "rf", "t", "r", "p", "d", 0, made)
    int4 = 23
    objects = UserObjects(
        functions=(FunctionRow(16390, "uf", (int4,), 16, schema="rf"), FunctionRow(16391, "ueq", (int4, int4), 16, schema="rf")),
        operators=(OperatorRow(16392, "===", int4, int4, 16, 16391, schema="rf"),),
        collations={("rf", "mycoll"): 16393, ("pg_catalog", "ucs_basic"): ucs_basic},
    )
    collations = {row[0]: row[6] for row in rows if row[6] is not None}
    return ExpressionSession(major, TextStyle(search_path="rf, public", major=major), objects, collations), relation


def _user_type(row: list[Any], rows: list[list[Any]]) -> PgType:
    number, name, kind, schema, label = row[2], row[7], row[8], row[9], row[10]
    if name.startswith("_"):
        element = next(each for each in rows if each[7] == name[1:])
        return PgType(number, schema, name, label, "a", -1, 4, element=_user_type(element, rows))
    inner = built_in_type(23) if kind == "d" else None
    fields = (Column(1, "q", built_in_type(23), -1, 4, 4), Column(2, "w", built_in_type(25), -1, -1, 4)) if kind == "c" else ()
    labels = ((1, "sad"), (2, "happy")) if kind == "e" else ()
    return PgType(number, schema, name, label, kind, -1 if kind == "c" else 4, 4, element=inner, fields=fields, labels=labels)


def record() -> None:
    found: dict[str, Any] = {}
    for major in MAJORS:
        with Server(major) as server, server.connect() as connection:
            prepare(connection)
            found[str(major)] = {
                "columns": columns(connection),
                "ucs_basic": int(server.value("SELECT oid FROM pg_collation WHERE collname = 'ucs_basic'")),
                "answers": {where: answer(connection, where) for where in every_filter()},
            }
    RECORDED.write_bytes(gzip.compress(json.dumps(found, separators=(",", ":"), sort_keys=True).encode(), 9, mtime=0))


if __name__ == "__main__":
    record()
