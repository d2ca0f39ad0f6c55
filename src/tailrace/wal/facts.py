"""Kernels that note in index buffers what each record of a stretch says, while :mod:`tailrace.wal.scan` walks it.

Each group of facts has a buffer (:mod:`tailrace.wal.index_buffers`). The kernels are given one buffer and one record each, and are compiled into
the loop that calls them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import inner_kernel
from tailrace.model import FIRST_NORMAL_OID, Locator
from tailrace.wal import heap, logicalmsg, records, relmap, standby, xlog
from tailrace.wal.hashing import find, find_pair, rehashed
from tailrace.wal.index import (
    CHANGES_CATALOG,
    CLOSED_TOAST,
    HAS_CHANGE,
    HAS_ROWS,
    HAS_SPECULATED,
    KEPT_ALIEN,
    KEPT_CATALOG_CHANGE,
    KEPT_CHECKPOINT,
    KEPT_MESSAGE,
    KEPT_RELATION_MAP,
    KEPT_RUNNING_XACTS,
    KEPT_STORAGE,
    KEPT_TIMELINE_END,
    KEPT_TRUNCATE,
    KEPT_WAL_SETTINGS,
    STARTS_WITH_CANCEL,
    STARTS_WITH_CONFIRM,
    TRACKED_CATALOGS,
    UNKNOWN_XID,
)  # fmt: skip
from tailrace.wal.record_header import H_CRC
from tailrace.wal.records import BLOCK_FIELDS, BLOCKS, FIRST_BLOCK, FORK, INFO, MAIN, MANAGER
from tailrace.wal.resource_managers import DBASE, FIRST_CUSTOM, RELMAP, STANDBY, XLOG
from tailrace.wal.unaligned import u8, u16, u32

NOT_KEPT = 0


class CatalogFileKeys(NamedTuple):
    """Which files are catalogs': of those numbered by initdb the ones in `oids`, and others that the plan knows of (`key`, `tablespace`). With
    `nothing_else`, only what changes them is to be kept."""

    oid_table: NDArray[np.int32]
    oids: NDArray[np.int64]
    key: NDArray[np.int64]
    tablespace: NDArray[np.int64]
    nothing_else: bool


def catalog_files(also: Sequence[Locator]) -> CatalogFileKeys:
    """The files of TRACKED_CATALOGS, and `also` these; if there are any, nothing else is to be kept."""
    oids = np.array(sorted(TRACKED_CATALOGS), np.int64)
    keys = np.array([(file.database << 32) | file.number for file in also], np.int64)
    spaces = np.array([file.tablespace for file in also], np.int64)
    return CatalogFileKeys(rehashed(oids, len(oids), len(oids)), oids, keys, spaces, bool(also))


# -- transactions --------------------------------------------------------------------------------------------------------------------


@inner_kernel
def note_xid(xids, xid, lsn):  # type: ignore[no-untyped-def]
    """The row of a transaction id, a new one if it first appears here."""
    row = find(xids.table, xids.xid, xid)
    if row < 0:
        place = -1 - row
        row = xids.used[0]
        xids.used[0] = row + 1
        xids.table[place] = row
        xids.xid[row] = xid
        xids.first_lsn[row] = lsn
        xids.top[row] = xids.flags[row] = xids.rows[row] = xids.bytes[row] = xids.speculative[row] = xids.toast_run[row] = 0
        xids.queued_lsn[row] = xids.origin[row] = 0
    return row


@inner_kernel
def note_queued(xids, row, lsn, origin):  # type: ignore[no-untyped-def]
    """A change that the server queues, with the origin that it gives it."""
    if xids.queued_lsn[row] == 0:
        xids.queued_lsn[row] = lsn
        xids.origin[row] = origin


@inner_kernel
def note_end(ends, parsed, record):  # type: ignore[no-untyped-def]
    """A commit, abort or prepare whose fields are there already."""
    row = ends.used[0]
    ends.lsn[row] = record.lsn
    ends.end_lsn[row] = record.end_lsn
    ends.origin[row] = parsed[records.ORIGIN]
    ends.used[0] = row + 1


# -- files ---------------------------------------------------------------------------------------------------------------------------


@inner_kernel
def file_key(database, number):  # type: ignore[no-untyped-def]
    """Two parts of a locator as one number; the third, the tablespace, is compared with it."""
    return (database << 32) | number


@inner_kernel
def note_file(files, catalogs, key, tablespace, lsn):  # type: ignore[no-untyped-def]
    """The row of a file, a new one if it first appears here."""
    row = files.last[0]
    if files.key[row] == key and files.tablespace[row] == tablespace:
        return row
    row = find_pair(files.table, files.key, files.tablespace, key, tablespace)
    if row < 0:
        place = -1 - row
        row = files.used[0]
        files.used[0] = row + 1
        files.table[place] = row
        files.key[row] = key
        files.tablespace[row] = tablespace
        files.first_lsn[row] = lsn
        files.records[row] = 0
        files.tracked[row] = _is_catalogs(catalogs, key, tablespace)
    files.last[0] = row
    return row


@inner_kernel
def _is_catalogs(catalogs, key, tablespace):  # type: ignore[no-untyped-def]
    for i in range(len(catalogs.key)):
        if catalogs.key[i] == key and catalogs.tablespace[i] == tablespace:
            return True
    number = key & 0xFFFFFFFF
    return number < FIRST_NORMAL_OID and find(catalogs.oid_table, catalogs.oids, number) >= 0


@inner_kernel
def note_files(files, catalogs, parsed, lsn):  # type: ignore[no-untyped-def]
    """The heap files that a record changes: one block names the heap, but page images may name many. Returns whether one is a catalog's."""
    first = heap.heap_block(parsed)
    stop = parsed[BLOCKS] if parsed[MANAGER] == XLOG else min(parsed[BLOCKS], first + 1)
    tracked = False
    for i in range(first, stop):
        block = FIRST_BLOCK + i * BLOCK_FIELDS
        if parsed[block + FORK] == 0:
            key = file_key(parsed[block + records.DATABASE], parsed[block + records.NUMBER])
            row = note_file(files, catalogs, key, parsed[block + records.TABLESPACE], lsn)
            files.records[row] += 1
            tracked = tracked or files.tracked[row]
    return tracked


@inner_kernel
def note_new_cid(files, catalogs, buf, parsed, lsn):  # type: ignore[no-untyped-def]
    """The file that a NEW_CID names: a catalog's, even if its number does not say so."""
    locator = parsed[MAIN] + heap.NEW_CID_LOCATOR_AT
    number = u32(buf, locator + 8)
    row = note_file(files, catalogs, file_key(u32(buf, locator + 4), number), u32(buf, locator), lsn)
    if number >= FIRST_NORMAL_OID:
        files.tracked[row] = True


# -- rows ----------------------------------------------------------------------------------------------------------------------------


@inner_kernel
def change_flags(parsed, inplace_is_change):  # type: ignore[no-untyped-def]
    """What a HEAP or HEAP2 record makes of its transaction."""
    if heap.begins_transaction(parsed):
        return HAS_CHANGE
    if inplace_is_change and heap.is_inplace(parsed):
        return HAS_CHANGE | CHANGES_CATALOG
    return 0


@inner_kernel
def note_row(xids, row, chunks, buf, parsed, record):  # type: ignore[no-untyped-def]
    """The rows that a HEAP or HEAP2 record has for decoding, or a TOAST chunk; `row` is its xid's."""
    kind = heap.row_kind(buf, parsed)
    if kind == heap.NOT_A_ROW:
        return
    note_queued(xids, row, record.lsn, parsed[records.ORIGIN])
    if kind == heap.SPECULATIVE_CONFIRM or kind == heap.SPECULATIVE_CANCEL:
        if not xids.flags[row] & (STARTS_WITH_CONFIRM | STARTS_WITH_CANCEL | HAS_SPECULATED):
            xids.flags[row] |= STARTS_WITH_CONFIRM if kind == heap.SPECULATIVE_CONFIRM else STARTS_WITH_CANCEL
        xids.speculative[row] = 0
        return
    xids.flags[row] |= HAS_ROWS
    xids.bytes[row] += record.length
    if kind == heap.TOAST_CHUNK:
        chunk = chunks.used[0]
        chunks.xid_row[chunk] = row
        chunks.toast_run[chunk] = xids.toast_run[row]
        chunks.lsn[chunk] = record.lsn
        chunks.crc[chunk] = u32(buf, record.at + H_CRC)
        chunks.used[0] = chunk + 1
        return
    if kind == heap.SPECULATIVE_INSERT:
        xids.speculative[row] = record.lsn
        xids.flags[row] |= HAS_SPECULATED
    is_multi = kind == heap.ROW_MULTI_INSERT
    xids.rows[row] += u16(buf, parsed[MAIN] + heap.MULTI_INSERT_NTUPLES_AT) if is_multi else 1
    is_last = not is_multi or u8(buf, parsed[MAIN] + heap.MULTI_INSERT_FLAGS_AT) & heap.INSERT_LAST_IN_MULTI != 0
    if is_last and kind != heap.ROW_DELETE:
        xids.toast_run[row] += 1
        xids.flags[row] |= CLOSED_TOAST


@inner_kernel
def note_heap(buf, parsed, record, row, inplace_is_change, catalogs, buffers):  # type: ignore[no-untyped-def]
    """A record of HEAP or HEAP2; `row` is its xid's, or -1. Returns as what it is kept."""
    xids = buffers.xids
    keep = KEPT_CATALOG_CHANGE if note_files(buffers.files, catalogs, parsed, record.lsn) else NOT_KEPT
    if heap.is_new_cid(parsed):
        note_new_cid(buffers.files, catalogs, buf, parsed, record.lsn)
        if row >= 0:
            xids.flags[row] |= CHANGES_CATALOG
            note_queued(xids, row, record.lsn, 0)
    elif row >= 0:
        xids.flags[row] |= change_flags(parsed, inplace_is_change)
        note_row(xids, row, buffers.chunks, buf, parsed, record)
        if heap.is_truncate(parsed):
            keep = KEPT_TRUNCATE
            note_queued(xids, row, record.lsn, parsed[records.ORIGIN])
    return keep


@inner_kernel
def note_other(buf, parsed, record, row, catalogs, buffers):  # type: ignore[no-untyped-def]
    """A record that is neither of a heap nor the end of a transaction. Returns as what it is kept."""
    manager, opcode = parsed[MANAGER], parsed[INFO] & xlog.OPCODE
    if manager == XLOG and (opcode == xlog.FPI or opcode == xlog.FPI_FOR_HINT):
        return KEPT_CATALOG_CHANGE if note_files(buffers.files, catalogs, parsed, record.lsn) else NOT_KEPT
    if row >= 0 and logicalmsg.is_message(parsed) and u8(buf, parsed[MAIN] + logicalmsg.TRANSACTIONAL) != 0:
        buffers.xids.flags[row] |= HAS_CHANGE
        note_queued(buffers.xids, row, record.end_lsn, 0)
    return KEPT_MESSAGE if logicalmsg.is_message(parsed) else kept_as(manager, opcode)


# -- records kept whole --------------------------------------------------------------------------------------------------------------


@inner_kernel
def kept_as(manager, opcode):  # type: ignore[no-untyped-def]
    """As what a record is kept, whatever it is about."""
    if manager == STANDBY and opcode == standby.RUNNING_XACTS:
        return KEPT_RUNNING_XACTS
    if manager == RELMAP and opcode == relmap.UPDATE:
        return KEPT_RELATION_MAP
    if manager == DBASE:
        return KEPT_STORAGE
    if manager >= FIRST_CUSTOM:
        return KEPT_ALIEN
    if manager != XLOG:
        return NOT_KEPT
    if opcode == xlog.CHECKPOINT_SHUTDOWN or opcode == xlog.CHECKPOINT_ONLINE:
        return KEPT_CHECKPOINT
    if opcode == xlog.PARAMETER_CHANGE or opcode == xlog.FPW_CHANGE:
        return KEPT_WAL_SETTINGS
    if opcode == xlog.END_OF_RECOVERY or opcode == xlog.OVERWRITE_CONTRECORD:
        return KEPT_TIMELINE_END
    return NOT_KEPT


@inner_kernel
def note_kept(kept, kind, record):  # type: ignore[no-untyped-def]
    """Returns its row. What follows is unknown until it comes."""
    row = kept.used[0]
    kept.kind[row] = kind
    kept.at[row] = record.at
    kept.length[row] = record.length
    kept.lsn[row] = record.lsn
    kept.end_lsn[row] = record.end_lsn
    kept.followed_by[row] = UNKNOWN_XID if kind == KEPT_MESSAGE else 0
    kept.used[0] = row + 1
    return row
