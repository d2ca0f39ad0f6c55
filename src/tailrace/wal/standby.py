"""Records of the STANDBY resource manager (`storage/standbydefs.h`), both ways: what a standby, and whoever decodes, must know of transactions that
are running."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.majors import Compared
from tailrace.wal.record_types import DECODED, PASSED_OVER, RecordType, desc_list
from tailrace.wal.structs import BOOL, U32, Bool, Layout, Struct, Uint32, read_u32s, write_u32s

COMPARED = Compared(__name__, "storage/standbydefs.h", upto=18)
LOCK = 0x00
RUNNING_XACTS = 0x10
INVALIDATIONS = 0x20


@dataclass(frozen=True, slots=True)
class RunningXacts:
    """xl_running_xacts. All xids are 32 bits wide; `top` are the transactions that are running, `sub` as many of their subtransactions as the server
    still knew: not all of them if `subxid_overflow`."""

    LAYOUT: ClassVar = Layout(
        {
            "xcnt": U32, "subxcnt": U32, "subxid_overflow": BOOL, "next_xid": U32, "oldest_running_xid": U32, "latest_completed_xid": U32,
        }
    )  # fmt: skip

    next_xid: int
    oldest_running_xid: int
    latest_completed_xid: int
    subxid_overflow: bool
    top: NDArray[np.uint32]
    sub: NDArray[np.uint32]

    @property
    def xids(self) -> NDArray[np.uint32]:
        """All that are running, in the record's order."""
        return np.concatenate([self.top, self.sub])

    @classmethod
    def read(cls, data: bytes, major: int) -> RunningXacts:
        """Raises CorruptWal if the data are too short."""
        COMPARED.check(major)
        said = cls.LAYOUT.read(data)
        xcnt, subxcnt = said.pop("xcnt"), said.pop("subxcnt")
        xids = read_u32s(data, cls.LAYOUT.size, xcnt + subxcnt)
        return cls(**said, top=xids[:xcnt], sub=xids[xcnt:])

    def write(self, major: int) -> bytes:
        """The same bytes again."""
        COMPARED.check(major)
        head = self.LAYOUT.write(
            {
                "xcnt": len(self.top), "subxcnt": len(self.sub), "subxid_overflow": self.subxid_overflow, "next_xid": self.next_xid,
                "oldest_running_xid": self.oldest_running_xid, "latest_completed_xid": self.latest_completed_xid,
            }
        )  # fmt: skip
        return head + write_u32s(self.xids)

    def desc(self) -> str:
        words = (
            f"nextXid {self.next_xid} latestCompletedXid {self.latest_completed_xid} oldestRunningXid {self.oldest_running_xid}"
        )
        return f"{words}; {len(self.xids)} xacts: {desc_list(self.xids)}" if len(self.xids) else words


@dataclass(frozen=True, slots=True)
class StandbyLocks:
    """xl_standby_locks: a row of `locks` per AccessExclusiveLock: xid, database, relation."""

    LAYOUT: ClassVar = Layout({"nlocks": U32})

    locks: NDArray[np.uint32]

    @classmethod
    def read(cls, data: bytes, major: int) -> StandbyLocks:
        """Raises CorruptWal if the data are too short."""
        COMPARED.check(major)
        return cls(read_u32s(data, cls.LAYOUT.size, 3 * cls.LAYOUT.read(data)["nlocks"]).reshape(-1, 3))

    def write(self, major: int) -> bytes:
        """The same bytes again."""
        COMPARED.check(major)
        return self.LAYOUT.write({"nlocks": len(self.locks)}) + write_u32s(self.locks)

    def desc(self) -> str:
        return " ".join(f"xid {xid} db {database} rel {relation}" for xid, database, relation in self.locks)


@dataclass(frozen=True, slots=True)
class StandbyInvalidations(Struct, compared=COMPARED):
    """xl_invalidations, without the messages themselves; decoding does not need them."""

    database: Uint32
    tablespace: Uint32
    relcache_init_file: Bool
    count: Uint32

    def desc(self) -> str:
        return f"db {self.database}; messages: {self.count}"


RECORD_TYPES = (
    RecordType(LOCK, "LOCK", PASSED_OVER, StandbyLocks),
    RecordType(RUNNING_XACTS, "RUNNING_XACTS", DECODED, RunningXacts),
    RecordType(INVALIDATIONS, "INVALIDATIONS", PASSED_OVER, StandbyInvalidations),
)
