"""Records of the SMGR resource manager (`catalog/storage_xlog.h`), both ways: files made, and cut short."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.majors import Compared
from tailrace.wal.structs import RelFileLocator, Struct, Uint32

COMPARED = Compared(__name__, "catalog/storage_xlog.h", upto=18)
OPCODE = 0xF0
CREATE = 0x10
TRUNCATE = 0x20


@dataclass(frozen=True, slots=True)
class StorageCreate(Struct, compared=COMPARED):
    """xl_smgr_create"""

    locator: RelFileLocator
    fork: Uint32


@dataclass(frozen=True, slots=True)
class StorageTruncate(Struct, compared=COMPARED):
    """xl_smgr_truncate: `blocks` are left of the main fork; `flags` say which forks are cut."""

    blocks: Uint32
    locator: RelFileLocator
    flags: Uint32
