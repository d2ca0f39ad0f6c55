"""Pages -> whole records.

In: the raw bytes of consecutive WAL pages. Out: for each record, where its bytes lie *contiguously*. A record inside one page stays
where it is; one that crosses pages is put together in the spare room behind the raw bytes, so that whoever reads records
sees one array and one kind of offset. Nothing here knows what a record means.

The walk is a loop around the kernel `next_record` (or `next_records`, many at a time), which keeps its place in a small int64 array (the frame). It
answers with an offset, or with one of the reasons below why there is no next record. Whether a reason is the end of the log or damage is decided
in `wal/end_of_log.py`, which looks at what follows, as the layout of pages allows (`access/xlog_internal.h`):

    record ──► record ──► … ──► NEED_MORE     the rest of it lies beyond the bytes given: feed more, or the log is still growing
                            └─► REACHED_STOP  the next record starts at or after the stop
                            └─► INVALID_*     end of log, or corruption
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import inner_kernel, kernel
from tailrace.memcpy import memcpy
from tailrace.model import PAGE_SIZE
from tailrace.wal import xlog
from tailrace.wal.crc import record_crc
from tailrace.wal.page_header import (
    LONG_HEADER,
    LONG_PAGE_HEADER,
    P_ADDRESS,
    P_INFO,
    P_MAGIC,
    P_REMAINING,
    P_SYSTEM,
    SHORT_PAGE_HEADER,
)
from tailrace.wal.pages import LogIdentity, WalBytes
from tailrace.wal.record_header import H_CRC, H_INFO, H_LENGTH, H_MANAGER, H_PREVIOUS
from tailrace.wal.resource_managers import FIRST_CUSTOM, LOGICALMSG, XLOG
from tailrace.wal.unaligned import u8, u16, u32, u64

# xlp_info
FIRST_IS_CONTRECORD = 0x0001
FIRST_IS_OVERWRITE_CONTRECORD = 0x0008
ALL_PAGE_FLAGS = 0x000F

RECORD_HEADER = 24
MAX_RECORD = 1020 * 1024 * 1024
"""XLogRecordMaxSize (`access/xlogrecord.h`)"""

# Why there is no next record. Negative, so that they never look like an offset.
NEED_MORE = -1
REACHED_STOP = -2
INVALID_MAGIC = -3
INVALID_PAGE_FLAGS = -4
INVALID_PAGE_ADDRESS = -5
INVALID_LENGTH = -6
INVALID_RESOURCE_MANAGER = -7
INVALID_PREVIOUS = -8
INVALID_CHECKSUM = -9
INVALID_CONTINUATION = -10
INVALID_SYSTEM = -11
UNKNOWN_KIND = -12  # a whole record, of a kind that nobody knows
FULL = -14  # not the log's fault: whoever walks has no more room for what records name
INVALID_DATA = -13  # a whole record, of a known kind, whose data are not as long as it says

_OVERWRITTEN = -100
"""Of a record whose rest a crash cut off: the server went on with another one on the page where the rest should be."""

# The frame: where the walk stands.
POSITION = 0  # LSN of the next byte to look at
RAW = 1  # number of raw bytes; the spare room begins here
BASE = 2  # LSN of buf[0], a page start
SEGMENT_SIZE = 3
MAGIC = 4
SPARE = 5  # next free offset in the spare room
PREVIOUS = 6  # LSN of the last record, 0 if unknown
STOP = 7  # records starting here or later are not ours
LSN = 8  # of the record just returned
END = 9  # its end LSN
LENGTH = 10  # its length
CHECK_CRC = 11
CUSTOM_MANAGERS = 12
SYSTEM = 13  # expected system identifier (as int64), 0 for any
DETAIL = 14  # LSN or number that explains an INVALID_* answer
PAGE = 15  # LSN of the page whose header was looked at last
FRAME_SIZE = 16

# What `next_records` says of each record
F_AT = 0  # offset of its bytes
F_LSN = 1
F_LENGTH = 2
F_END = 3
F_FIELDS = 4
BATCH = 512


@kernel
def check_page(buf, at, lsn, frame):  # type: ignore[no-untyped-def]
    """Length of the header of the page at `buf[at]`, or a reason why it is not the page that belongs at `lsn`."""
    frame[PAGE] = lsn
    if u16(buf, at + P_MAGIC) != frame[MAGIC]:
        frame[DETAIL] = u16(buf, at + P_MAGIC)
        return INVALID_MAGIC
    info = u16(buf, at + P_INFO)
    first_of_segment = lsn & (frame[SEGMENT_SIZE] - 1) == 0
    if info & ~ALL_PAGE_FLAGS or ((info & LONG_HEADER) != 0) != first_of_segment:
        frame[DETAIL] = info
        return INVALID_PAGE_FLAGS
    if u64(buf, at + P_ADDRESS) != lsn:
        frame[DETAIL] = u64(buf, at + P_ADDRESS)
        return INVALID_PAGE_ADDRESS
    if first_of_segment:
        if frame[SYSTEM] != 0 and u64(buf, at + P_SYSTEM) != frame[SYSTEM]:
            frame[DETAIL] = u64(buf, at + P_SYSTEM)
            return INVALID_SYSTEM
        return LONG_PAGE_HEADER
    return SHORT_PAGE_HEADER


@inner_kernel
def maxalign(length):  # type: ignore[no-untyped-def]
    """The next multiple of 8, as MAXALIGN (`c.h`) on every platform that matters."""
    return (length + 7) & ~7


@inner_kernel
def page_of(at):  # type: ignore[no-untyped-def]
    """Where the page begins that has `at`; offsets and LSNs agree on that."""
    return at & ~(PAGE_SIZE - 1)


@kernel
def next_record(buf, frame):  # type: ignore[no-untyped-def]
    """Offset of the next record's bytes in `buf`, or a reason; the frame is then at the record, or at what should have been one."""
    at = _start_of_record(buf, frame)
    if at < 0:
        return at
    length = u32(buf, at + H_LENGTH)
    if length < RECORD_HEADER or length > MAX_RECORD:
        frame[DETAIL] = length
        return INVALID_LENGTH
    record, end = at, frame[POSITION] + length
    if length > page_of(at) + PAGE_SIZE - at:
        record = frame[SPARE]
        end = _put_together(buf, frame, at, length)
        if end == _OVERWRITTEN:
            return next_record_after_overwrite(buf, frame)
        if end < 0:
            return end
    elif at + length > frame[RAW]:
        return NEED_MORE
    wrong = _check_record(buf, frame, record, length)
    if wrong < 0:
        return wrong
    if record != at:
        frame[SPARE] = maxalign(record + length)
    _go_behind(frame, length, end)
    if u8(buf, record + H_MANAGER) == XLOG and u8(buf, record + H_INFO) & xlog.OPCODE == xlog.SWITCH:
        # Nothing but zeros up to the next segment
        segment = frame[SEGMENT_SIZE]
        frame[POSITION] = (frame[END] + segment - 1) & ~(segment - 1)
    return record


@inner_kernel
def _go_behind(frame, length, end):  # type: ignore[no-untyped-def]
    """Take the record at the frame's position, which ends before the LSN `end`, for read."""
    frame[LSN] = frame[POSITION]
    frame[END] = maxalign(end)
    frame[LENGTH] = length
    frame[PREVIOUS] = frame[LSN]
    frame[POSITION] = frame[END]


@inner_kernel
def _start_of_record(buf, frame):  # type: ignore[no-untyped-def]
    """Offset of the next record's first byte, behind the page's header, or a reason. The frame's position is then there."""
    while True:
        position = frame[POSITION]
        if position >= frame[STOP]:
            return REACHED_STOP
        at = position - frame[BASE]
        if at & (PAGE_SIZE - 1) == 0:
            if at + LONG_PAGE_HEADER > frame[RAW]:
                return NEED_MORE
            header = check_page(buf, at, position, frame)
            if header < 0:
                return header
            if u16(buf, at + P_INFO) & FIRST_IS_CONTRECORD:
                # Only a walk that starts inside a record may meet its tail here.
                if frame[PREVIOUS] != 0:
                    frame[DETAIL] = position
                    return INVALID_CONTINUATION
                header += min(maxalign(u32(buf, at + P_REMAINING)), PAGE_SIZE - header)
                if header == PAGE_SIZE:
                    frame[POSITION] = position + PAGE_SIZE
                    continue
            at += header
            if position + header >= frame[STOP]:
                return REACHED_STOP
            frame[POSITION] = position + header
        # A record's length never crosses pages: records begin at multiples of 8.
        return at if at + H_PREVIOUS <= frame[RAW] else NEED_MORE


@inner_kernel
def _put_together(buf, frame, at, length):  # type: ignore[no-untyped-def]
    """Copy a record of `length` bytes, which begins at `buf[at]` and crosses pages, to the spare room. Returns the LSN behind its last byte, a
    reason, or _OVERWRITTEN, with the frame at that page."""
    raw = frame[RAW]
    in_page = page_of(at) + PAGE_SIZE - at
    if (
        at + RECORD_HEADER <= raw
        and in_page >= RECORD_HEADER
        and frame[PREVIOUS] != 0
        and u64(buf, at + H_PREVIOUS) != frame[PREVIOUS]
    ):
        # Known before the rest of it is fetched, which matters where the length is garbage. A split header is checked once it is whole.
        frame[DETAIL] = u64(buf, at + H_PREVIOUS)
        return INVALID_PREVIOUS
    page = page_of(at) + PAGE_SIZE
    if page + LONG_PAGE_HEADER > raw:
        return NEED_MORE
    # Every record that is here in full has its place in the spare room. One that has none is walked through all the same: a crash may have
    # cut it off, however long it was to be, and the log went on.
    record = frame[SPARE]
    fits = record + length <= len(buf)
    if fits:
        memcpy(buf, record, buf, at, in_page)
    got = in_page
    last = page
    while got < length:
        if page + LONG_PAGE_HEADER > raw:
            return NEED_MORE
        header = check_page(buf, page, frame[BASE] + page, frame)
        if header < 0:
            return header
        info = u16(buf, page + P_INFO)
        if info & FIRST_IS_OVERWRITE_CONTRECORD:
            frame[POSITION] = frame[BASE] + page
            return _OVERWRITTEN
        if not info & FIRST_IS_CONTRECORD or u32(buf, page + P_REMAINING) != length - got:
            frame[DETAIL] = frame[BASE] + page
            return INVALID_CONTINUATION
        take = min(length - got, PAGE_SIZE - header)
        last = page + header + take
        if last > raw:
            return NEED_MORE
        if fits:
            memcpy(buf, record + got, buf, page + header, take)
        got += take
        page += PAGE_SIZE
    return frame[BASE] + last


@inner_kernel
def _check_record(buf, frame, record, length):  # type: ignore[no-untyped-def]
    """0 if the record at `buf[record]`, which is to be at the frame's position, follows the one before and has the right checksum; else a reason."""
    previous = u64(buf, record + H_PREVIOUS)
    if (frame[PREVIOUS] != 0 and previous != frame[PREVIOUS]) or previous >= frame[POSITION]:
        frame[DETAIL] = previous
        return INVALID_PREVIOUS
    manager = u8(buf, record + H_MANAGER)
    if manager > LOGICALMSG and (manager < FIRST_CUSTOM or frame[CUSTOM_MANAGERS] == 0):
        frame[DETAIL] = manager
        return INVALID_RESOURCE_MANAGER
    if frame[CHECK_CRC] != 0 and np.int64(record_crc(buf, record, length)) != u32(buf, record + H_CRC):
        frame[DETAIL] = frame[POSITION]
        return INVALID_CHECKSUM
    return 0


@kernel
def next_records(buf, frame, batch):  # type: ignore[no-untyped-def]
    """The next records, as many as `batch` has rows for: offset, LSN, length and end of each. Returns how many, or a reason if there is none.

    What `next_record` does one at a time; but nearly every record lies whole inside a page after another one, and those are told with a
    few comparisons on numbers that stay in registers.
    """
    base = frame[BASE]
    raw = frame[RAW]
    stop = frame[STOP]
    checks = frame[CHECK_CRC] != 0
    position = frame[POSITION]
    previous = frame[PREVIOUS]
    count = 0
    while count < len(batch):
        at = position - base
        within = at & (PAGE_SIZE - 1)
        plain = (
            within != 0
            and within <= PAGE_SIZE - RECORD_HEADER
            and position < stop
            and previous != 0
            and at + RECORD_HEADER <= raw
        )
        if plain:
            length = u32(buf, at + H_LENGTH)
            plain = (
                RECORD_HEADER <= length <= PAGE_SIZE - within
                and at + length <= raw
                and u64(buf, at + H_PREVIOUS) == previous
                and XLOG < u8(buf, at + H_MANAGER) <= LOGICALMSG
                and (not checks or np.int64(record_crc(buf, at, length)) == u32(buf, at + H_CRC))
            )
        if plain:
            lsn = position
            end = maxalign(lsn + length)
            position = end
        else:
            frame[POSITION] = position
            frame[PREVIOUS] = previous
            at = next_record(buf, frame)
            if at < 0:
                return count if count else at
            lsn, length, end, position = frame[LSN], frame[LENGTH], frame[END], frame[POSITION]
        batch[count, F_AT] = at
        batch[count, F_LSN] = lsn
        batch[count, F_LENGTH] = length
        batch[count, F_END] = end
        previous = lsn
        count += 1
    frame[POSITION] = position
    frame[PREVIOUS] = previous
    return count


@kernel
def next_record_after_overwrite(buf, frame):  # type: ignore[no-untyped-def]
    """The OVERWRITE_CONTRECORD at the page where a lost tail was expected, unless that is behind the stop: then whoever begins there reads it. A
    function of its own because kernels cannot call themselves."""
    lsn = frame[POSITION]
    at = lsn - frame[BASE]
    header = SHORT_PAGE_HEADER if lsn & (frame[SEGMENT_SIZE] - 1) else LONG_PAGE_HEADER
    lsn += header
    at += header
    if lsn >= frame[STOP]:
        return REACHED_STOP
    if at + RECORD_HEADER > frame[RAW]:
        return NEED_MORE
    length = u32(buf, at + H_LENGTH)
    is_one = u8(buf, at + H_MANAGER) == XLOG and u8(buf, at + H_INFO) & xlog.OPCODE == xlog.OVERWRITE_CONTRECORD
    if not is_one or length < RECORD_HEADER or length > PAGE_SIZE - header:
        frame[DETAIL] = lsn
        return INVALID_CONTINUATION
    if at + length > frame[RAW]:
        return NEED_MORE
    frame[POSITION] = lsn
    wrong = _check_record(buf, frame, at, length)
    if wrong < 0:
        return wrong
    _go_behind(frame, length, lsn + length)
    return at


def new_frame(
    wal: WalBytes, log: LogIdentity, start: int, stop: int, *, previous: int = 0, check_crc: bool = True
) -> NDArray[np.int64]:
    """A frame for walking `wal`, pages of `log`, from `start` (a record's LSN or a page start) up to `stop`; `previous` is the LSN of the record
    before `start`, 0 if that is not known."""
    frame = np.zeros(FRAME_SIZE, np.int64)
    frame[POSITION] = start
    frame[RAW] = wal.raw
    frame[BASE] = wal.base
    frame[SEGMENT_SIZE] = log.segment_size
    frame[MAGIC] = log.form.page_magic
    frame[SPARE] = (wal.raw + 7) & ~7
    frame[PREVIOUS] = previous
    frame[STOP] = stop
    frame[CHECK_CRC] = check_crc
    frame[CUSTOM_MANAGERS] = log.form.custom_resource_managers
    frame[SYSTEM] = np.uint64(log.system).astype(np.int64)
    return frame
