"""One stretch of WAL -> its index.

In: pages of a stretch and as many after it as its last record needs. Out: `Index`, immutable once `sealed`. The log is walked once; what is noted of
each record is in :mod:`tailrace.wal.facts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import inner_kernel, kernel
from tailrace.model import Locator, Lsn, Stretch
from tailrace.wal import framing, opcodes, xact
from tailrace.wal.crc import NO_RECORDS, fingerprinted
from tailrace.wal.end_of_log import explain, is_torn, judge_end, place_of
from tailrace.wal.facts import NOT_KEPT, catalog_files, note_end, note_heap, note_kept, note_other, note_queued, note_xid
from tailrace.wal.framing import DETAIL, F_AT, F_END, F_LENGTH, F_LSN, POSITION, REACHED_STOP, next_records
from tailrace.wal.index import (
    CHANGES_CATALOG,
    KEPT_ALIEN,
    KEPT_CATALOG_CHANGE,
    KEPT_INVALIDATIONS,
    KEPT_MESSAGE,
    SPECULATION_OPEN,
    Files,
    Index,
    KeptRecords,
    Xids,
)
from tailrace.wal.index_buffers import (
    EndBuffer,
    FileBuffer,
    IndexBuffers,
    KeptBuffer,
    Record,
    Room,
    XidBuffer,
    is_full,
    new_buffers,
)
from tailrace.wal.pages import LogIdentity, WalBytes, first_written_page
from tailrace.wal.record_header import H_CRC, H_MANAGER, H_PREVIOUS, H_XID
from tailrace.wal.records import INFO, MANAGER, TOP_XID, is_long_enough, parse, required
from tailrace.wal.resource_managers import HEAP, HEAP2, IGNORED, XACT
from tailrace.wal.unaligned import u8, u32, u64
from tailrace.wal.versions import WalFormat
from tailrace.wal.xact import PREPARE_HEADERS, Ends, parse_end

IGNORED_MANAGERS = np.array([manager in IGNORED for manager in range(256)])
"""Resource managers whose records count for their xid and nothing else."""
_SIZE_OF_XID = 4


class ScanFormat(NamedTuple):
    """What the walk must know of the major (`WalFormat`)."""

    image_compressed: int
    stats_item: int
    prepare_header: int
    inplace_is_change: bool
    requirements: NDArray[np.int16]

    @classmethod
    def of(cls, form: WalFormat) -> ScanFormat:
        return cls(
            form.image_compressed, form.stats_item, PREPARE_HEADERS[form.major].size, form.inplace_is_change,
            opcodes.requirements(form.major),
        )  # fmt: skip


class Walked(NamedTuple):
    """Why the walk ended, how many records it saw, the LSNs of the first, of what that names as its predecessor, and of the last; where the next
    would be; the records' fingerprint; and the xid of the first."""

    reason: int
    records: int
    first: int
    previous: int
    last: int
    next_lsn: int
    fingerprint: int
    first_xid: int


def scan(wal: WalBytes, stretch: Stretch, log: LogIdentity, *, at_end_of_log: bool, also: Sequence[Locator] = ()) -> Index:
    """Index the records that start in `stretch`.

    `wal` begins at the stretch's page or earlier; `at_end_of_log` says that there are no bytes after those given, so that an incomplete
    record is the end of the log and not a hole. Raises CorruptWal where the log is damaged but goes on. With `also`, only the catalog
    changes (those on these files included) are worth reading in the result.
    """
    begin = first_written_page(wal, stretch, log.segment_size)
    share = Room.share
    while True:
        frame, buffers = framing.new_frame(wal, log, begin, stretch.stop), new_buffers(wal.raw, share)
        walked = Walked(*scan_records(wal.buf, frame, ScanFormat.of(log.form), catalog_files(also), buffers))
        if walked.reason != framing.FULL:
            break
        share = Room.grow(share)
    if walked.reason == REACHED_STOP:
        return _index(wal, stretch, log, walked, buffers, also, place=Lsn(0) if begin == stretch.start else stretch.start)
    # Asked before it is looked at what lies behind, which moves the frame.
    words, place, torn = explain(walked.reason, frame), place_of(walked.reason, frame), is_torn(walked.reason, frame)
    judge_end(wal, frame, walked.reason, at_end_of_log=at_end_of_log)
    return replace(_index(wal, stretch, log, walked, buffers, also, place=place), reason=words, torn=torn)


@kernel
def scan_records(buf, frame, form, catalogs, buffers):  # type: ignore[no-untyped-def]
    """Walk the stretch once, filling `buffers`. Returns the fields of `Walked`."""
    parsed, xids, kept = buffers.parsed, buffers.xids, buffers.kept
    fingerprint = np.uint64(NO_RECORDS)
    count = first = first_xid = previous = last = 0
    row = last_xid = np.int64(
        -1
    )  # the xid of the record before, if it counts as one of its transaction's, and the row that it has
    message = np.int64(-1)  # the row of the record before, if that is a message
    saw_alien = False
    batch = np.empty((framing.BATCH, framing.F_FIELDS), np.int64)
    here = present = 0
    while True:
        if here == present:
            present, here = next_records(buf, frame, batch), 0
            if present < 0:
                reason = present
                break
        record = Record(batch[here, F_AT], batch[here, F_LSN], batch[here, F_LENGTH], batch[here, F_END])
        here += 1
        manager = u8(buf, record.at + H_MANAGER)
        xid = u32(buf, record.at + H_XID)
        if message >= 0:
            kept.followed_by[message] = xid if record.lsn == kept.end_lsn[message] else 0
            message = np.int64(-1)
        # Of an index, say, only the first record of an xid matters: it may name the top-level transaction.
        passed_over = IGNORED_MANAGERS[manager] and (xid == 0 or xid == last_xid)
        if not passed_over and not parse(buf, record.at, record.length, form.image_compressed, parsed):
            reason = _stopped(frame, parsed, record, framing.INVALID_DATA)
            break
        if count == 0:
            first, first_xid, previous = record.lsn, xid, u64(buf, record.at + H_PREVIOUS)
        count += 1
        last = record.lsn
        fingerprint = fingerprinted(fingerprint, u32(buf, record.at + H_CRC))
        if passed_over:
            continue
        wrong = _what_is_wrong(parsed, form.requirements, buffers)
        if wrong < 0:
            reason = _stopped(frame, parsed, record, wrong)
            break
        top = parsed[TOP_XID]
        if top != 0:
            # The top-level transaction is registered by whatever record first names it.
            note_xid(xids, top, record.lsn)
        opcode = parsed[INFO] & xact.OPCODE
        if xid != 0 and (top != 0 or manager != XACT or opcode == xact.INVALIDATIONS):
            if xid != last_xid:
                row = note_xid(xids, xid, record.lsn)
                last_xid = xid
            if top != 0:
                xids.top[row] = top
        else:
            row = last_xid = np.int64(-1)
        if manager == HEAP or manager == HEAP2:
            keep = note_heap(buf, parsed, record, row, form.inplace_is_change, catalogs, buffers)
        elif manager == XACT:
            keep = NOT_KEPT
            if opcode == xact.INVALIDATIONS:
                keep = KEPT_INVALIDATIONS
                if row >= 0:
                    xids.flags[row] |= CHANGES_CATALOG
                    note_queued(xids, row, record.lsn, 0)
            elif opcode != xact.ASSIGNMENT:
                fields = buffers.ends.fields[buffers.ends.used[0]]
                if not parse_end(buf, parsed, form.stats_item, form.prepare_header, fields):
                    reason = _stopped(frame, parsed, record, framing.INVALID_DATA)
                    break
                note_end(buffers.ends, parsed, record)
        else:
            keep = note_other(buf, parsed, record, row, catalogs, buffers)
            if keep == KEPT_ALIEN:
                keep = NOT_KEPT if saw_alien else KEPT_ALIEN
                saw_alien = True
        if keep == KEPT_CATALOG_CHANGE or (keep != NOT_KEPT and not catalogs.nothing_else):
            kept_row = note_kept(kept, keep, record)
            message = kept_row if keep == KEPT_MESSAGE else np.int64(-1)
    return reason, count, first, previous, last, frame[POSITION], np.int64(fingerprint), first_xid


@inner_kernel
def _what_is_wrong(parsed, requirements, buffers):  # type: ignore[no-untyped-def]
    """Why the record at hand cannot be noted, 0 if it can: it is of no kind that is known, it lacks what its kind has, or there is no room."""
    least = required(parsed, requirements)
    if least < 0:
        return framing.UNKNOWN_KIND
    if not is_long_enough(parsed, least):
        return framing.INVALID_DATA
    return framing.FULL if is_full(buffers) else 0


@inner_kernel
def _stopped(frame, parsed, record, reason):  # type: ignore[no-untyped-def]
    """The walk ends at this record, and not behind it."""
    frame[POSITION] = record.lsn
    frame[DETAIL] = (parsed[MANAGER] << 8) | parsed[INFO]
    return reason


@kernel
def gather(buf, starts, lengths, align):  # type: ignore[no-untyped-def]
    """Copy byte ranges one after another, each start rounded up to `align`. Returns the bytes, where each begins, and the total."""
    at = np.zeros(len(starts) + 1, np.int64)
    total = 0
    for i in range(len(starts)):
        at[i] = total
        total += (lengths[i] + align - 1) // align * align
    at[len(starts)] = total
    out = np.zeros(total, np.uint8)
    for i in range(len(starts)):
        out[at[i] : at[i] + lengths[i]] = buf[starts[i] : starts[i] + lengths[i]]
    return out, at


def _index(
    wal: WalBytes,
    stretch: Stretch,
    log: LogIdentity,
    walked: Walked,
    buffers: IndexBuffers,
    also: Sequence[Locator],
    *,
    place: Lsn,
) -> Index:
    count = int(buffers.chunks.used[0])
    xid_row = buffers.chunks.xid_row[:count]
    waiting = np.flatnonzero(buffers.chunks.toast_run[:count] == buffers.xids.toast_run[xid_row])
    return Index(
        stretch=stretch,
        sealed=walked.reason == REACHED_STOP,
        system=log.system,
        timeline=log.timeline,
        major=log.form.major,
        records=walked.records,
        first=Lsn(walked.first),
        previous=Lsn(walked.previous),
        last=Lsn(walked.last),
        next_lsn=Lsn(walked.next_lsn),
        fingerprint=walked.fingerprint,
        reason="",
        xids=_xids(buffers.xids),
        files=_files(buffers.files),
        ends=_ends(wal, buffers.ends),
        kept=_kept(wal, buffers.kept),
        waiting_xid=buffers.xids.xid[xid_row[waiting]].astype(np.uint32),
        waiting_lsn=buffers.chunks.lsn[waiting],
        waiting_crc=buffers.chunks.crc[waiting],
        also=tuple(also),
        place=place,
        first_xid=walked.first_xid,
    )


def _xids(buffer: XidBuffer) -> Xids:
    used = slice(int(buffer.used[0]))
    flags = buffer.flags[used].copy()
    flags[buffer.speculative[used] != 0] |= SPECULATION_OPEN
    return Xids(
        xid=buffer.xid[used].astype(np.uint32),
        top=buffer.top[used].astype(np.uint32),
        first_lsn=buffer.first_lsn[used].copy(),
        flags=flags,
        rows=buffer.rows[used].copy(),
        bytes=buffer.bytes[used].copy(),
        speculative=buffer.speculative[used].copy(),
        queued_lsn=buffer.queued_lsn[used].copy(),
        origin=buffer.origin[used].copy(),
    )


def _files(buffer: FileBuffer) -> Files:
    used = slice(int(buffer.used[0]))
    return Files(
        tablespace=buffer.tablespace[used].astype(np.uint32),
        database=(buffer.key[used] >> 32).astype(np.uint32),
        number=(buffer.key[used] & 0xFFFFFFFF).astype(np.uint32),
        first_lsn=buffer.first_lsn[used].copy(),
        records=buffer.records[used].copy(),
        tracked=buffer.tracked[used].copy(),
    )


def _kept(wal: WalBytes, buffer: KeptBuffer) -> KeptRecords:
    used = slice(int(buffer.used[0]))
    data, at = gather(wal.buf, buffer.at[used], buffer.length[used], 8)
    return KeptRecords(
        kind=buffer.kind[used].copy(),
        lsn=buffer.lsn[used].copy(),
        end_lsn=buffer.end_lsn[used].copy(),
        followed_by=buffer.followed_by[used].copy(),
        at=at[:-1].copy(),
        length=buffer.length[used].copy(),
        data=data,
    )


def _ends(wal: WalBytes, buffer: EndBuffer) -> Ends:
    used = slice(int(buffer.used[0]))
    ends = buffer.fields[used]

    def bytes_of(start: int, count: int, width: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        return gather(wal.buf, ends[:, start], ends[:, count] * width, 1)

    subxids, sub_at = bytes_of(xact.E_SUBXACTS, xact.E_SUBXACT_COUNT, _SIZE_OF_XID)
    gids, gid_at = bytes_of(xact.E_GID, xact.E_GID_LENGTH, 1)
    invalidations, invalidation_at = bytes_of(xact.E_INVALIDATIONS, xact.E_INVALIDATION_COUNT, xact.SIZE_OF_INVALIDATION)
    return Ends(
        kind=ends[:, xact.E_KIND].astype(np.uint8),
        xid=ends[:, xact.E_XID].astype(np.uint32),
        lsn=buffer.lsn[used].copy(),
        end_lsn=buffer.end_lsn[used].copy(),
        time=ends[:, xact.E_TIME].copy(),
        database=ends[:, xact.E_DATABASE].astype(np.uint32),
        origin=buffer.origin[used].astype(np.uint16),
        origin_lsn=ends[:, xact.E_ORIGIN_LSN].copy(),
        origin_time=ends[:, xact.E_ORIGIN_TIME].copy(),
        subxact_bounds=sub_at // _SIZE_OF_XID,
        subxids=subxids.view(np.uint32),
        gid_bounds=gid_at,
        gids=gids,
        invalidation_bounds=invalidation_at // xact.SIZE_OF_INVALIDATION,
        invalidations=invalidations,
    )
