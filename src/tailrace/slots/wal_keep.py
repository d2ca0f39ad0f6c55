"""How much of a log that is received is kept beyond what slots need, in words as `12h` or `10GB`.

It imports nothing that takes time to load, so that a wrong word is refused at once.
"""

from __future__ import annotations

import re

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.window import UNITS, parse_size

_TIME = re.compile(r"\s*(\d+)\s*(s|min|h|d)\s*\Z")
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class WalKeep:
    """What was received in the last `seconds`, or the last `size` bytes; one of the two is 0, or both: nothing."""

    seconds: int = 0
    size: int = 0

    def __bool__(self) -> bool:
        return bool(self.seconds or self.size)

    def __str__(self) -> str:
        value, units = (self.seconds, _SECONDS) if self.seconds else (self.size, UNITS)
        unit = next((unit for unit in reversed(units) if value and value % units[unit] == 0), "")
        return f"{value // units.get(unit, 1)}{unit}"


def parse_wal_keep(text: str) -> WalKeep:
    """Raises UsageError for what is neither a time nor a size with a unit; 0 is nothing."""
    if text.strip() in ("", "0"):
        return WalKeep()
    if match := _TIME.match(text):
        return WalKeep(seconds=int(match[1]) * _SECONDS[match[2]])
    try:
        if not text.strip().isdecimal():
            return WalKeep(size=parse_size(text))
    except UsageError:
        pass
    raise UsageError(
        f'invalid value for parameter "wal_keep": "{text}"',
        hint=f"Give a time such as 12h, or a size such as 10GB. Valid units are {', '.join(_SECONDS)}, and {', '.join(UNITS)}.",
    )
