"""A running server recycles its pg_wal under our feet (rule 9), so its segments are copied before anything is read of them.

In: the segments of a live pg_wal. Out: the same segments below a folder of ours, one per system and timeline. A segment that is whole is copied
once, and shared by everybody who reads this log on this machine; the one that the server still writes is copied anew each time. What the server has
removed goes a day after it was copied. A segment that was renamed while it was copied no longer begins with its own address; it is left out, and
whoever needs it learns that it has been removed.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tailrace.storage.segments import Segment, Segments, segment_name
from tailrace.wal.loads import number

_PAGE_ADDRESS = 8
_KEPT_SECONDS = 86_400


def spooled(segments: Segments, spool: Path) -> Segments:
    """Copies of all segments, below `spool`."""
    home = spool / str(segments.system) / f"{segments.timeline:08X}"
    home.mkdir(parents=True, exist_ok=True)
    _forget(home, {segment_name(each.timeline, place, segments.segment_size) for place, each in segments.by_number.items()})
    copies: dict[int, Segment] = {}
    for place, segment in sorted(segments.by_number.items()):
        name = segment_name(segment.timeline, place, segments.segment_size)
        # Servers make segments ahead, so only what comes before the last one in use is surely whole; that is told by the next one's address.
        whole = _begins_at(Path(_path_of(segments, place + 1)), (place + 1) * segments.segment_size)
        target = home / (name if whole else f"{name}.{uuid.uuid4().hex}.live")
        if not target.exists() and not _copy(Path(segment.path), target):
            continue
        if _begins_at(target, place * segments.segment_size):
            copies[place] = replace(segment, path=str(target))
        else:
            target.unlink(missing_ok=True)
    return replace(segments, directory=str(home), by_number=copies)


def _path_of(segments: Segments, place: int) -> str:
    segment = segments.by_number.get(place)
    return segment.path if segment else os.devnull


def _begins_at(path: Path, lsn: int) -> bool:
    """Whether the file's first page says that it belongs at `lsn`."""
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except FileNotFoundError:
        return False  # recycled since it was listed
    return len(head) == 16 and number(head, _PAGE_ADDRESS, 8) == lsn


def _copy(source: Path, target: Path) -> bool:
    """Whole or not at all; False if the server has taken the segment away."""
    new = target.with_name(f".{uuid.uuid4().hex}.new")
    try:
        shutil.copyfile(source, new)
    except FileNotFoundError:
        new.unlink(missing_ok=True)
        return False
    new.rename(target)
    return True


def _forget(home: Path, present: set[str]) -> None:
    """Remove what the server no longer has, and copies of unfinished segments, once nobody can be reading them any more."""
    for path in home.iterdir():
        with suppress(FileNotFoundError):
            if path.name not in present and time.time() - path.stat().st_mtime > _KEPT_SECONDS:
                path.unlink()
