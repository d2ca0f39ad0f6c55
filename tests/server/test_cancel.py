"""A query that takes long ends when its client wants it to, has gone, or has waited for statement_timeout; a slot that it read stays where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from support.builds import find_build
from support.segments import NAME
from support.served import Served
from support.servers import Server
from tailrace.model import Lsn

pytestmark = pytest.mark.postgres
ENDLESS = b"SELECT count(*) FROM pg_class a, pg_class b, pg_class c, pg_class d, pg_attribute e WHERE a.relname > e.attname"
WAITS = b"SELECT pg_create_logical_replication_slot('waits', 'test_decoding')"
_SOON = 30.0
MAJORS = [pytest.param(each, marks=[] if each == 18 else pytest.mark.matrix) for each in (18, 14, 15, 16, 17)]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(18) as server:
        server.say("CREATE TABLE t (i int)")
        yield server


@pytest.fixture(scope="module")
def served(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    roles = tmp_path_factory.mktemp("cancel") / "roles.toml"
    roles.write_text("[postgres]\nreplication = true\n[reader]\nreplication = true\nslots = ['r*']\n")
    state = tmp_path_factory.mktemp("cancel") / "state"
    with Served(server.data_dir, state, "--roles", str(roles)) as served:
        with served.connect() as client:  # what takes long when it is done first is not what is cancelled here
            client.execute(b"SELECT count(*) FROM pg_class a, pg_attribute b")
        yield served


def _ended(client: psycopg.Connection[object], query: bytes, end: Callable[[], object]) -> psycopg.Error:
    """The error with which a query ends, if something is done while it runs."""
    timer = threading.Timer(0.5, end)
    timer.start()
    began = time.monotonic()
    with pytest.raises(psycopg.Error) as ended:
        client.execute(query)
    timer.join()
    assert time.monotonic() - began < _SOON
    return ended.value


def _said(error: psycopg.Error) -> tuple[str | None, str | None]:
    return error.sqlstate, error.diag.message_primary


USER_REQUEST = ("57014", "canceling statement due to user request")


def test_a_client_cancels_its_query(served: Served) -> None:
    with served.connect() as client:
        assert _said(_ended(client, ENDLESS, client.cancel)) == USER_REQUEST
        assert client.execute(b"SELECT 1").fetchall() == [(1,)]
        client.cancel()  # nothing runs, and nothing happens
        assert client.execute(b"SELECT 2").fetchall() == [(2,)]


def test_with_the_extended_protocol_too(served: Served) -> None:
    with served.connect() as client:
        timer = threading.Timer(0.5, client.cancel)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            client.execute(ENDLESS + b" AND a.oid > %s", [1])
        assert client.execute(b"SELECT 1 WHERE 1 = %s", [1]).fetchall() == [(1,)]


def test_psql_is_interrupted(served: Served) -> None:
    psql = subprocess.Popen(
        [find_build(18).bin("psql"), "-X", served.dsn(), "-c", ENDLESS.decode(), "-c", "SELECT 'goes on'"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    time.sleep(1)
    os.kill(psql.pid, signal.SIGINT)
    said, _ = psql.communicate(timeout=_SOON)
    assert "ERROR:  canceling statement due to user request" in said


def test_another_session_cancels_it(served: Served) -> None:
    with served.connect() as client, served.connect() as other, served.connect(user="reader") as reader:
        pid = client.info.backend_pid
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute(f"SELECT pg_cancel_backend({pid})".encode())
        cancels = f"SELECT pg_cancel_backend({pid})".encode()
        assert _said(_ended(client, ENDLESS, lambda: other.execute(cancels))) == USER_REQUEST
        assert other.execute(cancels).fetchall() == [(True,)]


@pytest.mark.parametrize("major", MAJORS)
def test_whom_nobody_can_cancel_and_which_timeouts_there_are(major: int, tmp_path: Path) -> None:
    said: list[list[object]] = []
    with Server(major) as server, Served(server.data_dir, tmp_path / "state") as served:
        for side in (server, served):
            told: list[object] = []
            said.append(told)
            with side.connect(autocommit=True) as client:
                client.add_notice_handler(lambda notice, told=told: told.append((notice.sqlstate, notice.message_primary)))
                for query in (b"SELECT pg_cancel_backend(1)", b"SELECT pg_cancel_backend(NULL)"):
                    told.append(client.execute(query).fetchall())
                for value in (
                    "abc",
                    "5 xx",
                    "-1",
                    "1.5s",
                    "90s",
                    "3000000000",
                    "0.4",
                    "1e3",
                    " 2 min ",
                    "3600000",
                    "1d",
                    "36h",
                    "0",
                ):
                    try:
                        client.execute(f"SET statement_timeout = '{value}'".encode())
                    except psycopg.Error as error:
                        told.append((error.sqlstate, error.diag.message_primary, error.diag.message_hint))
                    told.append(client.execute(b"SHOW statement_timeout").fetchall())
    assert said[1] == said[0]


def test_a_client_that_goes_ends_its_query(served: Served) -> None:
    client = served.connect()
    client.pgconn.send_query(ENDLESS)
    with served.connect() as other:
        count = b"SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_attribute e WHERE%' AND state = 'active'"
        time.sleep(0.5)
        assert other.execute(count).fetchall() == [(2,)]  # and this query
        client.close()
        until = time.monotonic() + _SOON
        while other.execute(count).fetchall() != [(1,)]:
            assert time.monotonic() < until
            time.sleep(0.1)


def test_statement_timeout(served: Served) -> None:
    with served.connect() as client:
        client.execute(b"SET statement_timeout = '200ms'")
        late = ("57014", "canceling statement due to statement timeout")
        assert _said(_ended(client, ENDLESS, lambda: None)) == late
        assert client.execute(b"SELECT 1").fetchall() == [(1,)]
        client.execute(b"SET statement_timeout = 0")
        time.sleep(0.3)
        assert client.execute(b"SELECT 1").fetchall() == [(1,)]


def test_a_slot_that_was_read_stays_where_it_was(server: Server, served: Served) -> None:
    with served.connect() as client:
        client.execute(b"SELECT pg_create_logical_replication_slot('stays', 'test_decoding')")
        server.say("INSERT INTO t SELECT generate_series(1, 100000)")
        stood = client.execute(b"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'stays'").fetchall()
        rows = b"SELECT count(*) FROM pg_logical_slot_get_changes('stays', NULL, NULL) g, pg_class b, pg_class c, pg_class d WHERE g.data > b.relname"
        assert _said(_ended(client, rows, client.cancel)) == USER_REQUEST
        assert (
            client.execute(b"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'stays'").fetchall() == stood
        )
        found = client.execute(b"SELECT count(*) FROM pg_logical_slot_get_changes('stays', NULL, NULL)").fetchall()
        assert found == [(100002,)]


def test_a_slot_that_waits_for_transactions_is_given_up(tmp_path: Path) -> None:
    with Server(18, {"wal_keep_size": 0, "min_wal_size": "2MB"}) as server, server.connect(autocommit=False) as long:
        server.say("CREATE TABLE t (i int)")
        long.execute("INSERT INTO t VALUES (1)")
        began = f"{1:08X}{0:08X}{Lsn.parse(server.flush_lsn()) >> 20:08X}"
        while min(path.name for path in server.wal_dir.glob(NAME)) <= began:
            server.say("INSERT INTO t VALUES (2)")
            server.switch_wal()
            server.checkpoint()
        with Served(server.data_dir, tmp_path / "state") as served, served.connect() as client:
            assert _said(_ended(client, WAITS, client.cancel)) == USER_REQUEST
            client.execute(b"SET statement_timeout = '1s'")
            assert _ended(client, WAITS, lambda: None).sqlstate == "57014"
            client.execute(b"RESET statement_timeout")
            assert client.execute(b"SELECT count(*) FROM pg_replication_slots").fetchall() == [(0,)]
            long.commit()
            client.execute(WAITS)
