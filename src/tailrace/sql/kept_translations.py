"""Translations of statements that clients give again and again, psql's `\\d` and drivers' first questions, for all sessions of a process.

In: a statement's text, and what it is read under. Out: what the engine was given before. Kept is what neither calls a function of the interface nor
says anything of its session.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from tailrace.sql.query.translation import EngineQuery
from tailrace.types.style import TextStyle

ReadUnder = tuple[str, str, TextStyle]
"""A statement's text, the database, and the parameters of its session."""
_MOST, _LONGEST = 500, 10_000
"""How many are kept, and of how many characters at most."""


class KeptTranslations:
    """Those that were used last. Several threads may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: OrderedDict[ReadUnder, EngineQuery] = OrderedDict()

    def find(self, key: ReadUnder) -> EngineQuery | None:
        with self._lock:
            found = self._queries.get(key)
            if found is not None:
                self._queries.move_to_end(key)
            return found

    def keep(self, key: ReadUnder, query: EngineQuery) -> None:
        if len(key[0]) > _LONGEST:
            return
        with self._lock:
            self._queries[key] = query
            while len(self._queries) > _MOST:
                self._queries.popitem(last=False)
