"""Heap records: opcodes and flags (`access/heapam_xlog.h`), and which of them are rows that decoding shows.

The kernels that scan and decode share `row_kind`, so that both passes agree on what a row is.
"""

from __future__ import annotations

from tailrace.kernels import kernel
from tailrace.wal.records import DATA_LENGTH, FIRST_BLOCK, INFO, MAIN, MANAGER
from tailrace.wal.resource_managers import HEAP, HEAP2
from tailrace.wal.unaligned import u8

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

# HEAP2 opcodes; PRUNE, VACUUM and FREEZE_PAGE mean other things from 17 on
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

SIZE_OF_UPDATE = 14
SIZE_OF_DELETE = 8
TRUNCATE_CASCADE = 0x01
TRUNCATE_RESTART_SEQUENCES = 0x02

# What a record is to decoding
NOT_A_ROW = 0
ROW_INSERT = 1
ROW_UPDATE = 2
ROW_DELETE = 3
ROW_MULTI_INSERT = 4
TOAST_CHUNK = 5
SPECULATIVE_INSERT = 6
SPECULATIVE_CONFIRM = 7
SPECULATIVE_CANCEL = 8


@kernel
def row_kind(buf, parsed):  # type: ignore[no-untyped-def]
    """What a HEAP or HEAP2 record is to decoding; NOT_A_ROW for all that carries no row (catalogs, locks, pruning)."""
    opcode = parsed[INFO] & OPCODE
    main = parsed[MAIN]
    if parsed[MANAGER] == HEAP:
        if opcode == INSERT:
            flags = u8(buf, main + 2)
            if not flags & INSERT_CONTAINS_NEW_TUPLE or parsed[FIRST_BLOCK + DATA_LENGTH] == 0:
                return NOT_A_ROW
            if flags & INSERT_ON_TOAST_RELATION:
                return TOAST_CHUNK
            return SPECULATIVE_INSERT if flags & INSERT_IS_SPECULATIVE else ROW_INSERT
        if opcode in (UPDATE, HOT_UPDATE):
            return ROW_UPDATE if u8(buf, main + 7) & UPDATE_CONTAINS_NEW_TUPLE else NOT_A_ROW
        if opcode == DELETE:
            return SPECULATIVE_CANCEL if u8(buf, main + 7) & DELETE_IS_SUPER else ROW_DELETE
        if opcode == CONFIRM:
            return SPECULATIVE_CONFIRM
        return NOT_A_ROW
    if parsed[MANAGER] == HEAP2 and opcode == MULTI_INSERT and u8(buf, main) & INSERT_CONTAINS_NEW_TUPLE:
        return ROW_MULTI_INSERT
    return NOT_A_ROW


@kernel
def begins_transaction(parsed):  # type: ignore[no-untyped-def]
    """Whether the record gives its transaction a snapshot, so that it is shown at all, if only as BEGIN and COMMIT (6.3)."""
    opcode = parsed[INFO] & OPCODE
    if parsed[MANAGER] == HEAP:
        return opcode != LOCK and opcode != INPLACE
    return parsed[MANAGER] == HEAP2 and opcode == MULTI_INSERT


@kernel
def changes_rows(parsed):  # type: ignore[no-untyped-def]
    """Whether the record adds, replaces or removes rows of its pages. Pruning, freezing, locking and in-place updates leave what rows say, as far as
    decoding asks."""
    opcode = parsed[INFO] & OPCODE
    if parsed[MANAGER] == HEAP:
        return opcode in (INSERT, DELETE, UPDATE, HOT_UPDATE)
    return parsed[MANAGER] == HEAP2 and opcode == MULTI_INSERT
