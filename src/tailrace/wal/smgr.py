"""Records of the SMGR resource manager (`catalog/storage_xlog.h`), both ways: files made, and cut short."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.model import Locator
from tailrace.wal.structs import LOCATOR, U32, Struct, always

OPCODE = 0xF0
CREATE = 0x10
TRUNCATE = 0x20


@dataclass(frozen=True, slots=True)
class StorageCreate(Struct):
    """xl_smgr_create"""

    LAYOUTS = always({"locator": LOCATOR, "fork": U32})

    locator: Locator
    fork: int


@dataclass(frozen=True, slots=True)
class StorageTruncate(Struct):
    """xl_smgr_truncate: `blocks` are left of the main fork; `flags` say which forks are cut."""

    LAYOUTS = always({"blocks": U32, "locator": LOCATOR, "flags": U32})

    blocks: int
    locator: Locator
    flags: int
