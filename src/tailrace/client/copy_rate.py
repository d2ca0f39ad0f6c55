"""How fast a copy may read, so that the source does not feel it.

In: bytes a second, for all sessions together. Out: whoever has read is made to wait as long as that took too short. A server that nobody reads from
waits as well, once the socket is full.
"""

from __future__ import annotations

import threading
import time
from dataclasses import field

from tailrace.dataclass import dataclass

_LOOKS = 10
"""A second's share of bytes is read in so many pieces."""
_LEAST = 16 << 10


@dataclass(slots=True)
class CopyRate:
    """State: until when what was read is to last, of time.monotonic."""

    bytes_a_second: int
    _until: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def most_at_once(self) -> int:
        return max(_LEAST, self.bytes_a_second // _LOOKS)

    def wait_for(self, count: int) -> None:
        """So many bytes were read."""
        with self._lock:
            self._until = max(self._until, time.monotonic()) + count / self.bytes_a_second
            until = self._until
        time.sleep(max(0.0, until - time.monotonic()))
