"""The state location of a server that is connected to: where its log is received, for slots and sessions there.

In: a connection string, and a state location, which is made if there is none. Out: the location, and its `ReceivedLog`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tailrace.client.replication_connection import server_identity
from tailrace.errors import PeerError
from tailrace.replication.slot_location import SlotLocation
from tailrace.sources.received_log import RECEIVED, ReceivedLog
from tailrace.storage.segment_files import list_segments


def log_of_server(dsn: str, state: Path, warn: Callable[[str], None]) -> tuple[SlotLocation, ReceivedLog]:
    """The location, which is of this server's system from now on. Raises UsageError where it is another's; PeerError where the server cannot be
    reached, and nothing was received from it before."""
    try:
        system = server_identity(dsn).system
    except PeerError as error:
        if not state.is_dir() or not list_segments(state / RECEIVED):
            raise
        warn(f"{error.message.splitlines()[0]}; there is what was received before")
        location = SlotLocation.open(state, warn=warn)
    else:
        location = SlotLocation.open_or_create(state, system, warn=warn)
        location.check_system(system)
    return location, ReceivedLog.made(location.path, dsn)
