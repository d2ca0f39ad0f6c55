"""Pages that come whole, from a record's image or from the data directory -> versions of rows.

Every tuple on such a page is a version. It may be the one that is known to stand there, or a copy of one from the catalog's file before; or it is one
that nobody knew of, so that its page is how we learn of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tailrace.catalog.pages.page_layout import (
    HEAP_LOCK_MASK,
    HEAP_XMAX_COMMITTED,
    HEAP_XMAX_EXCL_LOCK,
    HEAP_XMAX_INVALID,
    HEAP_XMAX_IS_MULTI,
    HEAP_XMAX_LOCK_ONLY,
    HEAP_XMIN_COMMITTED,
    HEAP_XMIN_FROZEN,
    HEAP_XMIN_INVALID,
    LP_FLAGS,
    LP_FLAGS_SHIFT,
    LP_LEN_SHIFT,
    LP_NORMAL,
    LP_OFF,
    MAX_HEAP_TUPLES_PER_PAGE,
    PD_LOWER,
    SIZE_OF_ITEM_ID,
    SIZE_OF_PAGE_HEADER,
    T_INFOMASK,
    T_INFOMASK2,
    T_XMAX,
    T_XMIN,
)
from tailrace.catalog.pages.tids import NO_VERSION, note_known, put_version, tid_of, version_at
from tailrace.catalog.redo.copied_rows import copied_version, has_tuple, has_xmin
from tailrace.catalog.redo.replay_buffers import DONE, TUPLE_BYTES, UNREADABLE, VERSIONS, rewrite_version, use_bytes
from tailrace.catalog.rows.row_versions import XMAX_COMMITTED, XMAX_MULTI, XMIN_ABORTED, XMIN_COMMITTED, XMIN_FROZEN
from tailrace.kernels import inner_kernel
from tailrace.memcpy import memcpy
from tailrace.model import FIRST_NORMAL_OID, PAGE_SIZE
from tailrace.transactions.epochs import FIRST_NORMAL_XID, with_epoch
from tailrace.tuples.deform import TUPLE_HEADER
from tailrace.wal.unaligned import u16, u32

ADDS_NOTHING = 0
ADDS_SEVERAL = -1


class StoredTuple(NamedTuple):
    """A tuple on a page: its transactions, full, what its hint bits say of them (`row_versions`), and its `length` bytes from t_infomask2 on."""

    xmin: np.int64
    xmax: np.int64
    hints: np.int64
    at: np.int64
    length: np.int64


@inner_kernel
def replay_page(replayed, record, target, page, added_item):  # type: ignore[no-untyped-def]
    """All tuples of a page as the record leaves it. `added_item` is the line pointer of the one that the record itself put there, ADDS_SEVERAL or
    ADDS_NOTHING. Returns a status."""
    note_known(replayed.tids, target.file, target.block)
    items = max(u16(page, PD_LOWER) - SIZE_OF_PAGE_HEADER, 0) // SIZE_OF_ITEM_ID
    if items > MAX_HEAP_TUPLES_PER_PAGE:
        return UNREADABLE
    total = np.int64(0)
    for item in range(1, items + 1):
        item_id = u32(page, SIZE_OF_PAGE_HEADER + SIZE_OF_ITEM_ID * (item - 1))
        if (item_id >> LP_FLAGS_SHIFT) & LP_FLAGS != LP_NORMAL:
            continue
        offset = item_id & LP_OFF
        length = item_id >> LP_LEN_SHIFT
        total += length
        if length < TUPLE_HEADER or offset + length > PAGE_SIZE or total > PAGE_SIZE:
            return UNREADABLE
        stored = read_tuple(page, offset, length, record.next_xid)
        tid = tid_of(target.file, target.block, item)
        version = version_at(replayed.tids, tid)
        is_own = record.xid != 0 and stored.xmin == record.xid
        if is_own and (added_item == item or (added_item == ADDS_SEVERAL and version < 0)):
            version = np.int64(NO_VERSION)
        elif is_forgotten(version, stored):
            continue
        else:
            version = known_version(replayed, target.catalog, version, page, stored)
        if version < 0:
            version = learn_version(replayed, record, target.catalog, page, stored)
        else:
            update_version(replayed.versions, version, record, stored)
        put_version(replayed.tids, tid, version)
    return DONE


@inner_kernel
def is_forgotten(version, stored):  # type: ignore[no-untyped-def]
    """Whether the tuple at a place is the one that was forgotten there: nobody sees it. Of a multixact the place knows the updater."""
    xid = NO_VERSION - version
    return version < NO_VERSION and (stored.xmax == xid or stored.xmin == xid or stored.hints & XMAX_MULTI != 0)


@inner_kernel
def read_tuple(page, offset, length, next_xid):  # type: ignore[no-untyped-def]
    """The tuple at a line pointer. An xmax that only locks is none (HEAP_XMAX_IS_LOCKED_ONLY)."""
    infomask = u16(page, offset + T_INFOMASK)
    xmin = with_epoch(u32(page, offset + T_XMIN), next_xid)
    xmax = u32(page, offset + T_XMAX)
    hints = np.int64(0)
    if infomask & HEAP_XMIN_FROZEN == HEAP_XMIN_FROZEN or xmin < FIRST_NORMAL_XID:
        hints |= XMIN_COMMITTED | XMIN_FROZEN
    elif infomask & HEAP_XMIN_COMMITTED:
        hints |= XMIN_COMMITTED
    elif infomask & HEAP_XMIN_INVALID:
        hints |= XMIN_ABORTED
    locks = infomask & (HEAP_XMAX_IS_MULTI | HEAP_LOCK_MASK)
    if infomask & (HEAP_XMAX_INVALID | HEAP_XMAX_LOCK_ONLY) or locks == HEAP_XMAX_EXCL_LOCK:
        xmax = np.int64(0)
    elif infomask & HEAP_XMAX_IS_MULTI:
        hints |= XMAX_MULTI
    else:
        xmax = with_epoch(xmax, next_xid)
        if infomask & HEAP_XMAX_COMMITTED:
            hints |= XMAX_COMMITTED
    return StoredTuple(xmin, xmax, hints, offset + T_INFOMASK2, length - T_INFOMASK2)


@inner_kernel
def known_version(replayed, catalog, version, page, stored):  # type: ignore[no-untyped-def]
    """The version that a tuple is: the one that was put there, or one from the catalog's file before. NO_VERSION if it is neither. Files of user
    catalog tables have versions of their own, and may hold rows that are alike."""
    versions = replayed.versions
    if version >= 0 and has_xmin(versions, version, stored) and versions.length[version] == stored.length:
        if not has_tuple(versions, replayed.tuples, version, page, stored):
            # The same row with other bytes: an in-place update whose record carries an image, or that came before one.
            memcpy(replayed.tuples, replayed.used[TUPLE_BYTES], page, stored.at, stored.length)
            rewrite_version(replayed, version, stored.length)
        return version
    if catalog >= FIRST_NORMAL_OID:
        return np.int64(NO_VERSION)
    return copied_version(replayed.contents, versions, replayed.tuples, catalog, page, stored)


@inner_kernel
def learn_version(replayed, record, catalog, page, stored):  # type: ignore[no-untyped-def]
    """A version that nobody knew of. What its transactions did was in this record, or before all WAL at hand. In a file of a user catalog table it is
    added here in any case: whoever copied it, nobody sees it in this file before."""
    versions = replayed.versions
    version = replayed.used[VERSIONS]
    replayed.used[VERSIONS] += 1
    versions.catalog[version] = catalog
    versions.xmin[version] = stored.xmin
    versions.xmax[version] = stored.xmax
    is_here = catalog >= FIRST_NORMAL_OID or (record.xid != 0 and stored.xmin == record.xid)
    versions.added[version] = record.lsn if is_here else 0
    versions.deleted[version] = record.lsn if record.xid != 0 and stored.xmax == record.xid else 0
    versions.hints[version] = stored.hints
    versions.at[version] = replayed.used[TUPLE_BYTES]
    versions.length[version] = stored.length
    memcpy(replayed.tuples, replayed.used[TUPLE_BYTES], page, stored.at, stored.length)
    use_bytes(replayed, stored.length)
    return version


@inner_kernel
def update_version(versions, version, record, stored):  # type: ignore[no-untyped-def]
    """What a page adds to a version that is known: who ended it, and hint bits."""
    if stored.xmax != 0 and stored.xmax != versions.xmax[version] and not stored.hints & XMAX_MULTI:
        versions.xmax[version] = stored.xmax
        versions.deleted[version] = record.lsn if stored.xmax == record.xid else 0
    versions.hints[version] |= stored.hints & (XMIN_COMMITTED | XMIN_ABORTED)
    if stored.hints & XMAX_COMMITTED and stored.xmax == versions.xmax[version]:
        versions.hints[version] |= XMAX_COMMITTED
