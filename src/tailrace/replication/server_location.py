"""The state location of a server that is connected to: where its log is received, for slots and sessions there.

In: a connection string, and a state location, which is made if there is none. Out: `LogOfServer`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tailrace.client.replication_connection import server_identity
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError, UsageError
from tailrace.model import Lsn
from tailrace.replication.slot_location import SlotLocation
from tailrace.sources.dsn import is_dsn
from tailrace.sources.received_log import ReceivedLog
from tailrace.storage.location_folder import RECEIVED
from tailrace.storage.segment_files import list_segments


@dataclass(frozen=True, slots=True)
class LogOfServer:
    """`flushed` is how far the server had flushed its log; 0 where it could not be asked."""

    location: SlotLocation
    log: ReceivedLog
    flushed: Lsn


def log_of_server(
    dsn: str, state: Path, warn: Callable[[str], None], physical_slot: str = "", restore_command: str = ""
) -> LogOfServer:  # fmt: skip
    """That of the location, which is of this server's system from now on; received with this slot and command, or as it was before.

    Raises:
        UsageError: the location is of another system.
        PeerError: the server cannot be reached, and nothing was received from it before.
    """
    try:
        server = server_identity(dsn)
    except PeerError as error:
        if not state.is_dir() or not list_segments(state / RECEIVED):
            raise
        warn(f"{error.message.splitlines()[0]}; there is what was received before")
        location, flushed = SlotLocation.open(state, warn=warn), Lsn(0)
    else:
        location, flushed = SlotLocation.open_or_create(state, server.system, warn=warn), server.flushed
        location.check_system(server.system)
    return LogOfServer(location, ReceivedLog.made(location.path, dsn, physical_slot, restore_command), flushed)


def directory_to_read(source: str, state: Path, warn: Callable[[str], None]) -> Path:
    """The directory of a SOURCE's log: of a server, that in the state location, with all that the server has by now. Raises UsageError if there is
    none."""
    if not is_dsn(source):
        if not Path(source).is_dir():
            raise UsageError(f'source directory "{source}" does not exist')
        return Path(source)
    server = log_of_server(source, state, warn)
    if server.flushed:
        server.log.receive_upto(server.flushed, warn)
    else:
        server.log.catch_up(warn)
    return server.log.directory
