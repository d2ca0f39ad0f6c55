"""What the C library keeps of freed memory (mallopt(3)).

A server's threads decode in arrays of some MB, and free them. Left to itself glibc keeps them in an arena for each few threads, and gives little of
that back: a server would keep the most that each of its threads has ever needed. So there are two arenas. Arrays are not mapped one by one, since
the system clears each page of them anew, which took a quarter of a stream's CPU; but when nothing large has been decoded for a minute, what was freed
is given back.
"""

from __future__ import annotations

import ctypes
import time

from tailrace.storage.allocator import give_back

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_SETTINGS = {_M_ARENA_MAX: 2, _M_MMAP_THRESHOLD: 32 << 20, _M_TRIM_THRESHOLD: 64 << 20}


def keep_what_is_freed() -> None:
    """For the whole process; where the C library is another, nothing."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in _SETTINGS.items():
            mallopt(parameter, value)


class FreedMemory:
    """What all streams of a server have freed. State: how many bytes of log they have decoded since some was given back, and when the last."""

    WORTH, AFTER = 16 << 20, 60.0
    """Bytes, and seconds: what is given back is cleared by the system for who needs it again."""

    def __init__(self) -> None:
        self._decoded, self._latest = 0, 0.0

    def decoded(self, size: int) -> None:
        self._decoded += size
        self._latest = time.monotonic()

    @property
    def is_idle(self) -> bool:
        """Whether some can be given back, and nobody is about to need it."""
        return self._decoded > self.WORTH and time.monotonic() - self._latest > self.AFTER

    def give_back(self) -> None:
        self._decoded = 0
        give_back()
