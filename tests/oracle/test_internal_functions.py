"""Base types that somebody made with functions of the server's own: they print, and travel, as the built-in types that have them."""

from __future__ import annotations

import pytest

from support.cases import DBNAME
from support.decoding import rows_of
from support.live import Slot
from support.normalise import print_rows
from support.pgoutput_rows import PLAIN, PUBLICATION, check_same, ours, theirs
from support.servers import Server
from tailrace.errors import UnsupportedWal

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
FUNCTIONS = """
CREATE FUNCTION {name}_in(cstring) RETURNS {name} LANGUAGE internal STRICT IMMUTABLE AS '{read}';
CREATE FUNCTION {name}_out({name}) RETURNS cstring LANGUAGE internal STRICT IMMUTABLE AS '{printed}';
CREATE FUNCTION {name}_send({name}) RETURNS bytea LANGUAGE internal STRICT IMMUTABLE AS '{sent}';
"""
LIKE = [
    # name, input, output, send, the rest of CREATE TYPE, a value of it
    ("words", "textin", "textout", "textsend", "", "it''s"),
    ("number", "int8in", "int8out", "int8send", ", LIKE = int8", "-70000000000"),
    ("short_number", "int4in", "int4out", "int4send", ", LIKE = int4", "7"),
    ("spot", "point_in", "point_out", "point_send", ", LIKE = point", "(1,2.5)"),
    ("moment", "timestamptz_in", "timestamptz_out", "timestamptz_send", ", LIKE = timestamptz", "2020-01-02 03:04:05+00"),
    ("hstore", "textin", "textout", "byteasend", "", "named as an extension''s"),
    ("amount", "numeric_in", "numeric_out", "numeric_send", ", LIKE = numeric", "12.340"),
    ("bits", "varbit_in", "varbit_out", "varbit_send", "", "101"),
]


def _types(connection: object) -> list[str]:
    statements = [f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES"]
    for name, read, printed, sent, more, _ in LIKE:
        takes = f"CREATE TYPE {name}; " + FUNCTIONS.format(name=name, read=read, printed=printed, sent=sent)
        statements.append(f"{takes} CREATE TYPE {name} (input = {name}_in, output = {name}_out, send = {name}_send {more})")
    statements += [
        "CREATE TYPE unsent; "
        + FUNCTIONS.format(name="unsent", read="textin", printed="textout", sent="textsend")
        + "CREATE TYPE unsent (input = unsent_in, output = unsent_out)",
        "CREATE DOMAIN few AS words; CREATE TYPE duo AS (a number, b words)",
        f"CREATE TABLE t (id int PRIMARY KEY, {', '.join(f'c_{name} {name}' for name, *_ in LIKE)}, list words[], d few, r duo, no unsent)",
        f"INSERT INTO t VALUES (1, {', '.join(repr_of(value) for *_, value in LIKE)}, '{{a,NULL,\"b c\"}}', 'd', '(5,\"x y\")', 'u')",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "UPDATE t SET c_words = 'other'",
    ]
    return statements


def repr_of(value: str) -> str:
    return f"'{value}'"


@pytest.mark.parametrize("major", [14, 15, 16, 17, 18])
def test_they_print_as_the_types_whose_functions_they_have(major: int) -> None:
    with Server(major) as server:
        server.say(f"CREATE DATABASE {DBNAME}", "CHECKPOINT")
        server.dbname = DBNAME
        start = Slot.on(server).start_lsn
        server.value("SELECT pg_create_logical_replication_slot('p', 'pgoutput')")
        with server.connect() as connection:
            for statement in _types(connection):
                connection.execute(statement.encode())
            # From here on it is another's: the one that decodes looks at the catalogs of the moment.
            connection.execute(
                "CREATE OR REPLACE FUNCTION words_out(words) RETURNS cstring LANGUAGE internal STRICT IMMUTABLE AS 'byteaout'"
            )
            connection.execute("INSERT INTO t (id, c_words) VALUES (3, 'as bytes')")
            got = connection.execute(
                "SELECT lsn::text, xid::text, data FROM pg_logical_slot_get_changes('s', NULL, NULL)"
            ).fetchall()
        expected = {binary: theirs(server, "p", {**PLAIN, "binary": binary}) for binary in ("false", "true")}
        server.stop()
        assert rows_of(server.data_dir, start_lsn=start) == print_rows(got)
        for binary, messages in expected.items():
            check_same(ours(server.data_dir, {**PLAIN, "binary": binary}, start_lsn=start, major=major), messages, binary)
    assert "c_hstore[hstore]:'named as an extension''s'" in print_rows(got)


def test_functions_that_are_no_type_s_stay_unknown() -> None:
    """One that is written in another language, and one that takes values of another length."""
    for name, body, more in (
        ("odd", "CREATE FUNCTION odd_out(odd) RETURNS cstring LANGUAGE internal STRICT IMMUTABLE AS 'array_out'", ""),
        (
            "wide",
            "CREATE FUNCTION wide_out(wide) RETURNS cstring LANGUAGE internal STRICT IMMUTABLE AS 'uuid_out'",
            ", internallength = 20",
        ),
    ):
        with Server(18) as server:
            server.say(f"CREATE DATABASE {DBNAME}", "CHECKPOINT")
            server.dbname = DBNAME
            start = Slot.on(server).start_lsn
            source = "textin" if name == "odd" else "interval_in"
            with server.connect() as connection:
                connection.execute(
                    f"CREATE TYPE {name}; CREATE FUNCTION {name}_in(cstring) RETURNS {name} LANGUAGE internal STRICT IMMUTABLE AS '{source}'; "
                    f"{body}; CREATE TYPE {name} (input = {name}_in, output = {name}_out {more}); CREATE TABLE t (v {name})".encode()
                )
                connection.execute("INSERT INTO t VALUES ('1')")
            server.stop()
            with pytest.raises(UnsupportedWal, match=f'cannot decode a value of type "{name}"'):
                rows_of(server.data_dir, start_lsn=start)
