"""`tailrace wal receive`: a server's log into a directory, until a signal ends it."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from tailrace.client.receiver import Receiver
from tailrace.client.replication_connection import ReplicationConnection
from tailrace.dataclass import dataclass
from tailrace.model import Lsn


@dataclass(frozen=True, slots=True)
class PhysicalSlot:
    """The slot to stream with; empty: none."""

    name: str = ""
    creates: bool = False
    drops: bool = False


def receive_wal(dsn: str, directory: Path, slot: PhysicalSlot, upto: Lsn | None, *, retries: bool) -> None:
    """Raises as `Receiver.run` does."""
    if slot.drops:
        with ReplicationConnection(dsn) as connection:
            connection.drop_slot(slot.name)
        return
    if slot.creates:
        with ReplicationConnection(dsn) as connection:
            connection.create_slot(slot.name, temporary=False)
    receiver = Receiver(dsn, directory, slot=slot.name, upto=upto, retries=retries, tell=_tell)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: receiver.stop())
    end = receiver.run()
    _tell(f"received up to {end}")


def _tell(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')}  {text}\n")
