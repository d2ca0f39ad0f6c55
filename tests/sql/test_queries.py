"""What is done with the rows of calls and views gives what the server gives, and prints as it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from sql.places import Said, our_columns, ours, session_on, their_columns, theirs
from support.servers import Server

GETS = "pg_logical_slot_peek_changes('a', NULL, NULL)"
QUERIES = [
    text.strip().replace("GETS", GETS)
    for text in (Path(__file__).with_name("queries.sql").read_text().split("\n", 1)[1]).split(";\n")
    if text.strip()
]
SETTINGS = (
    "SET bytea_output = 'escape'", "SET extra_float_digits = 0", "SET DateStyle = 'SQL, DMY'", "SET TimeZone = 'Asia/Kathmandu'",
    "SET IntervalStyle = 'iso_8601'",
)  # fmt: skip
STORY = (
    "CREATE TABLE t (i int primary key, v text)", "INSERT INTO t VALUES (1,'x'),(2,'y')", "UPDATE t SET v='z' WHERE i=2",
    "INSERT INTO t VALUES (3,NULL)", "CREATE TABLE p (f float8, b bytea, s timestamptz, i interval)",
    "INSERT INTO p VALUES (0.1::float4, '\\x00ff', '2026-01-02 03:04:05+00', '1 day 2 hours')", "COMMENT ON TABLE t IS 'a table'",
    "COMMENT ON COLUMN t.v IS 'wrong'", "COMMENT ON COLUMN t.v IS 'größer'",
)  # fmt: skip
FAILING = (
    "SELECT 1/0",
    f"SELECT length(data)/(length(data)-length(data)) FROM {GETS}",
    "SELECT 1%0",
    "SELECT 2147483647 + 1",
    "SELECT * FROM (VALUES (1,2)) a(i,i) NATURAL JOIN (VALUES (1)) b(i)",
    f"SELECT avg(lsn) FROM {GETS}",
    "SELECT * FROM generate_series(1, 3, 0)",
    "SELECT mod(1, 0)",
    "SELECT substr('abc', 1, -1)",
    "SELECT 9223372036854775807 + 1",
    "SELECT 'x'::int",
    "SELECT 3000000000::int",
    "SELECT 'abc'::bool",
    "SELECT '1.5'::float8, 'x'::float8",
    "SELECT '{\"a\": NaN}'::json",
    "SELECT '{} x'::json",
    "SELECT ''::json",
    "SELECT '{}'::json = '{}'::json",
    "SELECT '{}'::json -> true",
    "SELECT '{}'::json::int",
    "SELECT '{}'::json AS j ORDER BY 1",
)
CREATE = "SELECT pg_create_logical_replication_slot('a', 'test_decoding')"


@pytest.mark.postgres
@pytest.mark.parametrize("major", [pytest.param(each, marks=pytest.mark.matrix) for each in (14, 15, 16, 17, 18)])
def test_queries(major: int, tmp_path: Path) -> None:
    with Server(major) as server, session_on(server, tmp_path / "state") as session:
        for made in (ours(session, CREATE), theirs(server, CREATE)):
            assert not isinstance(made, Said)
        server.say(*STORY)
        different = []
        for query in QUERIES:
            got, expected = ours(session, query), theirs(server, query)
            assert not isinstance(expected, Said), (query, expected)
            if got != expected:
                different.append((query, got, expected))
            columns = our_columns(session, query), their_columns(server, query)
            if columns[0] != columns[1]:
                different.append((query, *columns))
        for query in FAILING:
            got, expected = ours(session, query), theirs(server, query)
            assert isinstance(expected, Said)
            if not isinstance(got, Said) or (got.sqlstate, got.message) != (expected.sqlstate, expected.message):
                different.append((query, got, expected))
        assert different == []


@pytest.mark.postgres
def test_parameters_hold_for_what_is_printed(tmp_path: Path) -> None:
    """Those of the session, for what the plugin prints as for the columns of a result."""
    with Server(16) as server, session_on(server, tmp_path / "state") as session, server.connect() as connection:
        ours(session, CREATE)
        theirs(server, CREATE)
        server.say(*STORY)
        for setting in SETTINGS:
            assert ours(session, setting) == []
            connection.execute(setting.encode())
        shown = [name.split()[1] for name in SETTINGS]
        for query in (f"SELECT data FROM {GETS}", *(f"SHOW {name}" for name in shown)):
            expected = [tuple(row) for row in connection.execute(query.encode()).fetchall()]
            assert ours(session, query) == expected
        binary = "SELECT data FROM pg_logical_slot_peek_binary_changes('a', NULL, 1)"
        raw = connection.pgconn.exec_(binary.encode())
        assert ours(session, binary) == [(raw.get_value(row, 0).decode(),) for row in range(raw.ntuples)]
        ours(session, "RESET DateStyle")
        assert ours(session, "SHOW DateStyle") == [("ISO, MDY",)]


@pytest.mark.postgres
def test_limits(tmp_path: Path) -> None:
    """upto_lsn, upto_nchanges and what a slot gives after them, beside a slot of the server's that goes the same way."""
    with Server(16) as server, session_on(server, tmp_path / "state") as session:
        ours(session, CREATE)
        theirs(server, CREATE)
        server.say(*STORY)
        rows = theirs(server, f"SELECT lsn FROM {GETS}")
        assert not isinstance(rows, Said)
        asked = [f"'{lsn}', NULL" for lsn in sorted({str(row[0]) for row in rows})] + [f"NULL, {most}" for most in range(12)]
        for limits in asked:
            query = f"SELECT * FROM pg_logical_slot_peek_changes('a', {limits})"
            assert ours(session, query) == theirs(server, query), limits
        for limits in ("NULL, 1", asked[-14], "NULL, 4", "NULL, NULL", "NULL, NULL"):
            query = f"SELECT * FROM pg_logical_slot_get_changes('a', {limits})"
            assert ours(session, query) == theirs(server, query), limits
