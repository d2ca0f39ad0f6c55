"""Names of tables, as people write them: what PostgreSQL's own parser makes of them is the oracle."""

from __future__ import annotations

import random

import psycopg
import pytest

from support.servers import Server
from tailrace.catalog.names.qualified_names import read_identifiers, read_table_name, write_table_name
from tailrace.errors import UsageError

WRITTEN = (
    "a", "A", " a . b ", "a.b.c", '"A"', '"a"".b"', '"q.r".s', 'q."r.s"', '""', '""."x"', 'a"b', 'a"b.c', '"a"b', '"a', "a.", ".a", "a..b", "",
    " ", "a b", "Ä.ö", '"x/y"', "a\\b", 'a."\n"', "\ta\n", "a,b", "a.b.", '"a" . "b"', "1a", "$", "a'b",
)  # fmt: skip


def _of_server(connection, text):
    """`parse_ident` is stricter about what a name may begin with; `pg_get_serial_sequence` and its like call SplitIdentifierString, whose list of
    names shows in what they say is not there."""
    try:
        connection.execute("SELECT row_security_active(%s::text)", [text])
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary
    return None


@pytest.mark.postgres
def test_as_the_server_reads_them():
    alphabet = 'aB". \t\\/é'
    chance = random.Random(1)
    made = ["".join(chance.choices(alphabet, k=chance.randrange(9))) for _ in range(1500)]
    with Server(18, test_decoding=False) as server, server.connect() as connection:
        connection.autocommit = True
        connection.execute("SET search_path = public")
        for text in (*WRITTEN, *made):
            state, message = _of_server(connection, text)
            if state == "42602":
                with pytest.raises(UsageError, match=message) as raised:
                    read_identifiers(text)
                assert raised.value.sqlstate == state, text
                continue
            names = read_identifiers(text)
            if len(names) <= 2:
                assert message in (f'relation "{".".join(names)}" does not exist', f'schema "{names[0]}" does not exist'), text
                continue
            with pytest.raises(UsageError) as raised:
                read_table_name(text)
            assert raised.value.sqlstate == state, text


def test_there_and_back():
    for schema, name in (("public", "orders"), ("q.r", 's"'), ("A", "select"), ("", " "), ("é", "x\\/y")):
        assert read_table_name(write_table_name(schema, name)) == (schema, name)
    assert read_table_name("Orders") == ("public", "orders")
    assert write_table_name("public", "orders") == "public.orders"
    assert write_table_name("public", "do.t") == 'public."do.t"'
