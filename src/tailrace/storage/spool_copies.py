"""Copies of WAL segments: brought up to what their server has written since, and compared with it.

In: a server's segment file, and the copy of it. Out: the copy, grown; or the page from which on the two have nothing in common. A server that was put
back to an earlier copy of itself writes other things to the same places, and so does one that lost the end of its log.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_left

from tailrace.model import PAGE_SIZE
from tailrace.wal.page_header import SHORT_PAGE_HEADER, page_address

_PIECE = 1 << 20
_CANNOT_SHARE = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF})
_compared: dict[str, tuple[int, int]] = {}
"""Of copies that grow: the server's file (its inode), and how many pages this process has found to be the same."""


def is_whole(live: str, copy: str, size: int) -> bool:
    """Whether the copy has all of the segment that the server's file still is: it was whole when the file was changed last, and has that time. So
    nobody has written to the file since, nor given it another name."""
    try:
        return _was_whole(os.stat(copy), os.stat(live), size)
    except FileNotFoundError:
        return False


def compared(live: int, copy: str, start: int, size: int) -> tuple[int, bool]:
    """How many pages of the copy are those of the segment that begins at `start`, in the open file `live`; and whether it goes on with others.
    Neither, if the file is not, or no longer, that segment. A copy that was whole when the file was changed last (it has that time) is not read
    again."""
    status = os.fstat(live)
    if not _is_in_place(live, 0, start):
        return 0, False
    target = os.open(copy, os.O_RDONLY)
    try:
        its = os.fstat(target)
        if _was_whole(its, status, size):
            return size // PAGE_SIZE, False
        have, written = its.st_size // PAGE_SIZE, written_pages(live, start, size)
        inode, pages = _compared.get(copy, (0, 0))
        page = _first_other(live, target, max(0, pages - 1) if inode == status.st_ino else 0, min(have, written))
        _compared[copy] = status.st_ino, page
        # What is no page of this place was cut off by a crash of ours, or lies behind a switch of segments.
        return page, page < have and _is_in_place(target, page, start)
    finally:
        os.close(target)


def bring_up(live: int, copy: str, start: int, size: int, finished: bool) -> tuple[int, bytes] | None:
    """Append to the copy, which was compared, what the server has written since. How much of it is there for good, and the page that is being filled;
    None if the file is not, or no longer, the segment that begins at `start`."""
    status = os.fstat(live)
    if not _is_in_place(live, 0, start):
        return None
    target = os.open(copy, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        its = os.fstat(target)
        if _was_whole(its, status, size):
            return size, b""
        have = min(its.st_size // PAGE_SIZE, _compared.get(copy, (0, 0))[1]) * PAGE_SIZE
        # Pages are written in their order, so all but the last that is in its place are done with. What comes behind is older, or zeros.
        settled = size if finished else (written_pages(live, start, size) - 1) * PAGE_SIZE
        keeps = size if its.st_size == size else have  # one that was sealed stays as long as it is, for those who read it
        try:
            os.ftruncate(target, keeps)
            _append(live, target, have, settled)
            filling = b"" if finished else os.pread(live, PAGE_SIZE, settled)
        except OSError:
            os.ftruncate(target, keeps)
            raise
        if not _is_in_place(live, 0, start):  # recycled while it was copied
            os.ftruncate(target, keeps)
            return None
        if finished:
            os.utime(target, ns=(status.st_ctime_ns, status.st_ctime_ns))
            _compared.pop(copy, None)
        else:
            _compared[copy] = status.st_ino, max(have, settled) // PAGE_SIZE
        return settled, filling
    finally:
        os.close(target)


def _was_whole(copy: os.stat_result, live: os.stat_result, size: int) -> bool:
    return copy.st_size == size and copy.st_mtime_ns == live.st_ctime_ns


def _is_in_place(file: int, page: int, start: int) -> bool:
    return page_address(os.pread(file, SHORT_PAGE_HEADER, page * PAGE_SIZE)) == start + page * PAGE_SIZE


def written_pages(live: int, start: int, size: int) -> int:
    """How many pages of the segment have been written."""
    return bisect_left(range(size // PAGE_SIZE), True, key=lambda page: not _is_in_place(live, page, start))


def _first_other(live: int, copy: int, page: int, stop: int) -> int:
    """The first page from `page` on that differs; `stop` if none before it does."""
    while page < stop:
        count = min(_PIECE, (stop - page) * PAGE_SIZE)
        one, other = os.pread(live, count, page * PAGE_SIZE), os.pread(copy, count, page * PAGE_SIZE)
        if one == other and len(one) == count:
            page += count // PAGE_SIZE
            continue
        while one[:PAGE_SIZE] == other[:PAGE_SIZE] and len(one) >= PAGE_SIZE:
            one, other, page = one[PAGE_SIZE:], other[PAGE_SIZE:], page + 1
        return page
    return stop


def _append(live: int, target: int, at: int, stop: int) -> None:
    """Bytes `[at, stop)` of one file into the other, shared if the file system can."""
    shares = hasattr(os, "copy_file_range")
    while at < stop:
        done = 0
        if shares:
            try:
                done = os.copy_file_range(live, target, stop - at, at, at)
            except OSError as error:
                if error.errno not in _CANNOT_SHARE:
                    raise
                shares = False
        if not done:
            done = os.pwrite(target, os.pread(live, min(_PIECE, stop - at), at), at)
        if not done:
            raise FileNotFoundError(errno.ENOENT, "the segment was cut short")
        at += done
