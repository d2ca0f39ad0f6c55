"""Up to where a server has its log by now, asked again and again by many at once.

In: a connection string. Out: the LSN that IDENTIFY_SYSTEM tells, which is never older than the question. The connection is kept for whoever asks
next, and given back when nobody has for a while: it is one of the server's walsenders.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from tailrace.client.replication_connection import ReplicationConnection
from tailrace.errors import PeerError
from tailrace.model import Lsn

_PATIENCE, _AWAY, _IDLE = 5.0, 2.0, 10.0
"""Seconds in which the server must answer; for which all who ask take one to be away that did not; and after which the connection is idle."""


class ServerEnd:
    """May be asked by threads; one asks at a time."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._lock = threading.Lock()
        self._connection: ReplicationConnection | None = None
        self._until = self._away_until = self._used = 0.0

    def find(self) -> Lsn | None:
        """None where the server does not answer."""
        with self._lock:
            if time.monotonic() < self._away_until:
                return None
            self._until = time.monotonic() + _PATIENCE
            try:
                return self._asked()
            except PeerError:
                self._close()
                self._away_until = time.monotonic() + _AWAY
                return None
            finally:
                self._used = time.monotonic()

    def _asked(self) -> Lsn:
        if self._connection is not None:
            with suppress(PeerError):  # it may have ended since, by the server's restart or by its idle_session_timeout
                return self._connection.identify().flushed
            self._close()
        self._connection = ReplicationConnection(self._dsn, lambda: time.monotonic() > self._until)
        return self._connection.identify().flushed

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
