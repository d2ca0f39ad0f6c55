"""Windows that slots of one log have in common: which stands where another has stood is given what was planned for that one.

In: a slot that is polled. Out: its next window; or that nothing is new. Whoever comes first to a place looks at the log and plans, in its own thread;
others who stand there wait for that, and not for its client. Slots that stand elsewhere are brought together: a window that is planned ends where one
that was planned before has ended, and from there on they share.

State: the latest windows, together no larger than one of a process that decodes alone, and not more than MOST_WINDOWS: what a slot that is further
behind needs, it plans for itself.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.pipeline.following import NothingNew
from tailrace.pipeline.pipeline import Pipeline
from tailrace.plan.demand import Demand
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.next_window import Limit, NextWindow, WindowPlace
from tailrace.window import Weight, WindowSize

MOST_WINDOWS = 64
"""Where a log grows by a transaction at a time, windows are small."""
_LARGEST = WindowSize()


@dataclass(slots=True)
class _Turn:
    """At one place one plans, while so many are there."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    slots: int = 0


class SharedPlans:
    """Those of the slots of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._planned: OrderedDict[WindowPlace, NextWindow] = OrderedDict()
        self._nothing: OrderedDict[WindowPlace, NothingNew] = OrderedDict()
        self._turns: dict[WindowPlace, _Turn] = {}

    def poll(self, acquired: AcquiredSlot, demand: Demand, size: WindowSize) -> Pipeline | NothingNew:
        """As `AcquiredSlot.poll`. What planning raises is this slot's, and the next tries for itself."""
        place = acquired.place(demand, size)
        with self._turn(place):
            with self._lock:
                known, nothing = self._planned.get(place), self._nothing.get(place)
            if known is not None and acquired.goes_on_with(known):
                return acquired.give(known)
            if nothing is not None and not nothing.in_doubt and time.monotonic() < nothing.not_before:
                return nothing  # sooner than that nobody looks again
            found = acquired.next_window(demand, Limit(window=size, cut=self._end_ahead(place)), nothing)
            self._keep(place, found)
        return found if isinstance(found, NothingNew) else acquired.give(found)

    def forget(self) -> None:
        """Keep nothing for now."""
        with self._lock:
            self._planned.clear()
            self._nothing.clear()

    @contextmanager
    def _turn(self, place: WindowPlace) -> Iterator[None]:
        with self._lock:
            turn = self._turns.setdefault(place, _Turn())
            turn.slots += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._lock:
                turn.slots -= 1
                if not turn.slots:
                    del self._turns[place]

    def _end_ahead(self, place: WindowPlace) -> Lsn | None:
        """The first place ahead where a window of this database has ended."""
        with self._lock:
            stops = [planned.stop for known, planned in self._planned.items() if known.log == place.log]
        return min((stop for stop in stops if stop > place.start), default=None)

    def _keep(self, place: WindowPlace, found: NextWindow | NothingNew) -> None:
        with self._lock:
            if isinstance(found, NothingNew):
                self._nothing[place] = found
                while len(self._nothing) > MOST_WINDOWS:
                    self._nothing.popitem(last=False)
                return
            self._nothing.pop(place, None)
            self._planned[place] = found
            while len(self._planned) > 1 and not self._fit:
                self._planned.popitem(last=False)

    @property
    def _fit(self) -> bool:
        total = sum((each.weight for each in self._planned.values()), Weight(0, 0, 0))
        return len(self._planned) <= MOST_WINDOWS and _LARGEST.holds(total)
