"""A running server recycles its pg_wal under our feet (rule 9), so what is to be read of it is copied before anything is read.

In: the segments of a live pg_wal, and the position from which they are needed. Out: the same segments below a folder of ours, one folder per system,
pg_wal and timeline, shared by everybody who reads this log on this machine. There is one copy of a segment. While the server writes it, pages are
appended that will not change any more; the page that is being filled is kept beside, as it was, by whoever looked (`Segment.filling`), so that the
copy never changes under a reader either. Who reads holds a lease; whoever comes next removes what nobody holds.

Clusters with one system identifier (a copy, a standby beside its primary) have logs that differ, so a pg_wal is known by its path and its inode. Of
two at least one is another, also where containers see both at the same path; a device number tells nothing, since a reboot may change it. A server
that was put back to an earlier copy of itself, in its place, is found by comparing: copies with other bytes are given up, and never written over.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from tailrace.dataclass import dataclass
from tailrace.errors import FailedWrite
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.storage.lease import Lease, first_leased, is_lease
from tailrace.storage.recycled_segments import recycled_segments
from tailrace.storage.segment import Segment, segment_name
from tailrace.storage.segment_files import place_of_name
from tailrace.storage.segments import Segments
from tailrace.storage.spool_copies import bring_up, compared, is_whole
from tailrace.storage.wal_files import WalDirectory
from tailrace.user_cache import user_cache
from tailrace.wal.page_header import SHORT_PAGE_HEADER, page_address

_UNVISITED_SECONDS = 3600
_SWEEP_SECONDS = 60
_SWEPT = "swept"
_LOCK = "lock"
_SOURCE = "source"
_THREADS = min(2, os.cpu_count() or 1)
"""That copy segments at once."""


def spool_directory() -> Path:
    """Where WAL of running servers is copied to: TAILRACE_SPOOL, or a folder in the user's cache."""
    return Path(os.environ.get("TAILRACE_SPOOL") or user_cache() / "spool").absolute()


def spooled(segments: Segments, spool: Path, since: Lsn | None = None, lasting: float = 0) -> tuple[Segments, Lease]:
    """Copies, below `spool`, of the segments from `since` on, and the lease that keeps them there, for `lasting` seconds even if this process ends
    before. What the server has recycled is there if it was copied earlier. Raises FailedWrite where they cannot be written; then nothing of it
    stays."""
    home = _home_of(segments, spool)
    first = min(segments.by_number) if since is None else int(since) // segments.segment_size
    with _written_to(home):
        _make(home, segments)
        _forget_unvisited(spool, home)
        with _locked(home):
            lease = Lease.take(home, segment_name(segments.timeline, first, segments.segment_size)[8:], lasting)
            _forget(home)
            _give_up_others(home, segments, first)
            try:
                copies = _copied(segments, home, first)
                copies |= recycled_segments(home, segments, first, copies)
            except OSError:
                lease.end()
                _forget(home)
                raise
    if not copies and since is not None:
        return spooled(segments, spool, None, lasting)  # `since` lies where nothing was written yet
    return replace(segments, lies_in=WalDirectory(str(home)), by_number=copies), lease


def with_copies(segments: Segments, spool: Path, since: Lsn) -> tuple[Segments, Lease | None]:
    """The segments of a server that has stopped, and before them those from `since` on that it recycled while it ran, as far as they were copied."""
    home, first = _home_of(segments, spool), int(since) // segments.segment_size
    if since >= segments.first_lsn or not home.parent.is_dir():
        return segments, None
    with _written_to(home):
        _make(home, segments)
        with _locked(home):
            lease = Lease.take(home, segment_name(segments.timeline, first, segments.segment_size)[8:])
            _give_up_others(home, segments, first)
            copies = recycled_segments(home, segments, first, segments.by_number)
    return replace(segments, by_number=segments.by_number | copies), lease


def seal(segments: Segments, upto: Lsn) -> None:
    """Complete the copies of segments that end at `upto` or before, once the log is known to go on behind them: the server may recycle one before
    anything in the next shows that it is whole."""
    for place, segment in segments.by_number.items():
        settled = segment.settled
        if settled is None or (place + 1) * segments.segment_size > upto:
            continue
        home = Path(segment.path).parent
        with _written_to(home), _locked(home), open(segment.path, "r+b", buffering=0) as copy:
            if os.fstat(copy.fileno()).st_size == settled:
                os.pwrite(copy.fileno(), segment.filling, settled)
                os.ftruncate(copy.fileno(), segments.segment_size)  # behind a switch of segments nothing is read


def _home_of(segments: Segments, spool: Path) -> Path:
    wal = os.path.realpath(segments.directory)
    source = f"{zlib.crc32(os.fsencode(wal)):08x}-{os.stat(wal).st_ino}"
    return spool / str(segments.system) / source / f"{segments.timeline:08X}"


def _make(home: Path, segments: Segments) -> None:
    """The folder; the one above says of which pg_wal."""
    if not home.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        (home.parent / _SOURCE).write_text(os.path.realpath(segments.directory))


def _give_up_others(home: Path, segments: Segments, first: int) -> None:
    """Remove the copies that are of another history than the segments, which are compared from the place `first` on: from the first one on that has
    other pages, and those before it if nothing shows that the history was the same there. Who reads them has them open, or finds that they are
    gone."""
    size = segments.segment_size
    alike = 0
    for place, segment in sorted(segments.by_number.items()):
        copy = _path_of(segments, home, place)
        if place < first or not os.path.exists(copy):
            continue
        if is_whole(segment.path, copy, size):
            alike += size // PAGE_SIZE
            continue
        with suppress(FileNotFoundError), open(segment.path, "rb", buffering=0) as live:
            pages, differs = compared(live.fileno(), copy, place * size, size)
            alike += pages
            if differs:
                first_other = segment_name(0, place, size)[8:] if alike else ""
                for path in home.iterdir():
                    if (at := place_of_name(path.name)) is not None and at >= first_other:
                        path.unlink(missing_ok=True)
                return


def _copied(segments: Segments, home: Path, first: int) -> dict[int, Segment]:
    """Every segment from `first` on as its copy, up to the first that is not whole; what the server has taken away, or not begun, is left out."""
    copies = {place: _whole_copy(segments, home, place) for place in sorted(segments.by_number) if place >= first}
    others = [place for place, copy in copies.items() if copy is None]
    if len(others) <= _THREADS:
        copies |= {place: _copy_of(segments, home, place) for place in others}
    else:
        threads = ThreadPoolExecutor(_THREADS)
        try:
            copies |= zip(others, threads.map(partial(_copy_of, segments, home), others), strict=True)
        finally:
            threads.shutdown(wait=True, cancel_futures=True)
    found = {place: copy for place, copy in copies.items() if copy is not None}
    # The server may have begun another while the one before was copied, whose end is not there then.
    begun = next((place for place, copy in found.items() if copy.partial), None)
    return {place: copy for place, copy in found.items() if begun is None or place <= begun}


def _whole_copy(segments: Segments, home: Path, place: int) -> Segment | None:
    """One that has all of the segment; None where it has to be looked at."""
    segment, copy = segments.by_number[place], _path_of(segments, home, place)
    if not is_whole(segment.path, copy, segments.segment_size):
        return None
    return _as_copied(segment, copy, segments.segment_size, segments.segment_size)


def _copy_of(segments: Segments, home: Path, place: int) -> Segment | None:
    """What there is of one segment as its copy, which is brought up."""
    size, segment, copy = segments.segment_size, segments.by_number[place], _path_of(segments, home, place)
    # Servers make segments ahead, so only what comes before the last one in use is surely whole; that is told by the next one's address.
    later = segments.by_number.get(place + 1)
    finished = later is not None and _begins_at(Path(later.path), (place + 1) * size)
    with suppress(FileNotFoundError), open(segment.path, "rb", buffering=0) as live:
        if (brought := bring_up(live.fileno(), copy, place * size, size, finished)) is not None:
            return _as_copied(segment, copy, size, *brought)
    return None


def _as_copied(segment: Segment, copy: str, size: int, settled: int, filling: bytes = b"") -> Segment:
    """The segment in its copy, of which so much is `settled`."""
    is_all = settled == size
    return replace(
        segment, lies_in=WalDirectory(os.path.dirname(copy)), name=os.path.basename(copy), partial=not is_all,
        settled=None if is_all else settled, filling=filling,
    )  # fmt: skip


def _path_of(segments: Segments, home: Path, place: int) -> str:
    """Of the copy."""
    return os.path.join(home, segment_name(segments.by_number[place].timeline, place, segments.segment_size))


def _begins_at(path: Path, lsn: int) -> bool:
    """Whether the file's first page says that it belongs at `lsn`."""
    try:
        with path.open("rb") as file:
            return page_address(file.read(SHORT_PAGE_HEADER)) == lsn
    except FileNotFoundError:
        return False  # recycled since it was listed


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """One at a time appends, removes, and looks at leases. The file stays, or two could lock two of that name."""
    with (home / _LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _written_to(home: Path) -> Iterator[None]:
    """Failure to write is about our copy, not about the server's file."""
    try:
        yield
    except OSError as error:
        if error.filename and not Path(error.filename).is_relative_to(home.parents[2]):
            raise
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise FailedWrite(
            f'could not write to file "{error.filename or home}": {error.strerror}',
            hint="WAL of a running server is copied there before it is read. Name another place with TAILRACE_SPOOL, or make room: "
            "tailrace spool clean removes what is not being read.",
            sqlstate="53100" if full else "",
            file=str(error.filename or home),
        ) from error


def _forget(home: Path) -> int:
    """Remove what nobody holds a lease on: copies from before the first that is leased, and whatever else lies there. How many bytes."""
    leased = first_leased(home)
    freed = 0
    for path in home.iterdir():
        if path.name == _LOCK or is_lease(path):
            continue
        place = place_of_name(path.name)
        if leased is None or place is None or place < leased:
            with suppress(FileNotFoundError):
                freed += path.stat().st_size
                path.unlink()
    return freed


def _forget_unvisited(spool: Path, own: Path) -> None:
    """Remove copies of other systems' WAL, and other timelines', that nobody has asked for lately. Who follows a log comes here many times a second,
    so the spool says when that was done."""
    swept = spool / _SWEPT
    with suppress(FileNotFoundError):
        if time.time() - swept.stat().st_mtime < _SWEEP_SECONDS:
            return
    swept.touch()
    for home in homes(spool):
        with suppress(PermissionError):  # another user's
            if home != own and time.time() - home.stat().st_mtime > _UNVISITED_SECONDS:
                with _locked(home):
                    _forget(home)


@dataclass(frozen=True, slots=True)
class Spooled:
    """What lies in the spool of one system, pg_wal (`source`) and timeline: files, their bytes, and whether they are being read."""

    path: Path
    system: str
    source: str
    timeline: int
    files: int
    size: int
    is_read: bool


def homes(spool: Path) -> list[Path]:
    """The folders of all systems, sources and timelines."""
    return sorted(
        home for home in spool.glob("[0-9]*/*/*") if home.is_dir() and home.parents[1].name.isdigit() and len(home.name) == 8
    )


def look(spool: Path) -> list[Spooled]:
    """List the copies in the spool."""
    spools = []
    for home in homes(spool):
        with _locked(home):
            sizes = [path.stat().st_size for path in home.iterdir() if path.name != _LOCK and not is_lease(path)]
            if sizes:
                leased = first_leased(home) is not None
                source = (home.parent / _SOURCE).read_text()
                spools.append(Spooled(home, home.parents[1].name, source, int(home.name, 16), len(sizes), sum(sizes), leased))
    return spools


def clean(spool: Path) -> int:
    """Remove what is not being read. How many bytes that was."""
    freed = 0
    for home in homes(spool):
        with _locked(home):
            freed += _forget(home)
    return freed
