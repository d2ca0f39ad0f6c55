"""Which tuples on the pages of a table a snapshot sees (HeapTupleSatisfiesMVCC in `heapam_visibility.c`).

In: whole pages that are sound as far as their checksums tell, a snapshot, and what pg_xact says of transactions whose end no hint bit tells. Out:
where the tuples lie that the snapshot sees, and the line pointers of those of which the pages do not tell it: among the members of a multixact may be
an updater.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.data_directory.commit_status import COMMITTED, XIDS_PER_STATUS_FILE
from tailrace.catalog.pages.page_layout import (
    HEAP_LOCK_MASK,
    HEAP_MOVED,
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
    MAXALIGN,
    PAGE_LAYOUT_VERSION,
    PD_LOWER,
    PD_PAGESIZE_VERSION,
    PD_SPECIAL,
    PD_UPPER,
    SIZE_OF_ITEM_ID,
    SIZE_OF_PAGE_HEADER,
    T_INFOMASK,
    T_INFOMASK2,
    T_XMAX,
    T_XMIN,
)
from tailrace.kernels import inner_kernel, kernel
from tailrace.model import PAGE_SIZE
from tailrace.tuples.deform import TUPLE_HEADER
from tailrace.wal.unaligned import u16, u32

_FIRST_NORMAL_XID = 3
_STATUS_FILES = (1 << 32) // XIDS_PER_STATUS_FILE

SEES_ALL = -1
"""Instead of a file of pg_xact: nothing was missing. `UNSOUND`: a page is none of a table's."""
UNSOUND = -2

# Whether a tuple is seen; what is less than these is -1 - the number of the file of pg_xact that would tell
_NO, _YES, _ASK = range(3)
_UNKNOWN = 4
"""Beside the states of an xid."""


class MvccSnapshot(NamedTuple):
    """What a snapshot calls running: of the xids from `xmin` on, before `xmax`, those that stand in `running`, in order, subtransactions included;
    and all from `xmax` on. Each in 32 bits."""

    xmin: int
    xmax: int
    running: NDArray[np.int64]


class KnownStatus(NamedTuple):
    """Files of pg_xact: of the one with that number the first `size[row[number]]` bytes are `bits[row[number]]`, two bits for each xid; -1 if it was
    not read."""

    row: NDArray[np.int32]
    size: NDArray[np.int64]
    bits: NDArray[np.uint8]

    @classmethod
    def of(cls, files: dict[int, bytes]) -> KnownStatus:
        row = np.full(_STATUS_FILES, -1, np.int32)
        size = np.array([len(data) for data in files.values()], np.int64)
        bits = np.zeros((len(files), XIDS_PER_STATUS_FILE // 4), np.uint8)
        for place, (number, data) in enumerate(files.items()):
            row[number] = place
            bits[place, : len(data)] = np.frombuffer(data, np.uint8)
        return cls(row, size, bits)


class VisibleTuples(NamedTuple):
    """Where tuples lie, from their infomask2 on, in the order of their pages, and the numbers of their line pointers; and (page, line pointer) of
    those that are to be asked for."""

    at: NDArray[np.int64]
    length: NDArray[np.int64]
    item: NDArray[np.int64]
    asked: NDArray[np.int64]

    @classmethod
    def room(cls, pages: int) -> VisibleTuples:
        most = pages * MAX_HEAP_TUPLES_PER_PAGE
        at, length, item = (np.empty(most, np.int64) for _ in range(3))
        return cls(at, length, item, np.empty((most, 2), np.int64))


@kernel
def see_tuples(pages: Any, snapshot: Any, status: Any, found: Any) -> Any:
    """Fill `found` from pages that lie one after another. Returns how many tuples are seen, how many are to be asked for, and what was missing:
    SEES_ALL, UNSOUND, or the number of a file of pg_xact."""
    seen = asked = 0
    for page in range(len(pages) // PAGE_SIZE):
        base = page * PAGE_SIZE
        upper = u16(pages, base + PD_UPPER)
        if upper == 0:  # a page that is new
            continue
        lower = u16(pages, base + PD_LOWER)
        if (
            u16(pages, base + PD_PAGESIZE_VERSION) != PAGE_SIZE | PAGE_LAYOUT_VERSION
            or u16(pages, base + PD_SPECIAL) != PAGE_SIZE
            or lower < SIZE_OF_PAGE_HEADER
            or lower > upper
            or upper > PAGE_SIZE
            or (lower - SIZE_OF_PAGE_HEADER) // SIZE_OF_ITEM_ID > MAX_HEAP_TUPLES_PER_PAGE
        ):
            return seen, asked, UNSOUND
        for item in range((lower - SIZE_OF_PAGE_HEADER) // SIZE_OF_ITEM_ID):
            pointer = u32(pages, base + SIZE_OF_PAGE_HEADER + item * SIZE_OF_ITEM_ID)
            if (pointer >> LP_FLAGS_SHIFT) & LP_FLAGS != LP_NORMAL:
                continue
            offset = pointer & LP_OFF
            length = pointer >> LP_LEN_SHIFT
            if offset < upper or offset % MAXALIGN or length < TUPLE_HEADER or offset + length > PAGE_SIZE:
                return seen, asked, UNSOUND
            verdict = sees(pages, base + offset, snapshot, status)
            if verdict < 0:
                return seen, asked, -1 - verdict
            if verdict == _YES:
                found.at[seen] = base + offset + T_INFOMASK2
                found.length[seen] = length - T_INFOMASK2
                found.item[seen] = item + 1
                seen += 1
            elif verdict == _ASK:
                found.asked[asked, 0] = page
                found.asked[asked, 1] = item + 1
                asked += 1
    return seen, asked, SEES_ALL


@inner_kernel
def sees(pages: Any, at: Any, snapshot: Any, status: Any) -> Any:
    """Of the tuple that begins there."""
    infomask = u16(pages, at + T_INFOMASK)
    xmin = u32(pages, at + T_XMIN)
    xmax = u32(pages, at + T_XMAX)
    if infomask & HEAP_MOVED:
        return np.int64(_ASK)
    if infomask & HEAP_XMIN_FROZEN != HEAP_XMIN_FROZEN and xmin != _FIRST_NORMAL_XID - 1:
        if infomask & HEAP_XMIN_INVALID or xmin == 0 or is_running(snapshot, xmin):
            return np.int64(_NO)
        if not infomask & HEAP_XMIN_COMMITTED:
            ended = status_of(status, xmin)
            if ended != COMMITTED:
                return ended if ended < 0 else np.int64(_ASK if ended == _UNKNOWN else _NO)
    locks = infomask & (HEAP_XMAX_IS_MULTI | HEAP_LOCK_MASK)
    if infomask & (HEAP_XMAX_INVALID | HEAP_XMAX_LOCK_ONLY) or locks == HEAP_XMAX_EXCL_LOCK or xmax == 0:
        return np.int64(_YES)
    if infomask & HEAP_XMAX_IS_MULTI:
        return np.int64(_ASK)
    if is_running(snapshot, xmax):
        return np.int64(_YES)
    if not infomask & HEAP_XMAX_COMMITTED:
        ended = status_of(status, xmax)
        if ended != COMMITTED:
            return ended if ended < 0 else np.int64(_ASK if ended == _UNKNOWN else _YES)
    return np.int64(_NO)


@inner_kernel
def is_running(snapshot: Any, xid: Any) -> Any:
    """Whether the snapshot takes the transaction for one that has not ended."""
    if xid < _FIRST_NORMAL_XID or precedes(xid, snapshot.xmin):
        return False
    if not precedes(xid, snapshot.xmax):
        return True
    low, high = 0, len(snapshot.running)
    while low < high:
        middle = (low + high) // 2
        if snapshot.running[middle] < xid:
            low = middle + 1
        else:
            high = middle
    return low < len(snapshot.running) and snapshot.running[low] == xid


@inner_kernel
def precedes(one: Any, other: Any) -> Any:
    """Of two xids in 32 bits, which wrap around (`TransactionIdPrecedes`)."""
    return (one - other) & 0xFFFFFFFF >= 0x80000000


@inner_kernel
def status_of(status: Any, xid: Any) -> Any:
    """What became of the transaction; or -1 - the number of the file that says it, _UNKNOWN if that has gone since, as VACUUM needs it no longer."""
    number = xid // XIDS_PER_STATUS_FILE
    row = status.row[number]
    if row < 0:
        return np.int64(-1 - number)
    within = xid % XIDS_PER_STATUS_FILE
    if within // 4 >= status.size[row]:
        return np.int64(_UNKNOWN)
    return np.int64((status.bits[row, within // 4] >> (2 * (within % 4))) & 3)
