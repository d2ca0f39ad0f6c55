"""Tables that join a lake and may not be read: they wait for a GRANT, and the others go on.

As a subscriber does it: who synchronizes one table fails, and is started again in a while; the others are applied. What is read of them meanwhile
is confirmed, since the copy comes behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field

from tailrace.client.server_tables import ServerTable
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
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
    was_met: bool = False
    """Whether the last copy ended with such an error, though no table was known to be refused."""
    _told: set[tuple[int, str | None]] = field(default_factory=set)

    def refuse(self, tables: dict[int, ServerTable]) -> None:
        """These are all that were refused by now."""
        self._pause = min(2 * self._pause, _LONGEST) if tables and tables.keys() <= self.oids else _FIRST
        self.was_met = self.was_met and self.oids == tables.keys()
        self.oids, self._again_at = frozenset(tables), time.monotonic() + self._pause
        refusals = {(oid, each.lacks): each for oid, each in tables.items()}
        for each in (refusals[key] for key in refusals.keys() - self._told):
            if (error := each.refusal) is not None:
                why = f"{error.message}: table {each.qualified_name} joins the lake once it may be read, and the others go on"
                self.warn(f"{why}\nHINT:  {error.hint}")
        self._told = set(refusals)

    def put_off(self) -> None:
        """Nobody can tell for now."""
        self._again_at = time.monotonic() + self._pause

    def may_be_new(self, error: PeerError, catalog: LakeCatalog | None) -> bool:
        """Whether that is a REVOKE while tables are copied to a lake that has some, for all that is known: who tries again finds which table is
        refused now. If none is, the next such error is another."""
        has_tables = catalog is not None and (catalog.joining or not catalog.awaits_copy)
        if error.sqlstate != "42501" or self.was_met or not has_tables:
            return False
        self.was_met = True
        return True

    def are_due(self, catalog: LakeCatalog) -> bool:
        """Whether there is something to copy: what nobody refused, or all once more."""
        is_known = not (catalog.awaits_copy or catalog.catching_up) and self.oids.issuperset(catalog.joining)
        return catalog.awaits_tables and not (is_known and time.monotonic() < self._again_at)
