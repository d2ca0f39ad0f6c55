"""When a file was made, where the system tells: a number that was given to another before has another birth.

Python's `os.stat` does not say it on Linux; statx(2) does, through the C library.
"""

from __future__ import annotations

import ctypes
import os
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000
_STATX_BTIME = 0x800


class _Time(ctypes.Structure):
    """struct statx_timestamp."""

    _fields_: ClassVar = [("seconds", ctypes.c_int64), ("nanoseconds", ctypes.c_uint32), ("reserved", ctypes.c_int32)]


class _Statx(ctypes.Structure):
    """struct statx (linux/stat.h), 256 bytes."""

    _fields_: ClassVar = [
        ("mask", ctypes.c_uint32), ("before", ctypes.c_uint8 * 60), ("accessed", _Time), ("born", _Time), ("behind", ctypes.c_uint8 * 160),
    ]  # fmt: skip


def born(of: Path | int) -> int:
    """The birth of a file, named or open, in nanoseconds since 1970; 0 where nobody knows."""
    if made := getattr(os.stat(of), "st_birthtime", None):
        return int(made * 1e9)
    if (statx := _statx()) is None:
        return 0
    says = _Statx()
    named = (of, b"", _AT_EMPTY_PATH) if isinstance(of, int) else (_AT_FDCWD, os.fsencode(of), 0)
    failed = statx(*named, _STATX_BTIME, ctypes.byref(says))
    return 0 if failed or not says.mask & _STATX_BTIME else says.born.seconds * 10**9 + says.born.nanoseconds


def as_time(birth: int) -> str:
    """A birth time for a message."""
    return datetime.fromtimestamp(birth / 1e9, UTC).isoformat(" ", "milliseconds") if birth else "unknown"


@cache
def _statx() -> Any:
    try:
        return ctypes.CDLL(None).statx
    except (OSError, AttributeError):
        return None
