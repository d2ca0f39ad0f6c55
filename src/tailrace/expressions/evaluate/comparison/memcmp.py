"""memcmp of the C library: the size of what it answers is its own matter."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def memcmp() -> Callable[[bytes, bytes, int], int]:
    found: Any = ctypes.CDLL(None).memcmp
    found.argtypes, found.restype = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t], ctypes.c_int
    return found


def bytes_compared(left: bytes, right: bytes) -> int:
    """memcmp's answer; of equal beginnings the shorter comes first."""
    found = memcmp()(left, right, min(len(left), len(right)))
    return found or (len(left) > len(right)) - (len(left) < len(right))
