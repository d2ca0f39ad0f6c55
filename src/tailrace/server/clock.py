"""PostgreSQL's clock: microseconds since 2000."""

from __future__ import annotations

import time

_UNIX_EPOCH = 946_684_800


def now() -> int:
    """As GetCurrentTimestamp() gives it."""
    return time.time_ns() // 1000 - _UNIX_EPOCH * 1_000_000
