"""A logical replication connection to a live server, as a subscriber has one: START_REPLICATION, read as far as somebody asks.

    with LogicalStream(server, "s", {"proto_version": "1", "publication_names": "p"}) as stream:
        server.sql("INSERT INTO t VALUES (1)")
        for lsn, payload in stream.read_to(server.flush_lsn()): ...

Of psycopg it takes no more than libpq's functions: it has no COPY in both directions. Layouts: the manual's Streaming Replication Protocol.
State: the connection, which streams until it is ended.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self

import psycopg
from psycopg.pq import ExecStatus

from tailrace.model import Lsn

Received = tuple[int, bytes]
"""The LSN that the walsender gave with it, 0 if it gave none, and the message."""
_XLOG_DATA, _KEEPALIVE, _STATUS = b"w", b"k", b"r"
_XLOG_DATA_HEADER, _KEEPALIVE_BODY = struct.Struct(">cQQq"), struct.Struct(">cQqB")
_STATUS_UPDATE = struct.Struct(">cQQQqB")
_SECONDS = 60
_UNIX_TO_POSTGRES_EPOCH = 946_684_800


class Connectable(Protocol):
    """A server, PostgreSQL's or ours."""

    def connect(self, *, autocommit: bool = True, **more: Any) -> psycopg.Connection[Any]: ...


class LogicalStream:
    """What the server's plugin sends of a slot, from where the slot is confirmed."""

    def __init__(self, server: Connectable, slot: str, options: Mapping[str, str]) -> None:
        self._connection = server.connect(replication="database")
        self._pgconn = self._connection.pgconn
        given = ", ".join(f"\"{name}\" '{value}'" for name, value in options.items())
        started = self._pgconn.exec_(f'START_REPLICATION SLOT "{slot}" LOGICAL 0/0 ({given})'.encode())
        if started.status != ExecStatus.COPY_BOTH:
            self._connection.close()
            raise psycopg.OperationalError(started.get_error_message())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._connection.close()

    def read_to(self, lsn: str) -> list[Received]:
        """All that it sends of the log before there, which is then confirmed. The server must have flushed it."""
        target, received = int(Lsn.parse(lsn)), []
        self._report(0)
        deadline = time.monotonic() + _SECONDS
        while True:
            data = self._next(deadline)
            if data[:1] == _XLOG_DATA:
                _, start, end, _ = _XLOG_DATA_HEADER.unpack_from(data)
                assert start == end, "a change has one LSN"
                received.append((start, data[_XLOG_DATA_HEADER.size :]))
                continue
            kind, sent, _, asks = _KEEPALIVE_BODY.unpack(data)
            assert kind == _KEEPALIVE, f"not known to a subscriber: {data!r}"
            if sent >= target:
                self._report(sent)
                return received
            if asks:
                self._report(0)

    def end(self) -> list[str]:
        """End it as a subscriber does, and what the server says at last: its command tags."""
        self._pgconn.put_copy_end()
        self._flush()
        deadline = time.monotonic() + _SECONDS
        while (size := self._pgconn.get_copy_data(1)[0]) >= 0:
            if not size:
                self._wait(deadline)
        tags = []
        while (result := self._pgconn.get_result()) is not None:
            assert result.status == ExecStatus.COMMAND_OK, result.get_error_message()
            tags.append((result.command_status or b"").decode())
        return tags

    def _next(self, deadline: float) -> bytes:
        """What comes next, without the frame of CopyData."""
        while True:
            size, data = self._pgconn.get_copy_data(1)
            if size > 0:
                return bytes(data)
            if size < 0:
                result = self._pgconn.get_result()
                raise psycopg.OperationalError(result.get_error_message() if result else "the server ended the stream")
            self._wait(deadline)

    def _wait(self, deadline: float) -> None:
        ready, _, _ = select.select([self._pgconn.socket], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError(f"the walsender sent nothing within {_SECONDS} s")
        self._pgconn.consume_input()

    def _report(self, lsn: int) -> None:
        """A status update: all before there is written, flushed and applied; 0 says nothing. It asks for an answer."""
        now = int((time.time() - _UNIX_TO_POSTGRES_EPOCH) * 1_000_000)
        self._pgconn.put_copy_data(_STATUS_UPDATE.pack(_STATUS, lsn, lsn, lsn, now, lsn == 0))
        self._flush()

    def _flush(self) -> None:
        while self._pgconn.flush():
            select.select([], [self._pgconn.socket], [], _SECONDS)
