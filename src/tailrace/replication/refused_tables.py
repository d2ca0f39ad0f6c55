"""Tables that join a lake and may not be read: they wait for a GRANT, and the others go on.

As a subscriber does it: who synchronizes one table fails, and is started again in a while; the others are applied. What is read of them meanwhile
is confirmed, since the copy comes behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field

from tailrace.client.server_snapshot import ServerTable
from tailrace.dataclass import dataclass
from tailrace.lake.catalog import LakeCatalog

_FIRST, _LONGEST = 5.0, 60.0
"""Seconds until they are tried again, at first and at most."""


@dataclass(slots=True)
class RefusedTables:
    """State: which, by oid, and when they are tried again."""

    warn: Callable[[str], None]
    oids: frozenset[int] = frozenset()
    _again_at: float = 0.0
    _pause: float = _FIRST
    _told: set[str] = field(default_factory=set)

    def refuse(self, tables: dict[int, ServerTable]) -> None:
        """These are all that were refused by now."""
        self._pause = min(2 * self._pause, _LONGEST) if tables and tables.keys() <= self.oids else _FIRST
        self.oids, self._again_at = frozenset(tables), time.monotonic() + self._pause
        for error, name in ((each.refusal, each.qualified_name) for each in tables.values()):
            if (
                error is not None
                and (why := f"{error.message}: table {name} joins the lake once it may be read, and the others go on")
                not in self._told
            ):
                self._told.add(why)
                self.warn(f"{why}\nHINT:  {error.hint}")

    def are_due(self, catalog: LakeCatalog) -> bool:
        """Whether there is something to copy: what nobody refused, or all once more."""
        is_known = not (catalog.awaits_copy or catalog.catching_up) and self.oids.issuperset(catalog.joining)
        return catalog.awaits_tables and not (is_known and time.monotonic() < self._again_at)
