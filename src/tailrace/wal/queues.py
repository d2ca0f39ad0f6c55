"""A stretch of WAL and a few xids -> what the server's reorder buffer queues for each of them.

In: pages of a stretch, as the index had them. Out: `Queued`. Rows, TRUNCATEs and messages are queued for their subtransaction, and so is what prints
nothing: chunks of TOAST, updates and deletes of catalog rows, command ids, invalidations (`replication/logical/decode.c`). Nobody else wants to know
this; :mod:`tailrace.plan.message_order` does, for a few transactions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import kernel
from tailrace.model import Stretch
from tailrace.wal import framing, heap, records, xact
from tailrace.wal.crc import NO_RECORDS, fingerprinted
from tailrace.wal.end_of_log import changed_since
from tailrace.wal.framing import WalBytes, next_records
from tailrace.wal.hashing import find, rehashed
from tailrace.wal.index import NeedMoreWal
from tailrace.wal.records import DATABASE, FIRST_BLOCK, INFO, MAIN, ORIGIN
from tailrace.wal.resource_managers import HEAP, HEAP2, LOGICALMSG, XACT
from tailrace.wal.unaligned import u8, u32
from tailrace.wal.versions import FORMATS

NOTHING, CHANGE, MESSAGE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class QueueErrand:
    """Whose queues are wanted of which stretch, whose first record is at `start` and whose records have this `fingerprint`: `xids`, full. With
    `only_local`, what has an origin is not queued."""

    stretch: Stretch
    start: int
    fingerprint: int
    major: int
    database: int
    only_local: bool
    xids: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Queued:
    """Entries in WAL order: position, xid, whether it is a message. Of changes of one xid directly behind each other only the first two are
    there: between those another entry at the first's position may come, behind the second none can before the run ends.

    `snapshot_from` is, for each xid asked for, the first record that gives its transaction a snapshot; the greatest number if there is none.
    """

    position: NDArray[np.int64]
    xid: NDArray[np.int64]
    is_message: NDArray[np.bool_]
    snapshot_from: NDArray[np.int64]


def queued(wal: WalBytes, errand: QueueErrand, segment_size: int, *, at_end_of_log: bool) -> Queued:
    """What the stretch has for these xids. Raises NeedMoreWal if `wal` ends within its last record, though the log does not, CorruptWal
    if these are not the records that were indexed."""
    form = FORMATS[errand.major]
    frame = framing.new_frame(wal, errand.start, errand.stretch.stop, segment_size, form.page_magic, check_crc=True)
    xids = errand.xids & 0xFFFFFFFF  # what records say of them
    entries = np.zeros((wal.raw // framing.RECORD_HEADER + 64, 3), np.int64)
    snapshot_from = np.full(len(xids), np.iinfo(np.int64).max, np.int64)
    count, reason, fingerprint = collect_queued(
        wal.buf, frame, form.image_compressed, form.inplace_is_change, errand.database, errand.only_local,
        rehashed(xids, len(xids), len(xids)), xids, records.new_parsed(), entries, snapshot_from,
    )  # fmt: skip
    if reason == framing.NEED_MORE and not at_end_of_log:
        raise NeedMoreWal(framing.explain(reason, frame))
    if fingerprint != errand.fingerprint:
        raise changed_since(errand.stretch, wal, reason, frame)
    entries = entries[:count]
    return Queued(entries[:, 0].copy(), errand.xids[entries[:, 1]], entries[:, 2] == MESSAGE, snapshot_from)


@kernel
def collect_queued(buf, frame, compressed, inplace_is_change, database, only_local, xid_table, xids,  # type: ignore[no-untyped-def]
                   parsed, entries, snapshot_from):  # fmt: skip
    """Fill `entries` (position, number of the xid, kind) and `snapshot_from`. Returns how many entries, why the walk ended, and the records'
    fingerprint."""
    fingerprint = np.uint64(NO_RECORDS)
    count = 0
    last = np.int64(-1)
    run = 0
    batch = np.empty((framing.BATCH, framing.F_FIELDS), np.int64)
    while True:
        present = next_records(buf, frame, batch)
        if present < 0:
            return count, present, np.int64(fingerprint)
        for here in range(present):
            at = batch[here, framing.F_AT]
            fingerprint = fingerprinted(fingerprint, u32(buf, at + 20))
            manager = u8(buf, at + 17)
            if manager == XACT and u8(buf, at + 16) & xact.OPCODE != xact.INVALIDATIONS:
                last = np.int64(-1)  # a commit may put a snapshot between two changes
                continue
            if manager not in (HEAP, HEAP2, LOGICALMSG, XACT):
                continue
            mine = find(xid_table, xids, u32(buf, at + 4))
            if mine < 0:
                continue
            lsn = batch[here, framing.F_LSN]
            records.parse(buf, at, batch[here, framing.F_LENGTH], compressed, parsed)
            kind = _kind(buf, parsed, manager, database, only_local)
            if _gives_snapshot(parsed, manager, kind, inplace_is_change):
                snapshot_from[mine] = min(snapshot_from[mine], lsn)
            if kind == NOTHING:
                continue
            run = run + 1 if mine == last else 1
            last = mine if kind == CHANGE else np.int64(-1)
            if kind == MESSAGE or run <= 2:
                entries[count, 0] = batch[here, framing.F_END] if kind == MESSAGE else lsn
                entries[count, 1] = mine
                entries[count, 2] = kind
                count += 1


@kernel
def _kind(buf, parsed, manager, database, only_local):  # type: ignore[no-untyped-def]
    """Whether a record is queued, and as what."""
    opcode = parsed[INFO] & heap.OPCODE
    main = parsed[MAIN]
    if manager == XACT or (manager == HEAP2 and opcode == heap.NEW_CID):
        return CHANGE
    if only_local and parsed[ORIGIN] != 0:
        return NOTHING
    if manager == LOGICALMSG:
        return MESSAGE if u8(buf, main + 4) != 0 and u32(buf, main) == database else NOTHING
    if manager == HEAP and opcode == heap.TRUNCATE:
        return CHANGE if u32(buf, main) == database else NOTHING
    if parsed[FIRST_BLOCK + DATABASE] != database:
        return NOTHING
    if manager == HEAP2:
        return CHANGE if opcode == heap.MULTI_INSERT and u8(buf, main) & heap.INSERT_CONTAINS_NEW_TUPLE else NOTHING
    if opcode == heap.INSERT:
        return CHANGE if u8(buf, main + 2) & heap.INSERT_CONTAINS_NEW_TUPLE else NOTHING
    return CHANGE if opcode in (heap.UPDATE, heap.HOT_UPDATE, heap.DELETE, heap.CONFIRM) else NOTHING


@kernel
def _gives_snapshot(parsed, manager, kind, inplace_is_change):  # type: ignore[no-untyped-def]
    if manager == LOGICALMSG:
        return kind == MESSAGE
    inplace = manager == HEAP and parsed[INFO] & heap.OPCODE == heap.INPLACE
    return heap.begins_transaction(parsed) or (inplace and inplace_is_change)
