"""What records of HEAP and HEAP2 say ahead of their tuples (`access/heapam_xlog.h`), both ways. Opcodes and flags: :mod:`tailrace.wal.heap`.

An offnum is the number of a row within its page (OffsetNumber); xids are 32 bits wide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tailrace.majors import Compared
from tailrace.model import Locator, Lsn
from tailrace.wal.structs import BOOL, I64, LOCATOR, LSN, U8, U16, U32, Layout, Struct, read_u32s, write_u32s

COMPARED = Compared(__name__, "access/heapam_xlog.h", upto=18)


@dataclass(frozen=True, slots=True)
class HeapInsert(Struct):
    """xl_heap_insert"""

    LAYOUTS = COMPARED.always(Layout({"offnum": U16, "flags": U8}))

    offnum: int
    flags: int


@dataclass(frozen=True, slots=True)
class HeapDelete(Struct):
    """xl_heap_delete; the old tuple, or its key, may follow."""

    LAYOUTS = COMPARED.always(Layout({"xmax": U32, "offnum": U16, "infobits": U8, "flags": U8}))

    xmax: int
    offnum: int
    infobits: int
    flags: int


@dataclass(frozen=True, slots=True)
class HeapUpdate(Struct):
    """xl_heap_update, of HOT updates too; the old tuple, or its key, may follow."""

    LAYOUTS = COMPARED.always(
        Layout({"old_xmax": U32, "old_offnum": U16, "old_infobits": U8, "flags": U8, "new_xmax": U32, "new_offnum": U16})
    )

    old_xmax: int
    old_offnum: int
    old_infobits: int
    flags: int
    new_xmax: int
    new_offnum: int


@dataclass(frozen=True, slots=True)
class HeapTruncate:
    """xl_heap_truncate: the relations that one TRUNCATE emptied, by oid."""

    LAYOUT: ClassVar = Layout({"database": U32, "count": U32, "flags": U8, "relids": U32})

    database: int
    flags: int
    relids: tuple[int, ...]

    @classmethod
    def read(cls, data: bytes, _major: int) -> HeapTruncate:
        """Raises CorruptWal if the data are too short."""
        head = cls.LAYOUT.read(data)
        return cls(head["database"], head["flags"], tuple(read_u32s(data, cls.LAYOUT.at("relids"), head["count"]).tolist()))

    def write(self, _major: int) -> bytes:
        """The same bytes again."""
        head = self.LAYOUT.write({"database": self.database, "count": len(self.relids), "flags": self.flags, "relids": 0})
        return head[: self.LAYOUT.at("relids")] + write_u32s(self.relids)


@dataclass(frozen=True, slots=True)
class Confirm(Struct):
    """xl_heap_confirm: a speculative insert stands."""

    LAYOUTS = COMPARED.always(Layout({"offnum": U16}))

    offnum: int


@dataclass(frozen=True, slots=True)
class Lock(Struct):
    """xl_heap_lock, and xl_heap_lock_updated, which is laid out alike."""

    LAYOUTS = COMPARED.always(Layout({"xmax": U32, "offnum": U16, "infobits": U8, "flags": U8}))

    xmax: int
    offnum: int
    infobits: int
    flags: int


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


@dataclass(frozen=True, slots=True)
class MultiInsert(Struct):
    """xl_heap_multi_insert; the tuples' offnums follow, unless the page is new."""

    LAYOUTS = COMPARED.always(Layout({"flags": U8, "ntuples": U16}))

    flags: int
    ntuples: int


@dataclass(frozen=True, slots=True)
class NewCid(Struct):
    """xl_heap_new_cid: command ids of a row of a catalog. The tid is a block number in two halves, high first, and an offnum."""

    LAYOUTS = COMPARED.always(
        Layout(
            {
                "top_xid": U32, "cmin": U32, "cmax": U32, "combocid": U32, "locator": LOCATOR, "block_high": U16, "block_low": U16,
                "offnum": U16,
            }
        )
    )  # fmt: skip

    top_xid: int
    cmin: int
    cmax: int
    combocid: int
    locator: Locator
    block_high: int
    block_low: int
    offnum: int

    @property
    def block(self) -> int:
        return self.block_high << 16 | self.block_low


@dataclass(frozen=True, slots=True)
class Visible(Struct):
    """xl_heap_visible"""

    LAYOUTS = COMPARED.always(Layout({"horizon": U32, "flags": U8}))

    horizon: int
    flags: int


@dataclass(frozen=True, slots=True)
class Rewrite(Struct):
    """xl_heap_rewrite_mapping: where rows of a catalog went when it was rewritten."""

    LAYOUTS = COMPARED.always(
        Layout({"mapped_xid": U32, "mapped_db": U32, "mapped_rel": U32, "offset": I64, "num_mappings": U32, "start_lsn": LSN})
    )

    mapped_xid: int
    mapped_db: int
    mapped_rel: int
    offset: int
    num_mappings: int
    start_lsn: Lsn


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


@dataclass(frozen=True, slots=True)
class Vacuum(Struct):
    """xl_heap_vacuum, until 16."""

    LAYOUTS = COMPARED.always(Layout({"nunused": U16}))

    nunused: int


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


@dataclass(frozen=True, slots=True)
class PruneFreeze(Struct):
    """xl_heap_prune, since 17, of all that prunes, vacuums and freezes. What was a reason once is not written any more."""

    LAYOUTS = COMPARED.always(Layout({"reason": U8, "flags": U8}))

    reason: int
    flags: int
