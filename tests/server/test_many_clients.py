"""Two hundred clients at once, of whom some stream, some do not read, and some send what is no message."""

from __future__ import annotations

import random
import socket
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from support.raw_client import RawClient
from support.raw_stream import WHO, RawStream
from support.served import Served
from support.servers import Server
from tailrace.wire.startup import StartupMessage, write_startup

pytestmark = pytest.mark.postgres
CLIENTS, STREAMS, ROWS = 200, 20, 3000
MOST_BYTES = 2 << 30
"""What the server may take, of all its clients together."""


@pytest.mark.soak
def test_two_hundred(tmp_path: Path) -> None:
    options = ("--max-connections", str(CLIENTS + 20), "--max-wal-senders", str(STREAMS + 5))
    with Server(18, {"max_connections": 20}) as server, Served(server.data_dir, tmp_path / "state", *options) as served:
        with served.connect() as client:
            client.execute("SELECT 1")
        _allow_slots(tmp_path / "state", STREAMS + 5)
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)")
        for number in range(STREAMS + 1):
            with served.connect(replication="database") as client:
                client.execute(f"CREATE_REPLICATION_SLOT s{number} LOGICAL test_decoding (SNAPSHOT 'nothing')".encode())
        server.say(
            *(f"INSERT INTO t SELECT {100 * i} + j, repeat('x', 200) FROM generate_series(1, 100) j" for i in range(ROWS // 100))
        )
        alone = _all_streams(served, 1)
        with ExitStack() as held:
            for _ in range(CLIENTS - STREAMS - 3):
                held.enter_context(RawClient(served.port, user="postgres", database="postgres"))
            held.enter_context(RawStream(served, f"s{STREAMS}"))  # which never reads
            garbage = held.enter_context(_Nuisance(served.port, lambda dice: dice.randbytes(dice.randrange(1, 2000)), 0.05))
            slow = held.enter_context(_Nuisance(served.port, lambda _: b"\x00", 0.1))
            together = _all_streams(served, STREAMS)
            process = psutil.Process(served.process.pid)  # type: ignore[union-attr]
            assert process.memory_info().rss < MOST_BYTES
            assert garbage.sent
            assert slow.sent
        assert together < alone / 0.8, (together, alone)  # a row of one of many streams costs no more than of one alone
        assert "Traceback" not in served.said()


def _allow_slots(state: Path, count: int) -> None:
    from tailrace.replication.slot_location import SlotLocation  # noqa: PLC0415

    SlotLocation.open(state).configure({"max_replication_slots": str(count)})


def _all_streams(served: Served, count: int) -> float:
    """CPU seconds of the server for each row that so many streams are given at once: others that work on this machine do not change it much."""
    failed: list[BaseException] = []

    def read(number: int) -> None:
        try:
            with RawStream(served, f"s{number}") as stream:
                stream.data(ROWS + 2 * (ROWS // 100))
        except BaseException as error:
            failed.append(error)

    readers = [threading.Thread(target=read, args=(number,)) for number in range(count)]
    before = _cpu_of(served)
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert not failed, failed
    return (_cpu_of(served) - before) / (count * ROWS)


def _cpu_of(served: Served) -> float:
    used = psutil.Process(served.process.pid).cpu_times()  # type: ignore[union-attr]
    return float(used.user + used.system)


class _Nuisance:
    """Sends something again and again, on as many connections as it takes."""

    def __init__(self, port: int, draw: object, pause: float) -> None:
        self._port, self._draw, self._pause = port, draw, pause
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = 0

    def __enter__(self) -> _Nuisance:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        dice = random.Random(7)
        while not self._stop.is_set():
            with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 5) as connection:
                while not self._stop.wait(self._pause):
                    connection.sendall(self._draw(dice))  # type: ignore[operator]
                    self.sent += 1


@pytest.mark.parametrize(
    "seconds", [pytest.param(4, id="a-moment", marks=pytest.mark.soak), pytest.param(600, id="ten-minutes", marks=pytest.mark.marathon)]
)  # fmt: skip
def test_drawn_packets_and_commands(seconds: int, tmp_path: Path) -> None:
    """No crash, no hang, no traceback, no path in what a client is told."""
    dice = random.Random(seconds)
    options = ("--authentication-timeout", "2", "--max-connections", "50")
    with Server(18) as server, Served(server.data_dir, tmp_path / "state", *options) as served:
        server.say("CREATE TABLE t (id int PRIMARY KEY)")
        until, told = time.monotonic() + seconds, bytearray()
        while time.monotonic() < until:
            with suppress(OSError):
                told += _drawn(served.port, dice)
        with RawClient(served.port, **WHO) as client:
            assert client.query("IDENTIFY_SYSTEM").endswith("C IDENTIFY_SYSTEM | Z I")
        assert "Traceback" not in served.said(), served.said().partition("Traceback")[2][:3000]
        assert str(server.data_dir).encode() not in told
        assert str(tmp_path).encode() not in told


_COMMANDS = (
    *"""IDENTIFY_SYSTEM SHOW CREATE_REPLICATION_SLOT DROP_REPLICATION_SLOT START_REPLICATION SLOT LOGICAL PHYSICAL a b test_decoding
    pgoutput wal2json 0/0 FF/FFFFFFFF ( ) , 'x' '1' proto_version TEMPORARY SNAPSHOT 'nothing' ; TIMELINE 7 " ' two_phase WAIT
    ALTER_REPLICATION_SLOT READ_REPLICATION_SLOT TIMELINE_HISTORY SELECT * FROM pg_replication_slots BEGIN COMMIT pg_stat_activity
    $1 é""".split(),
    "pg_logical_slot_get_changes('a', NULL, NULL)", "\0",
)  # fmt: skip


def _drawn(port: int, dice: random.Random) -> bytes:
    """A connection that begins well or not, and goes on badly; what it was told."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.settimeout(0.3)
        start = write_startup(
            StartupMessage(
                196608, {"user": "postgres", "database": "postgres", "replication": dice.choice(["database", "true", "false"])}
            )
        )
        if dice.randrange(4) == 0:
            start = _damaged(start, dice)
        connection.sendall(start)
        told = _told(connection)
        for _ in range(dice.randrange(1, 6)):
            connection.sendall(_message(dice))
            told += _told(connection)
    return told


def _message(dice: random.Random) -> bytes:
    text = " ".join(dice.choices(_COMMANDS, k=dice.randrange(1, 12))).encode() + b"\0"
    byte = dice.choice(b"QQQQQQPBDECSHdcfXF\x00p")
    message = bytes([byte]) + (len(text) + 4).to_bytes(4, "big") + text
    return _damaged(message, dice) if dice.randrange(3) == 0 else message


def _damaged(data: bytes, dice: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(dice.randrange(1, 4)):
        found[dice.randrange(len(found))] = dice.randrange(256)
    return bytes(found[: dice.randrange(1, len(found) + 1)])


def _told(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 16)
    except TimeoutError:
        return b""
