"""Row filters on text in databases whose encoding is not UTF8, and bytes that are no text of the client's."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from support.cases import DBNAME
from support.decoding import opened
from support.live import Slot
from support.pgoutput_rows import PLAIN, PUBLICATION, check_same, ours, their_error, theirs
from support.servers import Server
from tailrace.changes import change_batch
from tailrace.decode import decode
from tailrace.errors import UsageError
from tailrace.plugins.printing import as_lines, as_psql
from tailrace.plugins.test_decoding import TestDecoding

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
WORDS = {
    "SQL_ASCII": ["abé日", "Aé", "", "a b", "日本日本日本日本日本", "x'y\\z"],
    "EUC_JP": ["ab日本カｱ", "Aé", "", "a b", "日本日本日本日本日本", "｡日①丂"],
    "EUC_TW": ["中國ab", "國", "", "a b", "中國中國中國中國", "日b日"],
    "LATIN1": ["aéß", "Aé", "", "a b", "éééééééé", "x'y\\z"],
}
FILTERS = [
    "length(v) > 3", "char_length(v) = 2", "octet_length(v) > 5", "bit_length(v) % 16 = 0", "length(c) = 2", "octet_length(c) > 6",
    "left(v, 3) = left(v, 4)", "right(v, 2) = right(v, 3)", "length(substr(v, 3, 1)) = 1", "octet_length(substring(v from 2 for 2)) = 4",
    "octet_length(reverse(v)) > 6", "strpos(v, 'b') = 2", "position(w in v) > 2", "upper(v) = v", "lower(v) = v", "initcap(v) = v",
    "octet_length(lpad(v, 7, w)) > 8", "octet_length(rpad(v, 3)) > 4", "octet_length(repeat(v, 2)) > 12", "replace(v, w, 'b') = v",
    "octet_length(split_part(v, 'b', 2)) > 1", "octet_length(btrim(v, w || 'a')) > 3",
    "octet_length(translate(v, w, 'xy')) < octet_length(v)", "md5(v) < '8'", "v || 'x' > w", "starts_with(v, w)",
    "length(quote_literal(v)) > 4", "octet_length(overlay(v placing 'zz' from 2 for 2)) > 5", "octet_length(v::varchar(3)) > 3",
    "octet_length(v::char(3)) > 3", "cardinality(string_to_array(v, NULL)) > 3", "ascii(v) > 90 OR v = ''", "ascii(right(v, 1)) > 90",
    "chr(length(v) + 64) = 'C'", "chr(length(v) + 126) = 'C'",
]  # fmt: skip


@pytest.mark.parametrize("encoding", WORDS)
@pytest.mark.parametrize("major", [15, 18])
def test_functions_of_text_in_filters(major: int, encoding: str) -> None:
    client = "UTF8" if encoding != "SQL_ASCII" else "SQL_ASCII"
    with Server(major) as server:
        server.say(f"CREATE DATABASE {DBNAME} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0", "CHECKPOINT")
        server.dbname = DBNAME
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('p', 'pgoutput')"))
        with server.connect(client_encoding=client) as connection:
            connection.execute(b"CREATE TABLE t (id int PRIMARY KEY, v text, c char(6), w varchar)")
            connection.execute(b"ALTER TABLE t REPLICA IDENTITY FULL")
            for number, condition in enumerate(FILTERS):
                connection.execute(f"CREATE PUBLICATION f{number} FOR TABLE t WHERE ({condition})".encode())
            for row, word in enumerate(WORDS[encoding]):
                part = WORDS[encoding][(row + 1) % 3][:1]
                for text in (word, part):
                    connection.execute(b"INSERT INTO t VALUES (%s, %s, %s, %s)", [2 * row + (text is part), text, text[:2], part])
        seen = 0
        expected: list[Any] = []
        for number in range(len(FILTERS)):
            options = {**PLAIN, "publication_names": f"f{number}"}
            try:
                expected.append(theirs(server, "p", options))
            except psycopg.Error as error:
                expected.append((error.sqlstate, error.diag.message_primary))
        server.stop()
        for number, wanted in enumerate(expected):
            options = {**PLAIN, "publication_names": f"f{number}"}
            if isinstance(wanted, tuple):
                with pytest.raises(UsageError) as raised:
                    ours(server.data_dir, options, start_lsn=start, major=major)
                assert (FILTERS[number], raised.value.sqlstate, raised.value.message) == (FILTERS[number], *wanted)
                continue
            check_same(ours(server.data_dir, options, start_lsn=start, major=major), wanted, f"{encoding}: {FILTERS[number]}")
            seen += sum(message[:1] == b"I" for _, _, message in wanted)
    assert seen > 3 * len(FILTERS)


REFUSED = 'invalid byte sequence for encoding "UTF8": '


@pytest.mark.parametrize(
    ("major", "stored", "why"),
    [
        *((major, b"ab\\xe9", "0xe9 0x27") for major in (14, 15, 16, 17, 18)), (18, b"\\xc3\\xa9\\xff!", "0xff"),
        (18, b"\\xed\\xa0\\x80", "0xed 0xa0 0x80"), (18, b"\\xf5\\x80\\x80\\x80", "0xf5 0x80 0x80 0x80"), (18, b"\\x80", "0x80"),
        (18, b"\\xf0\\x9f\\x98", "0xf0 0x9f 0x98 0x27"), (18, b"\\xc0\\x80", "0xc0 0x80"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_utf8(major: int, stored: bytes, why: str) -> None:
    """What goes out as text is refused; what a walsender sends of a plugin that prints as it likes, is not; pgoutput's values are, either way."""
    with Server(major) as server:
        server.say(f"CREATE DATABASE {DBNAME} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0", "CHECKPOINT")
        server.dbname = DBNAME
        start = Slot.on(server).start_lsn
        server.value("SELECT pg_create_logical_replication_slot('p', 'pgoutput')")
        with server.connect(client_encoding="SQL_ASCII") as connection:
            connection.execute(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES".encode())
            connection.execute(b"CREATE TABLE t (id int PRIMARY KEY, v text)")
            connection.execute(b"INSERT INTO t VALUES (1, E'\\xc3\\xa9')")
            connection.execute(b"INSERT INTO t VALUES (2, E'" + stored + b"')")
        with pytest.raises(psycopg.errors.CharacterNotInRepertoire) as raised:
            server.sql("SELECT data FROM pg_logical_slot_peek_changes('s', NULL, NULL)")
        assert raised.value.diag.message_primary == REFUSED + why
        sent = [bytes(row[0]) for row in server.sql("SELECT data FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL)")]
        failures = {binary: their_error(server, "p", {**PLAIN, "binary": binary}) for binary in ("false", "true")}
        server.stop()
        plugin = TestDecoding()
        plugin.startup({}, major)
        pipeline = opened(server.data_dir, start_lsn=start, demand=plugin.demand)
        lines = list(pipeline.lines(plugin))
        assert b"".join(as_lines(each, plugin).tobytes() for each in lines) == b"".join(line + b"\n" for line in sent)
        with pytest.raises(UsageError) as refused:
            [as_psql(each, plugin) for each in lines]
        assert (refused.value.message, refused.value.sqlstate) == (REFUSED + why, "22021")
        plugin.context.set_parameters({"client_encoding": "sql_ascii"})
        assert sum(as_psql(each, plugin).tobytes().count(b"\n") for each in lines) == len(sent)
        for binary, (sqlstate, message, context) in failures.items():
            with pytest.raises(UsageError) as refused:
                ours(server.data_dir, {**PLAIN, "binary": binary}, start_lsn=start, major=major)
            assert (refused.value.sqlstate, refused.value.message) == (sqlstate, message)
            assert "in the change callback" in refused.value.context
            assert "in the change callback" in context
        with pytest.raises(UsageError, match="invalid byte sequence"):
            [
                change_batch(batch, pipeline.plan.transactions, codec=stretch.codec)
                for stretch in pipeline.plan.stretches
                for batch in decode(stretch, pipeline.source.segments.read)
            ]


@pytest.mark.parametrize("major", [14, 18])
@pytest.mark.parametrize(
    "statements",
    [
        [b'CREATE TABLE "a\xe9" (id int PRIMARY KEY)', b'INSERT INTO "a\xe9" VALUES (1)'],
        [b'CREATE TABLE t (id int PRIMARY KEY, "\xe9" int)', b"INSERT INTO t VALUES (1)"],
        [
            b'CREATE DOMAIN "d\xe9" AS int',
            b'CREATE DOMAIN e AS "d\xe9"',
            b'CREATE TABLE t (id "d\xe9" PRIMARY KEY)',
            b"INSERT INTO t VALUES (1)",
        ],
        [b"SELECT pg_logical_emit_message(true, '\xe9', 'x')"],
    ],
)
def test_names_that_are_no_utf8(major: int, statements: list[bytes]) -> None:
    with Server(major) as server:
        server.say(f"CREATE DATABASE {DBNAME} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0", "CHECKPOINT")
        server.dbname = DBNAME
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('p', 'pgoutput')"))
        with server.connect(client_encoding="SQL_ASCII") as connection:
            connection.execute(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES".encode())
            for statement in statements:
                connection.execute(statement)
        options = {**PLAIN, "messages": "true"}
        try:
            expected: Any = theirs(server, "p", options)
        except psycopg.Error as error:
            expected = (error.sqlstate, error.diag.message_primary)
        server.stop()
        if not isinstance(expected, tuple):
            check_same(ours(server.data_dir, options, start_lsn=start, major=major), expected, "names")
            return
        with pytest.raises(UsageError) as refused:
            ours(server.data_dir, options, start_lsn=start, major=major)
        assert (refused.value.sqlstate, refused.value.message) == expected
