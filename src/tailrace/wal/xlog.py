"""Records of the XLOG resource manager (`catalog/pg_control.h`, `access/xlog_internal.h`), both ways: checkpoints, and what changes for the whole
cluster at a moment of the log."""

from __future__ import annotations

from typing import Annotated

from tailrace.dataclass import dataclass
from tailrace.majors import Compared
from tailrace.model import Lsn
from tailrace.wal.record_types import DECODED, PASSED_OVER, REPLAYED, RecordType, desc_name, desc_time
from tailrace.wal.structs import BOOL, I32, I64, LSN, U32, U64, Bool, Int32, Int64, Layout, Struct, Uint32, XLogRecPtr, chars

COMPARED = Compared(__name__, "catalog/pg_control.h and access/xlog_internal.h", upto=18)
OPCODE = 0xF0
CHECKPOINT_SHUTDOWN = 0x00
CHECKPOINT_ONLINE = 0x10
NOOP = 0x20
NEXTOID = 0x30
SWITCH = 0x40
BACKUP_END = 0x50
PARAMETER_CHANGE = 0x60
RESTORE_POINT = 0x70
FPW_CHANGE = 0x80
END_OF_RECOVERY = 0x90
FPI_FOR_HINT = 0xA0
FPI = 0xB0
OVERWRITE_CONTRECORD = 0xD0
CHECKPOINT_REDO = 0xE0

WAL_LEVELS = ("minimal", "replica", "logical")
LOGICAL = 2

_BEGINNING_OF_CHECKPOINT = {"redo": LSN, "timeline": U32, "previous_timeline": U32, "full_page_writes": BOOL}
_REST_OF_CHECKPOINT = {
    "next_xid": U64, "next_oid": U32, "next_multixact": U32, "next_multixact_offset": U32, "oldest_xid": U32, "oldest_xid_database": U32,
    "oldest_multixact": U32, "oldest_multixact_database": U32, "time": I64, "oldest_commit_ts_xid": U32, "newest_commit_ts_xid": U32,
    "oldest_active_xid": U32,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Checkpoint(Struct):
    """CheckPoint, of shutdown and online checkpoints, and in pg_control. Recovery begins at `redo`; `next_xid`, with its epoch, was the next there.
    `time` counts seconds since 1970."""

    LAYOUTS = COMPARED.table(
        {
            14: Layout(_BEGINNING_OF_CHECKPOINT | _REST_OF_CHECKPOINT, padded=True),
            17: Layout(_BEGINNING_OF_CHECKPOINT | {"wal_level": I32} | _REST_OF_CHECKPOINT, padded=True),
        }
    )

    redo: Lsn
    timeline: int
    previous_timeline: int
    full_page_writes: bool
    next_xid: int
    next_oid: int
    next_multixact: int
    next_multixact_offset: int
    oldest_xid: int
    oldest_xid_database: int
    oldest_multixact: int
    oldest_multixact_database: int
    time: int
    oldest_commit_ts_xid: int
    newest_commit_ts_xid: int
    oldest_active_xid: int
    wal_level: int | None = None

    def desc(self) -> str:
        return (
            f"redo {self.redo}; tli {self.timeline}; prev tli {self.previous_timeline}; fpw {_true(self.full_page_writes)}; "
            f"xid {self.next_xid >> 32}:{self.next_xid & 0xFFFFFFFF}; oid {self.next_oid}"
        )


@dataclass(frozen=True, slots=True)
class NextOid(Struct, compared=COMPARED):
    """XLOG_NEXTOID: oids up to here may have been given out."""

    next_oid: Uint32

    def desc(self) -> str:
        return str(self.next_oid)


@dataclass(frozen=True, slots=True)
class BackupEnd(Struct, compared=COMPARED):
    """XLOG_BACKUP_END: a base backup that began at `start` is consistent from here on."""

    start: XLogRecPtr

    def desc(self) -> str:
        return str(self.start)


@dataclass(frozen=True, slots=True)
class ParameterChange(Struct, compared=COMPARED, padded=True):
    """xl_parameter_change: what was set when the server started, where it was not so before."""

    max_connections: Int32
    max_worker_processes: Int32
    max_wal_senders: Int32
    max_prepared_xacts: Int32
    max_locks_per_xact: Int32
    wal_level: Int32
    wal_log_hints: Bool = False
    track_commit_timestamp: Bool = False

    def desc(self) -> str:
        level = WAL_LEVELS[self.wal_level] if 0 <= self.wal_level < len(WAL_LEVELS) else self.wal_level
        return f"max_connections={self.max_connections} wal_level={level}"


@dataclass(frozen=True, slots=True)
class RestorePoint(Struct, compared=COMPARED):
    """xl_restore_point. `time` counts microseconds since PG_EPOCH; `name` ends with the first zero."""

    time: Int64
    name: Annotated[bytes, chars(64)]

    def desc(self) -> str:
        return desc_name(self.name)


@dataclass(frozen=True, slots=True)
class FullPageWritesChange(Struct, compared=COMPARED):
    """XLOG_FPW_CHANGE"""

    full_page_writes: Bool

    def desc(self) -> str:
        return _true(self.full_page_writes)


@dataclass(frozen=True, slots=True)
class EndOfRecovery(Struct):
    """xl_end_of_recovery: a promotion to `timeline`; what was open then has no end but this. `time` counts microseconds since PG_EPOCH."""

    LAYOUTS = COMPARED.table(
        {
            14: Layout({"time": I64, "timeline": U32, "previous_timeline": U32}, padded=True),
            17: Layout({"time": I64, "timeline": U32, "previous_timeline": U32, "wal_level": I32}, padded=True),
        }
    )

    time: int
    timeline: int
    previous_timeline: int
    wal_level: int | None = None

    def desc(self) -> str:
        return f"tli {self.timeline}; prev tli {self.previous_timeline}; time {desc_time(self.time)}"


@dataclass(frozen=True, slots=True)
class OverwriteContrecord(Struct, compared=COMPARED):
    """xl_overwrite_contrecord: the record at `overwritten` was cut off by a crash. `time` counts microseconds since PG_EPOCH."""

    overwritten: XLogRecPtr
    time: Int64

    def desc(self) -> str:
        return f"lsn {self.overwritten}; time {desc_time(self.time)}"


def _true(flag: bool) -> str:
    return "true" if flag else "false"


RECORD_TYPES = (
    RecordType(CHECKPOINT_SHUTDOWN, "CHECKPOINT_SHUTDOWN", DECODED, Checkpoint, "; shutdown"),
    RecordType(CHECKPOINT_ONLINE, "CHECKPOINT_ONLINE", DECODED, Checkpoint, "; online"),
    RecordType(NOOP, "NOOP", PASSED_OVER),
    RecordType(NEXTOID, "NEXTOID", PASSED_OVER, NextOid),
    RecordType(SWITCH, "SWITCH", PASSED_OVER),  # framing goes on in the next segment
    RecordType(BACKUP_END, "BACKUP_END", PASSED_OVER, BackupEnd),
    RecordType(PARAMETER_CHANGE, "PARAMETER_CHANGE", DECODED, ParameterChange),
    RecordType(RESTORE_POINT, "RESTORE_POINT", PASSED_OVER, RestorePoint),
    RecordType(FPW_CHANGE, "FPW_CHANGE", DECODED, FullPageWritesChange),
    RecordType(END_OF_RECOVERY, "END_OF_RECOVERY", DECODED, EndOfRecovery),
    RecordType(FPI_FOR_HINT, "FPI_FOR_HINT", REPLAYED),
    RecordType(FPI, "FPI", REPLAYED),
    RecordType(OVERWRITE_CONTRECORD, "OVERWRITE_CONTRECORD", DECODED, OverwriteContrecord),
    RecordType(CHECKPOINT_REDO, "CHECKPOINT_REDO", PASSED_OVER, majors="17-"),
)
