"""The WAL of a stretch -> references to the rows that are wanted, and to the TOAST chunks that serve them.

Rows of aborted, foreign or unwanted work are dropped where they stand. Nothing is copied but chunks of earlier stretches.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import MissingHistory
from tailrace.kernels import kernel
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.plan.stretch import NOT_DECODED, UNMAPPED, Carried, StretchPlan
from tailrace.transactions.epochs import LOW_WORD
from tailrace.tuples.toast import Chunks
from tailrace.wal import framing, heap, records
from tailrace.wal.crc import NO_RECORDS, fingerprinted
from tailrace.wal.end_of_log import changed_since
from tailrace.wal.framing import LENGTH, LSN, SPARE, next_record, next_records
from tailrace.wal.hashing import find, find_pair, grown, rehashed
from tailrace.wal.pages import LogIdentity, WalBytes
from tailrace.wal.records import DATA, DATA_LENGTH, FIRST_BLOCK, MAIN, MAIN_LENGTH
from tailrace.wal.resource_managers import HEAP, HEAP2
from tailrace.wal.unaligned import u8, u16, u32
from tailrace.wal.versions import FORMATS

INSERT, UPDATE, DELETE = 1, 2, 3
NO_OLD, OLD_KEY, OLD_ROW = 0, 1, 2

# Columns of a row reference
R_RELATION = 0
R_ORDINAL = 1
R_LSN = 2
R_SUB = 3
R_KIND = 4
R_NEW = 5
R_NEW_LENGTH = 6
R_OLD = 7
R_OLD_LENGTH = 8
R_OLD_KIND = 9
R_EPOCH = 10
R_FIELDS = 11

_SMALLEST_ROW = 8
"""Bytes of WAL that a row takes at least: one of a multi-insert with no columns."""
_SMALLEST_RECORD = 48

Reader = Callable[..., WalBytes]
"""read(start, stop, extra=0) -> bytes of the log."""


@kernel
def collect_rows(buf, frame, compressed, xid_table, xids, ordinals, file_table, file_key, file_space, file_bounds, file_has_own,  # type: ignore[no-untyped-def]
                 own_table, own_key, own_bounds, span_start, span_relation, confirmed, only_local, parsed, rows, chunks):  # fmt: skip
    """References to the wanted rows and TOAST chunks of a stretch, in `rows` and `chunks` (offset, length, epoch).

    Returns (rows, chunks, reason, fingerprint, LSN of an unmapped row or 0, its file).
    """
    count = 0
    chunk_count = 0
    epoch = np.arange(len(xids)).astype(np.int64)
    next_epoch = np.int64(len(xids))
    pending = np.full(len(xids), -1, np.int64)
    fingerprint = np.uint64(NO_RECORDS)
    last_xid = np.int64(-1)
    mine = np.int64(-1)
    last_key = np.int64(-1)
    last_space = np.int64(-1)
    file = np.int64(-1)
    unmapped_lsn = np.int64(0)
    unmapped_key = np.int64(0)
    batch = np.empty((framing.BATCH, framing.F_FIELDS), np.int64)
    here = 0
    present = 0
    while True:
        if here == present:
            present = next_records(buf, frame, batch)
            here = 0
            if present < 0:
                reason = present
                break
        at = batch[here, framing.F_AT]
        lsn = batch[here, framing.F_LSN]
        length = batch[here, framing.F_LENGTH]
        here += 1
        fingerprint = fingerprinted(fingerprint, u32(buf, at + 20))
        manager = u8(buf, at + 17)
        if manager != HEAP and manager != HEAP2:
            continue
        xid = u32(buf, at + 4)
        if xid != last_xid:
            mine = find(xid_table, xids, xid)
            last_xid = xid
        if mine < 0:
            continue
        records.parse(buf, at, length, compressed, parsed)
        if only_local and parsed[records.ORIGIN] != 0:
            continue
        kind = heap.row_kind(buf, parsed)
        if kind == heap.NOT_A_ROW:
            continue
        if kind == heap.SPECULATIVE_CONFIRM:
            pending[mine] = -1
            continue
        if kind == heap.SPECULATIVE_CANCEL:
            if pending[mine] >= 0:
                rows[pending[mine], R_KIND] = 0
                pending[mine] = -1
            continue
        data = parsed[FIRST_BLOCK + DATA]
        data_length = parsed[FIRST_BLOCK + DATA_LENGTH]
        if kind == heap.TOAST_CHUNK:
            chunks[chunk_count, 0] = data
            chunks[chunk_count, 1] = data_length
            chunks[chunk_count, 2] = epoch[mine]
            chunk_count += 1
            continue
        key = (parsed[FIRST_BLOCK + records.DATABASE] << 32) | parsed[FIRST_BLOCK + records.NUMBER]
        space = parsed[FIRST_BLOCK + records.TABLESPACE]
        if key != last_key or space != last_space:
            file = find_pair(file_table, file_key, file_space, key, space)
            last_key = key
            last_space = space
        relation = np.int64(NOT_DECODED)
        if file >= 0:
            low = file_bounds[file]
            high = file_bounds[file + 1]
            if file_has_own[file]:
                own = find(own_table, own_key, (file << 32) | ordinals[mine])
                if own >= 0:
                    low = own_bounds[own]
                    high = own_bounds[own + 1]
            relation = np.int64(UNMAPPED)
            while low < high:
                middle = (low + high) // 2
                if span_start[middle] < lsn:
                    relation = span_relation[middle]
                    low = middle + 1
                else:
                    high = middle
        closes = kind != heap.ROW_DELETE and (
            kind != heap.ROW_MULTI_INSERT or u8(buf, parsed[MAIN]) & heap.INSERT_LAST_IN_MULTI != 0
        )
        main = parsed[MAIN]
        if relation >= 0:
            tuples = u16(buf, main + 2) if kind == heap.ROW_MULTI_INSERT else 1
            position = data
            for n in range(tuples):
                rows[count, R_RELATION] = relation
                rows[count, R_ORDINAL] = ordinals[mine]
                rows[count, R_LSN] = lsn
                rows[count, R_SUB] = n
                rows[count, R_EPOCH] = epoch[mine]
                rows[count, R_NEW] = -1
                rows[count, R_OLD] = -1
                rows[count, R_OLD_KIND] = NO_OLD
                if kind == heap.ROW_MULTI_INSERT:
                    position = data + ((position - data + 1) & ~1)
                    rows[count, R_KIND] = INSERT
                    rows[count, R_NEW] = position + 2
                    rows[count, R_NEW_LENGTH] = u16(buf, position) + 5
                    position += 7 + u16(buf, position)
                elif kind == heap.ROW_DELETE:
                    rows[count, R_KIND] = DELETE
                    flags = u8(buf, main + 7)
                    if flags & (heap.DELETE_CONTAINS_OLD_TUPLE | heap.DELETE_CONTAINS_OLD_KEY):
                        rows[count, R_OLD] = main + heap.SIZE_OF_DELETE
                        rows[count, R_OLD_LENGTH] = parsed[MAIN_LENGTH] - heap.SIZE_OF_DELETE
                        rows[count, R_OLD_KIND] = OLD_ROW if flags & heap.DELETE_CONTAINS_OLD_TUPLE else OLD_KEY
                else:
                    rows[count, R_NEW] = data
                    rows[count, R_NEW_LENGTH] = data_length
                    rows[count, R_KIND] = INSERT
                    if kind == heap.ROW_UPDATE:
                        rows[count, R_KIND] = UPDATE
                        flags = u8(buf, main + 7)
                        if flags & (heap.UPDATE_CONTAINS_OLD_TUPLE | heap.UPDATE_CONTAINS_OLD_KEY):
                            rows[count, R_OLD] = main + heap.SIZE_OF_UPDATE
                            rows[count, R_OLD_LENGTH] = parsed[MAIN_LENGTH] - heap.SIZE_OF_UPDATE
                            rows[count, R_OLD_KIND] = OLD_ROW if flags & heap.UPDATE_CONTAINS_OLD_TUPLE else OLD_KEY
                    elif kind == heap.SPECULATIVE_INSERT:
                        pending[mine] = count
                count += 1
        elif relation == UNMAPPED and unmapped_lsn == 0:
            # A deletion without a tuple is what a catalog that moved (and so has no pg_class row of its own file) leaves; the server skips it too.
            if kind != heap.ROW_DELETE or u8(buf, main + 7) & (heap.DELETE_CONTAINS_OLD_TUPLE | heap.DELETE_CONTAINS_OLD_KEY):
                unmapped_lsn = lsn
                unmapped_key = key
        if closes:
            epoch[mine] = next_epoch
            next_epoch += 1
    for i in range(len(pending)):
        if pending[i] >= 0:
            keep = False
            for j in range(len(confirmed)):
                keep = keep or confirmed[j] == rows[pending[i], R_LSN]
            if not keep:
                rows[pending[i], R_KIND] = 0
    return rows[:count], chunks[:chunk_count], reason, np.int64(fingerprint), unmapped_lsn, unmapped_key


@kernel
def grouped(rows, group_of, groups):  # type: ignore[no-untyped-def]
    """Row numbers by the group of their relation, in order within each, dropping kind 0 and group -1. Returns (numbers, bounds)."""
    bounds = np.zeros(groups + 1, np.int64)
    for i in range(len(rows)):
        group = group_of[rows[i, R_RELATION]]
        if rows[i, R_KIND] != 0 and group >= 0:
            bounds[group + 1] += 1
    for i in range(groups):
        bounds[i + 1] += bounds[i]
    place = bounds[:-1].copy()
    out = np.empty(bounds[-1], np.int64)
    for i in range(len(rows)):
        group = group_of[rows[i, R_RELATION]]
        if rows[i, R_KIND] != 0 and group >= 0:
            out[place[group]] = i
            place[group] += 1
    return out, bounds


def references(plan: StretchPlan, read: Reader) -> tuple[WalBytes, NDArray[np.int64], Chunks]:
    """The bytes read, the wanted rows (columns R_…) and their chunks. Raises as `decode` does."""
    form = FORMATS[plan.major]
    carried = [_carried_chunks(plan, read, part) for part in plan.carried]
    extra = sum(len(data) for data, _, _ in carried)
    wal, reason, found = None, framing.NEED_MORE, None
    ahead = PAGE_SIZE * 4
    while reason == framing.NEED_MORE:
        # The last record may run on beyond the stretch: read further until it is whole.
        wal = read(plan.stretch.start, plan.stretch.stop + ahead, extra)
        frame = framing.new_frame(wal, LogIdentity(form, plan.segment_size), plan.start, plan.stretch.stop)
        frame[SPARE] += (extra + 7) & ~7
        files = plan.files
        xids = plan.xid & LOW_WORD  # what records say of them
        found = collect_rows(
            wal.buf, frame, form.image_compressed, rehashed(xids, len(xids), len(xids)), xids, plan.ordinal,
            rehashed(files.key, len(files.key), max(1, len(files.key))), files.key, files.tablespace, files.bounds, files.has_own,
            rehashed(files.own_key, len(files.own_key), max(1, len(files.own_key))), files.own_key, files.own_bounds,
            files.span_start, files.span_relation, plan.confirmed, plan.only_local, records.new_parsed(),
            np.zeros((wal.raw // _SMALLEST_ROW + 64, R_FIELDS), np.int64), np.zeros((wal.raw // _SMALLEST_RECORD + 64, 3), np.int64),
        )  # fmt: skip
        reason = found[2]
        if reason == framing.NEED_MORE and wal.base + wal.raw < plan.stretch.stop + ahead:
            break  # the log ends here
        ahead *= 16
    assert wal is not None
    assert found is not None
    rows, chunk_refs, reason, fingerprint, unmapped, key = found
    if fingerprint != plan.fingerprint:
        raise changed_since(plan.stretch, wal, reason, frame)
    if unmapped:
        raise MissingHistory(
            f'could not map filenumber "{key >> 32}/{key & 0xFFFFFFFF}" to relation OID', context=f"WAL record at {Lsn(unmapped)}"
        )
    return wal, rows, _all_chunks(plan, wal, carried, chunk_refs)


def _all_chunks(
    plan: StretchPlan,
    wal: WalBytes,
    carried: list[tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]],
    refs: NDArray[np.int64],
) -> Chunks:
    """Chunks of earlier stretches, copied behind the raw bytes, then those of this one."""
    at: list[NDArray[np.int64]] = []
    length: list[NDArray[np.int64]] = []
    epoch: list[NDArray[np.int64]] = []
    place = (wal.raw + 7) & ~7
    for data, bounds, xids in carried:
        wal.buf[place : place + len(data)] = data
        at.append(place + bounds[:-1])
        length.append(np.diff(bounds))
        epoch.append(np.searchsorted(plan.xid, xids).astype(np.int64))
        place += len(data)
    at.append(refs[:, 0])
    length.append(refs[:, 1])
    epoch.append(refs[:, 2])
    return Chunks.of(wal.buf, np.concatenate(at), np.concatenate(length), np.concatenate(epoch))


def _carried_chunks(
    plan: StretchPlan, read: Reader, part: Carried
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Chunk tuples of an earlier stretch: their bytes, bounds and xids."""
    form = FORMATS[plan.major]
    stretch, lsns = part.stretch, part.lsn
    first = max(stretch.start, int(lsns[0]) // PAGE_SIZE * PAGE_SIZE)
    wal = read(first, int(lsns[-1]) // PAGE_SIZE * PAGE_SIZE + 4 * PAGE_SIZE)
    frame = framing.new_frame(wal, LogIdentity(form, plan.segment_size), int(lsns[0]), int(lsns[-1]) + 1)
    data, bounds, count, reason = copy_chunks(wal.buf, frame, form.image_compressed, lsns, part.crc)
    if count != len(lsns):
        raise changed_since(stretch, wal, reason, frame)
    return data, bounds, part.xid


@kernel
def copy_chunks(buf, frame, compressed, lsns, crcs):  # type: ignore[no-untyped-def]
    """Block data of the records at `lsns` (sorted), which have these checksums, one after another. Returns the data, its bounds, how many, and why
    the walk ended."""
    parsed = np.zeros(records.PARSED_SIZE, np.int64)
    out = np.zeros(2048 * max(1, len(lsns)), np.uint8)
    bounds = np.zeros(len(lsns) + 1, np.int64)
    count = 0
    reason = framing.REACHED_STOP
    while count < len(lsns):
        at = next_record(buf, frame)
        if at < 0:
            reason = at
            break
        if frame[LSN] != lsns[count]:
            continue
        if u32(buf, at + 20) != crcs[count]:
            break
        records.parse(buf, at, frame[LENGTH], compressed, parsed)
        data = parsed[FIRST_BLOCK + DATA]
        length = parsed[FIRST_BLOCK + DATA_LENGTH]
        used = bounds[count]
        if used + length > len(out):
            out = grown(out, 2 * len(out) + length)
        out[used : used + length] = buf[data : data + length]
        count += 1
        bounds[count] = used + length
    return out[: bounds[count]].copy(), bounds, count, reason
