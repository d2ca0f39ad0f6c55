"""Records in words, in the shape of pg_waldump's lines: whose they are, how long, where, what they say, which blocks they name.

In: bytes of whole records. Out: `Described`. What resource managers that decoding reads have to say is told field by field; of the others, the
opcode's number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.majors import PRUNE_FREEZE_RECORDS, supports
from tailrace.model import PG_EPOCH, Locator, Lsn
from tailrace.wal import dbase, heap, heap_records, logicalmsg, records, relmap, smgr, standby, xact, xlog
from tailrace.wal.record_header import RecordHeader
from tailrace.wal.records import BLOCK_FIELDS, FIRST_BLOCK, MAIN, MAIN_LENGTH
from tailrace.wal.resource_managers import DBASE, HEAP, HEAP2, LOGICALMSG, RELMAP, SMGR, STANDBY, XACT, XLOG, name_of
from tailrace.wal.versions import FORMATS, WalFormat

_FORKS = ("main", "fsm", "vm", "init")


class _Kind(NamedTuple):
    """What records of one opcode are called, how their data are read, and told."""

    name: str
    record: Any = None
    words: Callable[[Any], str] | None = None


@dataclass(frozen=True, slots=True)
class Described:
    """One record. `images` are the bytes of its page images, which pg_waldump does not count into a record's own length."""

    manager: int
    xid: int
    lsn: Lsn
    previous: Lsn
    length: int
    images: int
    operation: str
    fields: str
    blocks: tuple[str, ...]
    files: tuple[Locator, ...]

    def __str__(self) -> str:
        said = f"{self.operation} {self.fields}".rstrip() + "".join(f", {block}" for block in self.blocks)
        return (
            f"rmgr: {name_of(self.manager):<11} len (rec/tot): {self.length - self.images:6}/{self.length:6}, tx: {self.xid:10}, "
            f"lsn: {_padded(self.lsn)}, prev {_padded(self.previous)}, desc: {said}"
        )

    def as_dict(self) -> dict[str, Any]:
        """The same as a JSON object; positions and files as PostgreSQL prints them."""
        return {
            "lsn": str(self.lsn), "prev": str(self.previous), "rmgr": name_of(self.manager), "xid": self.xid, "length": self.length,
            "record_length": self.length - self.images, "operation": self.operation, "fields": self.fields,
            "blocks": list(self.blocks), "files": [str(file) for file in self.files],
        }  # fmt: skip


def describe(buf: NDArray[np.uint8], at: int, length: int, lsn: int, form: WalFormat, parsed: NDArray[np.int64]) -> Described:
    """The record `buf[at : at + length]`; `parsed` is room for its headers. Raises CorruptWal if its data are too short for what it is."""
    records.parse(buf, at, length, form.image_compressed, parsed)
    header = RecordHeader.read(buf[at : at + length].tobytes(), form.major)
    kinds, mask = _kinds(form.major).get(header.manager, ({}, 0xF0))
    opcode = header.info & mask
    kind = kinds.get(opcode, _Kind(f"0x{opcode:02X}"))
    init = "+INIT" if header.manager in (HEAP, HEAP2) and header.info & heap.INIT_PAGE else ""
    count = int(parsed[records.BLOCKS])
    blocks = [parsed[FIRST_BLOCK + i * BLOCK_FIELDS : FIRST_BLOCK + (i + 1) * BLOCK_FIELDS] for i in range(count)]
    files = tuple(Locator(int(b[records.TABLESPACE]), int(b[records.DATABASE]), int(b[records.NUMBER])) for b in blocks)
    return Described(
        manager=header.manager,
        xid=header.xid,
        lsn=Lsn(lsn),
        previous=header.previous,
        length=length,
        images=sum(int(block[records.IMAGE_LENGTH]) for block in blocks if block[records.IMAGE]),
        operation=kind.name + init,
        fields=_fields(kind, buf, parsed, form),
        blocks=tuple(_block(block, file) for block, file in zip(blocks, files, strict=True)),
        files=files,
    )


def _fields(kind: _Kind, buf: NDArray[np.uint8], parsed: NDArray[np.int64], form: WalFormat) -> str:
    if kind.words is None:
        return ""
    if kind.record is xact.End:
        return kind.words(xact.read_end(buf, parsed, form))
    main = int(parsed[MAIN])
    return kind.words(kind.record.read(buf[main : main + int(parsed[MAIN_LENGTH])].tobytes(), form.major))


def _block(block: NDArray[np.int64], file: Locator) -> str:
    fork, image = int(block[records.FORK]), " FPW" if block[records.IMAGE] else ""
    named = f"{file} fork {_FORKS[fork]}" if fork else str(file)
    return f"blkref #{block[records.BLOCK_ID]}: rel {named} blk {block[records.BLOCK]}{image}"


def _padded(lsn: Lsn) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:08X}"


def _time(microseconds: int) -> str:
    return f"{PG_EPOCH + timedelta(microseconds=microseconds):%Y-%m-%d %H:%M:%S.%f} UTC"


def _text(name: bytes) -> str:
    return name.split(b"\0")[0].decode(errors="replace")


def _listed(numbers: Iterable[int], between: str = " ") -> str:
    return between.join(map(str, numbers))


# -- XLOG ----------------------------------------------------------------------------------------------------------------------


def _checkpoint(says: xlog.Checkpoint) -> str:
    return (
        f"redo {says.redo}; tli {says.timeline}; prev tli {says.previous_timeline}; fpw {_true(says.full_page_writes)}; "
        f"xid {says.next_xid >> 32}:{says.next_xid & 0xFFFFFFFF}; oid {says.next_oid}"
    )


def _true(flag: bool) -> str:
    return "true" if flag else "false"


def _parameter_change(says: xlog.ParameterChange) -> str:
    level = xlog.WAL_LEVELS[says.wal_level] if 0 <= says.wal_level < len(xlog.WAL_LEVELS) else says.wal_level
    return f"max_connections={says.max_connections} wal_level={level}"


def _end_of_recovery(says: xlog.EndOfRecovery) -> str:
    return f"tli {says.timeline}; prev tli {says.previous_timeline}; time {_time(says.time)}"


_XLOG = {
    xlog.CHECKPOINT_SHUTDOWN: _Kind("CHECKPOINT_SHUTDOWN", xlog.Checkpoint, lambda says: f"{_checkpoint(says)}; shutdown"),
    xlog.CHECKPOINT_ONLINE: _Kind("CHECKPOINT_ONLINE", xlog.Checkpoint, lambda says: f"{_checkpoint(says)}; online"),
    xlog.NOOP: _Kind("NOOP"),
    xlog.NEXTOID: _Kind("NEXTOID", xlog.NextOid, lambda says: str(says.next_oid)),
    xlog.SWITCH: _Kind("SWITCH"),
    xlog.BACKUP_END: _Kind("BACKUP_END", xlog.BackupEnd, lambda says: str(says.start)),
    xlog.PARAMETER_CHANGE: _Kind("PARAMETER_CHANGE", xlog.ParameterChange, _parameter_change),
    xlog.RESTORE_POINT: _Kind("RESTORE_POINT", xlog.RestorePoint, lambda says: _text(says.name)),
    xlog.FPW_CHANGE: _Kind("FPW_CHANGE", xlog.FullPageWritesChange, lambda says: _true(says.full_page_writes)),
    xlog.END_OF_RECOVERY: _Kind("END_OF_RECOVERY", xlog.EndOfRecovery, _end_of_recovery),
    xlog.FPI_FOR_HINT: _Kind("FPI_FOR_HINT"),
    xlog.FPI: _Kind("FPI"),
    xlog.OVERWRITE_CONTRECORD: _Kind(
        "OVERWRITE_CONTRECORD", xlog.OverwriteContrecord, lambda says: f"lsn {says.overwritten}; time {_time(says.time)}"
    ),
    xlog.CHECKPOINT_REDO: _Kind("CHECKPOINT_REDO"),
}


# -- Transaction ---------------------------------------------------------------------------------------------------------------


def _end(says: xact.End) -> str:
    words = [_time(says.time)]
    if says.kind in (xact.COMMIT_PREPARED, xact.ABORT_PREPARED):
        words.append(f"xid {says.xid}")
    if says.gid:
        words.append(f"gid {says.gid.decode(errors='replace')}")
    if says.subxids:
        words.append(f"subxacts: {_listed(says.subxids)}")
    if says.invalidations:
        words.append(f"inval msgs: {says.invalidations}")
    if says.origin:
        words.append(f"origin: node {says.origin}, lsn {says.origin_lsn}, at {_time(says.origin_time)}")
    return "; ".join(words)


_XACT = {
    xact.COMMIT: _Kind("COMMIT", xact.End, _end),
    xact.PREPARE: _Kind("PREPARE", xact.End, _end),
    xact.ABORT: _Kind("ABORT", xact.End, _end),
    xact.COMMIT_PREPARED: _Kind("COMMIT_PREPARED", xact.End, _end),
    xact.ABORT_PREPARED: _Kind("ABORT_PREPARED", xact.End, _end),
    xact.ASSIGNMENT: _Kind(
        "ASSIGNMENT", xact.Assignment, lambda says: f"xtop: {says.top_xid}, subxacts: {_listed(says.subxids)}"
    ),
    xact.INVALIDATIONS: _Kind("INVALIDATION", xact.XactInvalidations, lambda says: f"messages: {says.count}"),
}


# -- Storage, Database, RelMap, Standby, LogicalMessage ------------------------------------------------------------------------


def _truncate_storage(says: smgr.StorageTruncate) -> str:
    return f"{says.locator} to {says.blocks} blocks flags {says.flags}"


def _file_copy(says: dbase.CreateDatabaseFileCopy) -> str:
    return f"copy dir {says.source_tablespace}/{says.source_database} to {says.tablespace}/{says.database}"


def _wal_log(says: dbase.CreateDatabaseWalLog) -> str:
    return f"create dir {says.tablespace}/{says.database}"


def _drop(says: dbase.DropDatabase) -> str:
    return f"dir of database {says.database}"


def _running_xacts(says: standby.RunningXacts) -> str:
    words = f"nextXid {says.next_xid} latestCompletedXid {says.latest_completed_xid} oldestRunningXid {says.oldest_running_xid}"
    return f"{words}; {len(says.xids)} xacts: {_listed(says.xids)}" if len(says.xids) else words


def _locks(says: standby.StandbyLocks) -> str:
    return " ".join(f"xid {xid} db {database} rel {relation}" for xid, database, relation in says.locks)


def _message(says: logicalmsg.MessageRecord) -> str:
    kind = "transactional" if says.transactional else "non-transactional"
    return f'{kind}, prefix "{_text(says.prefix)}"; payload ({len(says.content)} bytes), database {says.database}'


_SMGR = {
    smgr.CREATE: _Kind("CREATE", smgr.StorageCreate, lambda says: f"{says.locator} fork {_FORKS[says.fork]}"),
    smgr.TRUNCATE: _Kind("TRUNCATE", smgr.StorageTruncate, _truncate_storage),
}
_RELMAP = {
    relmap.UPDATE: _Kind(
        "UPDATE", relmap.RelationMapUpdate,
        lambda says: f"database {says.database} tablespace {says.tablespace} size {len(says.map)}",
    )
}  # fmt: skip
_STANDBY = {
    standby.LOCK: _Kind("LOCK", standby.StandbyLocks, _locks),
    standby.RUNNING_XACTS: _Kind("RUNNING_XACTS", standby.RunningXacts, _running_xacts),
    standby.INVALIDATIONS: _Kind(
        "INVALIDATIONS", standby.StandbyInvalidations, lambda says: f"db {says.database}; messages: {says.count}"
    ),
}
_LOGICALMSG = {logicalmsg.MESSAGE: _Kind("MESSAGE", logicalmsg.MessageRecord, _message)}


def _dbase(form: WalFormat) -> dict[int, _Kind]:
    """There was one way to create a database until 14."""
    create = "CREATE" if form.dbase_create_wal_log < 0 else "CREATE_FILE_COPY"
    return {
        form.dbase_create_wal_log: _Kind("CREATE_WAL_LOG", dbase.CreateDatabaseWalLog, _wal_log),
        form.dbase_drop: _Kind("DROP", dbase.DropDatabase, _drop),
        form.dbase_create_copy: _Kind(create, dbase.CreateDatabaseFileCopy, _file_copy),
    }


# -- Heap, Heap2 ---------------------------------------------------------------------------------------------------------------


def _update(says: heap_records.HeapUpdate) -> str:
    return (
        f"old_xmax: {says.old_xmax}, old_off: {says.old_offnum}, old_infobits: 0x{says.old_infobits:02X}, flags: 0x{says.flags:02X}, "
        f"new_xmax: {says.new_xmax}, new_off: {says.new_offnum}"
    )


def _truncate(says: heap_records.HeapTruncate) -> str:
    return f"db: {says.database}, flags: 0x{says.flags:02X}, nrelids: {len(says.relids)}, relids: [{_listed(says.relids, ', ')}]"


def _delete_or_lock(says: heap_records.HeapDelete | heap_records.Lock) -> str:
    return f"xmax: {says.xmax}, off: {says.offnum}, infobits: 0x{says.infobits:02X}, flags: 0x{says.flags:02X}"


def _rewrite(says: heap_records.Rewrite) -> str:
    return f"xid: {says.mapped_xid}, db: {says.mapped_db}, rel: {says.mapped_rel}, mappings: {says.num_mappings}"


def _prune(says: heap_records.Prune) -> str:
    return f"horizon: {says.horizon}, nredirected: {says.nredirected}, ndead: {says.ndead}"


def _freeze_page(says: heap_records.FreezePage) -> str:
    many = f"ntuples: {says.ntuples}" if says.nplans is None else f"nplans: {says.nplans}"
    return f"horizon: {says.horizon}, {many}"


def _new_cid(says: heap_records.NewCid) -> str:
    return f"rel: {says.locator}, tid: {says.block}/{says.offnum}, cmin: {says.cmin}, cmax: {says.cmax}, combo: {says.combocid}"


def _offnum(says: heap_records.Confirm | heap_records.Inplace) -> str:
    return f"off: {says.offnum}"


def _flags(says: heap_records.PruneFreeze) -> str:
    return f"flags: 0x{says.flags:02X}"


_HEAP = {
    heap.INSERT: _Kind("INSERT", heap_records.HeapInsert, lambda says: f"off: {says.offnum}, flags: 0x{says.flags:02X}"),
    heap.DELETE: _Kind("DELETE", heap_records.HeapDelete, _delete_or_lock),
    heap.UPDATE: _Kind("UPDATE", heap_records.HeapUpdate, _update),
    heap.TRUNCATE: _Kind("TRUNCATE", heap_records.HeapTruncate, _truncate),
    heap.HOT_UPDATE: _Kind("HOT_UPDATE", heap_records.HeapUpdate, _update),
    heap.CONFIRM: _Kind("HEAP_CONFIRM", heap_records.Confirm, _offnum),
    heap.LOCK: _Kind("LOCK", heap_records.Lock, _delete_or_lock),
    heap.INPLACE: _Kind("INPLACE", heap_records.Inplace, _offnum),
}
_HEAP2_IN_ALL = {
    heap.REWRITE: _Kind("REWRITE", heap_records.Rewrite, _rewrite),
    heap.VISIBLE: _Kind("VISIBLE", heap_records.Visible, lambda says: f"horizon: {says.horizon}, flags: 0x{says.flags:02X}"),
    heap.MULTI_INSERT: _Kind(
        "MULTI_INSERT", heap_records.MultiInsert, lambda says: f"ntuples: {says.ntuples}, flags: 0x{says.flags:02X}"
    ),
    heap.LOCK_UPDATED: _Kind("LOCK_UPDATED", heap_records.Lock, _delete_or_lock),
    heap.NEW_CID: _Kind("NEW_CID", heap_records.NewCid, _new_cid),
}
_HEAP2_UNTIL_16 = _HEAP2_IN_ALL | {
    heap.PRUNE: _Kind("PRUNE", heap_records.Prune, _prune),
    heap.VACUUM: _Kind("VACUUM", heap_records.Vacuum, lambda says: f"nunused: {says.nunused}"),
    heap.FREEZE_PAGE: _Kind("FREEZE_PAGE", heap_records.FreezePage, _freeze_page),
}
_HEAP2 = _HEAP2_IN_ALL | {
    heap.PRUNE: _Kind("PRUNE_ON_ACCESS", heap_records.PruneFreeze, _flags),
    heap.VACUUM: _Kind("PRUNE_VACUUM_SCAN", heap_records.PruneFreeze, _flags),
    heap.FREEZE_PAGE: _Kind("PRUNE_VACUUM_CLEANUP", heap_records.PruneFreeze, _flags),
}


@cache
def _kinds(major: int) -> dict[int, tuple[dict[int, _Kind], int]]:
    """By resource manager: its kinds of records by opcode, and which bits of xl_info are the opcode."""
    return {
        XLOG: (_XLOG, xlog.OPCODE),
        XACT: (_XACT, xact.OPCODE),
        SMGR: (_SMGR, smgr.OPCODE),
        DBASE: (_dbase(FORMATS[major]), dbase.OPCODE),
        RELMAP: (_RELMAP, relmap.OPCODE),
        STANDBY: (_STANDBY, standby.OPCODE),
        HEAP2: (_HEAP2 if supports(major, PRUNE_FREEZE_RECORDS) else _HEAP2_UNTIL_16, heap.OPCODE),
        HEAP: (_HEAP, heap.OPCODE),
        LOGICALMSG: (_LOGICALMSG, logicalmsg.OPCODE),
    }
