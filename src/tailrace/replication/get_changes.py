"""All rows that a slot has for a caller who asks once and does not wait for more (`pg_logical_slot_get_changes_guts` in
`replication/logical/logicalfuncs.c`).

In: an acquired slot, and its plugin, started up. Out: rows, whole transactions of them; nothing is confirmed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tailrace.model import Lsn
from tailrace.pipeline.following import NothingNew
from tailrace.pipeline.pipeline import Pipeline
from tailrace.plan.demand import Demand
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.next_window import NO_LIMIT, Limit
from tailrace.replication.waiting import Waiter


class NewChanges:
    """Iterated over once, rows: of transactions that commit before `upto`, and no further transaction once there are
    `upto_nchanges` (0: all; fewer: none). `told` is then where a consumer stands that has them."""

    def __init__(
        self, acquired: AcquiredSlot, plugin: OutputPlugin, warn: Callable[[str], None], upto: Lsn | None = None, upto_nchanges: int = 0
    ) -> None:  # fmt: skip
        self._acquired, self._plugin, self._warn = acquired, plugin, warn
        self._upto, self._most = upto, upto_nchanges
        self.told = acquired.read_upto
        plugin.context.upto_nchanges = max(0, upto_nchanges)

    def __iter__(self) -> Iterator[Lines]:
        if self._most < 0 or (self._upto is not None and self._upto <= self.told):
            return
        missing = self._most
        for window in new_windows(self._acquired, self._plugin.demand, Limit(self._upto)):
            if window.warning:
                self._warn(window.warning)
            for lines in window.lines(self._plugin):
                enough = _enough(lines, missing) if self._most else 0
                given = lines.part(0, enough) if enough else lines
                self.told = given.position_behind(self.told)
                yield given
                if enough:
                    return
                missing -= len(lines)
                del lines, given
        self.told = self._acquired.read_upto
        if self._acquired.gap:
            self._warn(self._acquired.gap)


def _enough(lines: Lines, wanted: int) -> int:
    """How many of the rows to give so that no transaction, nor block of one, is cut and there are as many as wanted, or more;
    0 if that takes what follows as well."""
    ends = np.union1d(lines.ends, lines.stops)
    ends = ends[ends >= wanted]
    return int(ends[0]) if len(ends) else 0


def new_windows(acquired: AcquiredSlot, demand: Demand, limit: Limit = NO_LIMIT) -> Iterator[Pipeline]:
    """What `poll` gives now, to the end. What seems damaged, or away, is looked at, and waited for, until that is certain, and
    is raised then."""
    waiter = Waiter()
    while True:
        polled = acquired.poll(demand, limit)
        if not isinstance(polled, NothingNew):
            yield polled
        elif polled.in_doubt:
            waiter.wait(polled)
        else:
            return
