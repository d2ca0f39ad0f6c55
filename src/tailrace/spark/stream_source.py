"""Where a stream's changes come from: a slot that is kept, or, without one, a log and a catalog state of its beginning.

Out: the consumer, which plans batches. Without a slot the query's checkpoint alone says how far it is, and nothing keeps WAL for it. There planning
begins with the catalog state whenever the query does, and what lies before the checkpoint is planned and not decoded; the consumer's slot is a
temporary one, in a state location of the user's cache, which is gone with its process.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tailrace.catalog.history.history import History
from tailrace.catalog.state.state_file import read_state
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner
from tailrace.pipeline.following import open_patiently
from tailrace.replication.acquired import Consumer, consuming, consuming_new
from tailrace.replication.creation import Moment, consistent_place
from tailrace.replication.from_mark import catalogs_at_end
from tailrace.replication.slot_location import SlotLocation, new_identity
from tailrace.slots.slot import Slot
from tailrace.storage.source import Source
from tailrace.user_cache import user_cache

_MOST_STREAMS = "1000"


class StreamSource(Protocol):
    """Travels to the process that plans batches."""

    def consumer(self) -> AbstractContextManager[Consumer]:
        """Who plans batches, and confirms them."""
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

    def consumer(self) -> AbstractContextManager[Consumer]:
        return consuming(self._location(), self.name, LocalRunner())

    def slot(self) -> Slot:
        return self._location().slot(self.name)

    def major(self) -> int:
        slot = self.slot()
        return open_patiently(Path(slot.source), slot.restart_lsn, lambda _: None).segments.major

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

    @contextmanager
    def consumer(self) -> Iterator[Consumer]:
        path, runner = Path(self.source).absolute(), LocalRunner()
        state = read_state(Path(self.catalog).read_bytes(), self.catalog)
        system = Source.open(path, state.needs_wal_from).segments.system
        location = SlotLocation.open_or_create(user_cache() / "streams" / str(system), system, is_cache=True)
        location.configure({"max_replication_slots": _MOST_STREAMS})
        start = self.start if self.start is not None else state.needs_wal_from
        place = consistent_place(path, self.database, runner, lambda _: None, catalog=state, moment=Moment(str(start), start))
        slot = Slot(
            name=f"stream_{uuid.uuid4().hex}", plugin="", options={}, database=self.database, database_oid=place.state.database,
            system=system, timeline=place.state.timeline, source=str(path), two_phase=False, two_phase_at=place.lsn, temporary=True,
            restart_lsn=place.restart_lsn, confirmed_flush_lsn=place.lsn, identity=new_identity(), stood=place.stood,
        )  # fmt: skip
        with consuming_new(location, slot, place, runner) as consumer:
            yield consumer

    def slot(self) -> Slot | None:
        return None

    def major(self) -> int:
        return Source.open(Path(self.source).absolute()).segments.major

    def system(self) -> int:
        return Source.open(Path(self.source).absolute()).segments.system

    def catalogs_at_end(self) -> tuple[History, Lsn]:
        with self.consumer() as consumer:
            return catalogs_at_end(consumer.location, consumer.slot.name, LocalRunner())
