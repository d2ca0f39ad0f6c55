"""A raw client that streams a slot, and reports as it likes."""

from __future__ import annotations

import time
from typing import Any, Protocol

from support.raw_client import RawClient
from tailrace.model import Lsn
from tailrace.wire import messages as m
from tailrace.wire.stream import (
    PrimaryKeepalive,
    StandbyStatusUpdate,
    XLogData,
    read_from_walsender,
    write_to_walsender,
)

WHO = {"user": "postgres", "database": "postgres", "replication": "database"}

_IN_USE = "55006"


class Listening(Protocol):
    """A server, PostgreSQL's or ours."""

    port: int


class RawStream:
    """A raw client that streams."""

    def __init__(self, served: Listening, slot: str, start: str = "0/0", plugin_options: str = "", **more: str) -> None:
        self.client = RawClient(served.port, **WHO, **more)
        assert any(isinstance(each, m.ReadyForQuery) for each in self.client.greeting), "the server went during the login"
        self.begin(slot, start, plugin_options)

    def begin(self, slot: str, start: str = "0/0", options: str = "") -> None:
        self.client.send(m.Query(f"START_REPLICATION SLOT {slot} LOGICAL {start}{options}"))
        answer = self.client.message()
        while isinstance(answer, m.ErrorResponse) and answer.fields["C"] == _IN_USE:  # by a client that has just gone
            list(self.client.until(m.ReadyForQuery))
            time.sleep(0.02)
            self.client.send(m.Query(f"START_REPLICATION SLOT {slot} LOGICAL {start}{options}"))
            answer = self.client.message()
        assert isinstance(answer, m.CopyBothResponse), answer

    def __enter__(self) -> RawStream:
        return self

    def __exit__(self, *error: object) -> None:
        self.client.socket.close()

    def next(self) -> Any:
        message = self.client.message()
        return read_from_walsender(message.data) if isinstance(message, m.CopyData) else message

    def data(self, count: int) -> list[XLogData]:
        """So many payloads."""
        found: list[XLogData] = []
        while len(found) < count:
            message = self.next()
            assert isinstance(message, XLogData | PrimaryKeepalive), message
            if isinstance(message, XLogData):
                found.append(message)
        return found

    def report(self, written: int, flushed: int = 0, applied: int = 0, *, asks: bool = False) -> None:
        update = StandbyStatusUpdate(Lsn(written), Lsn(flushed), Lsn(applied), 0, asks)
        self.client.send(m.CopyData(write_to_walsender(update)))

    def texts(self, count: int) -> list[str]:
        return [each.payload.decode() for each in self.data(count)]
