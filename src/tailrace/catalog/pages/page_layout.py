"""Where things stand on a heap page: its header (`storage/bufpage.h`), line pointers (`storage/itemid.h`) and tuple headers
(`access/htup_details.h`), by PostgreSQL's names. Offsets are in bytes; bits of an ItemIdData are those of one little-endian word."""

from __future__ import annotations

from tailrace.model import PAGE_SIZE
from tailrace.tuples.deform import TUPLE_HEADER

# PageHeaderData
PD_LSN = 0
PD_CHECKSUM = 8
PD_FLAGS = 10
PD_LOWER = 12
PD_UPPER = 14
PD_SPECIAL = 16
PD_PAGESIZE_VERSION = 18
SIZE_OF_PAGE_HEADER = 24
PD_VALID_FLAG_BITS = 0x0007
PAGE_LAYOUT_VERSION = 4

# ItemIdData: lp_off in 15 bits, lp_flags in 2, lp_len in 15
SIZE_OF_ITEM_ID = 4
LP_OFF = 0x7FFF
LP_FLAGS_SHIFT = 15
LP_FLAGS = 3
LP_LEN_SHIFT = 17
LP_NORMAL = 1

# HeapTupleHeaderData; from t_infomask2 on it is what a record has of a tuple
T_XMIN = 0
T_XMAX = 4
T_INFOMASK2 = 18
T_INFOMASK = 20

# t_infomask
HEAP_XMAX_KEYSHR_LOCK = 0x0010
HEAP_XMAX_EXCL_LOCK = 0x0040
HEAP_XMAX_LOCK_ONLY = 0x0080
HEAP_XMIN_COMMITTED = 0x0100
HEAP_XMIN_INVALID = 0x0200
HEAP_XMIN_FROZEN = HEAP_XMIN_COMMITTED | HEAP_XMIN_INVALID
HEAP_XMAX_COMMITTED = 0x0400
HEAP_XMAX_INVALID = 0x0800
HEAP_XMAX_IS_MULTI = 0x1000
HEAP_LOCK_MASK = HEAP_XMAX_EXCL_LOCK | HEAP_XMAX_KEYSHR_LOCK
HEAP_MOVED = 0xC000  # HEAP_MOVED_OFF and HEAP_MOVED_IN, of a VACUUM FULL before 9.0

MAXALIGN = 8
MAX_HEAP_TUPLES_PER_PAGE = (PAGE_SIZE - SIZE_OF_PAGE_HEADER) // (
    (TUPLE_HEADER + MAXALIGN - 1) // MAXALIGN * MAXALIGN + SIZE_OF_ITEM_ID
)
"""Line pointers that a heap page has at most (MaxHeapTuplesPerPage, 291)."""
