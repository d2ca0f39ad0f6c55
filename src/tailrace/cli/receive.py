"""`tailrace wal receive`: a server's log into a directory, until a signal ends it."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from tailrace.cli.progress import warn
from tailrace.client.receiver import Receiver
from tailrace.client.replication_connection import ReplicationConnection
from tailrace.client.restore_command import RestoreCommand
from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.replication.retention import Retention, retention_of
from tailrace.replication.slot_location import SlotLocation
from tailrace.slots.wal_keep import WalKeep
from tailrace.sources.received_log import ReceivedLog


@dataclass(frozen=True, slots=True)
class PhysicalSlot:
    """The slot to stream with; empty: none."""

    name: str = ""
    creates: bool = False
    drops: bool = False


@dataclass(frozen=True, slots=True)
class WhatStays:
    """What stays in the directory: what slots of these state locations need, and this besides. Of nothing of both, all; but in a location's own
    log what that location says."""

    states: Sequence[Path] = ()
    keep: WalKeep = WalKeep()

    def retention(self, directory: Path) -> Retention | None:
        if self.states or self.keep:
            return Retention(directory, self.states, self.keep, warn)
        own = ReceivedLog.of(directory)
        return retention_of(own, warn) if own is not None else None


def receive_wal(
    dsn: str, directory: Path, slot: PhysicalSlot, upto: Lsn | None, kept: WhatStays, restore: RestoreCommand | None, *, retries: bool
) -> None:  # fmt: skip
    """Raises as `Receiver.run` does, and UsageError for what is no state location. The log of a location is received as that says, unless this
    does."""
    if slot.drops:
        with ReplicationConnection(dsn) as connection:
            connection.drop_slot(slot.name)
        return
    for state in kept.states:
        SlotLocation.open(state, warn=warn)
    if slot.creates:
        with ReplicationConnection(dsn) as connection:
            connection.create_slot(slot.name, temporary=False)
    name = slot.name
    if (own := ReceivedLog.of(directory)) is not None:
        server, command = own.with_command(warn)
        name, restore = name or server.slot, restore or command
    receiver = Receiver(dsn, directory, slot=name, upto=upto, retries=retries, restore=restore, tell=_tell, warn=warn)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: receiver.stop())
    retention = kept.retention(directory)
    with retention.cleaning(lambda: receiver.is_at_work) if retention is not None else nullcontext():
        end = receiver.run()
    if retention is not None:
        retention.clean_up_after()
    _tell(f"received up to {end}")


def _tell(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')}  {text}\n")
