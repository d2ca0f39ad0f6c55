"""`tailrace mirror`: a lake is kept equal to a database."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.cli.choice import On
from tailrace.cli.engine import runner_for
from tailrace.cli.loading import spare_pandas
from tailrace.cli.new_slot import HowReceived, new_slot
from tailrace.cli.progress import Progress, counted, warn
from tailrace.cli.signals import handling
from tailrace.cli.slot import exists
from tailrace.cli.tables import write_json
from tailrace.client.copy_options import CopyOptions
from tailrace.client.standby_snapshot import check_may_copy
from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError, UsageError
from tailrace.lake.catalog import LakeCatalog
from tailrace.lake.lake import Lake
from tailrace.lake.table_copy import CopyProgress
from tailrace.lake.trouble import STOP
from tailrace.model import Lsn, datetime_of, timestamptz_of
from tailrace.pipeline.runner import LocalRunner, Runner
from tailrace.publications.subscription import publications_in
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.apply_worker import ApplyWorker, Pace, Until, WindowApplied
from tailrace.replication.lake_of_slot import check_lake, forget_lake
from tailrace.replication.retention import leave, receiving_log, retention_of
from tailrace.replication.server_location import log_of_server
from tailrace.replication.service import acquire, drop
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.waiting import finish
from tailrace.slots.create_command import CreateReplicationSlot
from tailrace.sources.dsn import is_dsn
from tailrace.sources.named import restore_with
from tailrace.sources.received_log import ReceivedLog
from tailrace.storage.location_folder import RECEIVED
from tailrace.storage.open_store import open_store
from tailrace.types.registry import ArrowStyle
from tailrace.window import WindowSize

_NO_PLUGIN = ""
"""Nothing is printed of what the slot gives."""


@dataclass(frozen=True, slots=True)
class AskedSlot:
    """Which slot, of which source and database; with the catalog state that WAL alone needs, and whom a server is to wait for, if that is said."""

    source: str
    database: str
    state: Path
    name: str
    captured: CatalogState | None
    standbys: str | None
    on: On
    copies: bool
    """Whether a new lake of a server that is connected to gets a copy of its tables first."""
    restore_command: str = ""
    copy_options: CopyOptions = CopyOptions()
    copy_again: Sequence[str] = ()
    """Tables that are copied anew, by name."""
    resync: bool = False
    """Whether all of them are."""


@dataclass(frozen=True, slots=True)
class AskedLake:
    """Where it is, with the store's options; how values are held; and whose changes it has (empty: all)."""

    url: str
    options: dict[str, str]
    numeric: str
    arrays: str
    times: str
    deletion_vectors: bool
    publications: list[str]
    layout: str
    """Empty: what the lake has, a mirror if it is new."""
    format: str
    """Empty: what the lake has, Delta if it is new."""
    on_error: str = STOP

    def open(self, *, stages_here: bool) -> Lake:
        """Raises UsageError, PeerError where it cannot be read."""
        style = ArrowStyle(self.numeric, self.arrays, self.times)
        return Lake.open(
            open_store(self.url, self.options), style, deletion_vectors=self.deletion_vectors, stages_here=stages_here,
            layout=self.layout or None, format=self.format or None, on_error=self.on_error,
        )  # fmt: skip


def pace_of(window: WindowSize | None, every: float, *, follows: bool) -> Pace:
    return Pace(window or Pace().window, every, follows)


def until_of(moment: Lsn | datetime | None) -> Until:
    if isinstance(moment, datetime):
        return Until(time=timestamptz_of(moment))
    return Until(moment)


class Watcher(Protocol):
    """Who hears how far a lake is while it is kept."""

    def begin(self, complete: Lsn, committed: int) -> None:
        """Where a run before has brought it: the last transaction there committed then (microseconds since 2000; 0: not known)."""

    def copying(self, done: int, of: int) -> None:
        """Of a first copy so many parts are there."""

    def tell(self, done: WindowApplied) -> None: ...


def mirror(asked: AskedSlot, to: AskedLake, pace: Pace, until: Until, *, as_json: bool, watcher: Watcher | None = None) -> int:
    """Bring the lake up, and print where it then is. The exit status: that of a signal which came before the end, where there is one; who follows
    without, goes on until a signal comes."""
    runner = runner_for(asked.on, 0, Progress("", shown=False).tell)
    if isinstance(runner, LocalRunner):
        spare_pandas()
    lake = to.open(stages_here=isinstance(runner, LocalRunner))
    publications = publications_in(to.publications)
    before, is_new = lake.catalog, not exists(asked.name, asked.state)
    copies = asked.copies and is_dsn(asked.source)
    if is_new and before is None and copies:
        check_may_copy(asked.source, asked.database)
    if watcher is not None and before is not None and not before.awaits_tables:
        watcher.begin(before.complete, before.committed)
    with counted("changes", is_alone=not as_json) as progress:
        shown = _Shown(progress, as_json, watcher)
        try:
            with _acquired(asked, pace, runner, is_new=is_new) as slot, _receiving(slot, asked, pace) as reception:
                if is_new:
                    forget_lake(asked.state, asked.name)
                check_lake(asked.state, asked.name, lake.store.url)
                worker = ApplyWorker(
                    slot, lake, pace, until, publications, asked.captured, shown.tell, reception.raise_failure,
                    copies=copies, copy_again=asked.copy_again, resync=asked.resync,
                    copy_progress=shown.copied, copy_options=asked.copy_options,
                )  # fmt: skip
                reception.on_failure = worker.waiter.wake
                with _ended_by(worker.stop) as ending:
                    worker.run()
        except TailraceError:
            if is_new and lake.catalog == before:  # nothing came of it
                _forget(asked)
            raise
    _clean_up(asked)
    if not as_json:
        sys.stdout.write(f"{lake.store.url} {_how_far(lake.catalog, slot.slot.confirmed_flush_lsn)}\n")
    has_end = not pace.follows or until != Until()
    return 128 + ending.signal if has_end and ending.signal else 0


def _how_far(catalog: LakeCatalog | None, confirmed: Lsn) -> str:
    if catalog is None:
        return f"is complete up to {confirmed}"
    if catalog.awaits_copy:
        return "awaits the rest of the copy of its tables: the same command goes on with it"
    joining = len({*catalog.joining, *catalog.catching_up})
    left = f", but for {joining} {'table that joins' if joining == 1 else 'tables that join'} it" if joining else ""
    return f"is complete up to {catalog.complete}{left}"


@dataclass(slots=True)
class _Shown:
    """What is told of each commit: a line of JSON, and on a terminal how far the lake is."""

    progress: Progress
    as_json: bool
    watcher: Watcher | None = None

    def copied(self, done: CopyProgress) -> None:
        if self.watcher is not None:
            self.watcher.copying(done.parts, done.of_parts)
        self.progress.show(copy_in_words(done))

    def tell(self, done: WindowApplied) -> None:
        if self.watcher is not None:
            self.watcher.tell(done)
        changes = sum(each.changes for each in done.tables)
        at = commit_time(done.committed)
        lag = _seconds_since(at) if at is not None else 0.0
        if self.as_json:
            write_json(_row_of(done, changes, at, lag))
            sys.stdout.flush()
        self.progress.add(changes)
        self.progress.show(
            f"{done.lsn}, {done.lag_bytes:,} bytes and {lag:,.0f} s behind; {self.progress.total:,} changes, "
            f"{len(done.tables)} tables in {done.seconds:.1f} s"
        )


def copy_in_words(done: CopyProgress) -> str:
    left = "" if done.seconds_left is None else f", {timedelta(seconds=round(done.seconds_left))} left"
    what = "first copy of the tables" if done.is_first else "copy of tables that join"
    return f"{what}, {done.rows:,} rows, {done.bytes >> 20:,} of {done.of_bytes >> 20:,} MB{left}"


def commit_time(committed: int) -> datetime | None:
    """Of microseconds since 2000; None for 0, where it is not known."""
    return datetime_of(committed) if committed else None


def _seconds_since(at: datetime) -> float:
    return max(0.0, (datetime.now(UTC) - at).total_seconds())


def _row_of(done: WindowApplied, changes: int, at: datetime | None, lag: float) -> dict[str, Any]:
    tables = {each.table: {"changes": each.changes, "upserts": each.upserts, "deletes": each.deletes} for each in done.tables}
    quarantined = {each.table: each.changes for each in done.quarantined}
    return {
        "lsn": str(done.lsn), "commit_time": at.isoformat(sep=" ") if at is not None else None, "tables": tables, "changes": changes,
        "bytes_written": sum(each.written.bytes for each in done.tables), "seconds": round(done.seconds, 3), "lag_bytes": done.lag_bytes,
        "lag_seconds": round(lag, 3), **({"quarantined": quarantined} if quarantined else {}), **({"copy": True} if done.is_copy else {}),
    }  # fmt: skip


# -- the slot ------------------------------------------------------------------------------------------------------------------------------


def _acquired(asked: AskedSlot, pace: Pace, runner: Runner, *, is_new: bool) -> AcquiredSlot:
    """The slot, which is made first if it is new."""
    how = HowReceived(restore_command=asked.restore_command)
    if is_new:
        command = CreateReplicationSlot(
            name=asked.name, source=asked.source, database=asked.database, plugin=_NO_PLUGIN, catalog=asked.captured
        )
        location, new = new_slot(command, asked.state, On.LOCAL, pace.window, how)
        return finish(new.acquire(location, runner, pace.window))
    how.check()
    location = SlotLocation.open(asked.state, warn=warn)
    slot = location.slot(asked.name)
    if asked.restore_command and not is_dsn(asked.source):
        location.configure({"restore_command": asked.restore_command})
        restore_with(asked.source, asked.restore_command)
    source = str((asked.state / RECEIVED).absolute()) if is_dsn(asked.source) else asked.source
    for what, has, wanted in (("database", slot.database, asked.database), ("log", slot.source, source)):
        if has != wanted:
            raise UsageError(
                f'replication slot "{asked.name}" is of {what} "{has}", not "{wanted}"',
                hint="Give each lake a slot of its own: --slot NAME, or another state location.", sqlstate="55000",
            )  # fmt: skip
    if is_dsn(asked.source):
        log = log_of_server(asked.source, asked.state, warn, restore_command=asked.restore_command).log
        if not pace.follows:
            log.catch_up(warn)
    return finish(acquire(location, asked.name, runner, pace.window))


@dataclass(slots=True)
class _Reception:
    """Of the log of a server that is followed; of other logs nothing."""

    check: Callable[[], None] = lambda: None
    on_failure: Callable[[], None] = lambda: None

    def failed(self) -> None:
        self.on_failure()

    def raise_failure(self) -> None:
        """What has ended it, if anything has."""
        self.check()


@contextmanager
def _receiving(slot: AcquiredSlot, asked: AskedSlot, pace: Pace) -> Iterator[_Reception]:
    if asked.standbys is not None:
        slot.location.configure({"synchronous_standby_names": asked.standbys})
    log, ours = ReceivedLog.of(slot.slot.source), _Reception()
    if log is None or not pace.follows:
        yield ours
        return
    with receiving_log(log, lambda _: None, ours.failed, warn) as reception:
        ours.check = reception.check
        yield ours


def _forget(asked: AskedSlot) -> None:
    """A slot that was made in vain."""
    if not exists(asked.name, asked.state):
        return
    location = SlotLocation.open(asked.state, warn=warn)
    drop(location, asked.name)
    forget_lake(asked.state, asked.name)
    if (log := ReceivedLog.in_location(asked.state)) is not None:
        leave(log, location, warn)


def _clean_up(asked: AskedSlot) -> None:
    """Remove what no slot needs any more of a log that is received."""
    if (log := ReceivedLog.in_location(asked.state)) is not None:
        retention_of(log, warn).clean_up_after()


@dataclass(slots=True)
class _Ending:
    """The signal that has come; 0: none."""

    signal: int = 0


@contextmanager
def _ended_by(stop: Callable[[], None]) -> Iterator[_Ending]:
    """Within the block SIGTERM and Ctrl-C call `stop`; who asks twice means now."""
    ending = _Ending()

    def came(number: int, frame: object) -> None:
        put_back()
        ending.signal = number
        stop()

    with handling(dict.fromkeys((signal.SIGTERM, signal.SIGINT), came), ignored_too=False) as put_back:
        yield ending
