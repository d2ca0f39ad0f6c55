"""The bytes of a stretch, and of what lies behind as many as its last record takes: how many that is, only reading it tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tailrace.model import PAGE_SIZE, Stretch
from tailrace.wal.end_of_log import NeedMoreWal
from tailrace.wal.pages import WalBytes

Result = TypeVar("Result")

Reader = Callable[..., WalBytes]
"""read(start, stop, extra=0) -> bytes of the log, fewer where it ends; with room for `extra` more."""


def read_whole(read: Reader, stretch: Stretch, work: Callable[..., Result]) -> Result:
    """`work(wal, at_end_of_log=…)` on the bytes of a stretch, and on as many behind it as its last record takes: until it no longer raises
    NeedMoreWal."""
    ahead = 4 * PAGE_SIZE
    while True:
        wal = read(stretch.start // PAGE_SIZE * PAGE_SIZE, stretch.stop + ahead)
        try:
            return work(wal, at_end_of_log=wal.base + wal.raw < stretch.stop + ahead)
        except NeedMoreWal:
            ahead *= 16
