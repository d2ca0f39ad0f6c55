"""Databases in other encodings than UTF8: what leaves is UTF-8, as the server converts it for its client."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cases import DBNAME
from support.decoding import opened, rows_of, text_of
from support.encodings import DIGESTS, digest, our_map, server_map
from support.live import Slot
from support.normalise import print_rows
from support.pgoutput_rows import PLAIN, PUBLICATION, check_same, ours, theirs
from support.servers import Server
from tailrace.changes import change_batch
from tailrace.decode import decode
from tailrace.pipeline import LocalRunner, Source, capture

pytestmark = pytest.mark.matrix
WORDS = {
    "LATIN1": ("é", "Ünïcödé", "ß'\\ñ"),
    "LATIN9": ("€", "Œuvre", "ž'š"),
    "WIN1251": ("привет", "Ж'ё", "мир€"),
    "KOI8R": ("привет", "Ж'ё", "мир"),
    "WIN1252": ("€", "“smart”", "’tis"),
    "EUC_JP": ("日本", "漢字'カナ①", "ひらがな～"),
    "EUC_KR": ("한국", "서울'시", "말€"),
    "EUC_CN": ("中国", "汉字'x", "国"),
    "EUC_TW": ("中國", "漢字'x", "國"),
    "EUC_JIS_2004": ("日本", "か゚'俱", "𠂉～"),
    "SQL_ASCII": ("é", "日本", "ж"),
}


@pytest.mark.marathon
@pytest.mark.parametrize("major", [14, 18])
def test_every_code_of_every_encoding(major: int) -> None:
    """What the server prints we print, and what it refuses we refuse in its words."""
    with Server(major) as server:
        for encoding in DIGESTS:
            theirs, ours = server_map(server, encoding), our_map(encoding)
            different = [(code.hex(), theirs[code], ours[code]) for code in sorted(theirs) if ours[code] != theirs[code]]
            assert (encoding, different[:5]) == (encoding, [])
            assert digest(theirs) == DIGESTS[encoding]


@pytest.mark.parametrize(("encoding", "major"), [("LATIN1", 14), ("EUC_JP", 14), *((each, 18) for each in WORDS)])
def test_words(encoding: str, major: int, tmp_path: Path) -> None:
    table, label, word = WORDS[encoding]
    quoted, literal = word.replace("'", "''"), label.replace("'", "''")
    with Server(major) as server:
        server.say(f"CREATE DATABASE {DBNAME} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0", "CHECKPOINT")
        server.dbname = DBNAME
        with server.connect() as connection:
            start = Slot.on(server).start_lsn
            if encoding == "SQL_ASCII":
                connection.execute("SET client_encoding = SQL_ASCII")

            def run(statement: str) -> None:
                connection.execute(statement.encode())

            run(f"CREATE TYPE mood AS ENUM ('{literal}', 'plain')")
            run(f'CREATE TABLE "{table}" (id int PRIMARY KEY, "{table}" text, c char(12), m mood, j jsonb, a text[], r regclass)')
            values = (
                f"1, '{quoted}', '{quoted}', '{literal}', '{{\"k\": \"{table}\"}}', ARRAY['{quoted}', NULL, ''], '\"{table}\"'"
            )
            run(f'INSERT INTO "{table}" VALUES ({values})')
            run(f"INSERT INTO \"{table}\" VALUES (2, 'plain', 'plain', 'plain', '{{}}', NULL, NULL)")
            run(f'UPDATE "{table}" SET "{table}" = repeat(\'{quoted}\', 3000) WHERE id = 1')
            run(f'ALTER TABLE "{table}" REPLICA IDENTITY FULL')
            run(f'DELETE FROM "{table}" WHERE id = 1')
            run("CREATE TYPE pair AS (a int, b text); CREATE TYPE words AS RANGE (subtype = text)")
            run("CREATE TABLE containers (p pair, ps pair[], w words, v tsvector, q tsquery, j jsonpath)")
            inside = f"ROW(1, '{quoted}'), ARRAY[ROW(2, '{table} x')::pair], words('{table}', NULL), '{table}:1A', '{table} & b', '$.\"{table}\"'"
            run(f"INSERT INTO containers VALUES ({inside})")
            run(f"SELECT pg_logical_emit_message(true, '{table}', '{quoted}')")
            client = "SQL_ASCII" if encoding == "SQL_ASCII" else "UTF8"
            data = f"lsn::text, xid::text, convert_to(data, '{client}')"
            got = connection.execute(f"SELECT {data} FROM pg_logical_slot_get_changes('s', NULL, NULL)").fetchall()
        server.stop()
        theirs = print_rows((_text(lsn), _text(xid), _text(data)) for lsn, xid, data in got).encode()
        state = capture(Source.open(server.data_dir), LocalRunner(1), DBNAME)
        pipeline = opened(server.data_dir, start_lsn=start)
        ours = text_of(pipeline, {}).encode()
        rows = [
            row
            for stretch in pipeline.plan.stretches
            for batch in decode(stretch, pipeline.source.segments.read)
            if batch.relation.name == table
            for row in change_batch(batch, pipeline.plan.transactions, codec=stretch.codec).to_pylist()
        ]
    assert ours == theirs
    assert state.database_name == "app"
    first = rows[0]["new"]
    assert (first[table], first["m"], first["a"]) == (word, label, [word, None, ""])
    assert word.encode() in theirs


@pytest.mark.parametrize(("encoding", "major"), [(each, 18) for each in ("LATIN1", "WIN1252", "EUC_JP")] + [("EUC_KR", 14)])
def test_binary_forms(encoding: str, major: int) -> None:
    """Characters in the midst of a value come in the client's encoding, and lengths as the server counts them."""
    _, label, word = WORDS[encoding]
    quoted, letters = word.replace("'", "''"), "".join(letter for letter in label if letter.isalpha()) or "z"
    with Server(major) as server:
        server.say(f"CREATE DATABASE {DBNAME} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0", "CHECKPOINT")
        server.dbname = DBNAME
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('b', 'pgoutput')"))
        with server.connect() as connection:
            for statement in (
                f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES",
                "CREATE EXTENSION hstore; CREATE EXTENSION citext; CREATE EXTENSION ltree",
                "CREATE TYPE mood AS ENUM ('plain', '"
                + quoted
                + "'); CREATE DOMAIN short AS text; CREATE DOMAIN shorts AS text[]",
                "CREATE TYPE pair AS (a int, b text, c mood); CREATE TYPE words AS RANGE (subtype = text)",
                "CREATE TABLE t (id int PRIMARY KEY, a text[], v varchar(40)[], j jsonb, p pair, ps pair[], w words, d short, ds shorts, m mood[],"
                ' x xml, n name, c char(9), h hstore, i citext, l ltree, ts tsvector, tq tsquery, jp jsonpath, js json[], b bytea, ch "char")',
                f"INSERT INTO t VALUES (1, ARRAY['{quoted}', NULL, 'a'], ARRAY['{quoted}'], '{{\"{letters}\": [\"{letters}\"]}}',"
                f" ROW(1, '{quoted}', '{quoted}'), ARRAY[ROW(2, '{quoted}', NULL)::pair], words('{quoted}', NULL), '{quoted}', ARRAY['{quoted}'],"
                f" ARRAY['{quoted}', 'plain']::mood[], '<a>{letters}</a>', '{quoted}', '{letters}',"
                f" hstore(ARRAY['{quoted}', '{letters}', 'n', NULL]),"
                f" '{quoted}', 'a.b', '{letters}:1A b', '{letters} & !b', '$.\"{letters}\"',"
                f" ARRAY['\"{letters}\"']::json[], '{letters}'::text::bytea, 'z')",
            ):
                connection.execute(statement.encode())
        options = {**PLAIN, "binary": "true"}
        expected = theirs(server, "b", options)
        server.stop()
        found = ours(server.data_dir, options, start_lsn=start, major=major)
        check_same(found, expected, encoding)
        assert any(message[:1] == b"I" and message.count(b"b") > 20 for _, _, message in found)


def _text(value: str | bytes) -> str:
    """What psycopg leaves as bytes where the client's encoding is SQL_ASCII."""
    return value if isinstance(value, str) else bytes(value).decode()


@pytest.mark.parametrize("major", [14, 18])
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "UTF8"])
def test_collations_of_other_encodings(encoding: str, major: int) -> None:
    """They are not found without their schema, and hide nothing."""
    with Server(major) as server:
        server.say(f"CREATE DATABASE {DBNAME} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0", "CHECKPOINT")
        server.dbname = DBNAME
        with server.connect(client_encoding="SQL_ASCII") as connection:
            start = Slot.on(server).start_lsn
            connection.execute("CREATE TABLE t (of text, c regcollation)")
            connection.execute("INSERT INTO t SELECT 'all', oid FROM pg_collation ORDER BY oid")
            for name in ("ucs_basic", "C", "und-x-icu", "mine"):
                connection.execute(f"CREATE COLLATION \"{name}\" (LOCALE = 'C')")
            connection.execute("INSERT INTO t SELECT 'beside', oid FROM pg_collation WHERE collencoding <> -1 OR oid >= 16384")
            connection.execute("INSERT INTO t VALUES ('names', 'ucs_basic'), ('names', '\"C\"')")
            got = connection.execute(
                "SELECT lsn::text, xid::text, data FROM pg_logical_slot_get_changes('s', NULL, NULL)"
            ).fetchall()
        server.stop()
        theirs = print_rows((_text(lsn), _text(xid), _text(data)) for lsn, xid, data in got)
        assert rows_of(server.data_dir, start_lsn=start) == theirs
    assert ("c[regcollation]:'pg_catalog.ucs_basic'" in theirs) == (encoding != "UTF8")
