"""What a COPY … TO STDOUT brings, as it comes from the socket: many messages at a time, where libpq gives one a call.

In: a session that is idle, and the command. Out: `CopyOut`, whose `read` gives what has come and is not `used` yet: whole messages, and the beginning
of the next. libpq takes no part: it has sent no query, awaits no answer, and finds the session idle when all was read. Where there is TLS or GSSAPI
in between, it is libpq that reads, message by message, and they are put together again.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.client.copy_rate import CopyRate
from tailrace.errors import PeerError
from tailrace.wire.binary_copy import MESSAGE, CopiedFields, header_size, message_size
from tailrace.wire.error_fields import error_of
from tailrace.wire.formats import Side, read_message, write_message
from tailrace.wire.messages import CopyData, ErrorResponse, Query, ReadyForQuery

_BUFFER = 4 << 20
_ENOUGH = 2 << 20
"""Bytes from which on it is worth to look at what has come: each look costs a fraction of a millisecond, whatever it finds."""
GATHERED = 0.0005
"""Seconds to sleep once something has come: a server sends rows 8 kB at a time, and to be woken for each would cost more than to read it."""
_PATIENCE = 100
"""Milliseconds after which what has come is looked at, however little it is."""
_DATA = ord("d")
_READY = b"Z\0\0\0\5"


def copied_rows(
    session: Any, command: str, columns: int, rate: CopyRate | None = None, *, keeps_session: bool = False, gathered: float = GATHERED,
) -> Generator[CopiedFields]:  # fmt: skip
    """The rows that a COPY in binary form brings, some at a time, `gathered` for so many seconds; each are there until the next are asked
    for. Where they are not asked for to the end, the session is closed; or the rest is passed over, if the session is to be kept. Raises PeerError
    as the server does, and for what are no such rows."""
    copy = CopyOut(session, command, rate, gathered)
    rows = _rows(copy, columns)
    try:
        for each in rows:  # noqa: UP028 - yield from would close them with this
            yield each
    finally:
        if keeps_session:
            with suppress(PeerError):
                for _ in rows:
                    pass
        if not copy.is_over:
            session.close()


def _rows(copy: CopyOut, columns: int) -> Iterator[CopiedFields]:
    header = -1
    while (data := copy.read()) is not None:
        if header < 0:
            header = header_size(data[MESSAGE : MESSAGE + 32].tobytes())
        rows = CopiedFields.of(data, columns, header=header)
        header = 0
        if len(rows):
            yield rows
        copy.use(rows.used)


class CopyOut:
    """A COPY that was begun in a session. State: the bytes from `_first` to `_end` of the buffer have come and are not used yet; the session is idle
    again once the copy `is_over`."""

    def __init__(self, session: Any, command: str, rate: CopyRate | None = None, gathered: float = GATHERED) -> None:
        self.is_over, self._rate, self._gathered = False, rate, gathered
        self._enough = _ENOUGH if rate is None else min(_ENOUGH, rate.most_at_once)
        self._buffer = np.empty(_BUFFER, np.uint8)
        self._first = self._end = 0
        self._error: PeerError | None = None
        connection = session.pgconn
        if connection.ssl_in_use or connection.used_gssapi:
            self._messages: Iterator[bytes] | None = _messages(session, command)
            return
        self._messages = None
        self._socket, self._poll = connection.socket, select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._send(write_message(Side.FRONTEND, Query(command)))

    def read(self) -> NDArray[np.uint8] | None:
        """Wait for a whole message of data; None behind the last. Raises PeerError as the server does."""
        while not self._has_data():
            if self.is_over:
                if self._error is not None:
                    raise self._error
                return None
            self._make_room()
            before = self._end
            if self._messages is None:
                self._receive()
            else:
                self._take_messages(self._messages)
            if self._rate is not None:
                self._rate.wait_for(self._end - before)
        return self._buffer[self._first : self._end]

    def use(self, count: int) -> None:
        """So many bytes of what was read are not wanted any more."""
        self._first += count

    # -- messages ----------------------------------------------------------------------------------------------------------------------

    def _has_data(self) -> bool:
        """Whether a whole message of data comes next; others are read before that."""
        while (size := self._next_size()) <= self._end - self._first:
            if self._buffer[self._first] == _DATA:
                return True
            self._hear(self._buffer[self._first : self._first + size].tobytes())
            self._first += size
        return False

    def _next_size(self) -> int:
        return message_size(self._buffer[self._first : self._end])

    def _hear(self, data: bytes) -> None:
        message = read_message(Side.BACKEND, data[0], data[MESSAGE:])
        if isinstance(message, ErrorResponse):
            self._error = error_of(message.fields)
        self.is_over |= isinstance(message, ReadyForQuery)

    def _make_room(self) -> None:
        """At the end of the buffer, for the message that has begun at least."""
        rest = self._buffer[self._first : self._end]
        wanted = max(_BUFFER, self._next_size())
        if len(self._buffer) < wanted or len(self._buffer) > max(_BUFFER, 2 * wanted):
            self._buffer = np.empty(wanted, np.uint8)
        self._buffer[: len(rest)] = rest.copy()
        self._first, self._end = 0, len(rest)

    # -- the socket --------------------------------------------------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._socket, data) :]
            except BlockingIOError:
                select.select([], [self._socket], [])
            except OSError as error:
                raise self._gone(str(error)) from error

    def _receive(self) -> None:
        """Until there is enough, or no more is to come."""
        view = self._buffer.data
        if self._rate is not None:
            view = view[: max(self._end + self._enough, self._next_size())]
        while self._poll.poll(_PATIENCE if self._end else None):
            time.sleep(self._gathered)
            while self._end < len(view):
                try:
                    count = os.readv(self._socket, [view[self._end :]])
                except BlockingIOError:
                    break
                except OSError as error:
                    raise self._gone(str(error)) from error
                if not count:
                    if self._has_data():  # what came before is taken first, and then what the server has said
                        return
                    raise self._error or self._gone("server closed the connection unexpectedly")
                self._end += count
            if self._end >= min(len(view), self._enough) or bytes(view[max(0, self._end - 6) : self._end - 1]) == _READY:
                return

    def _gone(self, message: str) -> PeerError:
        return PeerError(message, sqlstate="08006")

    # -- libpq -------------------------------------------------------------------------------------------------------------------------

    def _take_messages(self, messages: Iterator[bytes]) -> None:
        for data in messages:
            whole = write_message(Side.BACKEND, CopyData(data))
            if self._end + len(whole) > len(self._buffer):
                self._buffer = np.concatenate([self._buffer[: self._end], np.empty(len(whole) + _BUFFER, np.uint8)])
            self._buffer[self._end : self._end + len(whole)] = np.frombuffer(whole, np.uint8)
            self._end += len(whole)
            if self._end >= self._enough:
                return
        self.is_over = True


def _messages(session: Any, command: str) -> Iterator[bytes]:
    with session.cursor().copy(command) as copy:
        for data in copy:
            yield bytes(data)
