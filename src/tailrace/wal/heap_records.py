"""What records of HEAP and HEAP2 say ahead of their tuples (`access/heapam_xlog.h`), both ways. Opcodes and flags: :mod:`tailrace.wal.heap`.

An offnum is the number of a row within its page (OffsetNumber); xids are 32 bits wide.
"""

from __future__ import annotations

from typing import ClassVar

from tailrace.dataclass import dataclass
from tailrace.majors import Compared
from tailrace.wal.record_types import desc_list
from tailrace.wal.structs import (
    BOOL,
    U8,
    U16,
    U32,
    Int64,
    Layout,
    RelFileLocator,
    Struct,
    Uint8,
    Uint16,
    Uint32,
    XLogRecPtr,
    read_u32s,
    write_u32s,
)

COMPARED = Compared(__name__, "access/heapam_xlog.h", upto=18)


@dataclass(frozen=True, slots=True)
class HeapInsert(Struct, compared=COMPARED):
    """xl_heap_insert"""

    offnum: Uint16
    flags: Uint8

    def desc(self) -> str:
        return f"off: {self.offnum}, flags: 0x{self.flags:02X}"


@dataclass(frozen=True, slots=True)
class HeapDelete(Struct, compared=COMPARED):
    """xl_heap_delete; the old tuple, or its key, may follow."""

    xmax: Uint32
    offnum: Uint16
    infobits: Uint8
    flags: Uint8

    def desc(self) -> str:
        return f"xmax: {self.xmax}, off: {self.offnum}, infobits: 0x{self.infobits:02X}, flags: 0x{self.flags:02X}"


@dataclass(frozen=True, slots=True)
class HeapUpdate(Struct, compared=COMPARED):
    """xl_heap_update, of HOT updates too; the old tuple, or its key, may follow."""

    old_xmax: Uint32
    old_offnum: Uint16
    old_infobits: Uint8
    flags: Uint8
    new_xmax: Uint32
    new_offnum: Uint16

    def desc(self) -> str:
        return (
            f"old_xmax: {self.old_xmax}, old_off: {self.old_offnum}, old_infobits: 0x{self.old_infobits:02X}, "
            f"flags: 0x{self.flags:02X}, new_xmax: {self.new_xmax}, new_off: {self.new_offnum}"
        )


@dataclass(frozen=True, slots=True)
class HeapTruncate:
    """xl_heap_truncate: the relations that one TRUNCATE emptied, by oid."""

    LAYOUT: ClassVar = Layout({"database": U32, "count": U32, "flags": U8, "relids": U32})

    database: int
    flags: int
    relids: tuple[int, ...]

    @classmethod
    def read(cls, data: bytes, major: int) -> HeapTruncate:
        """Raises CorruptWal if the data are too short."""
        COMPARED.check(major)
        head = cls.LAYOUT.read(data)
        return cls(head["database"], head["flags"], tuple(read_u32s(data, cls.LAYOUT.at("relids"), head["count"]).tolist()))

    def write(self, major: int) -> bytes:
        """The same bytes again."""
        COMPARED.check(major)
        head = self.LAYOUT.write({"database": self.database, "count": len(self.relids), "flags": self.flags, "relids": 0})
        return head[: self.LAYOUT.at("relids")] + write_u32s(self.relids)

    def desc(self) -> str:
        relids = desc_list(self.relids, ", ")
        return f"db: {self.database}, flags: 0x{self.flags:02X}, nrelids: {len(self.relids)}, relids: [{relids}]"


@dataclass(frozen=True, slots=True)
class Confirm(Struct, compared=COMPARED):
    """xl_heap_confirm: a speculative insert stands."""

    offnum: Uint16

    def desc(self) -> str:
        return f"off: {self.offnum}"


@dataclass(frozen=True, slots=True)
class Lock(Struct, compared=COMPARED):
    """xl_heap_lock, and xl_heap_lock_updated, which is laid out alike."""

    xmax: Uint32
    offnum: Uint16
    infobits: Uint8
    flags: Uint8

    def desc(self) -> str:
        return f"xmax: {self.xmax}, off: {self.offnum}, infobits: 0x{self.infobits:02X}, flags: 0x{self.flags:02X}"


@dataclass(frozen=True, slots=True)
class Inplace(Struct):
    """xl_heap_inplace; since 18 with invalidation messages, `nmsgs` of them behind it."""

    LAYOUTS = COMPARED.table(
        {
            14: Layout({"offnum": U16}),
            18: Layout({"offnum": U16, "database": U32, "tablespace": U32, "relcache_init_file": BOOL, "nmsgs": U32}),
        }
    )

    offnum: int
    database: int | None = None
    tablespace: int | None = None
    relcache_init_file: bool | None = None
    nmsgs: int | None = None

    def desc(self) -> str:
        return f"off: {self.offnum}"


@dataclass(frozen=True, slots=True)
class MultiInsert(Struct, compared=COMPARED):
    """xl_heap_multi_insert; the tuples' offnums follow, unless the page is new."""

    flags: Uint8
    ntuples: Uint16

    def desc(self) -> str:
        return f"ntuples: {self.ntuples}, flags: 0x{self.flags:02X}"


@dataclass(frozen=True, slots=True)
class NewCid(Struct, compared=COMPARED):
    """xl_heap_new_cid: command ids of a row of a catalog. The tid is a block number in two halves, high first, and an offnum."""

    top_xid: Uint32
    cmin: Uint32
    cmax: Uint32
    combocid: Uint32
    locator: RelFileLocator
    block_high: Uint16
    block_low: Uint16
    offnum: Uint16

    @property
    def block(self) -> int:
        return self.block_high << 16 | self.block_low

    def desc(self) -> str:
        return (
            f"rel: {self.locator}, tid: {self.block}/{self.offnum}, cmin: {self.cmin}, cmax: {self.cmax}, combo: {self.combocid}"
        )


@dataclass(frozen=True, slots=True)
class Visible(Struct, compared=COMPARED):
    """xl_heap_visible"""

    horizon: Uint32
    flags: Uint8

    def desc(self) -> str:
        return f"horizon: {self.horizon}, flags: 0x{self.flags:02X}"


@dataclass(frozen=True, slots=True)
class Rewrite(Struct, compared=COMPARED):
    """xl_heap_rewrite_mapping: where rows of a catalog went when it was rewritten."""

    mapped_xid: Uint32
    mapped_db: Uint32
    mapped_rel: Uint32
    offset: Int64
    num_mappings: Uint32
    start_lsn: XLogRecPtr

    def desc(self) -> str:
        return f"xid: {self.mapped_xid}, db: {self.mapped_db}, rel: {self.mapped_rel}, mappings: {self.num_mappings}"


@dataclass(frozen=True, slots=True)
class Prune(Struct):
    """xl_heap_prune, until 16."""

    LAYOUTS = COMPARED.table(
        {
            14: Layout({"horizon": U32, "nredirected": U16, "ndead": U16}),
            16: Layout({"horizon": U32, "nredirected": U16, "ndead": U16, "is_catalog": BOOL}),
        }
    )

    horizon: int
    nredirected: int
    ndead: int
    is_catalog: bool | None = None

    def desc(self) -> str:
        return f"horizon: {self.horizon}, nredirected: {self.nredirected}, ndead: {self.ndead}"


@dataclass(frozen=True, slots=True)
class Vacuum(Struct, compared=COMPARED):
    """xl_heap_vacuum, until 16."""

    nunused: Uint16

    def desc(self) -> str:
        return f"nunused: {self.nunused}"


@dataclass(frozen=True, slots=True)
class FreezePage(Struct):
    """xl_heap_freeze_page, until 16. Since that tuples that are frozen alike share a plan."""

    LAYOUTS = COMPARED.table(
        {
            14: Layout({"horizon": U32, "ntuples": U16}),
            16: Layout({"horizon": U32, "nplans": U16, "is_catalog": BOOL}),
        }
    )

    horizon: int
    ntuples: int | None = None
    nplans: int | None = None
    is_catalog: bool | None = None

    def desc(self) -> str:
        many = f"ntuples: {self.ntuples}" if self.nplans is None else f"nplans: {self.nplans}"
        return f"horizon: {self.horizon}, {many}"


@dataclass(frozen=True, slots=True)
class PruneFreeze(Struct, compared=COMPARED):
    """xl_heap_prune, since 17, of all that prunes, vacuums and freezes. What was a reason once is not written any more."""

    reason: Uint8
    flags: Uint8

    def desc(self) -> str:
        return f"flags: 0x{self.flags:02X}"
