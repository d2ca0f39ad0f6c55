"""Heap records: opcodes, flags and layouts (`access/heapam_xlog.h`), and which of them are rows that decoding shows.

Nobody else asks for an opcode: what scanning, decoding and replaying want to know of a record are the kernels below. Both passes share `row_kind` and
`clears_toast`, so that they agree on what a row is and which chunks are its. A logged
tuple is told by where its xl_heap_header begins, and how long it is from there: what :mod:`tailrace.tuples.deform` wants.
"""

from __future__ import annotations

import numpy as np

from tailrace.kernels import inner_kernel, kernel
from tailrace.majors import OLDEST
from tailrace.wal.heap_records import (
    Confirm,
    FreezePage,
    HeapDelete,
    HeapInsert,
    HeapTruncate,
    HeapUpdate,
    Inplace,
    Lock,
    MultiInsert,
    NewCid,
    Prune,
    PruneFreeze,
    Rewrite,
    Vacuum,
    Visible,
)
from tailrace.wal.record_types import DECODED, PASSED_OVER, REPLAYED, RecordType
from tailrace.wal.records import BLOCKS, DATA, DATA_LENGTH, DATABASE, FIRST_BLOCK, INFO, MAIN, MAIN_LENGTH, MANAGER, NEEDS_BLOCK
from tailrace.wal.resource_managers import HEAP, HEAP2
from tailrace.wal.structs import Struct
from tailrace.wal.unaligned import u8, u16, u32

# HEAP opcodes, info & 0x70
INSERT = 0x00
DELETE = 0x10
UPDATE = 0x20
TRUNCATE = 0x30
HOT_UPDATE = 0x40
CONFIRM = 0x50
LOCK = 0x60
INPLACE = 0x70
OPCODE = 0x70
INIT_PAGE = 0x80

# HEAP2 opcodes; PRUNE, VACUUM and FREEZE_PAGE have other names from 17 on: all of them prune and freeze
REWRITE = 0x00
PRUNE = 0x10
VACUUM = 0x20
FREEZE_PAGE = 0x30
VISIBLE = 0x40
MULTI_INSERT = 0x50
LOCK_UPDATED = 0x60
NEW_CID = 0x70

# xl_heap_insert.flags, also of a multi-insert
INSERT_LAST_IN_MULTI = 0x02
INSERT_IS_SPECULATIVE = 0x04
INSERT_CONTAINS_NEW_TUPLE = 0x08
INSERT_ON_TOAST_RELATION = 0x10

# xl_heap_update.flags
UPDATE_CONTAINS_OLD_TUPLE = 0x04
UPDATE_CONTAINS_OLD_KEY = 0x08
UPDATE_CONTAINS_NEW_TUPLE = 0x10
UPDATE_PREFIX_FROM_OLD = 0x20
UPDATE_SUFFIX_FROM_OLD = 0x40

# xl_heap_delete.flags
DELETE_CONTAINS_OLD_TUPLE = 0x02
DELETE_CONTAINS_OLD_KEY = 0x04
DELETE_IS_SUPER = 0x08

# xl_heap_truncate.flags
TRUNCATE_CASCADE = 0x01
TRUNCATE_RESTART_SEQUENCES = 0x02


def _at(record: type[Struct], field: str) -> int:
    """Where a field stands. Kernels go by one number, so it is no module to be loaded if majors differ."""
    (at,) = {layout.at(field) for layout in record.LAYOUTS.values()}
    return at


def _size(record: type[Struct]) -> int:
    (size,) = {layout.size for layout in record.LAYOUTS.values()}
    return size


# Where kernels find what a record says ahead of its tuples: offsets within the main data
INSERT_OFFNUM_AT = _at(HeapInsert, "offnum")
INSERT_FLAGS_AT = _at(HeapInsert, "flags")
SIZE_OF_INSERT = _size(HeapInsert)
UPDATE_OLD_OFFNUM_AT = _at(HeapUpdate, "old_offnum")
UPDATE_FLAGS_AT = _at(HeapUpdate, "flags")
UPDATE_NEW_OFFNUM_AT = _at(HeapUpdate, "new_offnum")
SIZE_OF_UPDATE = _size(HeapUpdate)
DELETE_OFFNUM_AT = _at(HeapDelete, "offnum")
DELETE_FLAGS_AT = _at(HeapDelete, "flags")
SIZE_OF_DELETE = _size(HeapDelete)
INPLACE_OFFNUM_AT = _at(Inplace, "offnum")
SIZE_OF_INPLACE = Inplace.LAYOUTS[OLDEST].size  # what 18 put behind it no kernel reads
MULTI_INSERT_FLAGS_AT = _at(MultiInsert, "flags")
MULTI_INSERT_NTUPLES_AT = _at(MultiInsert, "ntuples")
MULTI_INSERT_OFFNUMS_AT = _size(MultiInsert)
TRUNCATE_DATABASE_AT = HeapTruncate.LAYOUT.at("database")
TRUNCATE_RELIDS_AT = HeapTruncate.LAYOUT.at("relids")
NEW_CID_LOCATOR_AT = _at(NewCid, "locator")
SIZE_OF_NEW_CID = _size(NewCid)
_OFFNUM = 2  # sizeof(OffsetNumber)

# The kernels below go by the opcode alone, and are told no major. So a number that a major gives another meaning must not be read or replayed in any
# (tests/wal/test_opcodes.py); where it has to be, `row_kind` and its like must be told the major first.
RECORD_TYPES = (
    RecordType(INSERT, "INSERT", DECODED, HeapInsert, least=NEEDS_BLOCK | SIZE_OF_INSERT),
    RecordType(DELETE, "DELETE", DECODED, HeapDelete, least=NEEDS_BLOCK | SIZE_OF_DELETE),
    RecordType(UPDATE, "UPDATE", DECODED, HeapUpdate, least=NEEDS_BLOCK | SIZE_OF_UPDATE),
    RecordType(TRUNCATE, "TRUNCATE", DECODED, HeapTruncate, least=TRUNCATE_RELIDS_AT),
    RecordType(HOT_UPDATE, "HOT_UPDATE", DECODED, HeapUpdate, least=NEEDS_BLOCK | SIZE_OF_UPDATE),
    RecordType(CONFIRM, "HEAP_CONFIRM", DECODED, Confirm, least=NEEDS_BLOCK),
    RecordType(LOCK, "LOCK", PASSED_OVER, Lock),  # but for page images of catalogs, as all of its kind
    RecordType(INPLACE, "INPLACE", REPLAYED, Inplace, least=NEEDS_BLOCK | SIZE_OF_INPLACE),
)
HEAP2_RECORD_TYPES = (
    RecordType(REWRITE, "REWRITE", PASSED_OVER, Rewrite),
    RecordType(PRUNE, "PRUNE", PASSED_OVER, Prune, majors="-16"),
    RecordType(PRUNE, "PRUNE_ON_ACCESS", PASSED_OVER, PruneFreeze, majors="17-"),
    RecordType(VACUUM, "VACUUM", PASSED_OVER, Vacuum, majors="-16"),
    RecordType(VACUUM, "PRUNE_VACUUM_SCAN", PASSED_OVER, PruneFreeze, majors="17-"),
    RecordType(FREEZE_PAGE, "FREEZE_PAGE", PASSED_OVER, FreezePage, majors="-16"),
    RecordType(FREEZE_PAGE, "PRUNE_VACUUM_CLEANUP", PASSED_OVER, PruneFreeze, majors="17-"),
    RecordType(VISIBLE, "VISIBLE", PASSED_OVER, Visible),
    RecordType(MULTI_INSERT, "MULTI_INSERT", DECODED, MultiInsert, least=NEEDS_BLOCK | MULTI_INSERT_OFFNUMS_AT),
    RecordType(LOCK_UPDATED, "LOCK_UPDATED", PASSED_OVER, Lock),
    RecordType(NEW_CID, "NEW_CID", DECODED, NewCid, least=SIZE_OF_NEW_CID),
)

SIZE_OF_HEADER = 5
"""xl_heap_header: t_infomask2, t_infomask, t_hoff. An xl_multi_insert_tuple has the same behind its datalen."""
_DATALEN = 2

# What a record is to decoding: `wal/facts.py` (note_row) and `decode/rows.py` (note_rows) know each
NOT_A_ROW = 0
ROW_INSERT = 1
ROW_UPDATE = 2
ROW_DELETE = 3
ROW_MULTI_INSERT = 4
TOAST_CHUNK = 5
SPECULATIVE_INSERT = 6
SPECULATIVE_CONFIRM = 7
SPECULATIVE_CANCEL = 8

# What a record does to the tuples of its pages
LEAVES_TUPLES = 0
ADDS_TUPLE = 1
ADDS_TUPLES = 2
REPLACES_TUPLE = 3
REMOVES_TUPLE = 4
OVERWRITES_TUPLE = 5

# Which old tuple a record has
NO_OLD = 0
OLD_KEY = 1
OLD_ROW = 2


@kernel
def row_kind(buf, parsed):  # type: ignore[no-untyped-def]
    """What a HEAP or HEAP2 record is to decoding; NOT_A_ROW for all that carries no row (catalogs, locks, pruning)."""
    opcode = parsed[INFO] & OPCODE
    main = parsed[MAIN]
    if parsed[MANAGER] == HEAP:
        if opcode == INSERT:
            flags = u8(buf, main + INSERT_FLAGS_AT)
            if not flags & INSERT_CONTAINS_NEW_TUPLE or parsed[FIRST_BLOCK + DATA_LENGTH] == 0:
                return NOT_A_ROW
            if flags & INSERT_ON_TOAST_RELATION:
                return TOAST_CHUNK
            return SPECULATIVE_INSERT if flags & INSERT_IS_SPECULATIVE else ROW_INSERT
        if opcode in (UPDATE, HOT_UPDATE):
            return ROW_UPDATE if u8(buf, main + UPDATE_FLAGS_AT) & UPDATE_CONTAINS_NEW_TUPLE else NOT_A_ROW
        if opcode == DELETE:
            return SPECULATIVE_CANCEL if u8(buf, main + DELETE_FLAGS_AT) & DELETE_IS_SUPER else ROW_DELETE
        if opcode == CONFIRM:
            return SPECULATIVE_CONFIRM
        return NOT_A_ROW
    if parsed[MANAGER] == HEAP2 and opcode == MULTI_INSERT and u8(buf, main + MULTI_INSERT_FLAGS_AT) & INSERT_CONTAINS_NEW_TUPLE:
        return ROW_MULTI_INSERT
    return NOT_A_ROW


@inner_kernel
def clears_toast(buf, parsed, kind):  # type: ignore[no-untyped-def]
    """Whether TOAST chunks up to here serve these rows and no later ones (`clear_toast_afterwards` in `replication/reorderbuffer.h`). They do, but
    for a deletion, and a multi-insert that is not the last of its batch."""
    if kind == ROW_MULTI_INSERT:
        return u8(buf, parsed[MAIN] + MULTI_INSERT_FLAGS_AT) & INSERT_LAST_IN_MULTI != 0
    return kind != ROW_DELETE


@inner_kernel
def old_tuple(buf, parsed, kind):  # type: ignore[no-untyped-def]
    """Which old tuple a row's record has, and where: (NO_OLD, OLD_KEY or OLD_ROW, offset or -1, length)."""
    if kind == ROW_UPDATE:
        at, flags = SIZE_OF_UPDATE, u8(buf, parsed[MAIN] + UPDATE_FLAGS_AT)
        row, key = UPDATE_CONTAINS_OLD_TUPLE, UPDATE_CONTAINS_OLD_KEY
    elif kind == ROW_DELETE:
        at, flags = SIZE_OF_DELETE, u8(buf, parsed[MAIN] + DELETE_FLAGS_AT)
        row, key = DELETE_CONTAINS_OLD_TUPLE, DELETE_CONTAINS_OLD_KEY
    else:
        return NO_OLD, -1, 0
    if not flags & (row | key):
        return NO_OLD, -1, 0
    return OLD_ROW if flags & row else OLD_KEY, parsed[MAIN] + at, parsed[MAIN_LENGTH] - at


@inner_kernel
def tuple_count(buf, parsed):  # type: ignore[no-untyped-def]
    """How many rows a multi-insert has."""
    return u16(buf, parsed[MAIN] + MULTI_INSERT_NTUPLES_AT)


@inner_kernel
def has_inserted(parsed, behind):  # type: ignore[no-untyped-def]
    """Whether the block's data has the header of another tuple there (`next_inserted`)."""
    data = parsed[FIRST_BLOCK + DATA]
    return data + ((behind - data + 1) & ~1) + _DATALEN + SIZE_OF_HEADER <= data + parsed[FIRST_BLOCK + DATA_LENGTH]


@inner_kernel
def next_inserted(buf, parsed, behind):  # type: ignore[no-untyped-def]
    """Of a multi-insert, the tuple that begins at `behind`, or at the next even offset of the block's data: (offset, length)."""
    data = parsed[FIRST_BLOCK + DATA]
    at = data + ((behind - data + 1) & ~1)
    return at + _DATALEN, SIZE_OF_HEADER + u16(buf, at)


@kernel
def begins_transaction(parsed):  # type: ignore[no-untyped-def]
    """Whether the record gives its transaction a snapshot, so that it is shown at all, if only as BEGIN and COMMIT
    (`SnapBuildProcessChange` in `replication/logical/snapbuild.c`)."""
    opcode = parsed[INFO] & OPCODE
    if parsed[MANAGER] == HEAP:
        return opcode != LOCK and opcode != INPLACE
    return parsed[MANAGER] == HEAP2 and opcode == MULTI_INSERT


@inner_kernel
def is_queued(buf, parsed, database):  # type: ignore[no-untyped-def]
    """Whether the server queues a HEAP or HEAP2 record as a change of this database, where its origin is wanted (heap_decode and heap2_decode in
    `replication/logical/decode.c`)."""
    main = parsed[MAIN]
    if is_truncate(parsed):
        return u32(buf, main + TRUNCATE_DATABASE_AT) == database
    if parsed[FIRST_BLOCK + DATABASE] != database:
        return False
    change = tuple_change(parsed)
    if change == ADDS_TUPLE:
        return u8(buf, main + INSERT_FLAGS_AT) & INSERT_CONTAINS_NEW_TUPLE != 0
    if change == ADDS_TUPLES:
        return u8(buf, main + MULTI_INSERT_FLAGS_AT) & INSERT_CONTAINS_NEW_TUPLE != 0
    is_confirm = parsed[MANAGER] == HEAP and parsed[INFO] & OPCODE == CONFIRM
    return change == REPLACES_TUPLE or change == REMOVES_TUPLE or is_confirm


@inner_kernel
def is_truncate(parsed):  # type: ignore[no-untyped-def]
    return parsed[MANAGER] == HEAP and parsed[INFO] & OPCODE == TRUNCATE


@inner_kernel
def is_inplace(parsed):  # type: ignore[no-untyped-def]
    return parsed[MANAGER] == HEAP and parsed[INFO] & OPCODE == INPLACE


@inner_kernel
def is_new_cid(parsed):  # type: ignore[no-untyped-def]
    return parsed[MANAGER] == HEAP2 and parsed[INFO] & OPCODE == NEW_CID


@inner_kernel
def heap_block(parsed):  # type: ignore[no-untyped-def]
    """Which of the record's blocks is the heap's: the first, but for VISIBLE, whose first is the visibility map's."""
    of_map = parsed[MANAGER] == HEAP2 and parsed[INFO] & OPCODE == VISIBLE and parsed[BLOCKS] > 1
    return 1 if of_map else 0


# -- what replaying asks of a record -----------------------------------------------------------------------------------------------


@inner_kernel
def tuple_change(parsed):  # type: ignore[no-untyped-def]
    """What the record does to the tuples of its pages. Pruning, freezing and locking leave what rows say."""
    opcode = parsed[INFO] & OPCODE
    if parsed[MANAGER] == HEAP:
        if opcode == INSERT:
            return ADDS_TUPLE
        if opcode == UPDATE or opcode == HOT_UPDATE:
            return REPLACES_TUPLE
        if opcode == DELETE:
            return REMOVES_TUPLE
        return OVERWRITES_TUPLE if opcode == INPLACE else LEAVES_TUPLES
    return ADDS_TUPLES if parsed[MANAGER] == HEAP2 and opcode == MULTI_INSERT else LEAVES_TUPLES


@kernel
def changes_rows(parsed):  # type: ignore[no-untyped-def]
    """Whether the record adds, replaces or removes rows of its pages. An update in place leaves what they say, as far as decoding asks."""
    change = tuple_change(parsed)
    return change != LEAVES_TUPLES and change != OVERWRITES_TUPLE


@inner_kernel
def has_main_data(buf, parsed):  # type: ignore[no-untyped-def]
    """Whether the main data is as long as a record of its kind says of itself; of kinds that do not change rows nothing is asked."""
    change = tuple_change(parsed)
    least = 0
    if change == ADDS_TUPLE:
        least = SIZE_OF_INSERT
    elif change == REMOVES_TUPLE:
        least = SIZE_OF_DELETE
    elif change == REPLACES_TUPLE:
        least = SIZE_OF_UPDATE
    elif change == OVERWRITES_TUPLE:
        least = SIZE_OF_INPLACE
    elif change == ADDS_TUPLES:
        least = MULTI_INSERT_OFFNUMS_AT
        if parsed[MAIN_LENGTH] >= least and not parsed[INFO] & INIT_PAGE:
            least += _OFFNUM * tuple_count(buf, parsed)
    return parsed[MAIN_LENGTH] >= least


@inner_kernel
def new_item(buf, parsed):  # type: ignore[no-untyped-def]
    """The line pointer at which the record adds its one tuple, or puts what replaces another."""
    at = INSERT_OFFNUM_AT if tuple_change(parsed) == ADDS_TUPLE else UPDATE_NEW_OFFNUM_AT
    return u16(buf, parsed[MAIN] + at)


@inner_kernel
def has_old_item(parsed):  # type: ignore[no-untyped-def]
    """Whether the record replaces, removes or overwrites a tuple."""
    change = tuple_change(parsed)
    return change == REPLACES_TUPLE or change == REMOVES_TUPLE or change == OVERWRITES_TUPLE


@inner_kernel
def old_item(buf, parsed):  # type: ignore[no-untyped-def]
    """The line pointer of that tuple."""
    change = tuple_change(parsed)
    at = INPLACE_OFFNUM_AT
    if change == REMOVES_TUPLE:
        at = DELETE_OFFNUM_AT
    elif change == REPLACES_TUPLE:
        at = UPDATE_OLD_OFFNUM_AT
    return u16(buf, parsed[MAIN] + at)


@inner_kernel
def inserted_item(buf, parsed, n):  # type: ignore[no-untyped-def]
    """The line pointer of tuple `n`, counted from 0, of a multi-insert; on a page that it initialises they are in order."""
    if parsed[INFO] & INIT_PAGE:
        return np.int64(n + 1)
    return u16(buf, parsed[MAIN] + MULTI_INSERT_OFFNUMS_AT + _OFFNUM * n)


@inner_kernel
def takes_insert_back(buf, parsed):  # type: ignore[no-untyped-def]
    """Whether a DELETE is of a speculative insertion that found a conflict."""
    return u8(buf, parsed[MAIN] + DELETE_FLAGS_AT) & DELETE_IS_SUPER != 0


@inner_kernel
def from_old(buf, parsed):  # type: ignore[no-untyped-def]
    """What an UPDATE leaves out of the new tuple, since the old one has it: bytes at the beginning of its values, bytes at its end, and where in the
    block's data the tuple begins."""
    flags = u8(buf, parsed[MAIN] + UPDATE_FLAGS_AT)
    at = parsed[FIRST_BLOCK + DATA]
    prefix = np.int64(0)
    suffix = np.int64(0)
    if flags & UPDATE_PREFIX_FROM_OLD:
        prefix = u16(buf, at)
        at += 2
    if flags & UPDATE_SUFFIX_FROM_OLD:
        suffix = u16(buf, at)
        at += 2
    return prefix, suffix, at
