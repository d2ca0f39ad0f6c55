"""Where a walk over records stopped: is that the end of the log, or damage?

In: pages, and the frame of a walk that found no next record. Out: what lies behind; or, of a
second walk over what an index tells of, the error that says how it differs. A server that was killed, or still runs, leaves a log that ends
anywhere, also within a record that fills many pages. It makes segments ahead, of zeros or out of old ones, so behind the end there is nothing but
pages that were never written and pages of this log from elsewhere. A page in its place was written after the end, so that was none; a page of
neither kind was never written by a server.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CorruptWal
from tailrace.kernels import kernel
from tailrace.model import PAGE_SIZE, Lsn, Stretch
from tailrace.wal.framing import (
    ALL_PAGE_FLAGS,
    BASE,
    FIRST_IS_CONTRECORD,
    LONG_HEADER,
    LONG_PAGE_HEADER,
    MAGIC,
    MAX_RECORD,
    NEED_MORE,
    PAGE,
    POSITION,
    RAW,
    REACHED_STOP,
    RECORD_HEADER,
    SEGMENT_SIZE,
    SYSTEM,
    WalBytes,
    check_page,
    explain,
    place_of,
)  # fmt: skip
from tailrace.wal.unaligned import u16, u32, u64

# What lies behind the end of a walk
NOTHING = 0
MORE_OF_THE_LOG = 1
GARBAGE = 2


@kernel
def first_page_behind(buf, frame, position):  # type: ignore[no-untyped-def]
    """The page after the one with `position`; if the record there was cut off while it was being written, the page that lacks the rest of it."""
    at = position - frame[BASE]
    after = (at & ~(PAGE_SIZE - 1)) + PAGE_SIZE
    if at + 8 > frame[RAW]:
        return after
    length = u32(buf, at)
    got = after - at
    page = after
    while got < length and page + LONG_PAGE_HEADER <= frame[RAW]:
        header = check_page(buf, page, frame[BASE] + page, frame)
        if header < 0:
            return page
        if not u16(buf, page + 2) & FIRST_IS_CONTRECORD or u32(buf, page + 16) != length - got:
            return after
        got += PAGE_SIZE - header
        page += PAGE_SIZE
    return after


@kernel
def is_left_behind(buf, at, frame):  # type: ignore[no-untyped-def]
    """Whether the page at `buf[at]` may lie where the log was not written yet: zeros, or a whole page of this log, wherever it belongs. It is there
    because the segment was made of an old one; or because it was made at the end of a timeline, where PostgreSQL fills up what it does not copy with
    the last page that it did (`XLogFileCopy`)."""
    address = u64(buf, at + 8)
    if u64(buf, at) == 0 and address == 0 and u64(buf, at + 16) == 0:
        return True
    info = u16(buf, at + 2)
    is_first = address & (frame[SEGMENT_SIZE] - 1) == 0
    if (
        u16(buf, at) != frame[MAGIC]
        or info & ~ALL_PAGE_FLAGS
        or ((info & LONG_HEADER) != 0) != is_first
        or address & (PAGE_SIZE - 1)
    ):
        return False
    return not is_first or frame[SYSTEM] == 0 or u64(buf, at + 24) == frame[SYSTEM]


@kernel
def what_follows(buf, frame, position):  # type: ignore[no-untyped-def]
    """What lies behind `position`. MORE_OF_THE_LOG is a later page in its right place, or a record that names the one there as its predecessor;
    GARBAGE, at the frame's PAGE, what no server leaves."""
    base = frame[BASE]
    page = position - base
    if page & (PAGE_SIZE - 1):
        page = first_page_behind(buf, frame, position)
    garbage = np.int64(-1)
    while page + LONG_PAGE_HEADER <= frame[RAW]:
        if check_page(buf, page, base + page, frame) > 0:
            if base + page != position:
                return MORE_OF_THE_LOG
        elif garbage < 0 and not is_left_behind(buf, page, frame):
            garbage = base + page
        page += PAGE_SIZE
    at = position - base
    stop = min(frame[RAW], (at & ~(PAGE_SIZE - 1)) + PAGE_SIZE) - RECORD_HEADER
    at += 8
    while at <= stop:
        if u64(buf, at + 8) == position and RECORD_HEADER <= u32(buf, at) <= MAX_RECORD and u16(buf, at + 18) == 0:
            return MORE_OF_THE_LOG
        at += 8
    if garbage >= 0:
        frame[PAGE] = garbage
        return GARBAGE
    return NOTHING


def changed_since(stretch: Stretch, wal: WalBytes, reason: int, frame: NDArray[np.int64]) -> CorruptWal:
    """The error for a walk over `stretch`, ended for `reason`, whose records are not those that the first pass saw."""
    position = int(frame[POSITION])
    if reason in (NEED_MORE, REACHED_STOP):
        return CorruptWal(
            f"WAL of {stretch} changed since it was indexed",
            hint="If its server has recycled the segment, decode from an archive or a spool; if the segment is another's, put the right one back; "
            "if the WAL is right, remove its index.",
            context=f'file "{wal.name_at(int(stretch.start))}"',
        )
    return CorruptWal(
        explain(reason, frame),
        hint="It was sound when it was indexed. Take the segment from another copy or the archive.",
        context=f'WAL record at {Lsn(position)}, file "{wal.name_at(place_of(reason, frame))}"',
    )
