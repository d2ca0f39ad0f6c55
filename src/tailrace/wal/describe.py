"""Records in words, in the shape of pg_waldump's lines: whose they are, how long, where, what they say, which blocks they name.

In: bytes of whole records. Out: `Described`. Resource managers that decoding reads are told field by field (layouts: the headers
named there); of the others, the opcode's number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.model import PG_EPOCH, Locator, Lsn
from tailrace.wal import heap, records, xact
from tailrace.wal.records import BLOCK_FIELDS, FIRST_BLOCK, MAIN, MAIN_LENGTH
from tailrace.wal.resource_managers import DBASE, HEAP, HEAP2, LOGICALMSG, RELMAP, SMGR, STANDBY, XACT, XLOG, name_of
from tailrace.wal.unaligned import number
from tailrace.wal.versions import WalFormat

_FORKS = ("main", "fsm", "vm", "init")
_HEAP = {
    0x00: "INSERT",
    0x10: "DELETE",
    0x20: "UPDATE",
    0x30: "TRUNCATE",
    0x40: "HOT_UPDATE",
    0x50: "HEAP_CONFIRM",
    0x60: "LOCK",
    0x70: "INPLACE",
}
_HEAP2 = {
    0x00: "REWRITE", 0x10: "PRUNE", 0x20: "VACUUM", 0x30: "FREEZE_PAGE", 0x40: "VISIBLE", 0x50: "MULTI_INSERT", 0x60: "LOCK_UPDATED",
    0x70: "NEW_CID",
}  # fmt: skip
_HEAP2_17 = _HEAP2 | {0x10: "PRUNE_ON_ACCESS", 0x20: "PRUNE_VACUUM_SCAN", 0x30: "PRUNE_VACUUM_CLEANUP"}
_XACT = {
    0x00: "COMMIT", 0x10: "PREPARE", 0x20: "ABORT", 0x30: "COMMIT_PREPARED", 0x40: "ABORT_PREPARED", 0x50: "ASSIGNMENT", 0x60: "INVALIDATION",
}  # fmt: skip
_XLOG = {
    0x00: "CHECKPOINT_SHUTDOWN", 0x10: "CHECKPOINT_ONLINE", 0x20: "NOOP", 0x30: "NEXTOID", 0x40: "SWITCH", 0x50: "BACKUP_END",
    0x60: "PARAMETER_CHANGE", 0x70: "RESTORE_POINT", 0x80: "FPW_CHANGE", 0x90: "END_OF_RECOVERY", 0xA0: "FPI_FOR_HINT", 0xB0: "FPI",
    0xD0: "OVERWRITE_CONTRECORD", 0xE0: "CHECKPOINT_REDO",
}  # fmt: skip
_STANDBY = {0x00: "LOCK", 0x10: "RUNNING_XACTS", 0x20: "INVALIDATIONS"}
_WAL_LEVELS = ("minimal", "replica", "logical")


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


class _Main:
    """A record's main data, read by offset."""

    def __init__(self, buf: NDArray[np.uint8], parsed: NDArray[np.int64], form: WalFormat) -> None:
        self.buf = buf
        self.parsed = parsed
        self.form = form
        self.at = int(parsed[MAIN])
        self.length = int(parsed[MAIN_LENGTH])

    def u(self, offset: int, width: int) -> int:
        return number(self.buf, self.at + offset, width)

    def lsn(self, offset: int) -> Lsn:
        return Lsn(self.u(offset, 8))

    def locator(self, offset: int) -> Locator:
        return Locator(self.u(offset, 4), self.u(offset + 4, 4), self.u(offset + 8, 4))

    def text(self, start: int, stop: int) -> str:
        return self.buf[self.at + start : self.at + stop].tobytes().split(b"\0")[0].decode(errors="replace")


def describe(buf: NDArray[np.uint8], at: int, length: int, lsn: int, form: WalFormat, parsed: NDArray[np.int64]) -> Described:
    """The record `buf[at : at + length]`; `parsed` is room for its headers."""
    records.parse(buf, at, length, form.image_compressed, parsed)
    manager, info = int(parsed[records.MANAGER]), int(parsed[records.INFO])
    names, tell = _TELLERS.get(manager, ({}, None))
    opcode = info & (0x70 if manager in (HEAP, HEAP2, XACT) else 0xF0)
    if manager == HEAP2 and form.major >= 17:
        names = _HEAP2_17
    if manager == DBASE:
        names = {form.dbase_create_wal_log: "CREATE_WAL_LOG", form.dbase_drop: "DROP", form.dbase_create_copy: _create_copy(form)}
    operation = names.get(opcode, f"0x{opcode:02X}")
    if manager in (HEAP, HEAP2) and info & heap.INIT_PAGE:
        operation += "+INIT"
    count = int(parsed[records.BLOCKS])
    blocks = [parsed[FIRST_BLOCK + i * BLOCK_FIELDS : FIRST_BLOCK + (i + 1) * BLOCK_FIELDS] for i in range(count)]
    files = tuple(Locator(int(b[records.TABLESPACE]), int(b[records.DATABASE]), int(b[records.NUMBER])) for b in blocks)
    return Described(
        manager=manager,
        xid=int(parsed[records.XID]),
        lsn=Lsn(lsn),
        previous=Lsn(number(buf, at + 8, 8)),
        length=length,
        images=sum(int(block[records.IMAGE_LENGTH]) for block in blocks if block[records.IMAGE]),
        operation=operation,
        fields=tell(opcode, _Main(buf, parsed, form)) if tell else "",
        blocks=tuple(_block(block, file) for block, file in zip(blocks, files, strict=True)),
        files=files,
    )


def _block(block: NDArray[np.int64], file: Locator) -> str:
    fork, image = int(block[records.FORK]), " FPW" if block[records.IMAGE] else ""
    named = f"{file} fork {_FORKS[fork]}" if fork else str(file)
    return f"blkref #{block[records.BLOCK_ID]}: rel {named} blk {block[records.BLOCK]}{image}"


def _padded(lsn: Lsn) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:08X}"


def _time(microseconds: int) -> str:
    signed = microseconds - (1 << 64) if microseconds >> 63 else microseconds
    return f"{PG_EPOCH + timedelta(microseconds=signed):%Y-%m-%d %H:%M:%S.%f} UTC"


def _heap(opcode: int, main: _Main) -> str:
    if opcode == heap.INSERT:
        return f"off: {main.u(0, 2)}, flags: 0x{main.u(2, 1):02X}"
    if opcode == heap.DELETE:
        return f"xmax: {main.u(0, 4)}, off: {main.u(4, 2)}, infobits: 0x{main.u(6, 1):02X}, flags: 0x{main.u(7, 1):02X}"
    if opcode in (heap.UPDATE, heap.HOT_UPDATE):
        return (
            f"old_xmax: {main.u(0, 4)}, old_off: {main.u(4, 2)}, old_infobits: 0x{main.u(6, 1):02X}, flags: 0x{main.u(7, 1):02X}, "
            f"new_xmax: {main.u(8, 4)}, new_off: {main.u(12, 2)}"
        )
    if opcode == heap.TRUNCATE:
        relations = ", ".join(str(main.u(12 + 4 * i, 4)) for i in range(main.u(4, 4)))
        return f"db: {main.u(0, 4)}, flags: 0x{main.u(8, 1):02X}, nrelids: {main.u(4, 4)}, relids: [{relations}]"
    if opcode == heap.LOCK:
        return _lock(main)
    return f"off: {main.u(0, 2)}"


def _lock(main: _Main) -> str:
    """xl_heap_lock and xl_heap_lock_updated are laid out alike."""
    return f"xmax: {main.u(0, 4)}, off: {main.u(4, 2)}, infobits: 0x{main.u(6, 1):02X}, flags: 0x{main.u(7, 1):02X}"


def _heap2(opcode: int, main: _Main) -> str:
    if opcode == heap.MULTI_INSERT:
        return f"ntuples: {main.u(2, 2)}, flags: 0x{main.u(0, 1):02X}"
    if opcode == heap.NEW_CID:
        tid = f"{main.u(28, 2) << 16 | main.u(30, 2)}/{main.u(32, 2)}"
        return f"rel: {main.locator(16)}, tid: {tid}, cmin: {main.u(4, 4)}, cmax: {main.u(8, 4)}, combo: {main.u(12, 4)}"
    if opcode == heap.VISIBLE:
        return f"horizon: {main.u(0, 4)}, flags: 0x{main.u(4, 1):02X}"
    if opcode == heap.LOCK_UPDATED:
        return _lock(main)
    if opcode == heap.REWRITE:
        return f"xid: {main.u(0, 4)}, db: {main.u(4, 4)}, rel: {main.u(8, 4)}, mappings: {main.u(24, 4)}"
    if main.form.major >= 17:
        return f"flags: 0x{main.u(1, 1):02X}"
    if opcode == heap.PRUNE:
        return f"horizon: {main.u(0, 4)}, nredirected: {main.u(4, 2)}, ndead: {main.u(6, 2)}"
    if opcode == heap.VACUUM:
        return f"nunused: {main.u(0, 2)}"
    return f"horizon: {main.u(0, 4)}, {'nplans' if main.form.major >= 16 else 'ntuples'}: {main.u(4, 2)}"


def _xact(opcode: int, main: _Main) -> str:
    if opcode == xact.INVALIDATIONS:
        return f"messages: {main.u(0, 4)}"
    if opcode == xact.ASSIGNMENT:
        return f"xtop: {main.u(0, 4)}, subxacts: {' '.join(str(main.u(8 + 4 * i, 4)) for i in range(main.u(4, 4)))}"
    end = np.zeros(xact.E_FIELDS, np.int64)
    xact.parse_end(main.buf, main.parsed, main.form.stats_item, main.form.prepare_header, end)
    facts = end.tolist()
    said = [_time(facts[xact.E_TIME])]
    if facts[xact.E_XID] != main.parsed[records.XID]:
        said.append(f"xid {facts[xact.E_XID]}")
    if facts[xact.E_GID_LENGTH]:
        gid = main.buf[facts[xact.E_GID] : facts[xact.E_GID] + facts[xact.E_GID_LENGTH]].tobytes().decode(errors="replace")
        said.append(f"gid {gid}")
    if facts[xact.E_SUBXACT_COUNT]:
        xids = (number(main.buf, facts[xact.E_SUBXACTS] + 4 * i, 4) for i in range(facts[xact.E_SUBXACT_COUNT]))
        said.append(f"subxacts: {' '.join(map(str, xids))}")
    if facts[xact.E_INVALIDATION_COUNT]:
        said.append(f"inval msgs: {facts[xact.E_INVALIDATION_COUNT]}")
    if main.parsed[records.ORIGIN]:
        said.append(
            f"origin: node {main.parsed[records.ORIGIN]}, lsn {Lsn(facts[xact.E_ORIGIN_LSN])}, at {_time(facts[xact.E_ORIGIN_TIME])}"
        )
    return "; ".join(said)


def _xlog(opcode: int, main: _Main) -> str:
    if opcode <= 0x10:
        return (
            f"redo {main.lsn(0)}; tli {main.u(8, 4)}; prev tli {main.u(12, 4)}; fpw {'true' if main.u(16, 1) else 'false'}; "
            f"xid {main.u(28, 4)}:{main.u(24, 4)}; oid {main.u(32, 4)}; {'shutdown' if opcode == 0 else 'online'}"
        )
    if opcode == 0x30:
        return str(main.u(0, 4))
    if opcode == 0x50:
        return str(main.lsn(0))
    if opcode == 0x60:
        level = main.u(20, 4)
        return f"max_connections={main.u(0, 4)} wal_level={_WAL_LEVELS[level] if level < len(_WAL_LEVELS) else level}"
    if opcode == 0x70:
        return main.text(8, 72)
    if opcode == 0x80:
        return "true" if main.u(0, 1) else "false"
    if opcode == 0x90:
        return f"tli {main.u(8, 4)}; prev tli {main.u(12, 4)}; time {_time(main.u(0, 8))}"
    if opcode == 0xD0:
        return f"lsn {main.lsn(0)}; time {_time(main.u(8, 8))}"
    return ""


def _standby(opcode: int, main: _Main) -> str:
    if opcode == 0x00:
        locks = (4 + 12 * i for i in range(main.u(0, 4)))
        return " ".join(f"xid {main.u(at, 4)} db {main.u(at + 4, 4)} rel {main.u(at + 8, 4)}" for at in locks)
    if opcode == 0x10:
        count = main.u(0, 4) + main.u(4, 4)
        said = f"nextXid {main.u(12, 4)} latestCompletedXid {main.u(20, 4)} oldestRunningXid {main.u(16, 4)}"
        running = " ".join(str(main.u(24 + 4 * i, 4)) for i in range(count))
        return f"{said}; {count} xacts: {running}" if count else said
    return f"db {main.u(0, 4)}; messages: {main.u(12, 4)}"


def _smgr(opcode: int, main: _Main) -> str:
    if opcode == 0x10:
        return f"{main.locator(0)} fork {_FORKS[main.u(12, 4)]}"
    return f"{main.locator(4)} to {main.u(0, 4)} blocks flags {main.u(16, 4)}"


def _dbase(opcode: int, main: _Main) -> str:
    if opcode == main.form.dbase_create_copy:
        return f"copy dir {main.u(12, 4)}/{main.u(8, 4)} to {main.u(4, 4)}/{main.u(0, 4)}"
    if opcode == main.form.dbase_create_wal_log:
        return f"create dir {main.u(4, 4)}/{main.u(0, 4)}"
    return f"dir of database {main.u(0, 4)}"


def _create_copy(form: WalFormat) -> str:
    """There was one way to create a database until 14."""
    return "CREATE" if form.dbase_create_wal_log < 0 else "CREATE_FILE_COPY"


def _message(_: int, main: _Main) -> str:
    prefix, size = main.u(8, 8), main.u(16, 8)
    kind = "transactional" if main.u(4, 1) else "non-transactional"
    return f'{kind}, prefix "{main.text(24, 24 + prefix)}"; payload ({size} bytes), database {main.u(0, 4)}'


def _relmap(_: int, main: _Main) -> str:
    return f"database {main.u(0, 4)} tablespace {main.u(4, 4)} size {main.u(8, 4)}"


_TELLERS: dict[int, tuple[dict[int, str], Callable[[int, _Main], str]]] = {
    XLOG: (_XLOG, _xlog),
    XACT: (_XACT, _xact),
    SMGR: ({0x10: "CREATE", 0x20: "TRUNCATE"}, _smgr),
    DBASE: ({}, _dbase),
    RELMAP: ({0x00: "UPDATE"}, _relmap),
    STANDBY: (_STANDBY, _standby),
    HEAP2: (_HEAP2, _heap2),
    HEAP: (_HEAP, _heap),
    LOGICALMSG: ({0x00: "MESSAGE"}, _message),
}
