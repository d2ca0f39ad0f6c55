"""The temporary slots of a session: nobody else can take them, and they are gone when it ends (`ReplicationSlotCleanup` in
`replication/slot.c`)."""

from __future__ import annotations

from contextlib import ExitStack

from tailrace.pipeline.following import Steps
from tailrace.pipeline.runner import Runner
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.service import NewSlot, acquire, acquire_own
from tailrace.replication.slot_location import SlotLocation
from tailrace.slots.slot import Slot


class SessionSlots:
    """By name, each with the handle on its location by which it is owned, and what ends it."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[SlotLocation, ExitStack]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._kept

    def make(self, new: NewSlot, location: SlotLocation) -> None:
        """A new slot is there; one that is temporary is the session's from its beginning to its end."""
        if not new.slot.temporary:
            new.persist(location)
            return
        held = ExitStack()
        held.enter_context(location.created(new.slot, new.begins))
        self._kept[new.slot.name] = location, held

    def acquire(self, slot: Slot, location: SlotLocation, runner: Runner) -> Steps[AcquiredSlot]:
        """A slot of the session, or one that is free."""
        if slot.name in self._kept:
            return acquire_own(self._kept[slot.name][0], slot, runner)
        return acquire(location, slot.name, runner)

    def drop(self, name: str) -> None:
        self._kept.pop(name)[1].close()

    def end(self) -> None:
        for name in list(self._kept):
            self.drop(name)
