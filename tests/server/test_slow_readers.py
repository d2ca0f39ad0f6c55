"""Clients that stop reading amid a transaction: what they are sent is whole, whatever happens meanwhile, and they are got rid of."""

from __future__ import annotations

import signal
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.raw_stream import RawStream
from support.served import Served
from support.servers import Server
from support.tls import make_certificate
from tailrace.wire import messages as m
from tailrace.wire.startup import CancelRequest, write_startup
from tailrace.wire.stream import PrimaryKeepalive, XLogData

pytestmark = [pytest.mark.postgres, pytest.mark.soak]
ROWS, SIZE = 600, 60_000
"""More than sockets and one message to the client hold."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(18) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)", "ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
        yield server


@pytest.fixture
def served(server: Server, tmp_path: Path) -> Iterator[Served]:
    cert, key = make_certificate(tmp_path)
    server.say("DELETE FROM t")
    with Served(server.data_dir, tmp_path / "state", "--ssl-cert-file", str(cert), "--ssl-key-file", str(key)) as served:
        for name in ("s", "other"):
            with served.connect(replication="database") as client:
                client.execute(f"CREATE_REPLICATION_SLOT {name} LOGICAL test_decoding (SNAPSHOT 'nothing')".encode())
        server.say(f"INSERT INTO t SELECT i, repeat(chr(65 + i % 26), {SIZE}) FROM generate_series(1, {ROWS}) i")
        yield served


def _begun(served: Served, **more: object) -> RawStream:
    stream = RawStream(served, "s", **more)  # type: ignore[arg-type]
    time.sleep(1)  # by now it cannot be sent any more
    return stream


def _active(served: Served) -> bool:
    with served.connect() as client:
        row = client.execute("SELECT active FROM pg_replication_slots WHERE slot_name = 's'").fetchone()
    assert row is not None
    return bool(row[0])


def _free_within(served: Served, seconds: float) -> None:
    until = time.monotonic() + seconds
    while _active(served):
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_answers_go_between_messages(served: Served, tmp_path: Path, *, encrypted: bool) -> None:
    cafile = tmp_path / "server.crt"
    with _begun(served, tls=ssl.create_default_context(cafile=str(cafile)) if encrypted else None) as stream:
        for _ in range(5):
            stream.report(0, asks=True)
            time.sleep(0.05)
        told = [stream.next() for _ in range(2)]
        while not (isinstance(told[-1], XLogData) and told[-1].payload.startswith(b"COMMIT")):
            told.append(stream.next())
        while sum(isinstance(each, PrimaryKeepalive) for each in told) < 5:
            told.append(stream.next())
    rows = [each.payload for each in told if isinstance(each, XLogData) and b"INSERT" in each.payload]
    assert rows == [
        b"table public.t: INSERT: id[integer]:%d v[text]:'%s'" % (i, bytes([65 + i % 26]) * SIZE) for i in range(1, ROWS + 1)
    ]


def test_one_that_goes(served: Served) -> None:
    stream = _begun(served)
    stream.client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # no more than a reset
    stream.client.socket.close()
    _free_within(served, 5)


def test_one_that_says_nothing(served: Served) -> None:
    with _begun(served, options="-c wal_sender_timeout=2s") as stream:
        _free_within(served, 10)
        assert "terminating walsender process due to replication timeout" in served.said()
        while (message := stream.client.message()) is not None:  # whole messages, and then the end
            assert isinstance(message, m.CopyData)


def test_one_whose_query_is_canceled(served: Served) -> None:
    with _begun(served) as stream:
        [key] = [each for each in stream.client.greeting if isinstance(each, m.BackendKeyData)]
        with socket.create_connection(("127.0.0.1", served.port), 20) as other:
            other.sendall(write_startup(CancelRequest(key.pid, key.secret)))
            assert other.recv(1) == b""
        message = stream.client.message()
        while isinstance(message, m.CopyData):
            message = stream.client.message()
        assert isinstance(message, m.ErrorResponse)
        assert message.fields["C"] == "57014"


def test_the_server_ends(served: Served) -> None:
    """It waits for a while, and does not hang."""
    assert served.process is not None
    with _begun(served), RawStream(served, "other") as reads:
        began = time.monotonic()
        served.process.send_signal(signal.SIGTERM)
        while reads.client.message() is not None:
            pass
        served.process.wait(40)
        assert time.monotonic() - began < 30
    assert "Traceback" not in served.said()
    served.start()
    with RawStream(served, "s") as stream:  # nothing was confirmed
        assert len([each for each in stream.data(ROWS + 2) if b"INSERT" in each.payload]) == ROWS
