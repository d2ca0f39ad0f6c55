"""Text taken apart into statements and commands, as psql does it."""

from __future__ import annotations

import pytest

from tailrace.sql.psql.scan import Command, Statement, StatementText, excerpt


def taken(*lines: str) -> list[str]:
    """What ends, and what is left."""
    text = StatementText()
    found = [each for line in lines for each in text.feed(line)] + text.rest()
    return [each.text if isinstance(each, Statement) else f"\\{each.name}|{each.rest}" for each in found]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["SELECT 1; SELECT 2;"], ["SELECT 1;", "SELECT 2;"]),
        (["SELECT", "  1", ";"], ["SELECT\n  1\n;"]),
        (["SELECT ';' , \";\" , $$;$$, $a$ $$; $a$;"], ["SELECT ';' , \";\" , $$;$$, $a$ $$; $a$;"]),
        (["SELECT E'\\';', 'a''b;';"], ["SELECT E'\\';', 'a''b;';"]),
        (["SELECT 'a", "b;", "c';"], ["SELECT 'a\nb;\nc';"]),
        (["-- no; statement", "SELECT 1 -- a; b", ";"], ["-- no; statement\nSELECT 1 -- a; b\n;"]),
        (["/* ; /* ; */ ; */ SELECT 1;"], ["/* ; /* ; */ ; */ SELECT 1;"]),
        (["CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2);"], ["CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2);"]),
        (["SELECT 1"], ["SELECT 1"]),
        (["-- nothing", ";;", ""], []),
        (["\\d t", "SELECT 1 \\g", "\\x"], ["\\d|t", "SELECT 1", "\\x|"]),
        (["SELECT $1a$;", "x$;"], ["SELECT $1a$;", "x$;"]),
        (["postgres=# SELECT 1;", " ?column? ", "(1 row)", "postgres=# -- said",
          "postgres=# SELECT", "postgres-# 2;"], ["SELECT 1;", "-- said\nSELECT\n2;"]),
        (["app=*> COMMIT;", "app=> SELECT a", "app-> FROM (SELECT", "app(> 1) q;"], ["COMMIT;", "SELECT a\nFROM (SELECT\n1) q;"]),
        (["SELECT a=# 1;"], ["SELECT a=# 1;"]),
        (["SELECT data", "->'a', f(slot_name", "=> 1,", "x-> 'b',", "y=> 2);"], ["SELECT data\n->'a', f(slot_name\n=> 1,\nx-> 'b',\ny=> 2);"]),
    ],
)  # fmt: skip
def test_statements_end_where_psql_ends_them(lines: list[str], expected: list[str]) -> None:
    assert taken(*lines) == expected


def test_the_prompt_says_what_is_open() -> None:
    text = StatementText()
    marks = []
    for line in ("", "SELECT (", "1), '", "', \"", '", $a$', "$a$, /*", "*/ 2", ";"):
        text.feed(line)
        marks.append(text.mark)
    assert marks == ["=", "(", "'", '"', "$", "*", "-", "="]


def test_what_is_typed_behind_what_was_pasted_counts() -> None:
    text = StatementText(typed=True)
    pasted = (
        "postgres=# SELECT 1;",
        " ?column? ",
        "----------",
        "        1",
        "(1 row)",
        "",
        "postgres=# BEGIN;",
        "BEGIN",
        "INSERT 0 1",
    )
    found = [each for line in (*pasted, "ERROR:  no", "LINE 1: SELECT", "SELECT 2;") for each in text.feed(line)]
    assert [each.text for each in found if isinstance(each, Statement)] == ["SELECT 1;", "BEGIN;", "SELECT 2;"]


def test_lines_are_counted() -> None:
    text = StatementText()
    found = [each for line in ("SELECT 1;", "", "SELECT", "2; \\gx", "\\q") for each in text.feed(line)]
    assert [(each.line, type(each)) for each in found] == [(1, Statement), (3, Statement), (5, Command)]


def test_the_excerpt_shows_the_line() -> None:
    assert excerpt("SELECT 1,\n  nonesuch\nFROM t", 13) == ("LINE 2:   nonesuch", "          ^")
