"""What every opcode of every resource manager means for us, by major; and what is not known, which is an error.

PostgreSQL's decoding stops at an opcode that it does not know of a manager that it decodes, and passes over all records of the others
(`replication/logical/decode.c`). So do we; and since catalogs are replayed here from the log alone, the managers that make, move and cut files are as
strict as PostgreSQL's recovery is (`smgr_redo`, `dbase_redo`, `relmap_redo`).
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tailrace.majors import CHECKPOINT_REDO_RECORDS, Compared, supports
from tailrace.wal import heap, heap_records, logicalmsg, record_header, relmap, smgr, standby, xact, xlog
from tailrace.wal.records import NEEDS_BLOCK
from tailrace.wal.resource_managers import (
    DBASE,
    FIRST_CUSTOM,
    HEAP,
    HEAP2,
    IGNORED,
    LOGICALMSG,
    RELMAP,
    SMGR,
    STANDBY,
    XACT,
    XLOG,
)
from tailrace.wal.versions import FORMATS

COMPARED = Compared(
    __name__,
    "the opcodes in access/heapam_xlog.h, access/xact.h, catalog/pg_control.h, catalog/storage_xlog.h, commands/dbcommands_xlog.h, "
    "replication/message.h, storage/standbydefs.h and utils/relmapper.h, and the managers in access/rmgrlist.h",
    upto=18,
)
MANAGERS = 256
OPCODES = 16
"""The upper four bits of xl_info are a manager's own; those below are XLogInsert's, of any record."""


class Meaning(IntEnum):
    UNKNOWN = 0
    DECODED = 1
    """Read: rows, ends of transactions, messages, and what says where decoding may begin or the log's timeline ends."""
    REPLAYED = 2
    """Read for what it changes of catalogs and their files."""
    PASSED_OVER = 3
    """Nothing that rows or catalogs would say otherwise for; it counts for its xid."""


_UNKNOWN, _DECODED, _REPLAYED, _PASSED_OVER = Meaning

_XLOG = {
    xlog.CHECKPOINT_SHUTDOWN: _DECODED,
    xlog.CHECKPOINT_ONLINE: _DECODED,
    xlog.NOOP: _PASSED_OVER,
    xlog.NEXTOID: _PASSED_OVER,
    xlog.SWITCH: _PASSED_OVER,  # framing goes on in the next segment
    xlog.BACKUP_END: _PASSED_OVER,
    xlog.PARAMETER_CHANGE: _DECODED,
    xlog.RESTORE_POINT: _PASSED_OVER,
    xlog.FPW_CHANGE: _DECODED,
    xlog.END_OF_RECOVERY: _DECODED,
    xlog.FPI_FOR_HINT: _REPLAYED,
    xlog.FPI: _REPLAYED,
    xlog.OVERWRITE_CONTRECORD: _DECODED,
}
_XLOG_WITH_REDO = _XLOG | {xlog.CHECKPOINT_REDO: _PASSED_OVER}
_XACT = {
    xact.COMMIT: _DECODED,
    xact.PREPARE: _DECODED,
    xact.ABORT: _DECODED,
    xact.COMMIT_PREPARED: _DECODED,
    xact.ABORT_PREPARED: _DECODED,
    xact.ASSIGNMENT: _PASSED_OVER,  # for standbys; the first record of a subtransaction names its top-level transaction
    xact.INVALIDATIONS: _DECODED,
}
_SMGR = {smgr.CREATE: _PASSED_OVER, smgr.TRUNCATE: _PASSED_OVER}  # versions of rows stay known, whatever becomes of their pages
_RELMAP = {relmap.UPDATE: _REPLAYED}
_STANDBY = {standby.LOCK: _PASSED_OVER, standby.RUNNING_XACTS: _DECODED, standby.INVALIDATIONS: _PASSED_OVER}
_HEAP = {
    heap.INSERT: _DECODED,
    heap.DELETE: _DECODED,
    heap.UPDATE: _DECODED,
    heap.TRUNCATE: _DECODED,
    heap.HOT_UPDATE: _DECODED,
    heap.CONFIRM: _DECODED,
    heap.LOCK: _PASSED_OVER,  # but for page images of catalogs, as all of its kind
    heap.INPLACE: _REPLAYED,
}
_HEAP2 = {
    heap.REWRITE: _PASSED_OVER,
    heap.PRUNE: _PASSED_OVER,  # these three were given other names in 17: all of them prune and freeze
    heap.VACUUM: _PASSED_OVER,
    heap.FREEZE_PAGE: _PASSED_OVER,
    heap.VISIBLE: _PASSED_OVER,
    heap.MULTI_INSERT: _DECODED,
    heap.LOCK_UPDATED: _PASSED_OVER,
    heap.NEW_CID: _DECODED,
}
_LOGICALMSG = {logicalmsg.MESSAGE: _DECODED}

_MASKS = {XACT: xact.OPCODE, HEAP: heap.OPCODE, HEAP2: heap.OPCODE}
"""Of these the uppermost bit says something else; all four bits of the others are the opcode."""
IDS = {
    XLOG: "XLOG", XACT: "XACT", SMGR: "SMGR", DBASE: "DBASE", RELMAP: "RELMAP", STANDBY: "STANDBY", HEAP2: "HEAP2", HEAP: "HEAP",
    LOGICALMSG: "LOGICALMSG",
}  # fmt: skip
"""The managers of which not all opcodes are known, by their names in `access/rmgrlist.h` (RM_…_ID)."""

_NO_RECORD = -1
_LEAST = {
    HEAP: {
        heap.INSERT: NEEDS_BLOCK | heap.SIZE_OF_INSERT,
        heap.DELETE: NEEDS_BLOCK | heap.SIZE_OF_DELETE,
        heap.UPDATE: NEEDS_BLOCK | heap.SIZE_OF_UPDATE,
        heap.HOT_UPDATE: NEEDS_BLOCK | heap.SIZE_OF_UPDATE,
        heap.TRUNCATE: heap.TRUNCATE_RELIDS_AT,
        heap.CONFIRM: NEEDS_BLOCK,
        heap.INPLACE: NEEDS_BLOCK | heap.SIZE_OF_INPLACE,
    },
    HEAP2: {heap.MULTI_INSERT: NEEDS_BLOCK | heap.MULTI_INSERT_OFFNUMS_AT, heap.NEW_CID: heap.SIZE_OF_NEW_CID},
    LOGICALMSG: {logicalmsg.MESSAGE: logicalmsg.MessageRecord.LAYOUT.size},
}
"""How long the main data are at least of what kernels read; the others are read where lengths are checked."""


@cache
def _known(major: int) -> dict[int, dict[int, Meaning]]:
    for compared in (COMPARED, record_header.COMPARED, heap_records.COMPARED):  # whose structs kernels read by numbers
        compared.check(major)
    form = FORMATS[major]
    created = {form.dbase_create_copy: _REPLAYED, form.dbase_create_wal_log: _REPLAYED, form.dbase_drop: _REPLAYED}
    return {
        XLOG: _XLOG_WITH_REDO if supports(major, CHECKPOINT_REDO_RECORDS) else _XLOG,
        XACT: _XACT,
        SMGR: _SMGR,
        DBASE: {opcode: meaning for opcode, meaning in created.items() if opcode >= 0},
        RELMAP: _RELMAP,
        STANDBY: _STANDBY,
        HEAP2: _HEAP2,
        HEAP: _HEAP,
        LOGICALMSG: _LOGICALMSG,
    }


def opcode_of(manager: int, info: int) -> int:
    """The opcode in a record's xl_info."""
    return info & _MASKS.get(manager, 0xF0)


def meaning_of(major: int, manager: int, info: int) -> Meaning:
    """What records with this xl_info mean. Of managers that PostgreSQL does not decode, and of extensions' own, all are passed over."""
    if manager in IGNORED or (manager >= FIRST_CUSTOM and FORMATS[major].custom_resource_managers):
        return Meaning.PASSED_OVER
    return _known(major).get(manager, {}).get(opcode_of(manager, info), Meaning.UNKNOWN)


@cache
def requirements(major: int) -> NDArray[np.int16]:
    """What a kernel asks of a record before it reads it: by manager and upper four bits of xl_info, one number, which
    `records.required` finds and `records.is_long_enough` understands."""
    table = np.full(MANAGERS * OPCODES, _NO_RECORD, np.int16)
    for manager in range(MANAGERS):
        for upper in range(OPCODES):
            if meaning_of(major, manager, upper << 4) != Meaning.UNKNOWN:
                least = _LEAST.get(manager, {}).get(opcode_of(manager, upper << 4), 0)
                table[manager * OPCODES + upper] = least
    return table


def named(manager: int, info: int) -> str:
    """A kind of record in words."""
    return f"RM_{IDS.get(manager, manager)}_ID (type {opcode_of(manager, info)})"


def unexpected(manager: int, info: int) -> str:
    """PostgreSQL's words for what it does not know."""
    return f"unexpected RM_{IDS.get(manager, manager)}_ID record type: {opcode_of(manager, info)}"
