"""Where a stream's changes come from: a slot that is kept, or, without one, a log and a catalog state of its beginning.

Out: an acquired slot, of which batches are planned. Without one that is kept the query's checkpoint alone says how far it is, and
nothing keeps WAL for it. There planning begins with the catalog state whenever the query does, and what lies before the checkpoint
is planned and not decoded; the slot is a temporary one, in a state location of the user's cache, which is gone with its process.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Protocol

from tailrace.catalog.history.history import History
from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.pipeline.following import open_source
from tailrace.pipeline.runner import LocalRunner
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.from_mark import catalogs_at_end
from tailrace.replication.service import acquire, create
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.waiting import finish
from tailrace.slots.create_command import CreateReplicationSlot, PastMoment
from tailrace.slots.slot import Slot
from tailrace.sources.captured import read_captured
from tailrace.sources.received_log import ReceivedLog
from tailrace.sources.source import Source
from tailrace.sources.source_name import absolute
from tailrace.user_cache import user_cache

_MOST_STREAMS = "1000"


class StreamSource(Protocol):
    """Travels to the process that plans batches."""

    def acquire(self) -> AcquiredSlot:
        """Of which batches are planned, and which confirms them."""
        ...

    def slot(self) -> Slot | None:
        """The slot that is kept, if there is one."""
        ...

    def major(self) -> int:
        """Of the server whose log it is."""
        ...

    def system(self) -> int:
        """Its system identifier."""
        ...

    def catalogs_at_end(self) -> tuple[History, Lsn]:
        """What tables are where the log ends, and where that is."""
        ...


@dataclass(frozen=True, slots=True)
class KeptSlot:
    """A slot in a state location."""

    state: str
    name: str

    def acquire(self) -> AcquiredSlot:
        location = self._location()
        if (log := ReceivedLog.of(location.slot(self.name).source)) is not None:
            log.catch_up(location.warn)
        return finish(acquire(location, self.name, LocalRunner()))

    def slot(self) -> Slot:
        return self._location().slot(self.name)

    def major(self) -> int:
        slot = self.slot()
        return finish(open_source(slot.source, slot.restart_lsn, lambda _: None)).segments.major

    def system(self) -> int:
        return self.slot().system

    def catalogs_at_end(self) -> tuple[History, Lsn]:
        return catalogs_at_end(self._location(), self.name, LocalRunner())

    def _location(self) -> SlotLocation:
        return SlotLocation.open(Path(self.state))


@dataclass(frozen=True, slots=True)
class LogAlone:
    """A log from `start` on, or from where it is whole first; `catalog` is the file of a state that was captured before."""

    source: str
    database: str
    catalog: str
    start: Lsn | None

    def acquire(self) -> AcquiredSlot:
        name, runner = absolute(self.source), LocalRunner()
        state = read_captured(self.catalog)
        system = Source.open(name, state.needs_wal_from).segments.system
        location = SlotLocation.open_or_create(user_cache() / "streams" / str(system), system, is_cache=True)
        location.configure({"max_replication_slots": _MOST_STREAMS})
        start = self.start if self.start is not None else state.needs_wal_from
        command = CreateReplicationSlot(
            name=f"stream_{uuid.uuid4().hex}", source=name, database=self.database, plugin="", temporary=True, catalog=state,
            moment=PastMoment(str(start), start),
        )  # fmt: skip
        new = finish(create(command, None, runner, warn=lambda _: None))
        return finish(new.acquire(location, runner))

    def slot(self) -> Slot | None:
        return None

    def major(self) -> int:
        return Source.open(self.source).segments.major

    def system(self) -> int:
        return Source.open(self.source).segments.system

    def catalogs_at_end(self) -> tuple[History, Lsn]:
        with self.acquire() as acquired:
            return catalogs_at_end(acquired.location, acquired.slot.name, LocalRunner())
