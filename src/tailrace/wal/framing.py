"""Pages -> whole records.

In: the raw bytes of consecutive WAL pages. Out: for each record, where its bytes lie *contiguously*. A record inside one page stays
where it is; one that crosses pages is put together in the spare room behind the raw bytes, so that whoever reads records
sees one array and one kind of offset. Nothing here knows what a record means.

The walk is a loop around the kernel `next_record` (or `next_records`, many at a time), which keeps its place in a small int64 array (the frame). It
answers with an offset, or with one of the reasons below why there is no next record. Whether a reason is the end of the log or damage is decided
by `end_of_log.what_follows`, which looks at what follows, as the layout of pages allows (`access/xlog_internal.h`):

    record ──► record ──► … ──► NEED_MORE     the rest of it lies beyond the bytes given: feed more, or the log is still growing
                            └─► REACHED_STOP  the next record starts at or after the stop
                            └─► INVALID_*     end of log, or corruption
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import kernel
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.wal.crc import record_crc
from tailrace.wal.unaligned import u8, u16, u32, u64
from tailrace.wal.versions import owner_of_magic

RECORD_HEADER = 24
SHORT_PAGE_HEADER = 24
LONG_PAGE_HEADER = 40
MAX_RECORD = 1020 * 1024 * 1024

# xlp_info (access/xlog_internal.h)
FIRST_IS_CONTRECORD = 0x0001
LONG_HEADER = 0x0002
FIRST_IS_OVERWRITE_CONTRECORD = 0x0008
ALL_PAGE_FLAGS = 0x000F

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
    if u16(buf, at) != frame[MAGIC]:
        frame[DETAIL] = u16(buf, at)
        return INVALID_MAGIC
    info = u16(buf, at + 2)
    first_of_segment = lsn & (frame[SEGMENT_SIZE] - 1) == 0
    if info & ~ALL_PAGE_FLAGS or ((info & LONG_HEADER) != 0) != first_of_segment:
        frame[DETAIL] = info
        return INVALID_PAGE_FLAGS
    if u64(buf, at + 8) != lsn:
        frame[DETAIL] = u64(buf, at + 8)
        return INVALID_PAGE_ADDRESS
    if first_of_segment:
        if frame[SYSTEM] != 0 and u64(buf, at + 24) != frame[SYSTEM]:
            frame[DETAIL] = u64(buf, at + 24)
            return INVALID_SYSTEM
        return LONG_PAGE_HEADER
    return SHORT_PAGE_HEADER


@kernel
def next_record(buf, frame):  # type: ignore[no-untyped-def]
    """Offset of the next record's bytes in `buf`, or a reason; the frame is then at the record, or at what should have been one."""
    base = frame[BASE]
    raw = frame[RAW]
    position = frame[POSITION]
    while True:
        if position >= frame[STOP]:
            return REACHED_STOP
        at = position - base
        if at & (PAGE_SIZE - 1) == 0:
            if at + LONG_PAGE_HEADER > raw:
                return NEED_MORE
            header = check_page(buf, at, position, frame)
            if header < 0:
                return header
            if u16(buf, at + 2) & FIRST_IS_CONTRECORD:
                # Only a walk that starts inside a record may meet its tail here.
                if frame[PREVIOUS] != 0:
                    frame[DETAIL] = position
                    return INVALID_CONTINUATION
                tail = (u32(buf, at + 16) + 7) & ~7
                header += min(tail, PAGE_SIZE - header)
                if header == PAGE_SIZE:
                    position += PAGE_SIZE
                    frame[POSITION] = position
                    continue
            position += header
            at += header
            if position >= frame[STOP]:
                return REACHED_STOP
            frame[POSITION] = position
        if at + 8 > raw:
            return NEED_MORE
        break

    lsn = position
    length = u32(buf, at)
    if length < RECORD_HEADER or length > MAX_RECORD:
        frame[DETAIL] = length
        return INVALID_LENGTH
    in_page = PAGE_SIZE - (at & (PAGE_SIZE - 1))
    spare = frame[SPARE]
    if length <= in_page:
        if at + length > raw:
            return NEED_MORE
        end = lsn + length
        record = at
    else:
        record = spare
        if (
            at + RECORD_HEADER <= raw
            and in_page >= RECORD_HEADER
            and frame[PREVIOUS] != 0
            and u64(buf, at + 8) != frame[PREVIOUS]
        ):
            # Known before the rest of it is fetched, which matters where the length is garbage. A split header is checked once it is whole.
            frame[DETAIL] = u64(buf, at + 8)
            return INVALID_PREVIOUS
        if (at & ~(PAGE_SIZE - 1)) + PAGE_SIZE + LONG_PAGE_HEADER > raw:
            return NEED_MORE
        # Every record that is here in full has its place in the spare room. One that has none is walked through all the same: a crash may have
        # cut it off, however long it was to be, and the log went on.
        fits = record + length <= len(buf)
        if fits:
            buf[record : record + in_page] = buf[at : at + in_page]
        got = in_page
        page = (at & ~(PAGE_SIZE - 1)) + PAGE_SIZE
        while got < length:
            if page + LONG_PAGE_HEADER > raw:
                return NEED_MORE
            header = check_page(buf, page, base + page, frame)
            if header < 0:
                return header
            info = u16(buf, page + 2)
            if info & FIRST_IS_OVERWRITE_CONTRECORD:
                # A crash cut this record off; the server went on here and says so (1.6). The chain skips it.
                frame[POSITION] = base + page
                return next_record_after_overwrite(buf, frame)
            if not info & FIRST_IS_CONTRECORD or u32(buf, page + 16) != length - got:
                frame[DETAIL] = base + page
                return INVALID_CONTINUATION
            take = min(length - got, PAGE_SIZE - header)
            if page + header + take > raw:
                return NEED_MORE
            if fits:
                buf[record + got : record + got + take] = buf[page + header : page + header + take]
            got += take
            last = page + header + take
            page += PAGE_SIZE
        end = base + last
        spare = record + ((length + 7) & ~7)

    previous = u64(buf, record + 8)
    if (frame[PREVIOUS] != 0 and previous != frame[PREVIOUS]) or previous >= lsn:
        frame[DETAIL] = previous
        return INVALID_PREVIOUS
    manager = u8(buf, record + 17)
    if manager > 21 and (manager < 128 or frame[CUSTOM_MANAGERS] == 0):
        frame[DETAIL] = manager
        return INVALID_RESOURCE_MANAGER
    if frame[CHECK_CRC] != 0 and np.int64(record_crc(buf, record, length)) != u32(buf, record + 20):
        frame[DETAIL] = lsn
        return INVALID_CHECKSUM

    end = (end + 7) & ~7
    frame[LSN] = lsn
    frame[END] = end
    frame[LENGTH] = length
    frame[PREVIOUS] = lsn
    frame[SPARE] = spare
    if manager == 0 and u8(buf, record + 16) & 0xF0 == 0x40:
        # XLOG SWITCH: nothing but zeros up to the next segment (1.5)
        segment = frame[SEGMENT_SIZE]
        frame[POSITION] = (end + segment - 1) & ~(segment - 1)
    else:
        frame[POSITION] = end
    return record


@kernel
def next_records(buf, frame, found):  # type: ignore[no-untyped-def]
    """The next records, as many as `found` has rows for: offset, LSN, length and end of each. Returns how many, or a reason if there is none.

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
    while count < len(found):
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
            length = u32(buf, at)
            plain = (
                RECORD_HEADER <= length <= PAGE_SIZE - within
                and at + length <= raw
                and u64(buf, at + 8) == previous
                and 0 < u8(buf, at + 17) <= 21
                and (not checks or np.int64(record_crc(buf, at, length)) == u32(buf, at + 20))
            )
            if plain:
                end = (position + length + 7) & ~7
                found[count, F_AT] = at
                found[count, F_LSN] = position
                found[count, F_LENGTH] = length
                found[count, F_END] = end
                count += 1
                previous = position
                position = end
        if not plain:
            frame[POSITION] = position
            frame[PREVIOUS] = previous
            record = next_record(buf, frame)
            if record < 0:
                return count if count else record
            found[count, F_AT] = record
            found[count, F_LSN] = frame[LSN]
            found[count, F_LENGTH] = frame[LENGTH]
            found[count, F_END] = frame[END]
            count += 1
            previous = frame[PREVIOUS]
            position = frame[POSITION]
    frame[POSITION] = position
    frame[PREVIOUS] = previous
    return count


@kernel
def next_record_after_overwrite(buf, frame):  # type: ignore[no-untyped-def]
    """The OVERWRITE_CONTRECORD at the page where a lost tail was expected. A function of its own because kernels cannot call themselves."""
    lsn = frame[POSITION]
    at = lsn - frame[BASE]
    header = SHORT_PAGE_HEADER if lsn & (frame[SEGMENT_SIZE] - 1) else LONG_PAGE_HEADER
    lsn += header
    at += header
    if at + RECORD_HEADER + 32 > frame[RAW]:
        return NEED_MORE
    length = u32(buf, at)
    if length < RECORD_HEADER or length > PAGE_SIZE - header or buf[at + 17] != 0 or buf[at + 16] & 0xF0 != 0xD0:
        frame[DETAIL] = lsn
        return INVALID_CONTINUATION
    if frame[PREVIOUS] != 0 and u64(buf, at + 8) != frame[PREVIOUS]:
        frame[DETAIL] = u64(buf, at + 8)
        return INVALID_PREVIOUS
    if frame[CHECK_CRC] != 0 and np.int64(record_crc(buf, at, length)) != u32(buf, at + 20):
        frame[DETAIL] = lsn
        return INVALID_CHECKSUM
    frame[LSN] = lsn
    frame[LENGTH] = length
    frame[PREVIOUS] = lsn
    frame[END] = (lsn + length + 7) & ~7
    frame[POSITION] = frame[END]
    return at


@dataclass(slots=True)
class WalBytes:
    """Raw pages of one timeline's log, `[base, base + raw)`, with spare room behind for records that cross pages."""

    buf: NDArray[np.uint8]
    base: int
    raw: int
    files: tuple[tuple[int, str], ...] = ()
    """Where each file of it begins (LSN), and its path; none if it is of no files."""

    def name_at(self, lsn: int) -> str:
        """The file that has the byte at `lsn`, empty if that is not known."""
        return next((path for start, path in reversed(self.files) if start <= lsn), "")

    @classmethod
    def of(cls, pages: bytes | NDArray[np.uint8], base: int) -> WalBytes:
        """Copy `pages` into an array with spare room."""
        source = np.frombuffer(pages, np.uint8) if isinstance(pages, bytes) else pages
        buf = np.empty(spacious(len(source)), np.uint8)
        buf[: len(source)] = source
        return cls(buf, base, len(source))


def spacious(raw: int) -> int:
    """How long an array must be to hold `raw` bytes of pages and every record that may have to be put together behind them."""
    return 2 * raw + 2 * PAGE_SIZE


def new_frame(
    wal: WalBytes, start: int, stop: int, segment_size: int, magic: int, *, check_crc: bool, custom_managers: bool = True,
    system: int = 0, previous: int = 0,
) -> NDArray[np.int64]:  # fmt: skip
    """A frame for walking `wal` from `start` (a record's LSN or a page start) up to `stop`."""
    frame = np.zeros(FRAME_SIZE, np.int64)
    frame[POSITION] = start
    frame[RAW] = wal.raw
    frame[BASE] = wal.base
    frame[SEGMENT_SIZE] = segment_size
    frame[MAGIC] = magic
    frame[SPARE] = (wal.raw + 7) & ~7
    frame[PREVIOUS] = previous
    frame[STOP] = stop
    frame[CHECK_CRC] = check_crc
    frame[CUSTOM_MANAGERS] = custom_managers
    frame[SYSTEM] = np.uint64(system).astype(np.int64)
    return frame


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
        INVALID_SYSTEM: "WAL file is from different database system: WAL file database system identifier is "
        f"{detail & 0xFFFFFFFFFFFFFFFF}, expected {int(frame[SYSTEM]) & 0xFFFFFFFFFFFFFFFF}",
    }
    return words[reason]
