"""Memory that was freed goes back to the system.

glibc keeps what large arrays had for the next ones of that size, a heap per thread; in another stage of a long run the next ones are of other
sizes, and what the stages ever had would add up.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import pyarrow as pa


def give_back() -> None:
    """To be called between stages, not in loops: pages that are given back must be had anew. Elsewhere than on glibc it does nothing."""
    pa.default_memory_pool().release_unused()
    _trim()(0)


@cache
def _trim() -> Callable[[int], object]:
    try:
        return ctypes.CDLL("libc.so.6").malloc_trim
    except (AttributeError, OSError):
        return lambda _: None
