"""Records of the SMGR resource manager (`catalog/storage_xlog.h`), both ways: files made, and cut short."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.majors import Compared
from tailrace.model import Locator
from tailrace.wal.structs import LOCATOR, U32, Layout, Struct

COMPARED = Compared(__name__, "catalog/storage_xlog.h", upto=18)
OPCODE = 0xF0
CREATE = 0x10
TRUNCATE = 0x20


@dataclass(frozen=True, slots=True)
class StorageCreate(Struct):
    """xl_smgr_create"""

    LAYOUTS = COMPARED.always(Layout({"locator": LOCATOR, "fork": U32}))

    locator: Locator
    fork: int


@dataclass(frozen=True, slots=True)
class StorageTruncate(Struct):
    """xl_smgr_truncate: `blocks` are left of the main fork; `flags` say which forks are cut."""

    LAYOUTS = COMPARED.always(Layout({"blocks": U32, "locator": LOCATOR, "flags": U32}))

    blocks: int
    locator: Locator
    flags: int
