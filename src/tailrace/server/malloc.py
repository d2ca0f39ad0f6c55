"""What the C library keeps of freed memory (mallopt(3)).

A server's threads decode in arrays of some MB, and free them. Left to itself glibc raises the size from which such arrays are mapped one by one up to
32 MB, keeps what is smaller in an arena for each few threads, and gives little of that back: a server would keep the most that each of its threads
has ever needed.
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_SETTINGS = {_M_ARENA_MAX: 2, _M_MMAP_THRESHOLD: 1 << 20, _M_TRIM_THRESHOLD: 4 << 20}


def give_back_what_is_freed() -> None:
    """For the whole process; where the C library is another, nothing."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in _SETTINGS.items():
            mallopt(parameter, value)
