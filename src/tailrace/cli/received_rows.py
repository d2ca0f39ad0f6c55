"""What `tailrace slot show` says of a log that is received: up to where it is, and what its server keeps for us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tailrace.cli.progress import warn
from tailrace.client.receiver import received_upto
from tailrace.client.server_slot import look_at_slot
from tailrace.client.wal_archive import written_upto
from tailrace.errors import TailraceError
from tailrace.slots.slot import Slot
from tailrace.sources.dsn import without_password
from tailrace.sources.received_log import ReceivedLog

_OF_SERVER = ("server_slot_name", "server_restart_lsn", "server_wal_status", "server_safe_wal_size", "server_flushed_lsn")
_WHAT_THEN = {
    "extended": "and the server's disk fills with what it keeps",
    "unreserved": "and lost with one of the next checkpoints",
    "lost": "and what was not received is gone, unless restore_command brings it; drop it there, and make it again",
}


def reception_of(slot: Slot) -> dict[str, Any]:
    """Of a log that is received: up to where it was, whether somebody is at it, and what the server holds back for us, if it has a physical slot."""
    log = ReceivedLog(Path(slot.source))
    now = received_upto(log.directory)
    received = now or written_upto(log.directory)
    row: dict[str, Any] = {"received_lsn": str(received) if received else None, "receiving": now is not None}
    try:
        server = log.server
        row["primary_conninfo"] = without_password(server.dsn)
        if not server.slot:
            return row
        row |= dict.fromkeys(_OF_SERVER) | {"server_slot_name": server.slot}
        there = look_at_slot(server.dsn, slot.database, server.slot)
    except TailraceError as error:
        warn(f'what the server of "{log.directory}" keeps is not known: {error.message.splitlines()[0]}')
        return row
    if there is None:
        warn(f'replication slot "{server.slot}" does not exist on the server, which keeps nothing for "{log.directory}"')
        return row
    if there.wal_status not in (None, "reserved"):
        warn(
            f'physical replication slot "{server.slot}" of the server is {there.wal_status}: it is far behind, {_WHAT_THEN[there.wal_status]}'
        )
    values = (
        server.slot,
        there.restart_lsn and str(there.restart_lsn),
        there.wal_status,
        there.safe_wal_size,
        str(there.flushed),
    )
    return row | dict(zip(_OF_SERVER, values, strict=True))
