"""What is kept of a log that is received, and no more: a directory into which a receiver of this process writes is cleaned up while it does.

In: the directory, the state locations whose slots read it, and what is to be kept besides. Out: old segments gone, as `replication.archive` removes
them. Beside what that keeps stays

    what the marks need that slots count on, so that one which is damaged costs time and no slot
    the last whole segment, which is compared with the server's where receiving goes on
    what was received in the last hours, or the last bytes, if that is asked for

Where a location has no slot, only sessions read its log. What goes before they have looked at it they ask the server for anew
(`pipeline.followed_snapshot`).

Whoever makes a slot of what is there holds the log meanwhile (`sources.received_log.hold_of`), since nothing says yet what the slot needs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path

from tailrace.client.receiver import LOCK
from tailrace.client.reception import Reception
from tailrace.client.wal_archive import WalArchive
from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError
from tailrace.model import Lsn
from tailrace.replication.archive import Cleanup, WaysBack, clean_up
from tailrace.replication.slot_location import SlotLocation
from tailrace.slots.mark import read_mark
from tailrace.slots.wal_keep import WalKeep, parse_wal_keep
from tailrace.sources.received_log import HELD, ReceivedLog
from tailrace.storage.backups import WalNeed, needs_of_backups, needs_of_states
from tailrace.storage.file_lock import FileLock
from tailrace.storage.segment import Segment
from tailrace.storage.segment_files import arrange, holds_wal, list_segments
from tailrace.storage.segments import Segments

EVERY, _AT_THE_LATEST = 10.0, 60.0
"""Seconds from one look at whether a segment has become whole to the next; and after which what slots need is looked at all the same."""


@contextmanager
def receiving_log(
    log: ReceivedLog, tell: Callable[[str], None], on_failure: Callable[[], None] = lambda: None, warn: Callable[[str], None] | None = None
) -> Iterator[Reception]:  # fmt: skip
    """Within the block the log comes in, with what no slot needs any more going."""
    retention = retention_of(log, warn or tell)
    try:
        with log.receiving(tell, on_failure, warn) as reception, retention.cleaning(lambda: reception.is_ours):
            yield reception
    finally:
        retention.clean_up_after()


def retention_of(log: ReceivedLog, warn: Callable[[str], None]) -> Retention:
    """What its location says."""
    return Retention(log.directory, [log.directory.parent], None, warn, is_own=True)


def begin_anew(log: ReceivedLog, location: SlotLocation) -> None:
    """Remove all that was received, where nobody needs it: the next reception need not go on where it ended. Not while something is received,
    or a slot made; nor what may be somebody's way back, or is to be kept."""
    if location.slots() or parse_wal_keep(location.settings.wal_keep) or not list_segments(log.directory):
        return
    if _is_way_back(log.directory):
        return
    lock = FileLock.take(log.directory / LOCK)
    if lock is None:
        return
    try:
        with _unheld(log.directory) as is_free:
            if is_free and not location.slots():
                for segment in list_segments(log.directory):
                    Path(segment.path).unlink(missing_ok=True)
                for path in log.directory.glob("[0-9A-F]*.history"):
                    path.unlink(missing_ok=True)
    finally:
        lock.release()


def _is_way_back(directory: Path) -> bool:
    """Whether there are base backups or catalog states that somebody wants to go back to by this log."""
    if not holds_wal(directory):
        return False
    segments = arrange(directory)
    return any(needs_of_backups(segments, ())) or any(needs_of_states(segments, ()))


def leave(log: ReceivedLog, location: SlotLocation, warn: Callable[[str], None]) -> None:
    """After a slot was dropped: what only it needed goes; with the location's last one all that was received, and the server's physical slot."""
    try:
        is_last = not location.slots()
    except TailraceError:  # one whose file is damaged is one, too
        is_last = False
    if is_last:
        log.drop_slot(warn)
        begin_anew(log, location)
    else:
        retention_of(log, warn).clean_up_after()


def leave_unused(log: ReceivedLog, location: SlotLocation, warn: Callable[[str], None]) -> None:
    """After a session: a physical slot that is ours is of no use where the last slot was dropped meanwhile, while the log came in with it."""
    if log.server.is_ours and not log.is_received and not location.slots():
        log.drop_slot(warn)


@contextmanager
def _unheld(directory: Path) -> Iterator[bool]:
    """Nobody begins to need something within the block; False where somebody has."""
    lock = FileLock.take(directory / HELD)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            lock.release()


@dataclass(slots=True)
class Retention:
    """`states` are the locations; `keep` is what is to be kept besides, None for what the first location's setting says. `every` is how often to
    look, in seconds. Of a location's log that `is_own` nothing has to stay where there is no slot."""

    directory: Path
    states: Sequence[Path]
    keep: WalKeep | None
    warn: Callable[[str], None]
    every: float = EVERY
    is_own: bool = False
    _marks: dict[Path, Lsn] = field(default_factory=dict)
    """From where on marks that were read need WAL. What a mark says never changes."""
    _told: str = ""

    @contextmanager
    def cleaning(self, is_at_work: Callable[[], bool]) -> Iterator[None]:
        """Within the block the directory is cleaned up now and then, while the receiver of this process `is_at_work` in it."""
        ends = threading.Event()
        thread = threading.Thread(target=self._work, args=(ends, is_at_work), name="tailrace retention", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ends.set()
            thread.join()

    def clean_up_after(self) -> None:
        """At the end of a verb: what it has made unneeded. A receiver that is at work does it itself."""
        if not FileLock.is_taken(self.directory / LOCK):
            self.clean_up()

    def clean_up(self) -> Cleanup | None:
        """What went; None where nothing is there, somebody is making a slot, or something is in the way, which is told once."""
        try:
            if not self.directory.is_dir() or not list_segments(self.directory):
                return None
            with _unheld(self.directory) as is_free:
                cleanup = self._cleaned_up() if is_free else None
        except (TailraceError, OSError) as error:
            if str(error) != self._told:
                self.warn(f'nothing is removed from "{self.directory}": {error}')
            self._told = str(error)
            return None
        self._told = ""
        return cleanup

    def _work(self, ends: threading.Event, is_at_work: Callable[[], bool]) -> None:
        newest, since = "", time.monotonic()
        while not ends.wait(self.every):
            if not is_at_work():
                continue
            with suppress(OSError):
                now = max((path.name for path in self.directory.glob("[0-9A-F]" * 24)), key=lambda name: name[8:], default="")
                if now != newest or time.monotonic() - since > _AT_THE_LATEST:
                    newest, since = now, time.monotonic()
                    self.clean_up()

    def _cleaned_up(self) -> Cleanup:
        locations = [SlotLocation.open(state, warn=self.warn) for state in self.states]
        segments = arrange(self.directory)
        keep = self.keep
        if keep is None:
            keep = parse_wal_keep(locations[0].settings.wal_keep) if locations else WalKeep()
        kept = _kept(segments, keep) if keep else None
        compared = _compared(segments)
        others = [
            compared,
            *(need for each in locations for need in self._needs_of_marks(each)),
            *([kept] if kept else []),
        ]
        return clean_up(self.directory, locations, WaysBack(others=others), enough=kept or (compared if self.is_own else None))

    def _needs_of_marks(self, location: SlotLocation) -> Iterator[WalNeed]:
        """Of those that slots may go on from, and what tells them from another log's. One that cannot be read is not used, either."""
        slots = [slot for slot in location.slots() if not slot.invalidation_reason]
        for slot in slots:
            if slot.fingerprint is not None:
                yield WalNeed(
                    slot.fingerprint.since, f'replication slot "{slot.name}" is known by what stands at {slot.fingerprint.since}'
                )
        for database in {slot.database_oid for slot in slots}:
            for mark in location.marks(database):
                if (lsn := self._needed_by(mark.path)) is not None:
                    yield WalNeed(lsn, f'the mark "{mark.path}" needs WAL from {lsn}')

    def _needed_by(self, mark: Path) -> Lsn | None:
        if mark not in self._marks:
            try:
                carried = read_mark(mark.read_bytes(), str(mark))
            except (TailraceError, FileNotFoundError):
                return None
            stood = carried.fingerprint
            self._marks[mark] = carried.restart_lsn if stood is None else min(carried.restart_lsn, stood.since)
        return self._marks[mark]


def _compared(segments: Segments) -> WalNeed:
    """From where on receiving goes on."""
    where = WalArchive(Path(segments.directory), segments.segment_size).resume_point()
    lsn = where.lsn if where is not None else Lsn(0)
    return WalNeed(lsn, f"receiving goes on at {lsn}")


def _kept(segments: Segments, keep: WalKeep) -> WalNeed:
    """From where on the last hours or bytes are."""
    size = segments.segment_size
    there = sorted(segments.by_number.values(), key=lambda segment: segment.number)
    if keep.size:
        lsn = Lsn(max(0, (there[-1].number + 1) * size - keep.size))
    else:
        young = [segment for segment in there if _changed(segment) >= time.time() - keep.seconds]
        lsn = Lsn((young[0] if young else there[-1]).number * size)
    return WalNeed(lsn, f"wal_keep is {keep}")


def _changed(segment: Segment) -> float:
    """When something was received into it last."""
    try:
        return Path(segment.path).stat().st_mtime
    except FileNotFoundError:
        return 0.0
