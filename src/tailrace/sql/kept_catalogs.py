"""Catalogs of a source's databases that several sessions read: of each the log is read once, and what tables were made of it is kept until its
catalogs change.

In: a database, an LSN or none, and what values look like. Out: `CatalogTables`. Each asks the log for its end first, so that nobody misses what was
committed before; a look at a log in which nothing is new costs some system calls.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field

from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.pipeline.followed_snapshot import FollowedSnapshot
from tailrace.pipeline.runner import Runner
from tailrace.sources.source_name import SourceName
from tailrace.sql.views.catalog_tables import CatalogTables
from tailrace.types.style import TextStyle

_DATABASES, _WAYS = 4, 8
"""Of how many databases catalogs are kept, and of each in how many ways they are looked at."""
_Way = tuple[TextStyle, Lsn | None, int]
"""What values look like, and the moment: of the past, with where the log ended; or of its end, with the catalogs' version."""


@dataclass
class _KeptDatabase:
    """One that is asked for by one thread at a time."""

    followed: FollowedSnapshot
    lock: threading.Lock = field(default_factory=threading.Lock)
    tables: OrderedDict[_Way, CatalogTables] = field(default_factory=OrderedDict)


class KeptCatalogs:
    """Those of the databases that were asked for last. `runner_for` gives what so many bytes of WAL are worked on with."""

    def __init__(self, source: SourceName, runner_for: Callable[[int], Runner]) -> None:
        self._source, self._runner_for = source, runner_for
        self._lock = threading.Lock()
        self._databases: OrderedDict[str, _KeptDatabase] = OrderedDict()

    def tables(self, database: str, at: Lsn | None, style: TextStyle) -> CatalogTables:
        """At an LSN, or where the log ends now. Raises UsageError (3D000) if there is no such database, MissingHistory for an LSN that the log at
        hand does not have."""
        kept = self._kept(database)
        with kept.lock:
            followed = kept.followed
            followed.look(self._runner_for)
            key = (style, at, followed.version if at is None else int(followed.end))
            kept.tables = OrderedDict((each, made) for each, made in kept.tables.items() if each[1:] == key[1:])
            if key not in kept.tables:
                kept.tables[key] = self._opened(followed, at, style)
            kept.tables.move_to_end(key)
            while len(kept.tables) > _WAYS:
                kept.tables.popitem(last=False)
            return kept.tables[key]

    def _kept(self, database: str) -> _KeptDatabase:
        with self._lock:
            if database not in self._databases:
                self._databases[database] = _KeptDatabase(FollowedSnapshot(self._source, database))
            self._databases.move_to_end(database)
            while len(self._databases) > _DATABASES:
                self._databases.popitem(last=False)
            return self._databases[database]

    def _opened(self, followed: FollowedSnapshot, at: Lsn | None, style: TextStyle) -> CatalogTables:
        if at is None:
            return CatalogTables(followed.snapshot(style.schemas), style)
        here = followed.at(at, followed.runner(self._runner_for))
        here.catalogs.history.search_path = style.schemas
        return CatalogTables(here, style)
