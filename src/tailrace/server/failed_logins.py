"""Passwords that were wrong: each is answered later than the one before, and after too many an address has to wait.

State: for each address how often it failed, and when it did last. What is older than a minute is forgotten.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tailrace.errors import UsageError
from tailrace.server.host_based_access import Address

_FORGOTTEN = 60.0
_MOST = 20
_FIRST, _LONGEST = 0.1, 3.0
"""Seconds until the first is answered, and at most."""


class FailedLogins:
    """Clients of this machine that come by a Unix socket are counted together."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: dict[Address | None, tuple[int, float]] = {}

    def check(self, address: Address | None) -> None:
        """Raise UsageError (28000) for one that has failed too often to be heard."""
        if self._count(address) >= _MOST:
            raise UsageError(f"too many failed logins from {address or 'this machine'}", hint="Wait a minute.", sqlstate="28000")

    def add(self, address: Address | None) -> float:
        """One more; how many seconds it is not to be told."""
        count = self._count(address)
        self._failed = {each: (number, last) for each, (number, last) in self._failed.items() if self._is_near(last)}
        self._failed[address] = count + 1, self._clock()
        return min(_LONGEST, _FIRST * 2**count)

    def clear(self, address: Address | None) -> None:
        """It has shown that it knows one."""
        self._failed.pop(address, None)

    def _count(self, address: Address | None) -> int:
        count, last = self._failed.get(address, (0, 0.0))
        return count if self._is_near(last) else 0

    def _is_near(self, last: float) -> bool:
        return self._clock() - last < _FORGOTTEN
