"""Records of the SMGR resource manager (`catalog/storage_xlog.h`), both ways: files made, and cut short."""

from __future__ import annotations

from tailrace.dataclass import dataclass
from tailrace.majors import Compared
from tailrace.wal.record_types import PASSED_OVER, RecordType
from tailrace.wal.structs import RelFileLocator, Struct, Uint32

COMPARED = Compared(__name__, "catalog/storage_xlog.h", upto=18)
CREATE = 0x10
TRUNCATE = 0x20
FORK_NAMES = ("main", "fsm", "vm", "init")
"""forkNames (`common/relpath.c`)."""


@dataclass(frozen=True, slots=True)
class StorageCreate(Struct, compared=COMPARED):
    """xl_smgr_create"""

    locator: RelFileLocator
    fork: Uint32

    def desc(self) -> str:
        return f"{self.locator} fork {FORK_NAMES[self.fork]}"


@dataclass(frozen=True, slots=True)
class StorageTruncate(Struct, compared=COMPARED):
    """xl_smgr_truncate: `blocks` are left of the main fork; `flags` say which forks are cut."""

    blocks: Uint32
    locator: RelFileLocator
    flags: Uint32

    def desc(self) -> str:
        return f"{self.locator} to {self.blocks} blocks flags {self.flags}"


RECORD_TYPES = (  # versions of rows stay known, whatever becomes of their pages
    RecordType(CREATE, "CREATE", PASSED_OVER, StorageCreate),
    RecordType(TRUNCATE, "TRUNCATE", PASSED_OVER, StorageTruncate),
)
