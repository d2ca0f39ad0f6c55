"""Calls are found in Spark SQL where they are calls, and only there; one that might not run once says why."""

from __future__ import annotations

import pytest

from tailrace.errors import UsageError
from tailrace.sql.functions.runs_once import FROM, TARGET, VALUE
from tailrace.sql.functions.signatures import functions_of
from tailrace.sql.spark_sql.calls import call_with, call_written
from tailrace.sql.spark_sql.grammar import SparkStatement
from tailrace.sql.spark_sql.queries import ELSEWHERE, FoundName, found_in

FUNCTIONS = functions_of(16)
GET = "pg_logical_slot_get_changes"
CALL = f"{GET}('a', NULL, NULL)"


def found(text: str, *, escapes: bool = True) -> list[FoundName]:
    return found_in(SparkStatement.of(text, escapes=escapes), FUNCTIONS.keys(), lambda name: name == "pg_replication_slots")


@pytest.mark.parametrize(
    ("text", "where", "once"),
    [
        (f"SELECT * FROM {CALL}", FROM, True), (f"SELECT * FROM {CALL} WHERE data LIKE 'x%' LIMIT 1;", FROM, True),
        (f"FROM {CALL} |> WHERE xid = 1", FROM, True), (f"SELECT * FROM t JOIN {CALL} g ON t.a = g.xid", FROM, True),
        (f"SELECT * FROM t JOIN u ON t.a = u.a, {CALL}", FROM, True), (f"SELECT * FROM (SELECT * FROM {CALL}) q", FROM, True),
        (f"SELECT * FROM ({CALL} a CROSS JOIN t)", FROM, True), (f"(SELECT * FROM {CALL}) UNION ALL SELECT 1, 2, 3", FROM, True),
        (f"WITH q AS (SELECT * FROM {CALL}) SELECT * FROM q", FROM, True), (f"INSERT INTO t (a, b) SELECT * FROM {CALL}", FROM, True),
        (f"WITH q(a, b, c) AS (SELECT * FROM {CALL}) (SELECT a FROM q)", FROM, True),
        (f"INSERT INTO TABLE t WITH q AS (SELECT * FROM {CALL}) SELECT * FROM q", FROM, True),
        (f"SELECT extract(year FROM x) FROM {CALL}", FROM, True), (f"SELECT a IS DISTINCT FROM b FROM {CALL}", FROM, True),
        ("SELECT pg_drop_replication_slot('a')", TARGET, True), ("SELECT 1, (pg_drop_replication_slot('a')) AS x", TARGET, True),
        ("SELECT pg_drop_replication_slot('a') FROM t", VALUE, False), ("SELECT f(pg_drop_replication_slot('a'))", VALUE, False),
        ("SELECT pg_drop_replication_slot('a') WHERE true", VALUE, False), ("VALUES (pg_drop_replication_slot('a'))", VALUE, False),
        (f"SELECT (SELECT count(*) FROM {CALL})", FROM, False), (f"SELECT * FROM t WHERE x IN (SELECT xid FROM {CALL})", FROM, False),
        (f"SELECT * FROM t WHERE EXISTS (FROM {CALL})", FROM, False), (f"SELECT * FROM t, LATERAL (SELECT * FROM {CALL})", FROM, False),
        (f"SELECT * FROM t |> JOIN {CALL}", VALUE, False), (f"WITH q AS (SELECT * FROM {CALL}) SELECT 1", FROM, False),
        (f"WITH RECURSIVE q AS (SELECT * FROM {CALL}) SELECT * FROM q", FROM, False), (f"SELECT * FROM {CALL} LIMIT 0", FROM, False),
        (f"SELECT * FROM {CALL} WHERE NOT true", FROM, False), (f"FROM {CALL} INSERT INTO a SELECT * INSERT INTO b SELECT *", FROM, False),
        (f"EXPLAIN SELECT * FROM {CALL}", ELSEWHERE, False), (f"SELECT 1; SELECT * FROM {CALL}", ELSEWHERE, False),
        (f"CREATE VIEW v AS SELECT * FROM {CALL}", ELSEWHERE, False), (f"SELECT * FROM t LATERAL VIEW {CALL} x AS y", VALUE, False),
    ],
)  # fmt: skip
def test_where_a_call_stands(text: str, where: str, once: bool) -> None:
    (only,) = found(text)
    assert (only.where, not only.why_not) == (where, once)
    assert text[only.start : only.end] in (CALL, "pg_drop_replication_slot('a')")


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT '{GET}(1)'", f"SELECT 'it\\'s {GET}(1)'", f"SELECT 'it''s {GET}(1)'", f"SELECT r'\\' /* {GET}('a') /* */ {GET}() */",
        f"SELECT 1 -- {GET}('a')", f"SELECT 1 -- \\\n {GET}('a')", f'SELECT "{GET}(1)"', f"SELECT x AS {GET}", f"SELECT other.{GET}('a')",
        f"SELECT * FROM x.pg_catalog.{GET}('a')", f"SELECT * FROM `{GET}('a')`", "SELECT pg_replication_slots FROM t",
        "SELECT * FROM other.pg_replication_slots", "WITH pg_replication_slots AS (SELECT 1) SELECT * FROM pg_replication_slots",
    ],
)  # fmt: skip
def test_what_is_no_call(text: str) -> None:
    assert found(text) == []


def test_relations_are_found_wherever_a_query_is() -> None:
    text = "SELECT (SELECT max(slot_name) FROM `pg_replication_slots` x) FROM a, pg_catalog.pg_replication_slots WHERE y"
    assert [(text[each.start : each.end], each.is_bare) for each in found(text)] == [
        ("`pg_replication_slots`", False),
        ("pg_catalog.pg_replication_slots", True),
    ]


def test_backslashes_are_what_the_session_says() -> None:
    text = r"SELECT '\', pg_replication_origin_oid('x'), '\' --'"
    assert [each.name for each in found(text, escapes=False)] == ["pg_replication_origin_oid"]
    assert found(text) == []


@pytest.mark.parametrize("text", ["SELECT 'x", "SELECT `x", "SELECT (1", "SELECT 1)", "SELECT /* /* */", "SELECT (1]"])
def test_what_is_not_closed(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        found(text)
    assert raised.value.sqlstate == "42601"
    assert raised.value.position is not None


@pytest.mark.parametrize(
    ("written", "given", "named"),
    [
        ("'a', NULL, 3", ["a", None, 3], {}), ("'a', '0/16', 3, 'include-xids', '0'", ["a", "0/16", 3, "include-xids", "0"], {}),
        ("'a', pg_lsn '0/16', NULL, array('x', 'y')", ["a", 22, None, ["x", "y"]], {}),
        ("'a', lsn_value('0/16'), NULL", ["a", 22, None], {}),
        ("'a', CAST('0/16' AS pg_lsn), 3L, VARIADIC ARRAY['x', NULL]", ["a", "0/16", 3, ["x", None]], {}),
        ("slot_name => 'a', upto_lsn => 22, upto_nchanges => -1, options => array('x', 'y')", [],
         {"slot_name": "a", "upto_lsn": 22, "upto_nchanges": -1, "options": ["x", "y"]}),
    ],
)  # fmt: skip
def test_arguments_are_the_same_written_or_given(written: str, given: list[object], named: dict[str, object]) -> None:
    text = f"SELECT * FROM {GET}({written})"
    (only,) = found(text)
    assert only.arguments is not None
    call = call_written(FUNCTIONS[GET], FUNCTIONS, only.arguments, SparkStatement.of(text, escapes=True))
    assert call is not None
    other = call_with(FUNCTIONS[GET], FUNCTIONS, given, named)
    assert (call.arguments, call.options) == (other.arguments, other.options)
    assert call.arguments[0] == "a"


@pytest.mark.parametrize("argument", ["x", "'a' || 'b'", "'a' 'b'", "lower('A')", "(SELECT 'a')", ":name", "?", r"'a\n'"])
def test_what_is_no_constant(argument: str) -> None:
    text = f"SELECT * FROM {GET}({argument}, NULL, NULL)"
    (only,) = found(text)
    assert only.arguments is not None
    assert call_written(FUNCTIONS[GET], FUNCTIONS, only.arguments, SparkStatement.of(text, escapes=True)) is None


def test_errors_are_the_servers() -> None:
    for given, state in ((["a"], "42883"), (["a", "zz", None], "22P02"), (["a", None, "x"], "22P02"), ([1, None, None], "42883")):
        with pytest.raises(UsageError) as raised:
            call_with(FUNCTIONS[GET], FUNCTIONS, given, {})
        assert raised.value.sqlstate == state
