"""Where pgoutput says that transactions come from: origins whose numbers are given again, that came later, and that are no longer there."""

from __future__ import annotations

import pytest

from support.cases import DBNAME
from support.pgoutput_rows import PLAIN, PUBLICATION, check_same, ours, theirs
from support.sampling import some_of
from support.servers import Server
from support.subscriber import put_together
from tailrace.majors import MAJORS

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
FIRST_AT_ONCE = 16
"""Since then a server can be told to stream every change at once."""
CREATE, DROP = "SELECT pg_replication_origin_create('{}')", "SELECT pg_replication_origin_drop('{}')"
SETUP, RESET = "SELECT pg_replication_origin_session_setup('{}')", "SELECT pg_replication_origin_session_reset()"
WORK = (
    ("b", CREATE.format("one")), ("a", SETUP.format("one")), ("a", "INSERT INTO t VALUES (1)"),
    # Its end is not from elsewhere.
    ("a", "BEGIN"), ("a", "INSERT INTO t VALUES (2)"), ("a", RESET), ("a", "COMMIT"),
    # The next has its number.
    ("b", DROP.format("one")), ("b", CREATE.format("two")), ("a", SETUP.format("two")), ("a", "INSERT INTO t VALUES (3)"), ("a", RESET),
    ("b", DROP.format("two")),
    # Made when the transaction had begun, by another and by itself.
    ("a", "BEGIN"), ("a", "INSERT INTO t VALUES (4)"), ("b", CREATE.format("three")), ("a", SETUP.format("three")),
    ("a", "INSERT INTO t VALUES (5)"), ("a", "COMMIT"), ("a", "INSERT INTO t VALUES (6)"), ("a", RESET),
    ("a", "BEGIN"), ("a", CREATE.format("four")), ("a", SETUP.format("four")), ("a", "INSERT INTO t VALUES (7)"), ("a", "COMMIT"),
    # Gone while a session still is on its behalf.
    ("b", "SET allow_system_table_mods = on"), ("b", "DELETE FROM pg_replication_origin"), ("a", "INSERT INTO t VALUES (8)"),
    ("a", "BEGIN"), ("a", "INSERT INTO t VALUES (9)"), ("a", "TRUNCATE t"), ("a", "COMMIT"),
)  # fmt: skip
"""Sessions, and what they say."""


@pytest.mark.parametrize("major", some_of([pytest.param(major, id=str(major)) for major in MAJORS], 2))
def test_origins_are_called_as_the_change_sees_them(major: int) -> None:
    streamed = {**PLAIN, "proto_version": "2", "streaming": "on"}
    with Server(major, {"autovacuum": "off"}, dbname=DBNAME, test_decoding=False) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY)", f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES", "CHECKPOINT")
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'pgoutput')"))
        with server.connect() as a, server.connect() as b:
            for who, statement in WORK:
                (a if who == "a" else b).execute(statement.encode())
        expected = theirs(server, "s", PLAIN)
        if major >= FIRST_AT_ONCE:
            server.say("ALTER SYSTEM SET debug_logical_replication_streaming = 'immediate'", "SELECT pg_reload_conf()")
            in_blocks = theirs(server, "s", streamed)
        server.stop()
        check_same(ours(server.data_dir, PLAIN, start_lsn=start, major=major), expected, f"{major}")
        if major >= FIRST_AT_ONCE:
            found = ours(server.data_dir, streamed, start_lsn=start, major=major, work_mem=0)
            assert put_together(found, streamed) == put_together(in_blocks, streamed)
    named = [data for _, _, data in expected if data[:1] == b"O"]
    assert [name for name in (b"one", b"two", b"three") if any(name in data for data in named)] == [b"one", b"two", b"three"]
