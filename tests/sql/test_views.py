"""Views and catalogs have the server's columns and, of what is the server's own, its rows; at the end of the log, and as of a moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from sql.places import Said, ours, session_on, theirs
from support.servers import Server
from tailrace.catalog.rows.layouts import tracked_columns
from tailrace.model import Lsn
from tailrace.sql.views.view_columns import catalog_columns, views_of

pytestmark = pytest.mark.postgres
OWN = "tailrace_"
"""With this begin the names of views that no server has."""
MAJORS = [pytest.param(16), *(pytest.param(each, marks=pytest.mark.matrix) for each in (14, 15, 17, 18))]
STORY = (
    "CREATE TABLE a (id int PRIMARY KEY, v varchar(20), \"Odd Name\" numeric(10,2), gone int)", "ALTER TABLE a DROP COLUMN gone",
    "CREATE TYPE mood AS ENUM ('low', 'high')", "CREATE TABLE b (m mood, r int4range) PARTITION BY LIST (m)",
    "CREATE TABLE b1 PARTITION OF b FOR VALUES IN ('low')", "CREATE SCHEMA s", "CREATE TABLE s.c (id int, w text)", "CREATE UNLOGGED TABLE u (i int)",
    "CREATE PUBLICATION p1 FOR TABLE a, s.c WITH (publish = 'insert')", "CREATE PUBLICATION p2 FOR ALL TABLES",
    "CREATE PUBLICATION p3 FOR TABLE b WITH (publish_via_partition_root)",
)  # fmt: skip
SINCE_15 = ("CREATE PUBLICATION p4 FOR TABLE a (id, v) WHERE (id > 5)", "CREATE PUBLICATION p5 FOR TABLES IN SCHEMA s")


@pytest.mark.parametrize("major", MAJORS)
def test_catalogs_are_those_of_the_server(major: int, tmp_path: Path) -> None:
    with Server(major) as server, session_on(server, tmp_path / "state") as session:
        server.say(*STORY, *(SINCE_15 if major >= 15 else ()))
        for name in tracked_columns(major):
            if name == "pg_publication_namespace" and major < 15:
                continue
            columns = [column for column, _ in catalog_columns(name, major)]
            query = f"SELECT {', '.join(columns)} FROM {name}"
            got, expected = ours(session, query), theirs(server, query)
            assert not isinstance(got, Said), got
            assert not isinstance(expected, Said), expected
            assert sorted(got, key=repr) == sorted(expected, key=repr), name
        for name in ("pg_publication", "pg_publication_tables"):
            query = f"SELECT * FROM {name}"
            got, expected = ours(session, query), theirs(server, query)
            assert sorted(got, key=repr) == sorted(expected, key=repr), name  # type: ignore[arg-type]


@pytest.mark.parametrize("major", MAJORS)
def test_views_have_the_columns_of_the_major(major: int, tmp_path: Path) -> None:
    with Server(major) as server, session_on(server, tmp_path / "state") as session:
        for view, columns in views_of(major).items():
            if view.startswith(OWN):
                continue
            names = theirs(
                server,
                f"SELECT attname, format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = '{view}'::regclass AND attnum > 0 ORDER BY attnum",
            )
            assert [name for name, _ in columns] == [row[0] for row in names], view  # type: ignore[union-attr]
            with session.execute(f"SELECT * FROM pg_catalog.{view}") as result:
                assert [column.name for column in result.columns or ()] == [name for name, _ in columns]


def test_slots_and_origins(tmp_path: Path) -> None:
    with Server(18) as server, session_on(server, tmp_path / "state") as session:
        assert ours(session, "SELECT * FROM pg_replication_slots") == []
        ours(session, "SELECT pg_create_logical_replication_slot('kept', 'test_decoding', false, true)")
        ours(session, "SELECT pg_create_logical_replication_slot('own', 'pgoutput', true)")
        ours(session, "SELECT pg_copy_logical_replication_slot('kept', 'copied')")
        columns = "slot_name, plugin, slot_type, database, temporary, active, two_phase, failover, wal_status"
        query = f"SELECT {columns} FROM pg_replication_slots ORDER BY 1"
        assert ours(session, query) == [
            ("copied", "test_decoding", "logical", "postgres", "f", "f", "f", "f", "reserved"),
            ("kept", "test_decoding", "logical", "postgres", "f", "f", "t", "f", "reserved"),
            ("own", "pgoutput", "logical", "postgres", "t", "t", "f", "f", "reserved"),
        ]
        server.say("CREATE TABLE t (id int PRIMARY KEY)")
        server.say("CREATE PUBLICATION p FOR ALL TABLES", "INSERT INTO t VALUES (1)")
        options = "'proto_version', '1', 'publication_names', 'p'"
        changes = f"FROM pg_logical_slot_get_binary_changes('own', NULL, NULL, {options})"
        assert ours(session, f"SELECT count(*) > 2 {changes}") == [("t",)]
        assert ours(session, f"SELECT count(*) {changes}") == [("0",)]
        assert ours(session, "SELECT pg_drop_replication_slot('own')") == [("",)]
        with session_on(server, tmp_path / "state") as another:
            assert ours(another, "SELECT count(*) FROM pg_replication_slots") == [("2",)]
            assert ours(another, "SELECT pg_replication_origin_create('o')") == [("1",)]
            assert ours(another, "SELECT pg_replication_origin_create('second')") == [("2",)]
            assert ours(another, "SELECT pg_replication_origin_advance('second', '0/ABC')") == [("",)]
        assert ours(session, "SELECT * FROM pg_replication_origin_status") == [("2", "second", "0/ABC", "0/0")]
        assert ours(session, "SELECT pg_replication_origin_progress('second', true)") == [("0/ABC",)]
        assert ours(session, "SELECT pg_replication_origin_drop('second')") == [("",)]
        assert ours(session, "SELECT * FROM pg_replication_origin_status") == []


def test_as_of_a_moment(tmp_path: Path) -> None:
    with Server(16) as server, session_on(server, tmp_path / "state") as session:
        server.checkpoint()
        server.say("CREATE TABLE old (id int)")
        then = server.flush_lsn()
        server.say("ALTER TABLE old RENAME TO new", "CREATE TABLE other (id int)")
        query = "SELECT relname FROM pg_class WHERE relkind = 'r' AND oid >= 16384 ORDER BY 1"
        assert ours(session, query) == [("new",), ("other",)]
        assert ours(session, f"SET tailrace.as_of = '{then}'") == []
        assert ours(session, query) == [("old",)]
        assert ours(session, "SHOW tailrace.as_of") == [(then,)]
        ours(session, "RESET tailrace.as_of")
        assert ours(session, query) == [("new",), ("other",)]


def test_the_end_of_the_log_is_the_server_s(tmp_path: Path) -> None:
    with Server(16) as server, session_on(server, tmp_path / "state") as session:
        for _ in range(3):
            server.say("CREATE TABLE t (i int)", "DROP TABLE t")
            server.checkpoint()
            query = "SELECT pg_current_wal_lsn() = pg_current_wal_flush_lsn(), pg_current_wal_insert_lsn()"
            before = server.flush_lsn()
            ((same, end),) = ours(session, query)
            assert same == "t"
            assert Lsn.parse(before) <= Lsn.parse(end) <= Lsn.parse(server.flush_lsn())
            server.switch_wal()
