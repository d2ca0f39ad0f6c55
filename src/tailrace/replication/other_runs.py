"""Waiting for another run that keeps the same lake: until it comes to where this one begins, and while it copies tables.

In: the lake. Out: nothing; the lake is as it was read last. Changes are applied by whoever is quicker (`replication/apply_retry.py`), but tables are
copied by one run at a time: the one that begins later takes the copy over, and the other is told so by the catalog, waits, and goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from tailrace.dataclass import dataclass
from tailrace.errors import Overtaken, PeerError
from tailrace.lake.catalog import LakeCatalog
from tailrace.lake.lake import Lake
from tailrace.model import Lsn
from tailrace.replication.waiting import Waiter

_PATIENCE, _LONGEST = 10.0, 3600.0
"""Seconds in which another run must have written to the catalog, at first and at most."""
_LOOK_AGAIN = 0.3
"""Seconds from one look to the next."""


@dataclass(slots=True)
class OtherRuns:
    """None is waited for once this run `is_stopping`; `check` raises what ends it. State: how long the next that copies is waited for."""

    lake: Lake
    waiter: Waiter
    is_stopping: Callable[[], bool]
    check: Callable[[], None]
    warn: Callable[[str], None]
    _patience: float = _PATIENCE

    def await_position(self, lsn: Lsn) -> None:
        """As long as the lake is before `lsn` and another run brings it nearer: a new slot begins where its server is."""
        self._await(lambda catalog: catalog.complete >= lsn, lambda catalog: catalog.complete, _PATIENCE)

    def await_copy(self, error: Overtaken) -> None:
        """As long as tables are awaited and another run, which has overtaken this one, makes progress with them. That is told by table, and one may
        take long: so each time nothing was to be seen the next wait is twice as long, and of two that overtake each other one gets done."""
        self.warn(f"{error.message}: what it does about tables that are to be copied is waited for")
        with suppress(PeerError):
            self.lake.reread()
        self._await(lambda catalog: not catalog.awaits_tables, lambda catalog: catalog, self._patience)
        self._patience = min(_LONGEST, 2 * self._patience)

    def _await(self, is_there: Callable[[LakeCatalog], bool], progress: Callable[[LakeCatalog], object], patience: float) -> None:
        """Until it is there, or there was no `progress` for so many seconds. A store that is away is one without progress."""
        since, known = time.monotonic(), self.lake.catalog
        while known is not None and not is_there(known) and not self.is_stopping() and time.monotonic() - since <= patience:
            self.waiter.sleep(time.monotonic() + _LOOK_AGAIN)
            self.check()
            with suppress(PeerError):
                self.lake.reread()
            if (now := self.lake.catalog) is not None and progress(now) != progress(known):
                since = time.monotonic()
            known = now
