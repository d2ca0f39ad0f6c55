"""A slot of ours, acquired in this thread, which waits for it."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.pipeline import Pipeline, Runner
from tailrace.pipeline.following import NothingNew
from tailrace.plan.demand import Demand
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.next_window import NO_LIMIT, Limit
from tailrace.replication.service import acquire
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.waiting import finish
from tailrace.window import WindowSize


def acquired(location: SlotLocation, name: str, runner: Runner, window: WindowSize | None = None) -> AcquiredSlot:
    """To be released at the end of a `with` block."""
    return finish(acquire(location, name, runner, window))


def looked(slot: AcquiredSlot, demand: Demand, limit: Limit = NO_LIMIT) -> Iterator[Pipeline]:
    """What is new now, and nobody waits for more."""
    while not isinstance(window := slot.poll(demand, limit), NothingNew):
        yield window
