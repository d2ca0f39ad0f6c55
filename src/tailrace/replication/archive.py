"""Which segments of an archive nobody needs any more: those that lie below the WAL of every slot, and of every backup and catalog
state known.

In: a directory of segments, and the state locations whose slots read them. Out: `Cleanup`, and the files gone if that is asked
for. An archive may be somebody's way back, so in doubt a file is kept: history files, what no segment is, what cannot be read or
is of another system; and all WAL from where the oldest backup began, or what the oldest catalog state needs
(`storage/backups.py`).

What lies below is told by the place in the log, as pg_archivecleanup does, and not by the timeline: a timeline that branched off
later has nothing before it, and one that was left has no reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError, UsageError
from tailrace.model import Lsn
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.slot_wal import lose, status_of
from tailrace.replication.waiting import finish
from tailrace.slots.slot import Slot
from tailrace.storage.backups import BACKUP_HISTORY, WalNeed, needs_of_backups, needs_of_states
from tailrace.storage.directory import DataDirectory
from tailrace.storage.segment import Segment, in_place
from tailrace.storage.segment_files import arrange, identity_of, list_segments
from tailrace.storage.segments import Segments

_HISTORY = re.compile(r"[0-9A-F]{8}\.history")


@dataclass(frozen=True, slots=True)
class Kept:
    """Files that stay, by name, and why."""

    why: str
    files: list[str]


@dataclass(frozen=True, slots=True)
class Cleanup:
    """`unneeded` in the order of the log; the rest of the directory is `kept`."""

    segments: Segments
    unneeded: list[Segment]
    kept: list[Kept]


@dataclass(frozen=True, slots=True)
class WaysBack:
    """Base backups and captured catalog states outside of the archive that somebody wants to go back to by it; and what `others` need."""

    backups: Sequence[Path] = ()
    states: Sequence[Path] = ()
    others: Sequence[WalNeed] = ()

    def needs(self, segments: Segments) -> list[WalNeed]:
        """With those that lie in the archive."""
        return [*needs_of_backups(segments, self.backups), *needs_of_states(segments, self.states), *self.others]


def look_through(directory: Path, locations: Sequence[SlotLocation], back: WaysBack = WaysBack()) -> Cleanup:
    """What could go. Raises UsageError for what is no archive, and for slots of another system."""
    segments = _archive(directory, locations)
    return _sorted_out(segments, [need for need, _, _ in _needs(segments, locations)], back.needs(segments))


def clean_up(
    directory: Path, locations: Sequence[SlotLocation], back: WaysBack = WaysBack(), enough: WalNeed | None = None
) -> Cleanup:  # fmt: skip
    """The same, and it is gone, the oldest first: who lists the files meanwhile finds no gap. A slot that is further behind than its location's
    max_slot_wal_keep_size is lost by that; unless somebody consumes it, when it keeps what it needs. Where no slot says what is needed, what is
    `enough` counts, if that is known."""
    segments = _archive(directory, locations)
    needs = _needs(segments, locations)
    others = back.needs(segments)
    cut = min([need.lsn for need in (*(need for need, _, _ in needs), *others)], default=Lsn(0))
    settled = []
    for need, location, slot in needs:
        # What is in the segment where the others begin stays anyway.
        stays = slot.restart_lsn // segments.segment_size >= cut // segments.segment_size
        settled.append(need if stays or lose(location, slot) else _needed_by(slot, location, slot.restart_lsn))
    if not settled and enough is not None:
        settled = [enough]
    cleanup = _sorted_out(segments, settled, others)
    for segment in cleanup.unneeded:
        Path(segment.path).unlink(missing_ok=True)
    return cleanup


def _archive(directory: Path, locations: Iterable[SlotLocation]) -> Segments:
    if not directory.is_dir():
        raise UsageError(f'archive directory "{directory}" does not exist')
    real = directory.resolve()
    if DataDirectory.at(real) or DataDirectory.at(real.parent) or (real / "archive_status").is_dir():
        raise UsageError(
            f'"{directory}" is a server\'s, and no archive', hint="The server itself removes what it does not need of its pg_wal."
        )
    segments = arrange(directory, system=next((location.settings.system for location in locations), None))
    for location in locations:
        location.check_system(segments.system)
    return segments


def _needs(segments: Segments, locations: Iterable[SlotLocation]) -> list[tuple[WalNeed, SlotLocation, Slot]]:
    """What slots need that are not lost. One that is further behind than its location allows needs no more than that, if it
    reads this archive."""
    needs = []
    for location in locations:
        keep_size = location.settings.max_slot_wal_keep_size
        for slot in location.slots():
            beyond = 0
            with suppress(OSError, TailraceError):  # whose source cannot be read; it may be there again
                status = finish(status_of(location, slot, keep_size))
                if status.wal_status == "lost":
                    continue
                if Path(slot.source).resolve() == Path(segments.directory).resolve():
                    beyond = max(0, -(status.safe_wal_size or 0))
            needs.append((_needed_by(slot, location, Lsn(slot.restart_lsn + beyond)), location, slot))
    return needs


def _needed_by(slot: Slot, location: SlotLocation, lsn: Lsn) -> WalNeed:
    return WalNeed(lsn, f'replication slot "{slot.name}" in "{location.path}" needs WAL from {lsn}')


def _sorted_out(segments: Segments, needs: Sequence[WalNeed], others: Sequence[WalNeed]) -> Cleanup:
    """Each file by its name, and those that could go by what they say of themselves."""
    size = segments.segment_size
    of_slots = min(needs, key=lambda need: need.lsn, default=None)
    of_others = min(others, key=lambda need: need.lsn, default=None)
    listed = {segment.name: segment for segment in list_segments(segments.lies_in)}
    unneeded: list[Segment] = []
    kept: dict[str, list[str]] = {}
    for path in sorted(Path(segments.directory).iterdir()):
        segment = listed.get(path.name)
        if segment is not None:
            segment = in_place(segment, size)
            why = _why_kept(segment, segments, of_slots, of_others)
            if not why:
                unneeded.append(segment)
                continue
        else:
            why = _why_no_segment(path)
        kept.setdefault(why, []).append(path.name)
    unneeded.sort(key=lambda segment: (segment.number * size, segment.timeline, segment.path))
    return Cleanup(segments, unneeded, [Kept(why, files) for why, files in kept.items()])


def _why_kept(segment: Segment, segments: Segments, of_slots: WalNeed | None, of_others: WalNeed | None) -> str:
    """Empty if there is no reason."""
    if of_slots is None:
        return "there is no slot that says what is needed"
    if segment.number >= of_slots.lsn // segments.segment_size:
        return of_slots.who
    if of_others is not None and segment.number >= of_others.lsn // segments.segment_size:
        return of_others.who
    if segment.size is None:
        return "not a regular file"
    try:
        identity = identity_of(segment)
    except (OSError, TailraceError) as error:
        return error.message if isinstance(error, TailraceError) else f"could not be read: {error.strerror}"
    if identity is None:
        return "nothing is written there"
    return "" if identity.system == segments.system else f"of system {identity.system}"


def _why_no_segment(path: Path) -> str:
    if _HISTORY.match(path.name):
        return "history files of timelines"
    return "history files of backups" if BACKUP_HISTORY.match(path.name) else "not a segment"
