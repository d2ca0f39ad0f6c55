"""What the end of a log looks like, at the price of a few system calls, or of one listing: as long as that is the same, nothing new has been
written.

In: where the last record ended (`LogEnd`). Out: `Tail`, all that changes before another record can be read there: the bytes in
its place, the headers of the next page and of the next segment (the log goes on there after a switch), which files there are, and
which server writes them. Of an archive in a store (`StoredEnd`) it is which objects there are (`StoredTail`): they come whole.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tailrace.dataclass import dataclass
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.sources.named import directory_of
from tailrace.sources.source_name import SourceName, is_stored, path_of
from tailrace.storage.segment import segment_name
from tailrace.storage.segments import Segments
from tailrace.wal.page_header import SHORT_PAGE_HEADER, page_address
from tailrace.wal.record_header import may_begin

if TYPE_CHECKING:
    from tailrace.storage.wal_objects import WalObjects

_COARSE = 2 * 10**9
"""Nanoseconds. Two changes that are so close may leave one time stamp, so a recent one tells nothing."""
_NONE = (0, 0)


@dataclass(frozen=True, slots=True)
class Tail:
    """Equal to another of the same end only if nothing was written in between."""

    directory: int
    postmaster: tuple[int, int]
    here: bytes
    next_page: bytes
    next_segment: bytes
    compressed: tuple[int, int]


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The place `within` a segment behind the record at `previous` (None: nobody knows which), where the log ended that a
    user's `path` holds. The two files are that segment, and the next."""

    path: Path
    lsn: Lsn
    previous: Lsn | None
    within: int
    segment: Path
    next_segment: Path
    is_compressed: bool

    @classmethod
    def of(cls, path: Path, segments: Segments, lsn: Lsn, previous: Lsn | None) -> Self:
        directory = directory_of(path)
        wal = directory.wal if directory else path
        number, within = divmod(int(lsn), segments.segment_size)
        segment = segments.by_number.get(number)
        files = (_file(wal, segments, number), _file(wal, segments, number + 1))
        return cls(path, lsn, previous, within, *files, segment is not None and bool(segment.compression))

    def tail(self) -> Tail | None:
        """None where it tells nothing: something is there already, of which more may come, or files have just changed."""
        now = time.time_ns()
        listed = _stamp(self.segment.parent)[0]
        packed = _stamp(self.segment) if self.is_compressed else _NONE
        if max(listed, packed[0]) > now - _COARSE:
            return None
        left = PAGE_SIZE - self.within % PAGE_SIZE
        data = b"" if packed != _NONE else _bytes(self.segment, self.within, left + SHORT_PAGE_HEADER)
        here = data[:left]
        if page_address(here) == self.lsn if left == PAGE_SIZE else may_begin(here, self.previous):
            return None
        following = _bytes(self.next_segment, 0, SHORT_PAGE_HEADER)
        return Tail(listed, _stamp(self.path / "postmaster.pid"), here, data[left:], following, packed)


@dataclass(frozen=True, slots=True)
class StoredTail:
    """Names and tags of the objects from the segment on in which the log ended."""

    objects: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class StoredEnd:
    """The same of an archive in a store: `before` is the name of the segment before the one in which the log ended at `lsn`."""

    files: WalObjects
    lsn: Lsn
    before: str

    @classmethod
    def of(cls, files: WalObjects, segments: Segments, lsn: Lsn) -> Self:
        number = max(0, int(lsn) // segments.segment_size - 1)
        return cls(files, lsn, segment_name(segments.timeline, number, segments.segment_size))

    def tail(self) -> StoredTail:
        """Raises PeerError where the store is away."""
        return StoredTail(tuple((each.name, each.tag) for each in self.files.behind(self.before)))


def end_of(source: SourceName, segments: Segments, lsn: Lsn, previous: Lsn | None) -> LogEnd | StoredEnd:
    """Where the log of a source ended."""
    if is_stored(source):
        from tailrace.sources.stored import archive_of  # noqa: PLC0415 - who has a directory waits for no store's client

        return StoredEnd.of(archive_of(str(source)), segments, lsn)
    return LogEnd.of(path_of(source), segments, lsn, previous)


def _file(wal: Path, segments: Segments, number: int) -> Path:
    """The segment as its owner has it; what was read may be a copy."""
    segment = segments.by_number.get(number)
    return wal / (segment.name if segment else segment_name(segments.timeline, number, segments.segment_size))


def _stamp(path: Path) -> tuple[int, int]:
    """When it was changed, and its size."""
    try:
        status = path.stat()
    except OSError:
        return _NONE
    return status.st_mtime_ns, status.st_size


def _bytes(path: Path, at: int, count: int) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.pread(file, count, at)
    except OSError:
        return b""
    finally:
        os.close(file)
