"""Every error of the interface: text, detail, hint, SQLSTATE and position are the server's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sql.places import Said, ours, session_on, theirs
from support.servers import Server

GET = "SELECT * FROM pg_logical_slot_get_changes"
PEEK = "SELECT * FROM pg_logical_slot_peek_changes"
CREATE = "SELECT * FROM pg_create_logical_replication_slot"
STATEMENTS = (
    f"{GET}('none', NULL, NULL)", f"{PEEK}('none', NULL, NULL)", f"{GET}(NULL, NULL, NULL)", f"{PEEK}('a', NULL, NULL, 'one')",
    f"{PEEK}('a', NULL, NULL, 'include-xids', NULL)", f"{PEEK}('a', NULL, NULL, VARIADIC ARRAY[['a','b']])",
    f"{PEEK}('a', NULL, NULL, VARIADIC NULL)", f"{PEEK}('a', NULL, NULL, VARIADIC '{{include-xids,0,x}}')",
    f"{PEEK}('a', NULL, NULL, 'nonesuch', '1')", f"{PEEK}('a', NULL, NULL, 'include-xids', 'perhaps')",
    f"{PEEK}('a', NULL, NULL, 'force-binary', 'on')", f"{PEEK}('p', NULL, NULL, 'proto_version', '1', 'publication_names', 'x')",
    f"{GET}('p', NULL, NULL, 'proto_version', '1', 'publication_names', 'x')",
    "SELECT * FROM pg_logical_slot_peek_binary_changes('p', NULL, NULL, 'publication_names', 'x')",
    "SELECT * FROM pg_logical_slot_peek_binary_changes('p', NULL, NULL, 'proto_version', '1')",
    "SELECT * FROM pg_logical_slot_peek_binary_changes('p', NULL, NULL, 'proto_version', '99', 'publication_names', 'x')",
    f"{PEEK}('a')", f"{PEEK}('a', 1, NULL)", f"{PEEK}('a', 'zz', NULL)", f"{PEEK}('a', NULL, 'x')", f"{PEEK}('a', '0/1'::pg_lsn, 'x'::text)",
    f"{PEEK}(slot_name => 'a', upto => NULL, upto_nchanges => NULL)", f"{PEEK}('a', NULL, 99999999999)",
    f"{PEEK}(slot_name => 'a', upto_lsn => NULL, upto_nchanges => NULL)", f"{PEEK}('a', NULL, upto_nchanges => NULL)",
    f"{CREATE}('a', 'test_decoding')", f"{CREATE}('A', 'test_decoding')", f"{CREATE}('', 'test_decoding')",
    f"{CREATE}('b', 'no_such_plugin')", f"{CREATE}('b', 'test_decoding', 'perhaps')", f"{CREATE}('b')",
    f"{CREATE}('b', plugin => 'test_decoding', plugin => 'x')",
    "SELECT pg_drop_replication_slot('none')", "SELECT pg_drop_replication_slot()", "SELECT pg_drop_replication_slot(1)",
    "SELECT pg_copy_logical_replication_slot('none', 'c')", "SELECT pg_copy_logical_replication_slot('a', 'p')",
    "SELECT pg_copy_logical_replication_slot('a', 'C')",
    "SELECT pg_replication_slot_advance('a', '0/0')", "SELECT pg_replication_slot_advance('none', '0/10')",
    "SELECT pg_replication_slot_advance('a', '0/zz')", "SELECT pg_replication_slot_advance('a', '0/0'::text)",
    "SELECT pg_replication_origin_create('pg_x')", "SELECT pg_replication_origin_create('o1')",
    f"{GET}('A', NULL, NULL)", "SELECT pg_drop_replication_slot('../x')", "SELECT pg_replication_slot_advance('A', '0/1')",
    "SELECT pg_copy_logical_replication_slot('A', 'b')", f"{CREATE}('{'x' * 40}ä', 'test_decoding')",
    "SELECT pg_replication_origin_drop('none')", "SELECT pg_replication_origin_advance('none', '0/1')",
    "SELECT pg_replication_origin_progress('none', true)",
    "SELECT * FROM pg_no_such_view", "SELECT nonesuch FROM pg_replication_slots", "SELECT x.slot_name FROM pg_replication_slots",
    "SELECT slot_name FROM pg_replication_slots a, pg_replication_slots b", "SELECT FROM FROM", "SELECT 'open", "SELEC 1",
    "SELECT xid, data FROM pg_logical_slot_peek_changes('a', NULL, NULL) ORDER BY xid",
    "SELECT data FROM pg_logical_slot_peek_changes('a', NULL, NULL) c ORDER BY data, c.xid DESC",
    "SELECT lsn + lsn FROM pg_logical_slot_peek_changes('a', NULL, NULL)", "SELECT sum(lsn) FROM pg_logical_slot_peek_changes('a', NULL, NULL)",
    "SET TimeZone = 'Mars/Olympus'", "SET nonesuch = 1", "SHOW nonesuch", "SET extra_float_digits = 9", "SET IntervalStyle = 'x'",
    "SET bytea_output = 'x'",
)  # fmt: skip
NULLS = (
    f"{CREATE}(NULL, 'test_decoding')", f"{CREATE}('b', NULL)", "SELECT pg_create_logical_replication_slot(NULL, 'x')",
    "SELECT pg_drop_replication_slot(NULL)", "SELECT * FROM pg_copy_logical_replication_slot('a', NULL)",
    "SELECT pg_replication_slot_advance('a', NULL)", "SELECT * FROM pg_replication_slot_advance(NULL, '0/1')",
    "SELECT pg_replication_origin_oid('none')", "SELECT pg_replication_origin_oid(NULL)", "SELECT pg_replication_origin_progress(NULL, true)",
    "SELECT pg_replication_origin_create(NULL)", "SELECT pg_replication_origin_create('any')", "SELECT pg_replication_origin_oid('o1')",
    "SELECT pg_replication_origin_progress('o1', true)",
    f"{PEEK}('a', '0/1', NULL)", f"{PEEK}('a', NULL, -1)",
)  # fmt: skip
MADE = (
    f"{CREATE}('a', 'test_decoding')", f"{CREATE}('p', 'pgoutput')", "SELECT pg_replication_origin_create('o1')",
)  # fmt: skip


@pytest.mark.postgres
@pytest.mark.parametrize(
    "major", [pytest.param(16), *(pytest.param(each, marks=pytest.mark.matrix) for each in (14, 15, 17, 18))]
)
def test_what_is_refused(major: int, tmp_path: Path) -> None:
    with Server(major) as server, session_on(server, tmp_path / "state") as session:
        for statement in MADE:
            assert not isinstance(ours(session, statement), Said)
            assert not isinstance(theirs(server, statement), Said)
        different = []
        for statement in STATEMENTS:
            expected = theirs(server, statement)
            assert isinstance(expected, Said), statement
            got = ours(session, statement)
            if got != expected:
                different.append((statement, got, expected))
        for statement in NULLS:
            expected = theirs(server, statement)
            got = ours(session, statement)
            if got != expected:
                different.append((statement, got, expected))
        assert different == []


@pytest.mark.postgres
def test_slots_of_others(tmp_path: Path) -> None:
    """One of another database, and one that somebody consumes."""
    with Server(16) as server, session_on(server, tmp_path / "state") as session:
        server.sql("CREATE DATABASE other")
        for statement in MADE[:1]:
            ours(session, statement)
            theirs(server, statement)
        with session_on(server, tmp_path / "state", database="other") as elsewhere:
            for statement in (
                f"{GET}('a', NULL, NULL)",
                f"{PEEK}('a', NULL, NULL)",
                "SELECT pg_replication_slot_advance('a', 'F/0')",
            ):
                assert ours(elsewhere, statement) == theirs(server, statement, dbname="other")
        with session.database.location.owned("a"):
            for statement in (f"{GET}('a', NULL, NULL)", "SELECT pg_drop_replication_slot('a')"):
                said = ours(session, statement)
                assert isinstance(said, Said)
                assert (said.sqlstate, said.message) == ("55006", f'replication slot "a" is active for PID {os.getpid()}')
