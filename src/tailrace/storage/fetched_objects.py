"""Whole objects that this process has fetched a moment ago: a log is gone over twice, and stretches of it reach into the next segment.

State: the objects, by name, the one that was asked for last at the end. They are forgotten when there is more than so many bytes of them, and after a
while: somebody may put a sound copy in the place of a damaged one.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

_MOST_BYTES = 64 << 20
_SECONDS = 20.0


class FetchedObjects:
    """Used by threads at once."""

    def __init__(self, most_bytes: int = _MOST_BYTES, seconds: float = _SECONDS) -> None:
        self._most, self._seconds = most_bytes, seconds
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def get(self, name: str, fetch: Callable[[], bytes]) -> bytes:
        """The object, which is fetched if it is not here."""
        now = time.monotonic()
        with self._lock:
            fetched, data = self._kept.get(name, (-self._seconds, b""))
            if now - fetched < self._seconds:
                self._kept.move_to_end(name)
                return data
        data = fetch()
        with self._lock:
            self._kept[name] = now, data
            self._kept.move_to_end(name)
            while sum(len(each) for _, each in self._kept.values()) > self._most:
                self._kept.popitem(last=False)
        return data
