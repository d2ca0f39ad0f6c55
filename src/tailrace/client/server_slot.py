"""A physical replication slot on a server: made, dropped, and what the server says of it.

In: a connection string, and the slot's name. What the server says is asked over SQL, which a role that may only replicate need not be allowed to.
"""

from __future__ import annotations

from tailrace.client.catalog_files import ServerFiles
from tailrace.client.conninfo import conninfo_of, parameters_of
from tailrace.client.replication_connection import ReplicationConnection
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
from tailrace.model import Lsn

_DUPLICATE, _UNDEFINED = "42710", "42704"
_PATIENCE = "5"
"""Seconds for a connection that only asks."""


@dataclass(frozen=True, slots=True)
class ServerSlot:
    """A physical slot as pg_replication_slots has it, and how far the server's log was flushed then."""

    restart_lsn: Lsn | None
    wal_status: str | None
    safe_wal_size: int | None
    flushed: Lsn


def look_at_slot(dsn: str, database: str, name: str) -> ServerSlot | None:
    """None where there is no such slot. Raises PeerError where the server does not answer, or lets nobody ask."""
    words = {"connect_timeout": _PATIENCE, **parameters_of(dsn)}
    query = "SELECT restart_lsn::text, wal_status, safe_wal_size FROM pg_replication_slots WHERE slot_name = %s AND slot_type = 'physical'"
    with ServerFiles.connected(conninfo_of("", **words), database) as server:
        for restart, status, safe in server.rows(query, name):
            return ServerSlot(None if restart is None else Lsn.parse(restart), status, safe, server.flushed())
    return None


def make_slot(dsn: str, name: str) -> bool:
    """The physical slot on the server. Whether it was made, and not there before."""
    with ReplicationConnection(dsn) as connection:
        try:
            connection.create_slot(name, temporary=False)
        except PeerError as error:
            if error.sqlstate != _DUPLICATE:
                raise
            return False
    return True


def drop_slot(dsn: str, name: str) -> None:
    """It is gone when this returns. Raises PeerError where somebody uses it, or the server cannot be reached."""
    with ReplicationConnection(dsn) as connection:
        try:
            connection.drop_slot(name)
        except PeerError as error:
            if error.sqlstate != _UNDEFINED:
                raise
