"""`tailrace wal receive`: a server's log into a directory, until a signal ends it. What only state locations need is loaded where there are some."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.cli.signals import handling
from tailrace.client.receiver import Confirmed, Receiver
from tailrace.client.replication_connection import ReplicationConnection
from tailrace.client.restore_command import RestoreCommand
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
from tailrace.model import Lsn
from tailrace.slots.wal_keep import WalKeep
from tailrace.storage.location_folder import is_received

if TYPE_CHECKING:
    from tailrace.replication.retention import Retention

_DUPLICATE = "42710"


@dataclass(frozen=True, slots=True)
class PhysicalSlot:
    """The slot to stream with; empty: none."""

    name: str = ""
    creates: bool = False
    drops: bool = False


@dataclass(frozen=True, slots=True)
class Consumers:
    """What the slots of these state locations need stays in the directory, and `keep` besides. Of nothing of both, all; but in a location's own log
    what that location says. A server waits for those slots that their locations say; `standbys` is what the one location is to say, if not None."""

    states: Sequence[Path] = ()
    keep: WalKeep = WalKeep()
    standbys: str | None = None

    def retention(self, directory: Path) -> Retention | None:
        if not (self.states or self.keep or is_received(directory)):
            return None
        from tailrace.replication.retention import Retention, retention_of  # noqa: PLC0415 - see the module
        from tailrace.sources.received_log import ReceivedLog  # noqa: PLC0415

        if self.states or self.keep:
            return Retention(directory, self.states, self.keep, _warn)
        own = ReceivedLog.of(directory)
        return retention_of(own, _warn) if own is not None else None

    def confirmed(self, directory: Path) -> Confirmed | None:
        """None where there are no slots. Raises UsageError for what is no state location."""
        states = self.states or ([directory.absolute().parent] if is_received(directory) else [])
        if not states:
            return None
        from tailrace.replication.slot_location import SlotLocation  # noqa: PLC0415 - see the module
        from tailrace.storage.synchronous_slots import SynchronousSlots  # noqa: PLC0415

        for state in self.states:
            location = SlotLocation.open(state, warn=_warn)
            if self.standbys is not None:
                location.configure({"synchronous_standby_names": self.standbys})
        found = [SynchronousSlots(state, _warn).confirmed for state in states]
        return lambda: min((lsn for each in found if (lsn := each()) is not None), default=None)


def receive_wal(
    dsn: str, directory: Path, slot: PhysicalSlot, upto: Lsn | None, consumers: Consumers, restore: RestoreCommand | None, *, retries: bool
) -> None:  # fmt: skip
    """Raises as `Receiver.run` does, and UsageError for what is no state location. The log of a location is received as that says, unless this
    does."""
    if slot.drops:
        with ReplicationConnection(dsn) as connection:
            connection.drop_slot(slot.name)
        return
    confirmed = consumers.confirmed(directory)
    if slot.creates:
        with ReplicationConnection(dsn) as connection:
            _create(connection, slot.name)
    name = slot.name
    if is_received(directory):
        from tailrace.sources.received_log import ReceivedLog  # noqa: PLC0415 - see the module

        server, command = ReceivedLog(directory).with_command(_warn)
        name, restore = name or server.slot, restore or command
    receiver = Receiver(dsn, directory, slot=name, upto=upto, retries=retries, restore=restore, tell=_tell, warn=_warn)
    if confirmed is not None:
        receiver.confirmed = confirmed
    retention = consumers.retention(directory)
    stops = dict.fromkeys((signal.SIGINT, signal.SIGTERM), lambda *_: receiver.stop())
    with handling(stops):
        with retention.cleaning(lambda: receiver.is_at_work) if retention is not None else nullcontext():
            end = receiver.run()
        if retention is not None:
            retention.clean_up_after()
    _tell(f"received up to {end}" if end else "nothing was received")


def _create(connection: ReplicationConnection, name: str) -> None:
    try:
        connection.create_slot(name, temporary=False)
    except PeerError as error:
        if error.sqlstate != _DUPLICATE:
            raise
        raise PeerError(
            error.message,
            hint="--create-slot is for the first time: leave it out to use the slot that is there.",
            sqlstate=_DUPLICATE,
        ) from error


def _warn(text: str) -> None:
    _tell(f"warning: {text}")


def _tell(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')}  {text}\n")
