"""The first copy of a lake: what the source's tables hold before their changes are followed.

In: a slot of a live server's log, and a lake that awaits tables. Out: the lake with all rows that a snapshot sees of them, in which the tables are
locked, and of each table which transactions that has seen, whose changes are not applied again. While they are locked nobody alters or truncates the
tables: they are in the snapshot as the log has them where it was taken.

Each table is there once it is copied, and stays when the run dies: the next one brings it along as far as the log reaches, with the snapshot that
it was copied under, and copies the others under a snapshot of its own. Parts of a table are of one snapshot: a row that an UPDATE moves from one part
to another between two would be in both, or in none.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tailrace.catalog.history.comments import comments_at
from tailrace.client.copy_rate import CopyRate
from tailrace.client.server_snapshot import ServerSnapshot, write_something
from tailrace.copy_feed import CopiedTable, CopyFeed
from tailrace.dataclass import dataclass
from tailrace.lake.lake import Lake, TableApplied
from tailrace.lake.table_copy import CopyProgress, TableCopy
from tailrace.lake.trouble import QUARANTINE
from tailrace.model import Lsn
from tailrace.past.tables_to_copy import CopiedRelation, relations_to_copy
from tailrace.pipeline.following import NothingNew
from tailrace.pipeline.pipeline import Pipeline
from tailrace.plan.demand import OF_TABLES
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.next_window import Limit
from tailrace.replication.waiting import Waiter
from tailrace.slots.slot import Slot
from tailrace.sources.received_log import ReceivedLog
from tailrace.storage.state_location import definitions_in
from tailrace.window import WindowSize
from tailrace.wire.copied_rows import CopiedRows

_BEFORE = 8
"""Bytes before the LSN at which the lake begins: rows that are copied count as committed there, and no record begins in between."""
THREADS = min(8, 2 * (os.cpu_count() or 1))
"""That copy at once, each in a session of its own: while one writes a file, its session waits."""
_LOOK_AGAIN = 0.3
"""Seconds from one look to the next."""

TakeWindow = Callable[[Pipeline], None]
"""Applies a window to the lake, and confirms it."""


@dataclass(frozen=True, slots=True)
class FirstCopy:
    """Of the tables that is copied what `publications` publish, those that are defined in the slot's state location among them; all if there are
    none. Windows of the log have this `size`; it is caught up with here unless it `is_received` meanwhile. `progress` hears of each part; all
    sessions together read at this `rate` at most."""

    acquired: AcquiredSlot
    lake: Lake
    publications: Sequence[str]
    size: WindowSize
    is_received: bool
    take_window: TakeWindow
    is_stopping: Callable[[], bool]
    check: Callable[[], None]
    waiter: Waiter
    progress: Callable[[CopyProgress], None] | None = None
    rate: CopyRate | None = None

    def run(self) -> list[TableApplied] | None:
        """Copy the tables that the lake awaits. None where it is to stop. Raises UsageError for one that cannot be copied, PeerError as the server
        does, and Overtaken where somebody else has written to the lake."""
        applied: list[TableApplied] = []
        while not self.is_stopping():
            log, warn = self._log, self.acquired.location.warn
            with ServerSnapshot.taken(log.dsn, self.acquired.slot.database, THREADS, warn, self.is_stopping) as snapshot:
                if snapshot is None or (window := self._window_to(snapshot.seen.end)) is None:
                    continue
                applied += self._take(snapshot, window)
            catalog = self.lake.catalog
            assert catalog is not None, "it has the tables"
            self.lake.replace_catalog(replace(catalog, awaits_copy=False))
            self.acquired.go_to(self.acquired.read_upto)  # the window comes again, for what the copy has not seen
            return applied
        return None

    @property
    def _log(self) -> ReceivedLog:
        log = ReceivedLog.of(self.acquired.slot.source)
        assert log is not None, "whose lake awaits a copy receives a log"
        return log

    def _window_to(self, end: Lsn) -> Pipeline | None:
        """A window from where the lake is that reaches so far: its columns where it ends are not older than those of the rows that are copied. None
        where more log lies in between than it has: what is copied already goes on, and the others begin behind that part."""
        acquired = self.acquired
        write_something(self._log.dsn, acquired.slot.database)
        while not self.is_stopping():
            self.check()
            if not self.is_received:
                self._log.catch_up(acquired.location.warn)
            polled = acquired.poll(OF_TABLES, Limit(None, self.size))
            if not isinstance(polled, NothingNew):
                if polled.span.stop >= end:
                    return polled
                if is_full(polled, self.size):
                    self.take_window(polled)
                    return None
                acquired.go_to(acquired.read_upto)
            self.waiter.sleep(time.monotonic() + _LOOK_AGAIN)
        return None

    def _take(self, snapshot: ServerSnapshot, window: Pipeline) -> list[TableApplied]:
        """Copy those tables that are not copied yet."""
        seen, keeps_unfit = snapshot.seen, self.lake.on_error == QUARANTINE
        begin, names = window.span.start, tuple(self.publications)
        span = replace(window.span, start=Lsn(begin - _BEFORE), stop=begin, publications=names)
        tables = []
        for each in self._wanted(window, seen.end):
            if (there := snapshot.tables.get(each.relation.oid)) is None:
                continue  # it was made behind the snapshot, and comes with its changes
            there.check_is(each.relation, seen.end)
            rows = CopiedRows(each.shown, self.lake.style)
            parts = snapshot.parts(rows, each.where, keeps_unfit=keeps_unfit, rate=self.rate)
            comments = comments_at(window.history, each.relation.oid, seen.end)
            tables.append(CopiedTable(each.shown, parts, there.size, comments))
        return list(TableCopy(self.lake, CopyFeed(span, tables, snapshot.time, THREADS), seen, self.progress).run())

    def _wanted(self, window: Pipeline, at: Lsn) -> Iterator[CopiedRelation]:
        """The tables that are not copied yet."""
        catalog, span = self.lake.catalog, window.span
        assert catalog is not None, "it awaits the tables"
        copied = {oid for oid, table in catalog.tables.items() if table.copied is not None}
        definitions = definitions_in(self.acquired.location.path, span.system, span.database)
        wanted = relations_to_copy(window.history, at, span, self.acquired.slot.database, self.publications, definitions)
        yield from (each for each in wanted if each.relation.oid not in copied)


def begin_anew(lake: Lake, slot: Slot) -> None:
    """Have a lake that awaits its copy begin where the slot is. What was copied before does not count."""
    catalog = lake.catalog
    assert catalog is not None, "it awaits its copy"
    tables = {oid: replace(table, version=-1, copied=None) for oid, table in catalog.tables.items()}
    lake.replace_catalog(replace(catalog, complete=slot.confirmed_flush_lsn, fingerprint=slot.fingerprint, tables=tables))


def is_full(window: Pipeline, size: WindowSize) -> bool:
    """Whether it ends where memory ends, and not where the log does."""
    return 2 * (window.span.stop - window.span.start) >= size.wal_bytes or 2 * len(window.plan.transactions) >= size.ends
