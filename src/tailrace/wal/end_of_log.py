"""Where a walk over records stopped: is that the end of the log, or damage?

In: pages, and the frame of a walk that found no next record. Out: why, in PostgreSQL's words, and what lies behind; or the error that says what is
wrong there, or how it differs from what was indexed. A server that was killed, or still runs, leaves a log that ends anywhere, also within a record
that fills many pages. It makes segments ahead, of zeros or out of old ones, so behind the end there is nothing but pages that were never written and
pages of this log from elsewhere. A page in its place was written after the end, so that was none; a page of neither kind was never written by a
server.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CorruptWal, UnsupportedWal
from tailrace.kernels import kernel
from tailrace.model import PAGE_SIZE, Lsn, Stretch
from tailrace.wal import opcodes
from tailrace.wal.framing import (
    ALL_PAGE_FLAGS,
    BASE,
    DETAIL,
    FIRST_IS_CONTRECORD,
    INVALID_CHECKSUM,
    INVALID_CONTINUATION,
    INVALID_DATA,
    INVALID_LENGTH,
    INVALID_MAGIC,
    INVALID_PAGE_ADDRESS,
    INVALID_PAGE_FLAGS,
    INVALID_PREVIOUS,
    INVALID_RESOURCE_MANAGER,
    INVALID_SYSTEM,
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
    UNKNOWN_KIND,
    check_page,
    page_of,
)
from tailrace.wal.page_header import LONG_HEADER, LONG_PAGE_HEADER, P_ADDRESS, P_INFO, P_MAGIC, P_REMAINING, P_SYSTEM
from tailrace.wal.pages import WalBytes
from tailrace.wal.record_header import H_LENGTH, H_MANAGER, H_PREVIOUS
from tailrace.wal.unaligned import u16, u32, u64
from tailrace.wal.versions import owner_of_magic

# What lies behind the end of a walk
NOTHING = 0
MORE_OF_THE_LOG = 1
GARBAGE = 2


class NeedMoreWal(CorruptWal):
    """The last record runs on beyond the bytes given, though the log does not end there: give more and scan again."""


@kernel
def first_page_behind(buf, frame, position):  # type: ignore[no-untyped-def]
    """The page after the one with `position`; if the record there was cut off while it was being written, the page that lacks the rest of it."""
    at = position - frame[BASE]
    after = page_of(at) + PAGE_SIZE
    if at + H_PREVIOUS > frame[RAW]:
        return after
    length = u32(buf, at + H_LENGTH)
    got = after - at
    page = after
    while got < length and page + LONG_PAGE_HEADER <= frame[RAW]:
        header = check_page(buf, page, frame[BASE] + page, frame)
        if header < 0:
            return page
        if not u16(buf, page + P_INFO) & FIRST_IS_CONTRECORD or u32(buf, page + P_REMAINING) != length - got:
            return after
        got += PAGE_SIZE - header
        page += PAGE_SIZE
    return after


@kernel
def is_left_behind(buf, at, frame):  # type: ignore[no-untyped-def]
    """Whether the page at `buf[at]` may lie where the log was not written yet: zeros, or a whole page of this log, wherever it belongs. It is there
    because the segment was made of an old one; or because it was made at the end of a timeline, where PostgreSQL fills up what it does not copy with
    the last page that it did (`XLogFileCopy`)."""
    address = u64(buf, at + P_ADDRESS)
    if u64(buf, at + P_MAGIC) == 0 and address == 0 and u64(buf, at + P_REMAINING) == 0:
        return True
    info = u16(buf, at + P_INFO)
    is_first = address & (frame[SEGMENT_SIZE] - 1) == 0
    if (
        u16(buf, at + P_MAGIC) != frame[MAGIC]
        or info & ~ALL_PAGE_FLAGS
        or ((info & LONG_HEADER) != 0) != is_first
        or address & (PAGE_SIZE - 1)
    ):
        return False
    return not is_first or frame[SYSTEM] == 0 or u64(buf, at + P_SYSTEM) == frame[SYSTEM]


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
    stop = min(frame[RAW], page_of(at) + PAGE_SIZE) - RECORD_HEADER
    if at & (PAGE_SIZE - 1) == 0:
        # The page itself was refused: no record begins where its header is, and what an old page holds may look like anything.
        stop = at
    at += 8
    while at <= stop:
        if (
            u64(buf, at + H_PREVIOUS) == position
            and RECORD_HEADER <= u32(buf, at + H_LENGTH) <= MAX_RECORD
            and u16(buf, at + H_MANAGER + 1) == 0  # padding
        ):
            return MORE_OF_THE_LOG
        at += 8
    if garbage >= 0:
        frame[PAGE] = garbage
        return GARBAGE
    return NOTHING


def place_of(reason: int, frame: NDArray[np.int64]) -> Lsn:
    """What a reason is about: the page that was refused, or the record that begins at the frame's position."""
    of_page = (INVALID_MAGIC, INVALID_PAGE_FLAGS, INVALID_PAGE_ADDRESS, INVALID_SYSTEM, INVALID_CONTINUATION)
    return Lsn(int(frame[PAGE if reason in of_page else POSITION]))


def is_torn(reason: int, frame: NDArray[np.int64]) -> bool:
    """Whether there is something at the frame's position, though no whole record: a crash cut it off, or it is damaged."""
    broken = (INVALID_RESOURCE_MANAGER, INVALID_PREVIOUS, INVALID_CHECKSUM, INVALID_CONTINUATION)
    return reason in broken or (reason == INVALID_LENGTH and int(frame[DETAIL]) != 0)


def explain(reason: int, frame: NDArray[np.int64]) -> str:
    """PostgreSQL's words (`access/transam/xlogreader.c`) for why no record could be read at the frame's position."""
    position, page = Lsn(int(frame[POSITION])), Lsn(int(frame[PAGE]))
    detail = int(frame[DETAIL])
    owner = owner_of_magic(detail) if reason == INVALID_MAGIC else ""
    words = {
        NEED_MORE: f"WAL ends inside the record at {position}",
        REACHED_STOP: f"reached {position}",
        INVALID_MAGIC: f"invalid magic number {detail:04X} in WAL page at {page}" + (f", which is {owner}'s" if owner else ""),
        INVALID_PAGE_FLAGS: f"invalid info bits {detail:04X} in WAL page at {page}",
        INVALID_PAGE_ADDRESS: f"unexpected pageaddr {Lsn(detail & 0xFFFFFFFFFFFFFFFF)} in WAL page at {page}",
        INVALID_LENGTH: f"invalid record length at {position}: expected at least {RECORD_HEADER}, got {detail}"
        if detail < RECORD_HEADER
        else f"record length {detail} at {position} too long",
        INVALID_RESOURCE_MANAGER: f"invalid resource manager ID {detail} at {position}",
        INVALID_PREVIOUS: f"record with incorrect prev-link {Lsn(detail & 0xFFFFFFFFFFFFFFFF)} at {position}",
        INVALID_CHECKSUM: f"incorrect resource manager data checksum in record at {Lsn(detail)}",
        INVALID_CONTINUATION: f"there is no valid continuation of the record at {position}: page {Lsn(detail)}",
        INVALID_DATA: f"invalid {opcodes.named(*divmod(detail, 256))} record at {position}",
        UNKNOWN_KIND: opcodes.unexpected(*divmod(detail, 256)),
        INVALID_SYSTEM: "WAL file is from different database system: WAL file database system identifier is "
        f"{detail & 0xFFFFFFFFFFFFFFFF}, expected {int(frame[SYSTEM]) & 0xFFFFFFFFFFFFFFFF}",
    }
    return words[reason]


def judge_end(wal: WalBytes, frame: NDArray[np.int64], reason: int, *, at_end_of_log: bool) -> None:
    """Raise unless the walk ended where the log may end."""
    position, place = Lsn(int(frame[POSITION])), place_of(reason, frame)
    words, file = explain(reason, frame), wal.name_at(place)
    context = f"WAL record at {position}" + (f", page at {place}" if place != position else "") + wal.in_file(place)
    if reason == NEED_MORE:
        if at_end_of_log:
            return
        raise NeedMoreWal(words, context=context, lsn=position, file=file)
    if reason == INVALID_SYSTEM:
        raise CorruptWal(words, context=context, lsn=position, file=file)
    if reason == UNKNOWN_KIND:
        # Its checksum is right, so it is what a server wrote: the end of the log it cannot be.
        hint = "What it changes is not known, so nothing behind it can be decoded. A newer tailrace may know it."
        raise UnsupportedWal(words, hint=hint, context=context, sqlstate="XX000", lsn=position, file=file)
    if reason == INVALID_DATA:
        raise CorruptWal(words, context=context, lsn=position, file=file)
    behind = what_follows(wal.buf, frame, position)
    if behind == MORE_OF_THE_LOG:
        hint = (
            "Valid WAL follows, so this is damage and not the end of the log. Take the segment from another copy or the archive."
        )
        raise CorruptWal(words, hint=hint, context=context, lsn=position, file=file)
    if behind == GARBAGE:
        garbage = Lsn(int(frame[PAGE]))
        hint = "Behind the end of a log are zeros, or older pages of it; this is neither. Take the segment from another copy or the archive."
        if garbage == place:
            raise CorruptWal(words, hint=hint, context=context, lsn=position, file=file)
        raise CorruptWal(
            "invalid page behind the end of the log",
            hint=hint,
            context=f"the log ends at {position}, page at {garbage}{wal.in_file(garbage)}",
            lsn=garbage,
            file=wal.name_at(garbage),
        )


def changed_since(stretch: Stretch, wal: WalBytes, reason: int, frame: NDArray[np.int64]) -> CorruptWal:
    """The error for a walk over `stretch`, ended for `reason`, whose records are not those that the first pass saw."""
    position, place = Lsn(int(frame[POSITION])), place_of(reason, frame)
    if reason in (NEED_MORE, REACHED_STOP):
        return CorruptWal(
            f"WAL of {stretch} changed since it was indexed",
            hint="If its server has recycled the segment, decode from an archive or a spool; if the segment is another's, put the right one back; "
            "if the WAL is right, remove its index.",
            context=f'file "{wal.name_at(stretch.start)}"',
            lsn=stretch.start,
            file=wal.name_at(stretch.start),
        )
    return CorruptWal(
        explain(reason, frame),
        hint="It was sound when it was indexed. Take the segment from another copy or the archive.",
        context=f"WAL record at {position}{wal.in_file(place)}",
        lsn=position,
        file=wal.name_at(place),
    )
