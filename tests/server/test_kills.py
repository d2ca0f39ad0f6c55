"""Server and client are killed at any moment: a client that knows how far it is gets every transaction once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from support.decoding import check_equal
from support.raw_stream import RawStream
from support.served import Served
from support.servers import Server
from support.slots import theirs
from tailrace.model import Lsn
from tailrace.wire.messages import CopyData
from tailrace.wire.stream import PrimaryKeepalive, XLogData

pytestmark = pytest.mark.postgres


class Tracking:
    """State: the whole transactions that it has, and where the last of them ends."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.position = Lsn(0)

    def follow(self, served: Served, dice: random.Random, until: Lsn | None = None) -> None:
        """Until the connection is lost; or it has all that commits before there."""
        with RawStream(served, "mine", str(self.position)) as stream:
            open_lines: list[str] = []
            stream.report(0)
            while True:
                message = stream.next()
                if isinstance(message, PrimaryKeepalive):
                    if until is not None and message.end >= until and not open_lines:
                        return
                    if message.wants_reply:
                        stream.report(self.position, self.position)
                elif isinstance(message, XLogData):
                    text = message.payload.decode()
                    if text.startswith("message:"):
                        continue
                    open_lines.append(text)
                    if text.startswith("COMMIT"):
                        self.lines += open_lines
                        self.position, open_lines = message.start, []
                        if not dice.randrange(20):
                            stream.report(self.position, self.position)
                else:
                    assert message is None or not isinstance(message, CopyData)
                    return


@pytest.mark.parametrize(
    "kills", [pytest.param(12, id="a-few", marks=pytest.mark.soak), pytest.param(100, id="many", marks=pytest.mark.marathon)]
)  # fmt: skip
def test_every_transaction_once(kills: int, tmp_path: Path) -> None:
    dice, client = random.Random(kills), Tracking()
    with Server(18) as server, Served(server.data_dir, tmp_path / "state") as served:
        server.say("CREATE TABLE t (id serial PRIMARY KEY, v text)")
        server.sql("SELECT pg_create_logical_replication_slot('theirs', 'test_decoding')")
        with served.connect(replication="database") as connection:
            connection.execute(b"CREATE_REPLICATION_SLOT mine LOGICAL test_decoding (SNAPSHOT 'nothing')")
        with _load(server):
            for _ in range(kills):
                _live(client, served, dice)
        end = Lsn.parse(server.flush_lsn())
        server.sql("SELECT pg_logical_emit_message(false, 'end', '')")
        client.follow(served, dice, end)
        expected = theirs(server)
    check_equal("".join(f"{line}\n" for line in client.lines), _texts(expected))


def _texts(rows: str) -> str:
    texts = [row.split("\t", 2)[2] for row in rows.splitlines()]
    return "".join(f"{text}\n" for text in texts if not text.startswith("message:"))


def _live(client: Tracking, served: Served, dice: random.Random) -> None:
    """A while, and then one of the two is gone."""
    if dice.randrange(2):
        killer = threading.Timer(dice.uniform(0.05, 0.8), served.kill)
        killer.start()
        with suppress(OSError, AssertionError):
            client.follow(served, dice)
        killer.join()
        served.start()
        return
    until = time.monotonic() + dice.uniform(0.05, 0.5)
    with suppress(_Enough):
        client.follow(served, _Impatient(dice, until))


class _Enough(Exception):
    pass


class _Impatient(random.Random):
    """Ends whoever asks it, once the time has come."""

    def __init__(self, dice: random.Random, until: float) -> None:
        super().__init__(dice.randrange(1 << 30))
        self.until = until

    def randrange(self, *given: int) -> int:  # type: ignore[override]
        if time.monotonic() > self.until:
            raise _Enough
        return super().randrange(*given)


@contextmanager
def _load(server: Server) -> Iterator[None]:
    stop = threading.Event()

    def write() -> None:
        with server.connect() as connection:
            number = 0
            while not stop.is_set():
                number += 1
                with suppress(psycopg.Error):
                    connection.execute(
                        f"INSERT INTO t (v) SELECT repeat('x', {number % 50}) FROM generate_series(1, {number % 7})".encode()
                    )
                time.sleep(0.005)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()
