"""What drivers and their users ask first, by simple queries: answered as the server answers, with its columns, types and tags."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from support.served import Served
from support.servers import Server

pytestmark = pytest.mark.postgres
MAJORS = [pytest.param(each, marks=[] if each == 18 else pytest.mark.matrix) for each in (18, 14, 15, 16, 17)]
STORY = (
    "CREATE SCHEMA shop", "CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE TABLE a (id int PRIMARY KEY, m mood[], v varchar(3) DEFAULT 'x')",
    "CREATE TABLE shop.items (id int, p numeric(10,2))", "CREATE TABLE part (k int) PARTITION BY LIST (k)",
    "CREATE TABLE part1 PARTITION OF part FOR VALUES IN (1) PARTITION BY LIST (k)", "CREATE TABLE part2 PARTITION OF part1 FOR VALUES IN (1)",
    "CREATE PUBLICATION pa FOR TABLE a, shop.items",
)  # fmt: skip
PARAMETERS = (
    "SET extra_float_digits = 3", "SET application_name = 'PostgreSQL JDBC Driver'", "SET statement_timeout = 0", "SET lock_timeout = 0",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "SET TIME ZONE 'UTC'", "SET datestyle TO 'ISO'", "SET client_encoding = 'UTF8'",
    "SET NAMES 'UTF8'", "SET standard_conforming_strings = on", "SET session_replication_role = replica", "RESET session_replication_role",
    "SET SESSION AUTHORIZATION DEFAULT", "SET ROLE NONE", "SET search_path = shop, public", "SHOW search_path", "SHOW TRANSACTION ISOLATION LEVEL",
    "SHOW client_encoding", "SHOW standard_conforming_strings", "SHOW wal_level", "SHOW statement_timeout", "SHOW TIME ZONE",
    "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ", "SAVEPOINT a", "RELEASE a", "COMMIT", "BEGIN", "ROLLBACK",
)  # fmt: skip
QUERIES = (
    "SELECT current_schema(), current_database(), current_user, session_user", "SELECT current_schemas(true)", "SELECT current_schemas(false) AS x",
    "SELECT current_setting('server_version_num')::int / 10000", "SELECT upper(current_user::text), length(version()) > 0 AS v, 1 AS one",
    "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE '0/0'::pg_lsn END AS lsn",
    "SELECT 1 WHERE current_user = 'postgres'", "SELECT datname FROM pg_database WHERE datname = current_database()",
    "SELECT rolname, rolcanlogin FROM pg_roles WHERE rolname = current_user",
    "SELECT count(*) FROM pg_class WHERE relkind = ANY(ARRAY['r', 'p']) AND relname IN ('a', 'part')",
    "SELECT 'a'::regclass, 'shop.items'::regclass::oid > 0", "SELECT to_regclass('nonesuch'), to_regclass('shop.items')",
    "SELECT attname, format_type(atttypid, atttypmod), pg_get_expr(adbin, adrelid) FROM pg_attribute LEFT JOIN pg_attrdef ON"
    " adrelid = attrelid AND adnum = attnum WHERE attrelid = 'a'::regclass AND attnum > 0 ORDER BY attnum",
    "SELECT typname, typarray > 0 AS x, oid::regtype::text, typdelim FROM pg_type WHERE oid = to_regtype('mood')",
    "SELECT 'integer'::regtype, 'int8'::regtype", "SELECT 'nonesuch'::regclass", "SELECT 'nonesuch'::regtype",
    "SELECT n.nspname = ANY(current_schemas(true)) FROM pg_namespace n WHERE nspname = 'shop'",
    "SELECT relid, level, isleaf FROM pg_partition_tree('part') ORDER BY 2", "SELECT relid FROM pg_partition_ancestors('part2')",
    "SELECT relid::text, n FROM pg_partition_ancestors('part2'::regclass) WITH ORDINALITY AS t(relid, n) ORDER BY n",
    "SELECT conname, conkey FROM pg_constraint WHERE conname = 'none'", "SELECT pg_encoding_to_char(encoding) FROM pg_database ORDER BY oid",
    "SELECT c.relname, i.indkey[0] FROM pg_index i JOIN pg_class c ON c.oid = indrelid AND relname = 'a'",
    "SELECT a.attname, a.attnum = ANY(i.indkey) FROM pg_attribute a LEFT JOIN pg_index i ON"
    " i.indexrelid = pg_get_replica_identity_index('a'::regclass) WHERE a.attrelid = 'a'::regclass AND attnum > 0 ORDER BY a.attnum",
    "SELECT relname FROM pg_class WHERE relname = ANY('{a,part}') ORDER BY 1", "SELECT 'int[]'::regtype, '_int4'::regtype, 'varchar(10)'::regtype",
    "SELECT '-'::regclass, 0::regtype", "SELECT ''::regclass", "SELECT array_to_string(ARRAY['a', NULL, 'b'], ','), array_length(ARRAY[1, 2], 1)",
    "SELECT reltype::regtype, relnamespace::regnamespace, relowner::regrole FROM pg_class WHERE relname = 'a'",
    "SELECT relnamespace::regnamespace::text || '.' || relname, oid::regclass || '' FROM pg_class WHERE relname = 'items'",
    "SELECT c.relname, s FROM pg_class c, generate_series(1, c.relnatts::int) s WHERE relname = 'items' ORDER BY 2",
    "SELECT pg_get_indexdef('a_pkey'::regclass), pg_get_indexdef('a_pkey'::regclass, 1, true), pg_get_indexdef(0)",
    "SELECT format_type(23, NULL), format_type(0, 1), format_type(999999, -1), format_type(1043, 14), format_type(1231, 655366)",
    "SELECT pg_get_userbyid(10), pg_get_userbyid(99), pg_table_is_visible(0), pg_table_is_visible('shop.items'::regclass)",
    "SELECT ARRAY(SELECT relname FROM pg_class WHERE relname IN ('a', 'part') ORDER BY 1)", "SELECT coalesce(to_regclass('none'), 'a'::regclass)",
    "SELECT polname FROM pg_policy WHERE polroles = '{0}' OR 10 = ANY(polroles)",
    "SELECT relname FROM pg_class WHERE relname OPERATOR(pg_catalog.=) 'a'",
    "SELECT proname, pg_get_function_arguments(oid), pg_get_function_identity_arguments(oid), pg_get_function_result(oid),"
    " pg_function_is_visible(oid) FROM pg_proc WHERE proname IN ('generate_series', 'rank', 'mode', 'make_interval') ORDER BY 1, 2",
    "SELECT reloptions, array_to_string(reloptions || array(SELECT 'x.' || x FROM unnest(reloptions) x), ', ') FROM pg_class WHERE relname = 'a'",
    "SELECT attname, attstattarget, conkey[1] FROM pg_attribute LEFT JOIN pg_constraint ON conkey[1] = attnum AND conname = 'none'"
    " WHERE attrelid = 'a'::regclass AND attnum > 0", "SELECT pg_get_viewdef('a'::regclass), pg_get_viewdef(0), pg_get_function_result(0)",
    "SELECT relname COLLATE pg_catalog.default FROM pg_class WHERE relname = 'a' ORDER BY 1", "SELECT 1 WHERE 'a'::regclass IN ('a'::regclass)",
    "SELECT p.pubname, gpt.relid::regclass FROM pg_publication p, LATERAL pg_get_publication_tables(p.pubname) gpt WHERE gpt.relid IN"
    " (SELECT oid FROM pg_class) ORDER BY 2",
    "SELECT DISTINCT t.schemaname, t.tablename FROM pg_catalog.pg_publication_tables t WHERE t.pubname IN ('pa', 'none') ORDER BY 1, 2",
)  # fmt: skip
REFUSED = (
    b"SELECT txid_current()", b"SELECT * FROM pg_sequence", b"CREATE TABLE t (i int)", b"SELECT 'a' COLLATE \"C\"", b"SELECT ARRAY['a'::regclass]",
    b"SELECT indkey::int2[] FROM pg_index", b"SELECT * FROM generate_series('2020-01-01'::date, '2020-01-02'::date, '1 day')",
    b"SELECT (ARRAY[1])[1]", b"SELECT pg_size_pretty(5::bigint)", b"SELECT indkey[0:1] FROM pg_index", b"SELECT * FROM pg_partition_tree()",
)  # fmt: skip
SINCE_16 = (
    "SELECT (pg_get_publication_tables(VARIADIC array_agg(pubname::text))).* FROM pg_publication WHERE pubname IN ('pa') ORDER BY 2",
    "SELECT gpt.relid::regclass, gpt.attrs FROM pg_publication p, LATERAL pg_get_publication_tables(p.pubname) gpt ORDER BY 1",
)
Answer = tuple[str, list[tuple[bytes | None, int]], list[list[bytes | None]]]


def _answer(connection: psycopg.Connection[object], text: str) -> Answer | str:
    result = connection.pgconn.exec_(text.encode())
    if result.status not in (psycopg.pq.ExecStatus.COMMAND_OK, psycopg.pq.ExecStatus.TUPLES_OK):
        return f"{(result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b'').decode()} {result.error_message.decode().splitlines()[0]}"
    rows = [[result.get_value(row, at) for at in range(result.nfields)] for row in range(result.ntuples)]
    return (result.command_status or b"").decode(), [(result.fname(at), result.ftype(at)) for at in range(result.nfields)], rows


@pytest.mark.parametrize("major", MAJORS)
def test_answers(major: int, tmp_path: Path) -> None:
    with Server(major) as server:
        server.say(*STORY)
        with (
            Served(server.data_dir, tmp_path / "state") as served,
            served.connect() as here,
            server.connect(autocommit=True) as there,
        ):
            for text in (*QUERIES, *(SINCE_16 if major >= 16 else ()), *PARAMETERS, *QUERIES[:2]):
                assert _answer(here, text) == _answer(there, text), text


FACTS = (
    b"SELECT name, unit, category, short_desc, extra_desc, context, vartype, min_val, max_val, enumvals, pending_restart FROM pg_settings"
    b" WHERE name NOT LIKE 'server_version%' ORDER BY 1"
)
CHANGED = (
    "statement_timeout = '1.5s'", "lock_timeout = '2min'", "logical_decoding_work_mem = '2MB'", "application_name = 'x'", "search_path = shop",
    "extra_float_digits = 3", "DateStyle = 'SQL, DMY'",
)  # fmt: skip
VALUES = b"SELECT name, setting, reset_val FROM pg_settings WHERE source = 'session' OR name IN ('block_size', 'geqo', 'search_path') ORDER BY 1"


@pytest.mark.parametrize("major", MAJORS)
def test_parameters_are_described_as_the_server_describes_them(major: int, tmp_path: Path) -> None:
    with (
        Server(major) as server,
        Served(server.data_dir, tmp_path / "state") as served,
        served.connect() as here,
        server.connect(autocommit=True) as there,
    ):
        ours, theirs = here.execute(FACTS).fetchall(), {row[0]: row for row in there.execute(FACTS).fetchall()}
        assert len(ours) > 45
        assert ours == [theirs[row[0]] for row in ours]
        said, shown = ({row[0]: row[2] for row in client.execute(b"SHOW ALL").fetchall()} for client in (here, there))
        assert said == {name: shown[name] for name in said}
        assert {row[0] for row in ours} == {name for name in said if not name.startswith("server_version")}
        for client in (here, there):
            for each in ("application_name = ''", *CHANGED):
                client.execute(f"SET {each}".encode())
        assert here.execute(VALUES).fetchall() == there.execute(VALUES).fetchall()
        for text in ("SELECT * FROM pg_settings WHERE name = 'geqo'", "SET transaction_timeout = 5", "SHOW transaction_timeout"):
            assert _answer(here, text) == _answer(there, text), text


def test_a_table_is_said_to_be_there_though_its_rows_are_not(tmp_path: Path) -> None:
    with Server(18) as server:
        server.say(*STORY)
        with (
            Served(server.data_dir, tmp_path / "state") as served,
            served.connect() as here,
            server.connect(autocommit=True) as there,
        ):
            for name in ("nonesuch", "shop.nonesuch", "a", "shop.items", "part", "shop.a", "items"):
                with pytest.raises(psycopg.errors.UndefinedTable) as refused:
                    here.execute(f"SELECT * FROM {name}".encode())
                told = refused.value.diag
                is_there = name in ("a", "shop.items", "part")
                assert ("rows of its tables and views are not here" in (told.message_hint or "")) is is_there
                if not is_there:
                    with pytest.raises(psycopg.errors.UndefinedTable) as missing:
                        there.execute(f"SELECT * FROM {name}".encode())
                    assert told.message_hint == missing.value.diag.message_hint
                assert (told.message_primary, told.statement_position) == (f'relation "{name}" does not exist', "15")
            here.execute(b"SET search_path = shop")
            with pytest.raises(psycopg.errors.UndefinedTable) as refused:
                here.execute(b"SELECT * FROM items")
            assert refused.value.diag.message_hint


def test_what_is_not_known_is_refused_with_a_hint_for_a_client(tmp_path: Path) -> None:
    with Server(18) as server, Served(server.data_dir, tmp_path / "state") as served, served.connect() as client:
        for text in (
            b"SELECT txid_current()",
            b"SELECT * FROM pg_sequence",
            b"CREATE TABLE t (i int)",
            b"SELECT 'a' COLLATE \"C\"",
        ):
            with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
                client.execute(text)
            assert refused.value.diag.message_hint == "Ask the server that the log is of."
