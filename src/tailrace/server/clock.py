"""PostgreSQL's clock: microseconds since 2000."""

from __future__ import annotations

import time

from tailrace.types.times.calendar import UNIX_TO_POSTGRES_USECS


def now() -> int:
    """As GetCurrentTimestamp() gives it."""
    return time.time_ns() // 1000 - UNIX_TO_POSTGRES_USECS
