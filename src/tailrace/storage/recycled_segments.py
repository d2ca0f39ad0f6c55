"""Copies in the spool of segments that their server has recycled since: what was copied once need not be asked for again.

In: a folder of the spool whose lock the caller holds, and the segments that there are otherwise. Out: the copies that go before those, or between
them. Only whole ones count, which do not change any more; so those of an earlier timeline are linked into the folder of the newest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tailrace.model import Lsn
from tailrace.storage.segment import Segment, segment_name
from tailrace.storage.segments import Segments
from tailrace.storage.wal_files import WalDirectory
from tailrace.wal.page_header import SHORT_PAGE_HEADER, page_address


def recycled_segments(home: Path, segments: Segments, first: int, present: Mapping[int, Segment]) -> dict[int, Segment]:
    """Copies of the places from `first` on that are not `present`, as far as they and what is present follow one another."""
    found: dict[int, Segment] = {}
    for place in range(max(present, default=first - 1) - 1, first - 1, -1):
        if place in present:
            continue
        copy = _copy_of(home, segments, place)
        if copy is None:
            if place < min(present):
                break
            continue
        found[place] = copy
    return found


def _copy_of(home: Path, segments: Segments, place: int) -> Segment | None:
    size = segments.segment_size
    for timeline in _timelines_at(segments, Lsn(place * size)):
        copy = home / segment_name(timeline, place, size)
        for folder in (home, home.with_name(f"{timeline:08X}")):
            if _is_whole(there := folder / copy.name, place * size, size):
                if folder != home:
                    with suppress(FileExistsError):
                        os.link(there, copy)
                return Segment(timeline, place, WalDirectory(str(home)), copy.name, compression="", partial=False, size=size)
    return None


def _timelines_at(segments: Segments, lsn: Lsn) -> Iterator[int]:
    """On which the log may be there, the newest first."""
    yield segments.timeline
    yield from sorted((timeline for timeline, left in segments.history if lsn < left), reverse=True)


def _is_whole(copy: Path, start: int, size: int) -> bool:
    """Whether it was copied to its end."""
    with suppress(FileNotFoundError), copy.open("rb", buffering=0) as file:
        return os.fstat(file.fileno()).st_size == size and page_address(file.read(SHORT_PAGE_HEADER)) == start
    return False
