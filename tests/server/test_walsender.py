"""A stream from beginning to end: positions, keepalives, timeouts, cancellations, and what a client may do to it."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.command import ran
from support.raw_client import RawClient, said
from support.raw_stream import WHO, RawStream
from support.served import Served
from support.servers import Server
from support.slots import TAILRACE
from tailrace.model import Lsn
from tailrace.wire import messages as m
from tailrace.wire.startup import CancelRequest, write_startup
from tailrace.wire.stream import PrimaryKeepalive

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(18) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE PUBLICATION p FOR ALL TABLES")
        yield server


@pytest.fixture(scope="module")
def running(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(server.data_dir, tmp_path_factory.mktemp("served") / "state") as served:
        yield served


@pytest.fixture
def served(running: Served) -> Iterator[Served]:
    """It has no slots, and nobody is connected."""
    yield running
    _until(lambda: _streaming(running) == 0)
    with running.connect() as client:
        for name in _names(running):
            client.execute("SELECT pg_drop_replication_slot(%s)", [name])


def _streaming(served: Served) -> int:
    with served.connect() as client:
        row = client.execute("SELECT count(*) FROM pg_stat_replication").fetchone()
    return int(row[0]) if row else 0


def _slot(served: Served, name: str, plugin: str = "test_decoding") -> None:
    with served.connect(replication="database") as client:
        client.execute(f"CREATE_REPLICATION_SLOT {name} LOGICAL {plugin} (SNAPSHOT 'nothing')".encode())


def _column(served: Served, name: str, column: str) -> Any:
    with served.connect() as client:
        row = client.execute(f"SELECT {column} FROM pg_replication_slots WHERE slot_name = '{name}'".encode()).fetchone()
    assert row is not None
    return row[0]


def _until(is_so: Any, seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_flush_alone_confirms(server: Server, served: Served) -> None:
    _slot(served, "s")
    before = _column(served, "s", "confirmed_flush_lsn")
    server.say("INSERT INTO t VALUES (100)", "INSERT INTO t VALUES (101)")
    with RawStream(served, "s") as stream:
        rows = stream.data(6)
        ends = [rows[2].start, rows[5].start]
        assert [each.payload.decode().split(" ")[0] for each in rows] == ["BEGIN", "table", "COMMIT"] * 2
        stream.report(ends[1], applied=ends[1], asks=True)
        while not isinstance(stream.next(), PrimaryKeepalive):
            pass
        time.sleep(0.7)
        assert _column(served, "s", "confirmed_flush_lsn") == before
        stream.report(ends[1], ends[0])
        _until(lambda: _column(served, "s", "confirmed_flush_lsn") == str(ends[0]))
        stream.report(ends[1], ends[1] + (1 << 32))  # beyond all that it was sent
        _until(lambda: Lsn.parse(_column(served, "s", "confirmed_flush_lsn")) >= ends[1])
        assert Lsn.parse(_column(served, "s", "confirmed_flush_lsn")) <= Lsn.parse(server.flush_lsn())
    server.say("INSERT INTO t VALUES (102)")
    _until(lambda: not _column(served, "s", "active"))
    with RawStream(served, "s") as stream:
        assert "id[integer]:102" in stream.texts(3)[1]


def test_where_it_starts(server: Server, served: Served) -> None:
    _slot(served, "s")
    server.say("INSERT INTO t VALUES (110)")
    middle = server.flush_lsn()
    server.say("INSERT INTO t VALUES (111)")
    confirmed = _column(served, "s", "confirmed_flush_lsn")
    for start, number in (("0/1", 110), (middle, 111), ("0/0", 110)):
        with RawStream(served, "s", start) as stream:
            assert f"id[integer]:{number}" in stream.texts(3)[1]
        _until(lambda: not _column(served, "s", "active"))
    assert _column(served, "s", "confirmed_flush_lsn") == confirmed


def test_it_is_canceled_and_begins_again(server: Server, served: Served) -> None:
    _slot(served, "s")
    server.say("INSERT INTO t VALUES (120)")
    with RawStream(served, "s") as stream:
        stream.data(3)
        [key] = [each for each in stream.client.greeting if isinstance(each, m.BackendKeyData)]
        for secret, counts in ((b"nope", False), (key.secret, True)):
            with BareSocket(served.port) as other:
                other.sendall(write_startup(CancelRequest(key.pid, secret)))
                assert other.recv(1) == b""
            if not counts:
                stream.report(0, asks=True)
                assert isinstance(stream.next(), PrimaryKeepalive)
        told = [stream.next() for _ in range(2)]
        while isinstance(told[0], PrimaryKeepalive):
            told = [told[1], stream.next()]
        assert said(told[0]) == "E ERROR 57014: canceling statement due to user request"
        assert said(told[1]) == "Z I"
        stream.client.send(m.CopyDone())  # stray by now
        assert stream.client.query("SHOW wal_level").endswith("C SHOW | Z I")
        stream.begin("s")
        assert "id[integer]:120" in stream.texts(3)[1]
        stream.client.send(m.CopyDone())
        ending = [said(each) for each in stream.client.until(m.ReadyForQuery)]
        assert [each for each in ending if each != "d"] == ["c", "C COPY 0", "C START_REPLICATION", "Z I"]
        stream.begin("s")  # the server would end this at once
        assert "id[integer]:120" in stream.texts(3)[1]


def test_where_it_begins_is_heard_first(server: Server, served: Served) -> None:
    """Whatever the client asked for, and before anything is decoded: what the slot has confirmed, as the server says."""
    _slot(served, "s")
    server.say("INSERT INTO t VALUES (125)")
    confirmed = Lsn.parse(_column(served, "s", "confirmed_flush_lsn"))
    for asked in ("0/0", str(Lsn(confirmed + 8))):
        with RawStream(served, "s", asked) as stream:
            first = stream.next()
            assert isinstance(first, PrimaryKeepalive)
            assert (first.end, first.wants_reply) == (confirmed, False)
        _until(lambda: not _column(served, "s", "active"))


def test_who_is_ahead_of_the_log(server: Server, served: Served) -> None:
    """As a subscriber is of a server that lags behind: it is told no more than is there, whatever it confirms, and goes on once the log is there."""
    _slot(served, "s")
    end = Lsn.parse(server.flush_lsn())
    ahead = Lsn(end + 0x8000)
    with RawStream(served, "s", str(ahead)) as stream:
        for _ in range(20):
            stream.report(ahead, ahead, asks=True)
            told = stream.next()
            assert isinstance(told, PrimaryKeepalive)
            assert told.end <= Lsn.parse(server.flush_lsn())
            time.sleep(0.01)
        assert Lsn.parse(_column(served, "s", "confirmed_flush_lsn")) <= Lsn.parse(server.flush_lsn())
        for first in (200, 220, 240, 260):
            server.say(f"INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series({first}, {first + 19}) i")
        came = stream.texts(2)[1]
        assert any(f"id[integer]:{first} " in came for first in (220, 240, 260)), "what commits before is passed over"
        _until(lambda: _column(served, "s", "confirmed_flush_lsn") == str(ahead))  # as it said, now that it is there
    server.say("DELETE FROM t WHERE id BETWEEN 200 AND 279")


class BareSocket:
    """A socket and nothing else."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 20)

    def __enter__(self) -> Any:
        return self._socket

    def __exit__(self, *error: object) -> None:
        self._socket.close()


def test_a_silent_client_is_asked_and_then_cut(served: Served) -> None:
    _slot(served, "s")
    with RawStream(served, "s", options="-c wal_sender_timeout=2s") as stream:
        began = time.monotonic()
        while not (isinstance(message := stream.next(), PrimaryKeepalive) and message.wants_reply):
            assert isinstance(message, PrimaryKeepalive)
        assert time.monotonic() - began > 0.8  # and it was not cut
        stream.report(0)
        while not (isinstance(message := stream.next(), PrimaryKeepalive) and message.wants_reply):
            assert isinstance(message, PrimaryKeepalive)
        while (message := stream.next()) is not None:
            assert isinstance(message, PrimaryKeepalive)
        assert 2.5 < time.monotonic() - began < 30
    _until(lambda: "terminating walsender process due to replication timeout" in served.said())


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        (b"Q\x00\x00\x00\x06;\x00", ['E FATAL 08P01: invalid standby message type "Q"']),
        (b"f\x00\x00\x00\x06x\x00", ['E FATAL 08P01: invalid standby message type "f"']),
        (b"S\x00\x00\x00\x04", ['E FATAL 08P01: invalid standby message type "S"']),
        (b"d\x00\x00\x00\x05x", []),
        (b"d\x00\x00\x00\x06r\x00", ["E ERROR 08P01: insufficient data left in message", "Z I"]),
        (b"d\x00\x00\x00\x1dh" + bytes(24), ["no end"]),
        (b"X\x00\x00\x00\x04", []),
    ],
    ids=["query", "fail", "sync", "unknown", "short", "feedback", "terminate"],
)
def test_what_it_may_be_sent(served: Served, sent: bytes, answers: list[str]) -> None:
    _slot(served, "s")
    with RawStream(served, "s") as stream:
        stream.client.socket.sendall(sent)
        if answers == ["no end"]:
            stream.report(0, asks=True)
            assert isinstance(stream.next(), PrimaryKeepalive)
            return
        told = []
        while (message := stream.client.message()) is not None:
            if not isinstance(message, m.CopyData):
                told.append(said(message))
            if isinstance(message, m.ReadyForQuery):
                break
        assert told == answers
    _until(lambda: not _column(served, "s", "active"))


def test_one_at_a_time_has_a_slot(server: Server, served: Served) -> None:
    _slot(served, "s")
    state = ("--state", str(served.state))
    with RawStream(served, "s") as stream:
        [key] = [each for each in stream.client.greeting if isinstance(each, m.BackendKeyData)]
        message = f'replication slot "s" is active for PID {key.pid}'
        with served.connect(replication="database") as client:
            for command in (
                "START_REPLICATION SLOT s LOGICAL 0/0",
                "DROP_REPLICATION_SLOT s",
                "SELECT * FROM pg_drop_replication_slot('s')",
            ):
                with pytest.raises(psycopg.errors.ObjectInUse, match=message):
                    client.execute(command.encode())
        done = ran("slot", "get", "s", *state)
        assert (done.returncode, message in done.stderr) == (1, True)
        assert _column(served, "s", "active_pid") == key.pid
        waiting = RawClient(served.port, **WHO)
        waiting.send(m.Query("DROP_REPLICATION_SLOT s WAIT"))
        time.sleep(0.5)
        stream.client.send(m.Terminate())
        assert said(waiting.message()) == "C DROP_REPLICATION_SLOT"
        waiting.socket.close()
    with subprocess.Popen([TAILRACE, "slot", "receive", "u", *state, "-f", "-", "--create-slot", str(server.data_dir), "--database",
                           "postgres"], stdout=subprocess.DEVNULL) as receiver:  # fmt: skip
        _until(lambda: "u" in _names(served) and _column(served, "u", "active"))
        with (
            served.connect(replication="database") as client,
            pytest.raises(psycopg.errors.ObjectInUse, match=f"PID {receiver.pid}"),
        ):
            client.execute(b"START_REPLICATION SLOT u LOGICAL 0/0")
        receiver.terminate()


def _names(served: Served) -> list[str]:
    with served.connect() as client:
        return [row[0] for row in client.execute("SELECT slot_name FROM pg_replication_slots").fetchall()]


def test_temporary_slots_are_the_sessions(served: Served) -> None:
    with served.connect(replication="database") as client:
        client.execute(b"CREATE_REPLICATION_SLOT mine TEMPORARY LOGICAL test_decoding (SNAPSHOT 'nothing')")
        with served.connect(replication="database") as other, pytest.raises(psycopg.errors.ObjectInUse):
            other.execute(b"START_REPLICATION SLOT mine LOGICAL 0/0")
        assert client.execute("SELECT count(*) FROM pg_logical_slot_peek_changes('mine', NULL, NULL)").fetchone() == (0,)
        with pytest.raises(psycopg.errors.UndefinedObject):
            client.execute("SHOW nonesuch")
        assert _names(served) == []
        client.execute(b"CREATE_REPLICATION_SLOT mine TEMPORARY LOGICAL test_decoding (SNAPSHOT 'nothing')")
    _until(lambda: _names(served) == [])


def test_queries_that_do_not_wait_for_answers(served: Served) -> None:
    with RawClient(served.port, **WHO) as client:
        client.send(*[m.Query(text) for text in ("SHOW wal_level", "", "SHOW nonesuch", "SELECT 1", "IDENTIFY_SYSTEM")])
        told = [[said(each) for each in client.until(m.ReadyForQuery)] for _ in range(5)]
    assert [each[-2].split(":")[0] for each in told] == ["C SHOW", "I ", "E ERROR 42704", "C SELECT 1", "C IDENTIFY_SYSTEM"]


def test_a_publication_that_is_not_there(server: Server, served: Served) -> None:
    """Since 18 the stream goes on, and its client is warned."""
    _slot(served, "s", "pgoutput")
    server.say("INSERT INTO t VALUES (130)")
    client = RawClient(served.port, **WHO)
    client.send(m.Query("START_REPLICATION SLOT s LOGICAL 0/0 (proto_version '1', publication_names 'nope')"))
    while not isinstance(message := client.message(), m.NoticeResponse):
        assert message is not None
    assert message.fields["M"].startswith('skipped loading publication "nope"')
    client.socket.close()


def test_the_server_ends(server: Server, tmp_path: Path) -> None:
    with Served(server.data_dir, tmp_path / "state") as served:
        _slot(served, "s")
        server.say("INSERT INTO t VALUES (140)")
        idle = RawClient(served.port, **WHO)
        with RawStream(served, "s") as stream:
            last = stream.data(3)[-1]
            assert served.process is not None
            served.process.send_signal(signal.SIGTERM)
            while not (isinstance(message := stream.next(), PrimaryKeepalive) and message.wants_reply):
                assert isinstance(message, PrimaryKeepalive)
            assert message.end >= last.start
            stream.report(message.end, message.end)
            told = [said(each) for each in iter(stream.client.message, None) if not isinstance(each, m.CopyData)]
            assert told == ["c", "C COPY 0"]
        assert said(idle.message()) == "E FATAL 57P01: terminating connection due to administrator command"
        assert served.process.wait(20) == 0
        served.start()
        assert Lsn.parse(_column(served, "s", "confirmed_flush_lsn")) >= last.start


def test_who_does_not_read_holds_back_nobody_else(server: Server, served: Served) -> None:
    for name in ("slow", "quick"):
        _slot(served, name)
    server.say("INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1000, 60000) i")
    with RawStream(served, "slow"), RawStream(served, "quick") as quick:
        began = time.monotonic()
        assert quick.data(59003)[-1].payload.startswith(b"COMMIT")
        assert time.monotonic() - began < 60
    server.say("DELETE FROM t WHERE id >= 1000")


def test_prepared_before_a_stream_that_begins_to_give_prepared_ones(tmp_path: Path) -> None:
    """What was prepared behind the slot's position, and before that at which the client starts, comes whole at COMMIT PREPARED."""
    settings: dict[str, str | int] = {"wal_level": "logical", "wal_keep_size": "200MB", "max_prepared_transactions": 10}
    options = " (proto_version '3', publication_names 'p', two_phase 'on')"
    with Server(18, settings) as source:
        source.say("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t")
        with Served(source.dsn(), tmp_path / "state") as served:
            for by in (source, served):
                with by.connect() as client:
                    client.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
            with source.connect() as writer:
                writer.execute("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'g'")
                writer.execute("INSERT INTO t VALUES (2)")
            start = str(source.value("SELECT pg_current_wal_insert_lsn()"))
            source.say("COMMIT PREPARED 'g'")
            came = []
            for by in (source, served):
                with RawStream(by, "s", start, options) as stream:
                    came.append([each.payload[:1] for each in stream.data(5)])
            assert came[0] == came[1] == [b"b", b"R", b"I", b"P", b"K"]
