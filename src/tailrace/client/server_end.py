"""Up to where a server has its log by now, asked again and again by many at once.

In: a connection string. Out: an LSN behind all that anybody can see on the server when it is asked. What was committed with synchronous_commit = off
is visible before it is flushed, so it is the LSN where the server inserts what comes next; something is committed then, which has the rest flushed
soon. Who is let in for replication only hears from IDENTIFY_SYSTEM what is flushed. The connection is kept for whoever asks next, and given back when
nobody has for a while.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tailrace.client.conninfo import conninfo_of
from tailrace.client.replication_connection import ReplicationConnection
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
from tailrace.model import Lsn

_PATIENCE, _AWAY, _IDLE = 5.0, 2.0, 10.0
"""Seconds in which the server must answer; for which all who ask take one to be away that had them wait; and after which the connection is idle."""
_LONG, _LOOK_AGAIN = 1.0, 0.2
_END = """
SELECT CASE WHEN pg_catalog.pg_is_in_recovery()
  THEN greatest(pg_catalog.pg_last_wal_receive_lsn(), pg_catalog.pg_last_wal_replay_lsn()) ELSE pg_catalog.pg_current_wal_insert_lsn() END,
  CASE WHEN pg_catalog.pg_is_in_recovery() THEN false ELSE pg_catalog.pg_current_wal_insert_lsn() > pg_catalog.pg_current_wal_flush_lsn() END
"""
_WAIT_FOR_NOBODY = "SELECT pg_catalog.set_config('synchronous_commit', 'local', false)"
_COMMIT_SOMETHING = "SELECT pg_catalog.pg_current_xact_id()"


class ServerEnd:
    """May be asked by threads; one asks at a time."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._lock = threading.Lock()
        self._connection: _Session | ReplicationConnection | None = None
        self._until = self._away_until = self._used = 0.0

    def find(self) -> Lsn | None:
        """None where the server does not answer."""
        with self._lock:
            if time.monotonic() < self._away_until:
                return None
            began = time.monotonic()
            self._until = began + _PATIENCE
            try:
                return self._asked()
            except PeerError:
                self._close()
                if time.monotonic() - began > _LONG:
                    self._away_until = time.monotonic() + _AWAY
                return None
            finally:
                self._used = time.monotonic()

    def _asked(self) -> Lsn:
        if self._connection is not None:
            with suppress(PeerError):  # it may have ended since, by the server's restart or by its idle_session_timeout
                return _end_by(self._connection)
            self._close()
        with suppress(PeerError):
            self._connection = _Session.opened(self._dsn, self._is_late)
            return _end_by(self._connection)
        self._close()
        self._connection = ReplicationConnection(self._dsn, self._is_late)
        return _end_by(self._connection)

    def _is_late(self) -> bool:
        return time.monotonic() > self._until

    @property
    def is_idle(self) -> bool:
        """Whether there is a connection that nobody has had need of for a while."""
        return self._connection is not None and time.monotonic() - self._used > _IDLE

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


@dataclass(slots=True)
class _Session:
    """psycopg's connection, that is asked for as long as nobody says that it is late. What goes wrong is a PeerError."""

    connection: Any
    is_late: Callable[[], bool]

    @classmethod
    def opened(cls, dsn: str, is_late: Callable[[], bool]) -> _Session:
        import psycopg  # noqa: PLC0415 - only those who connect need it

        try:
            words = conninfo_of(
                dsn, connect_timeout=int(_PATIENCE), client_encoding="UTF8", options="-c synchronous_commit=local"
            )
            return cls(psycopg.connect(words, autocommit=True, fallback_application_name="tailrace"), is_late)
        except psycopg.Error as error:
            raise PeerError(str(error), sqlstate="08006") from error

    def ask(self, query: str) -> list[str]:
        """The one row, as the server prints it."""
        raw = self.connection.pgconn
        try:
            raw.send_query(query.encode())
            raw.flush()
            while raw.is_busy():
                if self.is_late():
                    raise PeerError("the server does not answer", sqlstate="08006")
                select.select([raw.socket], [], [], _LOOK_AGAIN)
                raw.consume_input()
            result = raw.get_result()
            while raw.get_result() is not None:
                pass
        except self.connection.Error as error:
            raise PeerError(str(error), sqlstate="08006") from error
        if result is None or not result.ntuples:
            raise PeerError("the server does not tell where its log ends", sqlstate="08006")
        return [(result.get_value(0, column) or b"").decode() for column in range(result.nfields)]

    def close(self) -> None:
        self.connection.close()


def _end_by(connection: _Session | ReplicationConnection) -> Lsn:
    if isinstance(connection, ReplicationConnection):
        return connection.identify().flushed
    end, is_unflushed = connection.ask(_END)
    if is_unflushed == "t":
        connection.ask(_COMMIT_SOMETHING)
    return Lsn.parse(end)
