"""What the C library keeps of freed memory (mallopt(3)).

A server's threads decode in arrays of some MB, and free them. The system clears each page that it gives: where arrays are mapped one by one, or
freed memory goes back at once, that is a quarter of what a stream costs. Left to itself glibc does both, and besides keeps an arena for each few
threads, in which a server would have the most that each of them has ever needed. So there is one arena, which is kept; but when nothing large has
been sent for a minute, what was freed is given back.
"""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

from tailrace.storage.allocator import give_back

_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8
_SETTINGS = {_M_ARENA_MAX: 1, _M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: 1 << 30}


def keep_what_is_freed() -> None:
    """For the whole process; where the C library is another, nothing."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in _SETTINGS.items():
            mallopt(parameter, value)


class FreedMemory:
    """What a server has freed. State: its resident memory behind the last time that some was given back, and when it last had need of what it has."""

    WORTH, AFTER = 32 << 20, 60.0
    """Bytes, and seconds: what is given back is cleared by the system for who needs it again."""

    def __init__(self) -> None:
        self._resident, self._needed = _resident(), time.monotonic()

    def needed(self) -> None:
        """Something large was sent just now, and more is to come."""
        self._needed = time.monotonic()

    @property
    def is_idle(self) -> bool:
        """Whether there may be some to give back, and nobody is about to need it."""
        return time.monotonic() - self._needed > self.AFTER and _resident() > self._resident + self.WORTH

    def give_back(self) -> None:
        give_back()
        self._resident, self._needed = _resident(), time.monotonic()


def _resident() -> int:
    """Bytes of this process; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
