"""What every opcode of every resource manager means for us, by major, and what is not known, which is an error. A manager's own file has the table
of its opcodes (RECORD_TYPES).

PostgreSQL's decoding stops at an opcode that it does not know of a manager that it decodes, and passes over all records of the others
(`replication/logical/decode.c`). So do we; and since catalogs are replayed here from the log alone, the managers that make, move and cut files are as
strict as PostgreSQL's recovery is (`smgr_redo`, `dbase_redo`, `relmap_redo`).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from tailrace.majors import Compared
from tailrace.wal import dbase, heap, heap_records, logicalmsg, record_header, relmap, smgr, standby, xact, xlog
from tailrace.wal.record_types import Meaning, RecordType, types_of
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

RECORD_TYPES = {
    XLOG: xlog.RECORD_TYPES,
    XACT: xact.RECORD_TYPES,
    SMGR: smgr.RECORD_TYPES,
    DBASE: dbase.RECORD_TYPES,
    RELMAP: relmap.RECORD_TYPES,
    STANDBY: standby.RECORD_TYPES,
    HEAP2: heap.HEAP2_RECORD_TYPES,
    HEAP: heap.RECORD_TYPES,
    LOGICALMSG: logicalmsg.RECORD_TYPES,
}
_MASKS = {XACT: xact.OPCODE, HEAP: heap.OPCODE, HEAP2: heap.OPCODE}
"""Of these the uppermost bit says something else; all four bits of the others are the opcode."""
IDS = {
    XLOG: "XLOG", XACT: "XACT", SMGR: "SMGR", DBASE: "DBASE", RELMAP: "RELMAP", STANDBY: "STANDBY", HEAP2: "HEAP2", HEAP: "HEAP",
    LOGICALMSG: "LOGICALMSG",
}  # fmt: skip
"""The managers of which not all opcodes are known, by their names in `access/rmgrlist.h` (RM_…_ID)."""

_NO_RECORD = -1


@cache
def _known(major: int) -> dict[int, dict[int, RecordType]]:
    for compared in (COMPARED, record_header.COMPARED, heap_records.COMPARED):  # whose structs kernels read by numbers
        compared.check(major)
    return {manager: types_of(major, types) for manager, types in RECORD_TYPES.items()}


def opcode_of(manager: int, info: int) -> int:
    """The opcode in a record's xl_info."""
    return info & _MASKS.get(manager, 0xF0)


def type_of(major: int, manager: int, info: int) -> RecordType | None:
    """Of which type a record with this xl_info is; nothing for what is not known, and for managers that are passed over."""
    return _known(major).get(manager, {}).get(opcode_of(manager, info))


def meaning_of(major: int, manager: int, info: int) -> Meaning:
    """What records with this xl_info mean. Of managers that PostgreSQL does not decode, and of extensions' own, all are passed over."""
    if manager in IGNORED or (manager >= FIRST_CUSTOM and FORMATS[major].custom_resource_managers):
        return Meaning.PASSED_OVER
    known = type_of(major, manager, info)
    return known.meaning if known else Meaning.UNKNOWN


@cache
def requirements(major: int) -> NDArray[np.int16]:
    """What a kernel asks of a record before it reads it: by manager and upper four bits of xl_info, one number, which
    `records.required` finds and `records.is_long_enough` understands."""
    table = np.full(MANAGERS * OPCODES, _NO_RECORD, np.int16)
    for manager in range(MANAGERS):
        for upper in range(OPCODES):
            if meaning_of(major, manager, upper << 4) != Meaning.UNKNOWN:
                known = type_of(major, manager, upper << 4)
                table[manager * OPCODES + upper] = known.least if known else 0
    return table


def named(manager: int, info: int) -> str:
    """A kind of record in words."""
    return f"RM_{IDS.get(manager, manager)}_ID (type {opcode_of(manager, info)})"


def unexpected(manager: int, info: int) -> str:
    """PostgreSQL's words for what it does not know."""
    return f"unexpected RM_{IDS.get(manager, manager)}_ID record type: {opcode_of(manager, info)}"
