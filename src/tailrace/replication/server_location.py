"""The state location of a server that is connected to: where its log is received, for slots and sessions there.

In: a connection string, and a state location, which is made if there is none. Out: `LogOfServer`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.replication.slot_location import SlotLocation
from tailrace.sources.dsn import is_dsn
from tailrace.sources.named import existing
from tailrace.sources.received_log import ReceivedLog, identity_unless_away
from tailrace.sources.source_name import SourceName
from tailrace.storage.location_folder import RECEIVED


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
        PeerError: the server refuses us; or it is away, and nothing was received from it before.
    """
    server = identity_unless_away(dsn, state / RECEIVED, warn)
    if server is None:
        location, flushed = SlotLocation.open(state, warn=warn), Lsn(0)
    else:
        location, flushed = SlotLocation.open_or_create(state, server.system, warn=warn), server.flushed
        location.check_system(server.system)
    return LogOfServer(location, ReceivedLog.made(location.path, dsn, physical_slot, restore_command), flushed)


def log_to_read(source: str, state: Path, warn: Callable[[str], None]) -> SourceName:
    """The name of a SOURCE's log: of a server, the directory in the state location, with all that the server has by now. Raises UsageError if there
    is none."""
    if not is_dsn(source):
        return existing(source)
    server = log_of_server(source, state, warn)
    if server.flushed:
        server.log.receive_upto(server.flushed, warn)
    else:
        server.log.catch_up(warn)
    return server.log.directory
