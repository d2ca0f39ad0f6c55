"""A stretch of WAL and a few transaction ids -> what the server puts into its reorder buffer for each of them.

In: pages of a stretch, as the index had them. Out: `QueuedChanges`. Rows, TRUNCATEs and messages go to the list of their subtransaction
(`ReorderBufferQueueChange`, `ReorderBufferQueueMessage`), and so does what prints nothing: chunks of TOAST, updates and deletes of catalog rows,
command ids, invalidations (`replication/logical/decode.c`). Only :mod:`tailrace.plan.message_order` asks for it, and for a few transactions:
which of two changes at one position the server prints first depends on all that it had queued before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.kernels import inner_kernel, kernel
from tailrace.model import Stretch
from tailrace.wal import framing, heap, logicalmsg, xact
from tailrace.wal.crc import NO_RECORDS, fingerprinted
from tailrace.wal.end_of_log import NeedMoreWal, changed_since, explain
from tailrace.wal.framing import F_AT, F_END, F_LENGTH, F_LSN, RECORD_HEADER, next_records
from tailrace.wal.hashing import find, rehashed
from tailrace.wal.pages import LogIdentity, WalBytes
from tailrace.wal.record_header import H_CRC, H_INFO, H_MANAGER, H_XID
from tailrace.wal.records import MAIN, MANAGER, ORIGIN, is_among, new_parsed, parse
from tailrace.wal.resource_managers import HEAP, HEAP2, LOGICALMSG, XACT
from tailrace.wal.unaligned import u8, u32
from tailrace.wal.versions import FORMATS

_NOT_QUEUED, _AS_CHANGE, _AS_MESSAGE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class QueuedChangesRequest:
    """For which `xids` (full ones) it is asked what the server queues of a stretch, whose first record is at `start` and whose records have this
    `fingerprint`. Of `unwanted_origins` nothing is queued."""

    stretch: Stretch
    start: int
    fingerprint: int
    major: int
    database: int
    unwanted_origins: NDArray[np.uint16]
    xids: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class QueuedChanges:
    """Changes in WAL order: position, xid, whether it is a message. Of changes of one xid directly behind each other only the first two are
    there: between those another change at the first's position may come, behind the second none can before the run ends.

    `base_snapshot_lsn` is, for each xid asked for, the first record that gives its transaction a snapshot; the greatest number if there is none.
    """

    position: NDArray[np.int64]
    xid: NDArray[np.int64]
    is_message: NDArray[np.bool_]
    base_snapshot_lsn: NDArray[np.int64]


class _Asked(NamedTuple):
    """What the kernel needs of a request and of its major. `xids` are 32 bits wide."""

    xid_table: NDArray[np.int32]
    xids: NDArray[np.int64]
    database: int
    unwanted_origins: NDArray[np.uint16]
    image_compressed: int
    inplace_is_change: bool


class _Queue(NamedTuple):
    """Room for the changes of all xids; `number` is that of the xid among those asked for."""

    position: NDArray[np.int64]
    number: NDArray[np.int64]
    kind: NDArray[np.int64]
    base_snapshot_lsn: NDArray[np.int64]


def queued_changes(wal: WalBytes, request: QueuedChangesRequest, segment_size: int, *, at_end_of_log: bool) -> QueuedChanges:
    """What the stretch has for these xids. Raises NeedMoreWal if `wal` ends within its last record, though the log does not, CorruptWal
    if these are not the records that were indexed."""
    form = FORMATS[request.major]
    frame = framing.new_frame(wal, LogIdentity(form, segment_size), request.start, request.stretch.stop)
    xids = request.xids & 0xFFFFFFFF  # what records say of them
    table = rehashed(xids, len(xids), len(xids))
    asked = _Asked(table, xids, request.database, request.unwanted_origins, form.image_compressed, form.inplace_is_change)
    most = wal.raw // RECORD_HEADER + 64
    position, number, kind = (np.zeros(most, np.int64) for _ in range(3))
    queue = _Queue(position, number, kind, np.full(len(xids), np.iinfo(np.int64).max, np.int64))
    count, reason, fingerprint = queue_changes(wal.buf, frame, asked, new_parsed(), queue)
    if reason == framing.NEED_MORE and not at_end_of_log:
        raise NeedMoreWal(explain(reason, frame))
    if reason == framing.INVALID_DATA or fingerprint != request.fingerprint:
        raise changed_since(request.stretch, wal, reason, frame)
    return QueuedChanges(
        queue.position[:count].copy(),
        request.xids[queue.number[:count]],
        queue.kind[:count] == _AS_MESSAGE,
        queue.base_snapshot_lsn,
    )


@kernel
def queue_changes(buf, frame, asked, parsed, queue):  # type: ignore[no-untyped-def]
    """Fill `queue` with what the walk finds. Returns how many changes, why the walk ended, and the records' fingerprint."""
    fingerprint = np.uint64(NO_RECORDS)
    count = 0
    last = np.int64(-1)  # the number of the last change's xid, unless something else came behind
    run = 0
    batch = np.empty((framing.BATCH, framing.F_FIELDS), np.int64)
    while True:
        present = next_records(buf, frame, batch)
        if present < 0:
            return count, present, np.int64(fingerprint)
        for here in range(present):
            at = batch[here, F_AT]
            lsn = batch[here, F_LSN]
            fingerprint = fingerprinted(fingerprint, u32(buf, at + H_CRC))
            manager = u8(buf, at + H_MANAGER)
            if manager == XACT and u8(buf, at + H_INFO) & xact.OPCODE != xact.INVALIDATIONS:
                last = np.int64(-1)  # a commit may put a snapshot between two changes
                continue
            if manager not in (HEAP, HEAP2, LOGICALMSG, XACT):
                continue
            number = find(asked.xid_table, asked.xids, u32(buf, at + H_XID))
            if number < 0:
                continue
            if not parse(buf, at, batch[here, F_LENGTH], asked.image_compressed, parsed):
                # The first pass has refused such a record: these are other bytes.
                frame[framing.POSITION] = lsn
                frame[framing.DETAIL] = (manager << 8) | u8(buf, at + H_INFO)
                return count, np.int64(framing.INVALID_DATA), np.int64(fingerprint)
            kind = _queued_as(buf, parsed, asked.database, asked.unwanted_origins)
            if _sets_base_snapshot(parsed, kind, asked.inplace_is_change):
                queue.base_snapshot_lsn[number] = min(queue.base_snapshot_lsn[number], lsn)
            if kind == _NOT_QUEUED:
                continue
            run = run + 1 if number == last else 1
            last = number if kind == _AS_CHANGE else np.int64(-1)
            if kind == _AS_MESSAGE or run <= 2:
                queue.position[count] = batch[here, F_END] if kind == _AS_MESSAGE else lsn
                queue.number[count] = number
                queue.kind[count] = kind
                count += 1


@inner_kernel
def _queued_as(buf, parsed, database, unwanted_origins):  # type: ignore[no-untyped-def]
    """Whether a record is queued, and as what."""
    if parsed[MANAGER] == XACT or heap.is_new_cid(parsed):
        return _AS_CHANGE
    if is_among(unwanted_origins, parsed[ORIGIN]):
        return _NOT_QUEUED
    if parsed[MANAGER] == LOGICALMSG:
        main = parsed[MAIN]
        mine = u8(buf, main + logicalmsg.TRANSACTIONAL) != 0 and u32(buf, main + logicalmsg.DATABASE) == database
        return _AS_MESSAGE if mine and logicalmsg.is_message(parsed) else _NOT_QUEUED
    return _AS_CHANGE if heap.is_queued(buf, parsed, database) else _NOT_QUEUED


@inner_kernel
def _sets_base_snapshot(parsed, kind, inplace_is_change):  # type: ignore[no-untyped-def]
    """Whether the server makes sure that the record's transaction has a snapshot (`SnapBuildProcessChange`)."""
    if parsed[MANAGER] == LOGICALMSG:
        return kind == _AS_MESSAGE
    return heap.begins_transaction(parsed) or (inplace_is_change and heap.is_inplace(parsed))
