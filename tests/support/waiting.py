"""What comes to be after a while: waited for, but not for ever."""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg


def until(there: Callable[[], bool]) -> None:
    """Wait for it, a minute at most."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if there():
                return
        except (psycopg.Error, ValueError):
            pass
        time.sleep(0.05)
    raise AssertionError("it did not come to be within a minute")
