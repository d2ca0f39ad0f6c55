"""Clients that mean harm, or do it: what they are told, and that nobody else has anything of it."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.raw_client import RawClient, said
from support.served import Served
from support.servers import Server
from tailrace.wire import messages as m
from tailrace.wire.startup import PROTOCOL_3_0, StartupMessage, write_startup

pytestmark = pytest.mark.postgres
WHO = {"user": "postgres", "database": "postgres"}
REPLICATION = {**WHO, "replication": "database"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(18) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE PUBLICATION a FOR TABLE t")
        yield server


@pytest.fixture(scope="module")
def served(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(server.data_dir, tmp_path_factory.mktemp("hostile") / "state") as served:
        with served.connect(replication="database") as client:
            client.execute(b"CREATE_REPLICATION_SLOT s LOGICAL test_decoding (SNAPSHOT 'nothing')")
        yield served


def _asked(client: RawClient, *messages: Any) -> list[str]:
    client.send(*messages, m.Sync())
    return [said(each) for each in client.until(m.ReadyForQuery)]


def _bound(client: RawClient, text: str, value: bytes, *types: int) -> str:
    """What the statement gives with this for $1: its one row, or its error."""
    told = _asked(client, m.Parse("", text, types), m.Bind("", "", (), (value,)), m.Execute("", 0))
    return next(each for each in told if each[0] in "ED")


def test_values_of_parameters_are_no_sql(served: Served) -> None:
    with RawClient(served.port, **WHO) as client:
        for value in ("a'\\' || 'b", "$1", "€'😀\\", "'; SELECT 1 --"):
            assert _bound(client, "SELECT '$1' || $1 || $$ $1 $$ -- $1", value.encode()) == f"D[{f'$1{value} $1 '!r}]"
        for value in ("1; SELECT 2", "(SELECT count(*) FROM pg_stat_activity)", "1 OFFSET 2", ""):
            refused = f'E ERROR 22P02: invalid input syntax for type bigint: "{value}"'
            assert _bound(client, "SELECT 1 LIMIT $1", value.encode()).startswith(refused)
        assert _bound(client, "SELECT 1 -$1", b"-1", 23) == "D['2']"
        for value, shown in ((b"a\0b", "0x00"), (b"a\xff", "0xff"), (b"\xe2\x28\xa1", "0xe2 0x28 0xa1")):
            assert _bound(client, "SELECT $1", value) == f'E ERROR 22021: invalid byte sequence for encoding "UTF8": {shown}'
        refused = 'E ERROR 22021: invalid byte sequence for encoding "UTF8": 0xff'
        assert _asked(client, m.Parse("", "SELECT '\udcff'")) == [refused, "Z I"]
        assert client.query("SELECT '\udcff'") == f"{refused} | Z I"


def test_an_error_of_execute_is_no_end(served: Served) -> None:
    get = "SELECT * FROM pg_logical_slot_get_changes('nope', NULL, NULL)"
    with RawClient(served.port, **WHO) as client:
        told = _asked(client, m.Parse("", get), m.Bind("", ""), m.Execute("", 0))
        assert told[-2:] == ['E ERROR 42704: replication slot "nope" does not exist', "Z I"]
        assert client.query("SELECT 1").endswith("D['1'] | C SELECT 1 | Z I")


@pytest.mark.parametrize("part", ["+1", "::int", " UNION SELECT 1", ' COLLATE "C"'])
def test_statements_that_are_too_deep(served: Served, part: str) -> None:
    with RawClient(served.port, **WHO) as client:
        for count in (2_000, 9_000, 60_000):
            assert client.query(f"SELECT 1{part * count}").startswith("E ERROR 54001: stack depth limit exceeded"), count


def test_nobody_shows_others_what_is_no_text(served: Served) -> None:
    with RawClient(served.port, **WHO, application_name="a\n\x1b[2J€") as client, served.connect() as other:
        client.query("SELECT '\udcff'")
        shown = other.execute("SELECT application_name, query FROM pg_stat_activity ORDER BY pid").fetchall()
        assert ("a\\x0a\\x1b[2J\\xe2\\x82\\xac", "") in shown
    refused = 'E FATAL 22021: invalid byte sequence for encoding "UTF8": 0xff'
    assert [said(each) for each in RawClient(served.port, user="\udcff", database="postgres").greeting] == [refused]


def test_a_portal_of_a_client_that_goes_holds_nothing(server: Server, served: Served) -> None:
    """And what it was not sent as a whole, though it asked for all, comes again."""
    server.say("INSERT INTO t SELECT i, 'x' FROM generate_series(1, 3) i")
    get = m.Parse("", "SELECT data FROM pg_logical_slot_get_changes('s', NULL, NULL)")
    with RawClient(served.port, **WHO) as client:
        client.send(get, m.Bind("", ""), m.Execute("", 2), m.Flush())
        assert "PortalSuspended" in [said(each) for each in client.until(m.PortalSuspended)]
    until = time.monotonic() + 10
    with served.connect() as other:
        while other.execute("SELECT active FROM pg_replication_slots").fetchone() != (False,):
            assert time.monotonic() < until
        assert len(other.execute("SELECT data FROM pg_logical_slot_get_changes('s', NULL, NULL)").fetchall()) == 5


def test_messages_that_ask_for_odd_things(served: Served) -> None:
    """As the server answers them."""
    with RawClient(served.port, **WHO) as client:
        assert _asked(client, m.Describe("X", ""))[0] == "E ERROR 08P01: invalid DESCRIBE message subtype 88"
        assert _asked(client, m.Close("X", ""))[0] == "E ERROR 08P01: invalid CLOSE message subtype 88"
        odd = [m.Bind("", "", (7,), (b"1",)), m.Bind("", "", (), (b"1",), (7,))]
        for bind in odd:
            assert _asked(client, m.Parse("", "SELECT $1::int4"), bind)[1] == "E ERROR 22023: unsupported format code: 7"
        client.query("BEGIN")
        five = _asked(
            client, m.Parse("", "SELECT g FROM generate_series(1, 5) g"), m.Bind("p", ""), m.Execute("p", 4), m.Execute("p", -1)
        )
        assert five[6:] == ["PortalSuspended", "D['5']", "C SELECT 1", "Z T"]
        assert _asked(client, m.Execute("p", 0)) == ["C SELECT 0", "Z T"]


def test_a_start_that_is_no_lsn(served: Served) -> None:
    with RawClient(served.port, **REPLICATION) as client:
        told = client.query("START_REPLICATION SLOT s LOGICAL FFFFFFFFFF/0")
        assert told == "E ERROR 42601: invalid streaming start location | Z I"


def test_who_has_not_shown_who_he_is_takes_no_walsender(server: Server, tmp_path: Path) -> None:
    """Nor does anybody see the name that he gives."""
    hba = tmp_path / "hba.conf"
    hba.write_text("host all mallory all scram-sha-256\nhost all all all trust\n")
    with (
        Served(server.data_dir, tmp_path / "state", "--hba", str(hba), "--max-wal-senders", "1") as served,
        socket.create_connection(("127.0.0.1", served.port)) as silent,
    ):
        silent.sendall(write_startup(StartupMessage(PROTOCOL_3_0, {**REPLICATION, "user": "mallory"})))
        assert silent.recv(1) == b"R"
        with served.connect(replication="database") as client:
            assert client.execute("SELECT usename FROM pg_stat_activity").fetchall() == [("postgres",)]


def test_nobody_is_told_where_files_are(server: Server, tmp_path: Path) -> None:
    """Of a source that is taken away, or a state location; which does not begin anew, either."""
    source, state, limit = tmp_path / "secret", tmp_path / "state", resource.RLIMIT_FSIZE
    server.stop()
    shutil.copytree(server.data_dir, source)
    server.start()
    with Served(source, state) as served:
        with RawClient(served.port, **REPLICATION) as client:
            create = "CREATE_REPLICATION_SLOT {} LOGICAL test_decoding (SNAPSHOT 'nothing')"
            assert "C CREATE_REPLICATION_SLOT" in client.query(create.format("a"))
            state.rename(tmp_path / "elsewhere")
            told = [client.query(query) for query in (create.format("b"), "SELECT * FROM pg_replication_slots")]
            assert not (state / "location").exists()
            shutil.rmtree(state, ignore_errors=True)
            (tmp_path / "elsewhere").rename(state)
            assert served.process is not None
            resource.prlimit(served.process.pid, limit, (0, resource.RLIM_INFINITY))  # as on a full disk, the log's included
            told += [client.query(query) for query in (create.format("c"), "DROP_REPLICATION_SLOT a")]
            resource.prlimit(served.process.pid, limit, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            for file in (source / "pg_wal").glob("0*"):
                file.unlink()
            told += [client.query(query) for query in ("IDENTIFY_SYSTEM", "SELECT pg_current_wal_lsn()")]
            shutil.rmtree(source)
            told += [client.query("IDENTIFY_SYSTEM")]
        assert all(each.startswith("E ERROR") and str(tmp_path) not in each for each in told[:3] + told[4:]), told
        assert str(source) in served.said()


def test_the_log_is_text(served: Served) -> None:
    RawClient(served.port, user="a\x1b[2J\nb", database="postgres").query("nonsense\x9b\r")
    said_last = served.said()
    assert "nonsense\\x9b\\x0d" in said_last
    assert "\x1b" not in said_last


@pytest.mark.soak
def test_the_server_ends_amid_a_statement(server: Server, tmp_path: Path) -> None:
    with Served(server.data_dir, tmp_path / "state") as served, RawClient(served.port, **WHO) as client:
        client.send(m.Query("SELECT sum(a + b) FROM generate_series(1, 3000000) a, generate_series(1, 3000000) b"))
        time.sleep(2)
        assert served.process is not None
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(20) == 0
        assert "have come to nothing" in served.said()


@pytest.mark.soak
def test_more_connections_than_files(server: Server, tmp_path: Path) -> None:
    with Served(server.data_dir, tmp_path / "state") as served:
        assert served.process is not None
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (64, 64))
        opened = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(150)]
        time.sleep(2)
        for each in opened:
            each.close()
        time.sleep(2)
        with served.connect() as client:
            assert client.execute("SELECT 1").fetchone() == (1,)
        assert "could not accept new connection: Too many open files" in served.said()
        assert "Traceback" not in served.said()
        assert len(os.listdir(f"/proc/{served.process.pid}/fd")) < 20
