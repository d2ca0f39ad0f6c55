"""Apply what a slot gives to a lake, for as long as the caller likes (`replication/logical/worker.c`).

In: an acquired slot, and a lake. Out: nothing; the lake's catalog says up to where its tables are complete, and the slot confirms that. The order is
tables, catalog, the readers' table, slot: whatever is killed, the next run goes on from what the catalog says, and a table that is further says so
itself (`lake/lake.py`). So each change is in the lake once.

    the catalog is ahead of the slot   a run was killed before it confirmed, or another one writes to the lake: the catalog counts
    the slot is ahead of the catalog   the first run was killed while it took in what was there before the slot; or somebody put the lake back, or
                                       uses the slot with another lake. What lies between is read from the source, if that still has it
                                       (`replication/earlier_log.py`); or else it is an error

Behind, windows are as large as memory allows, and follow one another at once. Near the end of the log a window begins so many seconds after the one
before it: what commits meanwhile is one commit for each table. Where a server's COMMIT waits for the slot, nothing is gathered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import field
from datetime import UTC, datetime

import numpy as np

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.client.copy_options import CopyOptions
from tailrace.client.refusals import is_away
from tailrace.client.server_tables import tables_named
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory, Overtaken, PeerError, UsageError
from tailrace.feed import Feed, FeedSpan
from tailrace.lake.catalog import LakeCatalog
from tailrace.lake.complete_table import CompleteTable
from tailrace.lake.lake import Lake, TableApplied
from tailrace.lake.table_copy import CopyProgress
from tailrace.lake.trouble import QuarantineNews
from tailrace.model import Lsn, timestamptz_of
from tailrace.pipeline.following import NothingNew
from tailrace.pipeline.pipeline import Pipeline
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.apply_retry import ApplyRetry
from tailrace.replication.earlier_log import earlier_windows
from tailrace.replication.first_copy import FirstCopy
from tailrace.replication.joining import Joining
from tailrace.replication.lake_warnings import LakeWarnings
from tailrace.replication.next_window import Limit, is_full
from tailrace.replication.other_runs import OtherRuns
from tailrace.replication.receiving import Outage, may_pass
from tailrace.replication.refused_tables import RefusedTables
from tailrace.replication.waiting import Waiter
from tailrace.replication.windows_for_tables import next_for_tables
from tailrace.sources.received_log import ReceivedLog
from tailrace.storage.location_folder import is_received
from tailrace.storage.segments import UnfinishedCopy
from tailrace.window import WindowSize

_UPKEEP = 0.25
"""Of the time from one window to the next; a table whose turn it is may take longer."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Near the end of the log a window begins `every` so many seconds; behind, each has this size. Where the log ends it `follows`, or is done.
    A window behind is large: once a window the files are looked through that may have a changed key, and each has its deletion vector written anew.
    Its changes wait in files, so memory does not follow it."""

    window: WindowSize = WindowSize(wal_bytes=1 << 30)
    every: float = 10.0
    follows: bool = False


@dataclass(frozen=True, slots=True)
class Until:
    """Transactions are left out that commit at `lsn` or later, and from the first on that does not commit before `time` (microseconds since 2000)."""

    lsn: Lsn | None = None
    time: int | None = None


@dataclass(frozen=True, slots=True)
class WindowApplied:
    """All that commits before `lsn` is in the lake, `tables` of it from this window, whose last transaction commits at `committed` (microseconds
    since 2000; 0: it has none). It took `seconds`; when it was read, so many bytes of log lay behind it. Changes of it are `quarantined`."""

    lsn: Lsn
    committed: int
    tables: list[TableApplied]
    seconds: float
    lag_bytes: int
    quarantined: Sequence[QuarantineNews] = ()
    is_copy: bool = False
    """Of tables, and no window: `lsn` is where the others are."""


@dataclass(slots=True)
class ApplyWorker:
    """The lake has what `publications` publish, all if there are none; `captured` is the catalog state that WAL alone needs. `tell`
    hears of each window. `check` is asked now and then, and raises what ended a reception."""

    acquired: AcquiredSlot
    lake: Lake
    pace: Pace = Pace()
    until: Until = Until()
    publications: tuple[str, ...] = ()
    captured: CatalogState | None = None
    tell: Callable[[WindowApplied], None] = lambda _: None
    check: Callable[[], None] = lambda: None
    copies: bool = False
    """Whether a lake that begins with a live server's log gets a copy of its tables first, and later of those that join it."""
    copy_again: Sequence[str] = ()
    """Tables of which what the lake has is replaced by a copy, by name."""
    resync: bool = False
    """Whether all of them are: what lies between where the lake is and where the slot begins is not needed then."""
    copy_progress: Callable[[CopyProgress], None] | None = None
    copy_options: CopyOptions = CopyOptions()
    waiter: Waiter = field(default_factory=Waiter)
    is_stopping: bool = False
    _readers: CompleteTable = field(init=False)
    _warnings: LakeWarnings = field(init=False)
    _joining: Joining = field(init=False)
    _refused: RefusedTables = field(init=False)
    _outage: Outage = field(init=False)
    _others: OtherRuns = field(init=False)

    def __post_init__(self) -> None:
        self._readers = CompleteTable.of(self.lake.store, self.lake.format.name)
        self._outage = Outage(self.acquired.location.warn, self.waiter)
        self._warnings = LakeWarnings(self.acquired.location.warn, self.lake.catalog is None or not self.lake.catalog.tables)
        self._joining = Joining(self.acquired.location, self.lake, self.publications, self.copies)
        self._refused = RefusedTables(self.acquired.location.warn)
        self._others = OtherRuns(self.lake, self.waiter, lambda: self.is_stopping, self.check, self.acquired.location.warn)

    def stop(self) -> None:
        """End behind the commit that is being made. May be called from anywhere."""
        self.is_stopping = True
        self.waiter.wake()

    def run(self) -> None:
        """Until what is asked for is in the lake, or somebody stops it. Raises Overtaken where others write to the lake again and again; of tables
        that are copied where others do at all, unless this follows."""
        while True:
            try:
                self._begin()
                self._take_earlier()
                self._copy_tables()
                self._follow()
                break
            except Overtaken as error:
                if not (self.pace.follows and (self.resync or self._awaits_tables)):
                    raise
                self._others.await_copy(error)
                self.acquired.go_to(self.acquired.slot.confirmed_flush_lsn)
        if not self.is_stopping and not self.pace.follows:
            self._check_end()

    def _follow(self) -> None:
        """Window by window."""
        while not self._is_done:
            self.check()
            began = time.monotonic()
            try:
                polled = next_for_tables(self.acquired, Limit(self.until.lsn, self.pace.window))
            except (MissingHistory, UnfinishedCopy, PeerError) as error:
                if not self.pace.follows or not may_pass(error, self.acquired.slot.source):
                    raise
                self._outage.wait(error)
                continue
            self._outage.file = ""
            if not isinstance(polled, NothingNew):
                self._take_window(polled, began)
            elif self._copy_is_due:
                self._copy_tables()
            elif polled.in_doubt or not self._is_at_end:
                self.waiter.wait(polled, self._latest_look)
            else:
                break

    def _begin(self) -> None:
        """Where the lake and the slot are. Of a server that is connected to nothing of before the slot is at hand: the lake begins there, too."""
        slot, lake, is_received_log = self.acquired.slot, self.lake, is_received(self.acquired.slot.source)
        if lake.catalog is None and is_received_log:
            begun = LakeCatalog(
                slot.system, slot.timeline, slot.database_oid, tuple(sorted(self.publications)), slot.confirmed_flush_lsn,
                fingerprint=slot.fingerprint, layout=lake.layout.name, format=lake.format.name, awaits_copy=self.copies,
            )  # fmt: skip
            try:
                lake.begin(begun)
            except Overtaken:  # two begin at once
                lake.reread()
        if (catalog := lake.catalog) is None:
            return
        timeline = max(slot.timeline, catalog.timeline)
        span = FeedSpan(slot.system, timeline, catalog.complete, catalog.complete, slot.database_oid, self.publications)
        catalog.check_is_of(span, lake.store.url)
        if catalog.awaits_tables or self.resync:
            self._check_copies()
        is_other = catalog.complete < slot.confirmed_flush_lsn  # which it was begun with
        if (self.resync and not catalog.awaits_copy) or (catalog.awaits_copy and catalog.joining and is_other):
            lake.replace_catalog(catalog.all_copied_again(slot.timeline, slot.confirmed_flush_lsn, slot.fingerprint))
            self.resync = False  # the catalog says so now
            return
        if catalog.awaits_copy:
            if is_other:
                lake.replace_catalog(catalog.begun_anew(slot.confirmed_flush_lsn, slot.fingerprint))
            return
        self._warnings.of_catalog(catalog)
        if not catalog.awaits_tables:
            self._readers.advance(catalog)
        if is_received_log:
            self._others.await_position(slot.confirmed_flush_lsn)
            earlier_windows(self.acquired, lake, None, None, self.pace.window)  # raises where something is missing
        self._ask_for_copies()

    def _ask_for_copies(self) -> None:
        """Raises UsageError for names that mean no table, and where nobody copies."""
        if not self.copy_again:
            return
        if (log := ReceivedLog.of(self.acquired.slot.source)) is None or not self.copies:
            raise UsageError(
                "tables can only be copied from a server that is connected to, and not with --no-copy", sqlstate="42601"
            )
        self._joining.copy_again(tables_named(log.dsn, self.acquired.slot.database, self.copy_again))
        self.copy_again = ()

    def _check_copies(self) -> None:
        """Raise UsageError where the lake awaits tables that nobody is going to copy."""
        if ReceivedLog.of(self.acquired.slot.source) is None or not self.copies:
            raise UsageError(
                f'lake "{self.lake.store.url}" awaits a copy of its tables',
                hint="Go on with the connection string and the state location with which it was begun, and without --no-copy; or remove it.",
                sqlstate="55000",
            )  # fmt: skip

    def _copy_tables(self) -> None:
        """Until the lake has its tables' rows, or this is to stop."""
        if not self._copy_is_due or self.is_stopping:
            return
        self._check_copies()
        began = time.monotonic()
        copy = FirstCopy(
            self.acquired, self.lake, self._joining, self.pace.window, self.pace.every, self.pace.follows, self._take_before_copy,
            self._refused, lambda: self.is_stopping, self.check, self.waiter, self.copy_progress, self.copy_options,
        )  # fmt: skip
        applied = None
        while applied is None and not self.is_stopping:
            try:
                applied = copy.run()
            except PeerError as error:
                is_gone = error.sqlstate == "08006" or is_away(error.message)
                if not self.pace.follows or not (is_gone or self._refused.may_be_new(error, self.lake.catalog)):
                    raise
                self._outage.wait(error)
                self.lake.reread()
        if applied or (applied is not None and not self._refused.oids):
            self._warnings.is_new = False
            assert self.lake.catalog is not None, "it was copied"
            aside = tuple(self.lake.quarantine_news)
            self._warnings.of_quarantine(aside)
            self.tell(WindowApplied(self.lake.catalog.complete, 0, applied, time.monotonic() - began, 0, aside, is_copy=True))

    def _take_before_copy(self, window: Pipeline, confirms: bool) -> None:
        """What of a window is of tables that do not wait."""
        self._joining.note(window)
        if self._applied(window, time.monotonic()) is not None and confirms:
            self.acquired.confirm(window.span.stop)

    # -- windows -----------------------------------------------------------------------------------------------------------------------

    def _take_window(self, window: Pipeline, began: float) -> None:
        """Of the slot."""
        acquired = self.acquired
        if (cut := self._cut_of(window)) is not None:
            acquired.go_to(acquired.read_upto)  # the window was not taken
            self.until = Until(cut)
            return
        self._joining.note(window)
        if self._copy_is_due and not is_full(window, self.pace.window):
            acquired.go_to(acquired.read_upto)  # it comes again once the tables are copied
            self._copy_tables()
            return
        stop = window.span.stop
        catalog = self._applied(window, began)
        if catalog is None or catalog.complete > stop:
            return
        acquired.check_fingerprint(catalog.fingerprint, self._lake_in_words)
        acquired.confirm(stop)
        if self.pace.follows and not (self._is_done or is_full(window, self.pace.window) or acquired.is_synchronous):
            self._maintain()
            self.waiter.sleep(began + self.pace.every)

    def _maintain(self) -> None:
        """In a part of the time until the next window. What goes wrong there is told, and keeps nothing from going on."""
        for each in self.lake.maintain(self.pace.every * _UPKEEP):
            if each.trouble is not None:
                self.acquired.location.warn(f"table {each.table} was not maintained: {each.trouble}")

    def _take_earlier(self) -> None:
        """What commits before the slot begins, and is not in the lake: nothing of it is confirmed."""
        if self._awaits_tables:
            return
        while (windows := earlier_windows(self.acquired, self.lake, self.captured, self.until.lsn, self.pace.window)) is not None:
            cut = None
            with closing(windows):
                for window in windows:
                    if self.is_stopping or (cut := self._cut_of(window)) is not None:
                        break
                    self._joining.note(window)
                    self._applied(window, time.monotonic())
            if cut is None:
                return
            self.until = Until(cut)

    def _applied(self, window: Pipeline, began: float) -> LakeCatalog | None:
        """The lake's catalog once the window is in it; None if it is not, since somebody has stopped this."""
        feed = window.publishing(self.publications, self.acquired.location.path) if self.publications else window
        committed, full = _last_commit(window), is_full(window, self.pace.window)
        if not self._copy_is_due:
            self._warnings.of_window(feed)
        is_behind = full and not self.acquired.runner.works_elsewhere  # Spark is given one stage at a time
        with self.acquired.looking_ahead() if is_behind else nullcontext():
            applied = self._in_lake(feed, committed)
        if applied is None or (catalog := self.lake.catalog) is None:
            return None
        behind = max(0, window.source.segments.written_upto - catalog.complete) if full else 0
        aside = tuple(self.lake.quarantine_news)
        self._warnings.of_quarantine(aside)
        self.tell(WindowApplied(catalog.complete, committed, applied, time.monotonic() - began, behind, aside))
        return catalog

    def _in_lake(self, feed: Feed, committed: int) -> list[TableApplied] | None:
        """What was done once it is in the lake, whoever else writes there; None if somebody has stopped this."""
        again = ApplyRetry(self.lake, self.pace.follows, self.acquired.location.warn)
        while not self.is_stopping:
            try:
                applied = self.lake.apply(feed, committed)
                if (catalog := self.lake.catalog) is not None and not catalog.awaits_tables:
                    self._readers.advance(catalog)
                return applied
            except (Overtaken, PeerError) as error:
                self.waiter.sleep(time.monotonic() + again.pause_after(error))
                self.check()
                again.read_lake()
        return None

    # -- the end -----------------------------------------------------------------------------------------------------------------------

    def _cut_of(self, window: Pipeline) -> Lsn | None:
        """Where the first transaction of the window commits that does not before the time up to which is asked for."""
        if self.until.time is None:
            return None
        transactions = window.plan.transactions
        late = transactions.commit_lsn[(transactions.time >= self.until.time) & (transactions.commit_lsn >= window.span.start)]
        return Lsn(int(late.min())) if len(late) else None

    @property
    def _is_done(self) -> bool:
        return self.is_stopping or (self.until.lsn is not None and self.acquired.read_upto >= self.until.lsn)

    @property
    def _awaits_tables(self) -> bool:
        return self.lake.catalog is not None and self.lake.catalog.awaits_tables

    @property
    def _copy_is_due(self) -> bool:
        return self.lake.catalog is not None and self._refused.are_due(self.lake.catalog)

    @property
    def _is_at_end(self) -> bool:
        """Whether it is done where the log ends."""
        return not self.pace.follows or (self.until.time is not None and self.until.time < _now())

    @property
    def _latest_look(self) -> float:
        """When to look again at the latest, of time.monotonic."""
        left = self.pace.every if self.until.time is None else max(0.0, (self.until.time - _now()) / 1e6)
        return time.monotonic() + min(self.pace.every, left)

    def _check_end(self) -> None:
        """Raise where the log ends before what the lake has."""
        catalog, acquired = self.lake.catalog, self.acquired
        if catalog is not None and catalog.complete > acquired.read_upto and self.until.lsn is None:
            acquired.check_fingerprint(catalog.fingerprint, self._lake_in_words)
        if acquired.gap:
            acquired.location.warn(acquired.gap)

    @property
    def _lake_in_words(self) -> str:
        return f'lake "{self.lake.store.url}"'


def _last_commit(window: Pipeline) -> int:
    """When the last transaction of the window commits; 0 if none does."""
    transactions = window.plan.transactions
    return int(transactions.time[np.argmax(transactions.commit_lsn)]) if len(transactions) else 0


def _now() -> int:
    """As PostgreSQL counts."""
    return timestamptz_of(datetime.now(UTC))
