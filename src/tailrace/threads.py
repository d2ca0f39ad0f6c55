"""Threads for the length of a block, whoever leaves it.

A generator that nobody has closed is closed by the garbage collector, in whatever thread that runs in. It may be one that has just begun, and holds
the lock that Thread.join takes (`_shutdown_locks_lock` in `threading.py`): who waited for threads there would wait for ever. So nobody waits for
them where it is the collector that leaves the block.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType


class _Collecting(threading.local):
    """Whether the garbage collector runs in this thread."""

    is_on = False


_collecting = _Collecting()


def _note(phase: str, _: Mapping[str, int]) -> None:
    _collecting.is_on = phase == "start"


gc.callbacks.append(_note)


class Threads(ThreadPoolExecutor):
    """What was submitted is done when the block ends; or else what has not begun is never done, and what has is left to itself."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        is_collected = _collecting.is_on
        self.shutdown(wait=not is_collected, cancel_futures=is_collected)
