"""What is done when a window could not be applied to a lake: somebody else has written to it, or its store is away.

In: the error. Out: how long to pause before the next try, which begins with what the lake is by then; or the error itself, where trying is of no use.
A window that is applied again changes nothing twice (`lake/lake.py`).
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tailrace.dataclass import dataclass
from tailrace.errors import Overtaken, PeerError
from tailrace.lake.lake import Lake

_FIRST, _OVERTAKEN, _AWAY = 0.05, 5.0, 30.0
"""Seconds of the first pause, which is doubled each time, and of the longest."""
_TRIES = 12
"""So many times others may be quicker with one window."""


@dataclass(slots=True)
class ApplyRetry:
    """For one window. Who `waits` for a store that is away is told so."""

    lake: Lake
    waits: bool
    warn: Callable[[str], None]
    _tries: int = 0
    _overtaken: int = 0
    _told: str = ""

    def pause_after(self, error: Overtaken | PeerError) -> float:
        """In seconds. Two who met once do not pause for the same time. Raises the error where it does not go by itself."""
        is_away = isinstance(error, PeerError)
        self._overtaken += not is_away
        if (is_away and not self.waits) or self._overtaken >= _TRIES:
            raise error
        if is_away and error.message != self._told:
            self._told = error.message
            self.warn(f"{error.message}; trying again")
        self._tries += 1
        return min(_AWAY if is_away else _OVERTAKEN, _FIRST * 2 ** min(self._tries, 16)) * random.uniform(0.5, 1.0)

    def read_lake(self) -> None:
        """What others have written counts. Where it cannot be read the next try fails as this did."""
        try:
            self.lake.reread()
        except PeerError:
            if not self.waits:
                raise
