"""The first copy of tables: what the source's hold before their changes are followed, as a lake begins, and as tables join it.

In: a slot of a live server's log, and a lake that awaits tables. Out: the lake with all rows that a snapshot sees of them, in which the tables are
locked, and of each table which transactions that has seen, whose changes are not applied again. While they are locked nobody alters or truncates the
tables: they are in the snapshot as the log has them where it was taken.

What the snapshot has not seen must be published from its first record on. So transactions are waited for that run when a copy begins, and a table
that joins behind that is copied by the next.

Each table is there once it is copied, and stays when the run dies: the next one brings it along as far as the log reaches, with the snapshot that
it was copied under, and copies the others under a snapshot of its own. Parts of a table are of one snapshot: a row that an UPDATE moves from one part
to another between two would be in both, or in none.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import field, replace

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.comments import comments_at
from tailrace.client.copy_options import CopyOptions
from tailrace.client.copy_rate import CopyRate
from tailrace.client.server_snapshot import LogAtHand, ServerSnapshot
from tailrace.client.server_tables import published_tables
from tailrace.client.standby_snapshot import is_recovery_conflict
from tailrace.client.table_pages import SnapshotFiles
from tailrace.client.visible_commits import replayed_upto, write_something
from tailrace.client.wal_archive import written_upto
from tailrace.copy_feed import CopiedTable, CopyFeed
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError, UsageError
from tailrace.lake.catalog import LakeCatalog
from tailrace.lake.lake import Lake, TableApplied
from tailrace.lake.position import position_of
from tailrace.lake.table_copy import SPAN_BYTES, CopyProgress, TableCopy, take_up_refilled
from tailrace.lake.trouble import QUARANTINE
from tailrace.model import Lsn
from tailrace.past.tables_to_copy import CopiedRelation, relations_to_copy
from tailrace.pipeline.following import NothingNew
from tailrace.pipeline.pipeline import Pipeline
from tailrace.plan.demand import OF_TABLES
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.copy_in_workers import CopyInWorkers
from tailrace.replication.joining import Joining
from tailrace.replication.next_window import Limit, is_full
from tailrace.replication.refused_tables import RefusedTables
from tailrace.replication.waiting import Waiter
from tailrace.replication.windows_for_tables import next_for_tables
from tailrace.sources.received_log import ReceivedLog
from tailrace.storage.state_location import definitions_in
from tailrace.types.encodings.server_encodings import codec_of_values
from tailrace.window import WindowSize
from tailrace.wire.copied_rows import CopiedRows

THREADS = max(2, min(8, 3 * (os.cpu_count() or 1) // 2))
"""That copy at once, each in a session of its own: while one writes a file, its session waits. Two for each core took a tenth more CPU."""
_SOON, _LOOK_AGAIN = 0.01, 0.3
"""Seconds from one look to the next, at first and at most."""
_GO_ON = 2.0
"""Seconds after which tables that do not wait take a window at the latest, while transactions are waited for: a COMMIT may itself wait for that."""
_CONFLICTS = 3
"""How often a standby may end our sessions until that is an error for who does not follow."""
_LONGEST_PAUSE = 30.0
"""Seconds, behind many of these."""

TakeWindow = Callable[[Pipeline, bool], None]
"""Applies a window to the lake, and confirms it if it is to."""


class _Stopped(Exception):
    """Somebody stops the run while tables are copied."""


@dataclass(slots=True)
class FirstCopy:
    """Of the tables that is copied what is published to the lake; all if there are no publications. Windows of the log have this `size`; it is caught
    up with here unless it `is_received` meanwhile: then tables that do not wait go on `every` so many seconds. `progress` hears of each part. Of
    tables that join meanwhile some may be `refused`. State: when tables went on that do not wait, and which tables joined too late for the copy that
    is being made; whether that is of a standby, and which transactions were confirmed while its snapshot was waited for."""

    acquired: AcquiredSlot
    lake: Lake
    joining: Joining
    size: WindowSize
    every: float
    is_received: bool
    take_window: TakeWindow
    refused: RefusedTables
    is_stopping: Callable[[], bool]
    check: Callable[[], None]
    waiter: Waiter
    progress: Callable[[CopyProgress], None] | None = None
    options: CopyOptions = CopyOptions()
    _went_on: float = 0.0
    _begun: Lsn = Lsn(0)
    _late: set[int] = field(default_factory=set)
    _of_standby: bool = False
    _confirmed: list[NDArray[np.int64]] = field(default_factory=list)

    def run(self) -> list[TableApplied] | None:
        """Copy the tables that the lake awaits, but for those that are refused. None where it is to stop. Raises UsageError for one that cannot be
        copied, PeerError as the server does, and Overtaken where somebody else has written to the lake."""
        applied, conflicts = list[TableApplied](), 0
        take_up_refilled(self.lake)
        while not self.is_stopping():
            if self._catalog.catching_up and not self._catch_up():
                break
            if not self.refused.are_due(self._catalog) or self._are_refused_still():
                return applied
            try:
                applied += self._copied_under_one_snapshot()
            except PeerError as error:
                conflicts += 1
                if not is_recovery_conflict(error) or (conflicts > _CONFLICTS and not self.is_received):
                    raise
                hint = f"\nHINT:  {error.hint}" if error.hint and conflicts == 1 else ""
                self.acquired.location.warn(f"{error.message}; what is not copied yet is begun anew{hint}")
                self.waiter.sleep(time.monotonic() + min(conflicts, _LONGEST_PAUSE))
                self.lake.reread()
        return None

    def _copied_under_one_snapshot(self) -> list[TableApplied]:
        log, warn = self._log, self.acquired.location.warn
        self._begun, self._late, self._of_standby, self._confirmed = written_upto(log.directory) or Lsn(0), set(), False, []
        # While tables join, only these are locked; at the beginning all are there to be copied.
        only = None if self._catalog.awaits_copy else self._catalog.joining
        database = self.acquired.slot.database
        with ServerSnapshot.taken(log.dsn, database, THREADS, warn, self._wait, only=only, log=self._log_at_hand) as snapshot:
            if snapshot is None:
                return []
            if (published := snapshot.published(self.joining.publications)) is None:
                return []
            files = snapshot.readable_files(published, self.options.strategy, self.is_stopping)
            with suppress(_Stopped):
                if self._sees_what_is_confirmed(snapshot) and (window := self._window_to(snapshot.reach)) is not None:
                    made = window.plan.transactions
                    seen = snapshot.seen.with_end_behind(made.full_xid, made.commit_lsn, made.end_lsn)
                    return self._take(replace(snapshot, seen=seen), files, window)
        return []

    def _sees_what_is_confirmed(self, snapshot: ServerSnapshot) -> bool:
        """Whether it has seen all that went to the lake, and will not come again, while it was waited for. A transaction that began in that time may
        have its commit record in the log and be invisible still: the next snapshot waits for it."""
        return all(bool(snapshot.seen.saw(xids).all()) for xids in self._confirmed)

    @property
    def _catalog(self) -> LakeCatalog:
        catalog = self.lake.catalog
        assert catalog is not None, "it awaits tables"
        return catalog

    @property
    def _log(self) -> ReceivedLog:
        log = ReceivedLog.of(self.acquired.slot.source)
        assert log is not None, "whose lake awaits a copy receives a log"
        return log

    def _log_at_hand(self) -> LogAtHand:
        """As far as it is one window: beyond what the lake has. What joins behind that joins too late."""
        polled = next_for_tables(self.acquired, Limit(None, self.size))
        if isinstance(polled, NothingNew):
            at_hand = LogAtHand(self.acquired.read_upto, self.acquired.empty_window(OF_TABLES).newest_open)
        else:
            self.acquired.go_to(self.acquired.read_upto)  # the window comes again
            at_hand = LogAtHand(polled.span.stop, polled.newest_open)
        self._begun, self._of_standby = at_hand.end, True
        return at_hand

    def _wait(self) -> bool:
        """Whether to stop. While transactions are waited for, the tables go on that have their rows."""
        self._go_on(confirms=True)
        return self.is_stopping()

    def _go_on(self, *, confirms: bool) -> None:
        """Bring the tables along that do not wait, now and then. What is not confirmed comes again for those that do."""
        now = time.monotonic()
        if (
            not self.is_received
            or self._catalog.awaits_copy
            or now - self._went_on < (min(self.every, _GO_ON) if confirms else self.every)
        ):
            return
        self._went_on = now
        self.check()
        # A standby sends more than it shows.
        upto = replayed_upto(self._log.dsn, self.acquired.slot.database) if self._of_standby and confirms else None
        polled = next_for_tables(self.acquired, Limit(upto, self.size))
        if isinstance(polled, NothingNew):
            return
        self._note_late(polled)
        self.take_window(polled, confirms)
        if confirms:
            made = polled.plan.transactions
            self._confirmed.append(made.full_xid[(made.commit_lsn >= polled.span.start) & (made.commit_lsn < polled.span.stop)])
        if is_full(polled, self.size):
            self._went_on = 0.0

    def _raise_if_stopping(self) -> None:
        if self.is_stopping():
            raise _Stopped

    def _meanwhile(self) -> None:
        """While tables are copied. Raises _Stopped."""
        self._raise_if_stopping()
        news = self.lake.quarantine_news  # of the copy
        self._go_on(confirms=False)
        self.lake.quarantine_news = news

    def _catch_up(self) -> bool:
        """Bring the tables along that were copied while the others went on, to where these are. False where it is to stop."""
        acquired, begun = self.acquired, False
        while (catalog := self._catalog).catching_up:
            if self.is_stopping():
                return False
            if catalog.caught_up >= catalog.complete:  # no other has gone on
                self.lake.replace_catalog(catalog.with_those_behind(catalog.of_those_behind()))
                return True
            if acquired.slot.confirmed_flush_lsn > catalog.caught_up:  # a run with another slot has copied them
                self.joining.copy_again(catalog.catching_up)
                return True
            if not begun:
                acquired.go_to(catalog.caught_up)
                begun = True
            self.check()
            polled = next_for_tables(acquired, Limit(catalog.complete, self.size))
            if isinstance(polled, NothingNew):
                self.waiter.sleep(time.monotonic() + _LOOK_AGAIN)
            else:
                self.take_window(polled, True)
        return True

    def _note_late(self, window: Pipeline) -> None:
        """What joins since the copy has begun may have rows of transactions that are not waited for."""
        self._late |= {each.relation.oid for each in self.joining.found(window, self._begun)}

    def _window_to(self, end: Lsn) -> Pipeline | None:
        """A window from where the lake is that reaches so far: its columns where it ends are not older than those of the rows that are copied. None
        where more log lies in between than it has: what is copied already goes on, and the others begin behind that part."""
        acquired, last, pause = self.acquired, Lsn(0), _SOON
        if not (goes_on := write_something(self._log.dsn, acquired.slot.database)):
            self._log.receive_upto(end, acquired.location.warn, self._raise_if_stopping)
        while not self.is_stopping():
            self.check()
            if not self.is_received:
                self._log.catch_up(acquired.location.warn)
            polled = next_for_tables(acquired, Limit(None, self.size))
            if not isinstance(polled, NothingNew):
                if polled.span.stop >= end:
                    return polled
                ends_amid_log = polled.span.stop == last < acquired.written_upto  # what follows is too much to belong to it
                if is_full(polled, self.size) or ends_amid_log:
                    self.take_window(polled, True)
                    return None
                last = polled.span.stop
                acquired.go_to(acquired.read_upto)
            elif not goes_on and not polled.in_doubt:  # nobody need write on a standby's primary
                return acquired.empty_window(OF_TABLES)
            self.waiter.sleep(time.monotonic() + pause)
            pause = min(_LOOK_AGAIN, 2 * pause)
        return None

    def _take(self, snapshot: ServerSnapshot, files: SnapshotFiles | None, window: Pipeline) -> list[TableApplied]:
        """Copy those tables that are not copied yet, and did not join since the copy has begun."""
        seen, keeps_unfit = snapshot.seen, self.lake.on_error == QUARANTINE
        self.joining.note(window)
        self._note_late(window)
        begin, names = self._where_copied(window, seen.end), tuple(self.joining.publications)
        span = replace(window.span, start=Lsn(begin - SPAN_BYTES), stop=begin, publications=names)
        wanted = list(self._wanted(window, seen.end))
        # One that was made behind the snapshot comes with its changes; or is copied by the next snapshot.
        copied = [each for each in wanted if each.relation.oid not in self._late and each.relation.oid in snapshot.tables]
        copied = self._let_in(copied, snapshot)
        whole = [each.relation for each in copied if each.where is None]
        pages = snapshot.in_pages(files, whole, codec_of_values(window.history.encoding), self.options.strategy)
        tables = list[CopiedTable]()
        rate = CopyRate(self.options.rate) if self.options.rate else None
        for each in copied:
            rows, oid = CopiedRows(each.shown, self.lake.style), each.relation.oid
            parts = snapshot.parts(rows, each.where, keeps_unfit=keeps_unfit, rate=rate, pages=pages.get(oid))
            tables.append(CopiedTable(each.shown, parts, snapshot.tables[oid].size, comments_at(window.history, oid, seen.end)))
        self.acquired.go_to(self.acquired.read_upto)  # the window comes again, for what the copy has not seen
        workers = self._workers(snapshot) if rate is None else None
        feed = CopyFeed(span, tables, snapshot.time, THREADS, self._meanwhile, workers)
        is_needed = bool(tables) or self._catalog.awaits_copy
        applied = list(TableCopy(self.lake, feed, seen, self.progress).run()) if is_needed else []
        self.refused.was_met = False
        # Others that joined may not be locked, or not be read.
        unlocked = {each.relation.oid for each in wanted} - {each.relation.oid for each in tables}
        left = tuple(oid for oid in self._catalog.joining if oid in self._late or oid in unlocked)
        left += tuple(self.refused.oids - {*left})
        catalog = replace(self._catalog, awaits_copy=False, joining=left)
        for oid in {*self._catalog.joining} - {*left} - {each.relation.oid for each in wanted}:
            if (there := snapshot.tables.get(oid)) is not None:
                self.acquired.location.warn(f"table {there.qualified_name} is not published, and was not copied")
            elif oid in catalog.tables and window.history.relation_by_oid(oid, seen.end) is None:
                catalog = catalog.with_table(replace(catalog.tables[oid], dropped=seen.end))
        if catalog != self._catalog:
            self.lake.replace_catalog(catalog)
        return applied

    def _let_in(self, wanted: list[CopiedRelation], snapshot: ServerSnapshot) -> list[CopiedRelation]:
        """Those that may be read. Of a lake that has tables the others wait, for as long as it is followed. Raises PeerError."""
        catalog, end = self._catalog, snapshot.seen.end
        if self.is_received and (catalog.joining or not catalog.awaits_copy):
            known = [(each.relation.oid, snapshot.tables[each.relation.oid]) for each in wanted]
            self.refused.refuse({oid: table for oid, table in known if table.lacks})
            wanted = [each for each in wanted if each.relation.oid not in self.refused.oids]
        for each in wanted:
            try:
                snapshot.tables[each.relation.oid].check_is(each.relation, end)
            except PeerError as error:
                error.hint += (
                    " A lake of what changes from now on needs no copy: tailrace mirror --no-copy." if error.hint else ""
                )
                raise
        return wanted

    def _are_refused_still(self) -> bool:
        """Whether nothing waits but tables that may not be read, as the server says once more. Then nobody takes a snapshot, nor writes to the lake:
        another run may copy there."""
        joining = self._catalog.joining
        if self._catalog.awaits_copy or not joining or not self.refused.oids.issuperset(joining):
            return False
        there = published_tables(self._log.dsn, self.acquired.slot.database, joining, self.joining.publications)
        if there is None:
            self.refused.put_off()
            return True
        if not (there.keys() >= {*joining} and all(each.lacks for each in there.values())):
            return False
        self.refused.refuse(there)
        return True

    def _workers(self, snapshot: ServerSnapshot) -> CopyInWorkers | None:
        """Those of Spark, if that is what the run is on."""
        acquired = self.acquired
        if not acquired.runner.works_elsewhere:
            return None
        return CopyInWorkers(acquired.runner, snapshot.joined_by_workers(acquired.slot.database), acquired.location.warn)

    def _where_copied(self, window: Pipeline, end: Lsn) -> Lsn:
        """Where rows that are copied count as committed: where the lake is, and no table that is refilled is further, as a run that died may have
        left it. All transactions that the snapshot has not seen commit behind that. Raises UsageError where a table is further than the server, to
        the snapshot's `end`."""
        catalog, at = self._catalog, [window.span.start]
        for oid in catalog.joining:
            if catalog.is_to_be_refilled(oid) and (found := self.lake.opened(catalog.tables[oid])).is_there:
                position = position_of(found.open(), replace(window.span, publications=tuple(self.joining.publications)))
                at += [position.lsn] if position is not None else []
        if max(at) > end:
            raise UsageError(
                f'lake "{self.lake.store.url}" has changes up to {max(at)}, and the server\'s log ends at {end}',
                hint="The server has lost what the lake has. Make the lake anew in another place; or go on once the server's log has grown so far.",
                sqlstate="55000", lsn=end,
            )  # fmt: skip
        return max(at)

    def _wanted(self, window: Pipeline, at: Lsn) -> Iterator[CopiedRelation]:
        """The tables that are not copied yet."""
        catalog, span = self._catalog, window.span
        definitions = definitions_in(self.acquired.location.path, span.system, span.database)
        database, publications = self.acquired.slot.database, self.joining.publications
        wanted = relations_to_copy(window.history, at, span, database, publications, definitions)
        yield from (each for each in wanted if not catalog.is_at_hand(each.relation.oid))
