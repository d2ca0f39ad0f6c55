"""A replication connection to a PostgreSQL server, as a standby has one (manual, "Streaming Replication Protocol"), on libpq.

In: a connection string or URI, with all that libpq finds beside it (service file, .pgpass, environment, TLS). Out: what the server answers, and
the messages of a physical stream. libpq is never left to wait by itself: it would hold the interpreter's lock meanwhile, so that neither a signal nor
another thread came to its turn while a server is silent.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Any, Self

from tailrace.client.conninfo import conninfo_of, parameters_of, used_by
from tailrace.client.libpq import (
    COMMAND_OK,
    COPY_BOTH,
    COPY_IN,
    COPY_OUT,
    MESSAGE_DETAIL,
    MESSAGE_HINT,
    MESSAGE_PRIMARY,
    OK,
    SQLSTATE,
    TUPLES_OK,
    Libpq,
    Messages,
    libpq,
)
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
from tailrace.model import Lsn

_UNITS = {"kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
APPLICATION_NAME = "tailrace"
_SILENT = 60.0
"""Seconds in which a server must answer a command."""
_LOOK_EVERY = 0.1
_SOON = 0.001
"""Seconds after which libpq reads on where OpenSSL has more, of which the socket says nothing."""
_LOST = "08006"


@dataclass(frozen=True, slots=True)
class SystemIdentity:
    """What IDENTIFY_SYSTEM tells: the cluster, its timeline, and how far its log is flushed."""

    system: int
    timeline: int
    flushed: Lsn


@dataclass(frozen=True, slots=True)
class TimelineEnd:
    """A stream has ended since its timeline has: which one follows, and where it was left."""

    next_timeline: int
    left_at: Lsn


class ReplicationConnection:
    """One connection. Each method raises PeerError with the server's words and SQLSTATE, 08006 where there is no server any more, or none that
    answers. `is_stopping` is asked while it is waited for the server to let us in, or to answer a command: who is to stop hears PeerError at once."""

    def __init__(self, dsn: str, is_stopping: Callable[[], bool] | None = None) -> None:
        library = libpq()
        self._lost, self._is_stopping = library.errors, is_stopping or _never
        self._messages, self._has_unread = library.messages, library.has_unread
        words = conninfo_of(dsn, dbname="replication", replication="true")
        given = parameters_of(words)
        if "application_name" not in given and "fallback_application_name" not in given:
            words = conninfo_of(words, fallback_application_name=APPLICATION_NAME)
        self._raw = _connected(library, words, self._is_stopping)
        if self._raw.status != OK:
            from tailrace.client.refusals import refused  # noqa: PLC0415 - who is let in has no use for it

            error = refused(dsn, _text(self._raw.error_message), used_by(self._raw))
            self._raw.finish()
            raise error
        self._poll, self._other = select.poll(), -1
        self._poll.register(self._raw.socket, select.POLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._raw.finish()

    # -- commands --------------------------------------------------------------------------------------------------------------

    def identify(self) -> SystemIdentity:
        """IDENTIFY_SYSTEM."""
        ((system, timeline, flushed, *_),) = self._rows("IDENTIFY_SYSTEM")
        return SystemIdentity(int(system), int(timeline), Lsn.parse(flushed))

    def show(self, parameter: str) -> str:
        """SHOW."""
        ((value,),) = self._rows(f"SHOW {parameter}")
        return value

    def segment_size(self) -> int:
        """wal_segment_size in bytes."""
        shown = self.show("wal_segment_size")
        return int(shown[:-2]) * _UNITS[shown[-2:]]

    def timeline_history(self, timeline: int) -> bytes:
        """TIMELINE_HISTORY: what stands in the timeline's history file."""
        result = self._checked(self._answer(f"TIMELINE_HISTORY {timeline}"))
        return bytes(result.get_value(0, 1) or b"")

    def create_slot(self, name: str, *, temporary: bool) -> None:
        """A physical slot, that keeps WAL from where it is made."""
        kind = "TEMPORARY " if temporary else ""
        self._checked(self._answer(f'CREATE_REPLICATION_SLOT "{name}" {kind}PHYSICAL RESERVE_WAL'))

    def drop_slot(self, name: str) -> None:
        self._checked(self._answer(f'DROP_REPLICATION_SLOT "{name}"'))

    # -- a command of several answers, COPY among them -------------------------------------------------------------------------

    def begin(self, command: str) -> None:
        """Send it; `next_rows` and `copied` have what it answers."""
        with self._unless_lost():
            self._raw.send_query(command.encode())

    def next_rows(self) -> Sequence[Sequence[str]] | None:
        """The rows that come next, none where the command is at its end; None where a COPY begins."""
        with self._unless_lost():
            while self._raw.is_busy():
                self.wait(1.0)
                self._raw.consume_input()
            result = self._raw.get_result()
        if result is None:
            return []
        return None if result.status == COPY_OUT else _rows_of(self._checked(result))

    def copied(self) -> Iterator[memoryview]:
        """What the COPY brings, as it comes: libpq's own memory, which stays until the next is asked for."""
        for data in self.messages():
            if data is None:
                self.wait(1.0)
            else:
                yield data

    # -- the stream ------------------------------------------------------------------------------------------------------------

    def start(self, at: Lsn, timeline: int, slot: str = "") -> TimelineEnd | None:
        """START_REPLICATION PHYSICAL. Where the timeline ends there already, what follows it; else None, and messages come."""
        named = f'SLOT "{slot}" ' if slot else ""
        result = self._answer(f"START_REPLICATION {named}PHYSICAL {at} TIMELINE {timeline}")
        if result.status == COPY_BOTH:
            return None
        return self._timeline_end(self._checked(result))

    def messages(self) -> Messages:
        """What comes of the stream, up to its end; `end_of_stream` has what is said there."""
        with self._unless_lost():
            yield from self._messages(self._raw)

    def listen(self, other: int) -> None:
        """Have `wait` end for what comes at this socket, too."""
        if other >= 0:
            self._poll.register(other, select.POLLIN)
            self._other = other

    def wait(self, seconds: float) -> bool:
        """Until something comes, or so much time has gone by. Whether something came at the other socket."""
        if self._has_unread(self._raw):
            seconds = min(seconds, _SOON)
        return self._other in dict(self._poll.poll(seconds * 1000))

    def send(self, data: bytes) -> None:
        """A message to the walsender."""
        with self._unless_lost():
            self._raw.put_copy_data(data)
            self._raw.flush()

    @contextmanager
    def _unless_lost(self) -> Iterator[None]:
        """Raise PeerError (08006) for what libpq raises where there is no connection any more."""
        try:
            yield
        except self._lost as error:
            raise self._lost_by(error) from error

    def _lost_by(self, error: Exception) -> PeerError:
        return PeerError(_text(self._raw.error_message) or str(error), sqlstate=_LOST)

    def end_of_stream(self) -> TimelineEnd | None:
        """Behind the last message: which timeline follows, or None where the server ends. Raises for what made the stream end."""
        with self._unless_lost():
            result = self._next_result()
            if result is not None and result.status in (COPY_IN, COPY_BOTH):
                self._raw.put_copy_end()
                self._raw.flush()
                result = self._next_result()
        if result is None or result.status == COMMAND_OK:
            return None
        return self._timeline_end(self._checked(result))

    def _next_result(self) -> Any:
        """What PQgetResult gives, once it need not wait for that."""
        until = time.monotonic() + _SILENT
        while self._raw.is_busy():
            self._wait_for_answer(until)
        return self._raw.get_result()

    def _timeline_end(self, result: Any) -> TimelineEnd:
        """The row that tells of it; then the connection is ready for a command."""
        end = TimelineEnd(int(result.get_value(0, 0)), Lsn.parse(_text(result.get_value(0, 1))))
        with self._unless_lost():
            while self._next_result() is not None:
                pass
        return end

    def _rows(self, command: str) -> Sequence[Sequence[str]]:
        return _rows_of(self._checked(self._answer(command)))

    def _answer(self, command: str) -> Any:
        """The last result of a command, or that with which a COPY begins, as PQexec gives it."""
        self.begin(command)
        last = None
        try:
            while True:
                result = self._next_result()
                if result is None:
                    return last
                if result.status in (COPY_OUT, COPY_BOTH):
                    return result
                last = result
        except PeerError:
            if last is None:
                raise
        except self._lost as error:
            if last is None:
                raise self._lost_by(error) from error
        return last  # a server that ends the connection says why before

    def _wait_for_answer(self, until: float) -> None:
        if self._is_stopping():
            raise PeerError("it is not waited for the server any more", sqlstate=_LOST)
        if time.monotonic() > until:
            raise PeerError("no word from the server", sqlstate=_LOST)
        self.wait(_LOOK_EVERY)
        self._raw.consume_input()

    def _checked(self, result: Any) -> Any:
        if result.status in (TUPLES_OK, COMMAND_OK):
            return result
        message, detail, hint, state = (
            _text(result.error_field(each) or b"") for each in (MESSAGE_PRIMARY, MESSAGE_DETAIL, MESSAGE_HINT, SQLSTATE)
        )
        lost = _text(result.error_message or self._raw.error_message)
        raise PeerError(message or lost, detail=detail, hint=hint, sqlstate=state or _LOST)


def _never() -> bool:
    return False


def _connected(library: Libpq, words: str, is_stopping: Callable[[], bool]) -> Any:
    """A connection, or what came of it. A thread makes it: libpq waits for a silent server without hearing of signals."""
    made: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            made.append(library.connection.connect(words.encode()))
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=work, name="tailrace connects", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_LOOK_EVERY)
        if thread.is_alive() and is_stopping():
            raise PeerError("it is not waited for the server any more", sqlstate=_LOST)
    if errors:
        raise errors[0]
    return made[0]


def server_identity(dsn: str) -> SystemIdentity:
    """What the server is. Raises PeerError."""
    with ReplicationConnection(dsn) as connection:
        return connection.identify()


def server_major(dsn: str) -> int:
    """The server's major version. Raises PeerError."""
    with ReplicationConnection(dsn) as connection:
        return int(connection.show("server_version_num")) // 10000


def _rows_of(result: Any) -> Sequence[Sequence[str]]:
    return [[_text(result.get_value(row, at) or b"") for at in range(result.nfields)] for row in range(result.ntuples)]


def _text(raw: bytes | memoryview) -> str:
    return bytes(raw).decode("utf-8", "replace").strip()
