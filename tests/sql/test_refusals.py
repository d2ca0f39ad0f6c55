"""What moves a slot runs exactly once or not at all: a statement that is refused, fails or is cancelled has moved nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sql.places import Said, ours, session_on
from support.servers import Server
from tailrace.sql.postgres_session import PostgresSession

pytestmark = pytest.mark.postgres
GET = "pg_logical_slot_get_changes('a', NULL, NULL)"
PEEK = "pg_logical_slot_peek_changes('a', NULL, NULL)"
REFUSED = (
    f"SELECT * FROM pg_replication_slots s, LATERAL (SELECT * FROM {GET}) c",
    "SELECT * FROM pg_replication_slots s, pg_logical_slot_get_changes(s.slot_name, NULL, NULL) c",
    f"SELECT slot_name, (SELECT count(*) FROM {GET}) FROM pg_replication_slots",
    f"SELECT slot_name FROM pg_replication_slots WHERE EXISTS (SELECT 1 FROM {GET})",
    f"SELECT slot_name FROM pg_replication_slots WHERE restart_lsn IN (SELECT lsn FROM {GET})",
    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots",
    "SELECT pg_drop_replication_slot('a') FROM pg_replication_slots",
    "SELECT slot_name FROM pg_replication_slots ORDER BY pg_drop_replication_slot('a')",
    "SELECT CASE WHEN false THEN pg_drop_replication_slot('a') END",
    "SELECT coalesce(pg_drop_replication_slot('a'), 'x')",
    f"SELECT * FROM {GET} LIMIT 0", f"SELECT * FROM {GET} WHERE false",
    f"WITH c AS (SELECT * FROM {GET}) SELECT 1", f"WITH RECURSIVE c AS (SELECT * FROM {GET}) SELECT * FROM c",
    f"SELECT * FROM {GET} x, {GET} y", f"SELECT * FROM {GET} x UNION ALL SELECT * FROM {PEEK} y",
    f"EXPLAIN SELECT * FROM {GET}", f"EXPLAIN ANALYZE SELECT * FROM {GET}", f"CREATE VIEW v AS SELECT * FROM {GET}",
    f"CREATE MATERIALIZED VIEW v AS SELECT * FROM {GET}", f"PREPARE p AS SELECT * FROM {GET}", f"CREATE TABLE t AS SELECT * FROM {GET}",
    f"COPY (SELECT * FROM {GET}) TO STDOUT", f"DECLARE c CURSOR FOR SELECT * FROM {GET}", f"INSERT INTO t SELECT * FROM {GET}",
    f"SELECT * FROM ROWS FROM ({GET})", f"SELECT * INTO t FROM {GET}", f"SELECT * FROM {GET} FOR UPDATE",
    f"SELECT * FROM {GET}, read_csv('/etc/passwd')", f"SELECT *, getenv('HOME') FROM {GET}", f"SELECT * FROM {GET}, duckdb_tables()",
    "SELECT (pg_logical_slot_get_changes('a', NULL, NULL)).*", f"SELECT data::regclass FROM {GET}",
    f"SELECT avg(xid::text::int8) + 1 FROM {GET}", f"SELECT avg(xid::text::float8) FROM {GET}",
    f"SELECT avg(xid::text::int8) AS x FROM {GET} ORDER BY x",
    f"SELECT data ~ '\\w' FROM {GET}", f"SELECT data ~ data FROM {GET}", f"SELECT data ~ '(?i)x' FROM {GET}", f"SELECT data LIKE 'x\\' FROM {GET}",
    f"SELECT substring(data from 'x') FROM {GET}", f"SELECT xid::text::int8 * 1.5 / 7 FROM {GET}", f"SELECT data::char(3) FROM {GET}",
    f"SELECT x FROM (VALUES (1.5), (2.25)) v(x), {GET}", f"SELECT concat(1.5::float8, data) FROM {GET}",
    f"SELECT lsn FROM {GET} ORDER BY lsn USING >",
    f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, data FROM n, {GET} LIMIT 3",
    "BEGIN", "COMMIT", "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)", "SELECT pg_logical_emit_message(true, 'a', 'b')",
    "SELECT * FROM pg_create_logical_replication_slot('b', 'test_decoding', failover => true)", "ATTACH 'x'", "COPY t FROM '/etc/passwd'",
    "VACUUM", "SELECT version()",
)  # fmt: skip
FAILED = (
    (f"SELECT * FROM {GET}, information_schema.tables", "42P01"),
    (f"SELECT * FROM {GET}, sqlite_master", "42P01"), (f"SELECT nonesuch FROM {GET}", "42703"), (f"SELECT data::int FROM {GET}", "22P02"),
    (f"SELECT relpages FROM pg_class, {GET}", "0A000"),
    ("SELECT * FROM pg_logical_slot_get_changes('a', NULL, NULL, 'nonesuch', '1')", "22023"),
)  # fmt: skip


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresSession]:
    """With a slot, and something new for it."""
    with Server(18) as server, session_on(server, tmp_path_factory.mktemp("refusals") / "state") as made:
        assert ours(made, "SELECT pg_create_logical_replication_slot('a', 'test_decoding')") != []
        server.say("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (7)")
        yield made


def _slots(session: PostgresSession) -> object:
    return ours(session, "SELECT slot_name, restart_lsn, confirmed_flush_lsn, active FROM pg_replication_slots")


@pytest.mark.parametrize("statement", REFUSED)
def test_a_refused_statement_moves_nothing(session: PostgresSession, statement: str) -> None:
    before = _slots(session)
    said = ours(session, statement)
    assert isinstance(said, Said)
    assert said.sqlstate in ("0A000", "42601"), said
    assert said.message
    assert _slots(session) == before


@pytest.mark.parametrize(("statement", "sqlstate"), FAILED)
def test_a_failed_statement_moves_nothing(session: PostgresSession, statement: str, sqlstate: str) -> None:
    before = _slots(session)
    said = ours(session, statement)
    assert isinstance(said, Said)
    assert said.sqlstate == sqlstate, said
    assert _slots(session) == before


class _Cancelled(BaseException):
    pass


def _interrupted(session: PostgresSession) -> None:
    with session.execute(f"SELECT * FROM {GET}") as result:
        assert result.rows > 0
        raise _Cancelled


def test_a_slot_moves_behind_what_was_printed(session: PostgresSession) -> None:
    """Whoever is interrupted while rows are printed has them again."""
    before = _slots(session)
    with pytest.raises(_Cancelled):
        _interrupted(session)
    assert _slots(session) == before
    assert ours(session, f"SELECT * FROM {PEEK}") == ours(session, f"SELECT * FROM {GET}") != []
    assert ours(session, f"SELECT * FROM {GET}") == []
    assert _slots(session) != before
