"""Records of the XACT resource manager (`access/xact.h`).

In: contiguous records. Out: `Ends`, one row per commit, abort or prepare. A stretch of small transactions holds hundreds of
thousands of these, so they are columns from the start. `read_end` gives a single one, to look at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal
from tailrace.kernels import inner_kernel, kernel
from tailrace.majors import NEWEST, Compared
from tailrace.model import Lsn
from tailrace.ragged import bounds_of, lists_of, taken_of
from tailrace.wal.record_types import DECODED, PASSED_OVER, RecordType, desc_list, desc_time
from tailrace.wal.records import INFO, MAIN, MAIN_LENGTH, ORIGIN, XID
from tailrace.wal.structs import BOOL, I64, LSN, U16, U32, Layout, read_u32s, write_u32s
from tailrace.wal.unaligned import u16, u32, u64
from tailrace.wal.versions import WalFormat

COMPARED = Compared(__name__, "access/xact.h", upto=18)
# info & 0x70
COMMIT = 0x00
PREPARE = 0x10
ABORT = 0x20
COMMIT_PREPARED = 0x30
ABORT_PREPARED = 0x40
ASSIGNMENT = 0x50
INVALIDATIONS = 0x60
OPCODE = 0x70
_HAS_XINFO = 0x80

# xinfo bits
_DBINFO = 0x001
_SUBXACTS = 0x002
_RELFILES = 0x004
_INVALS = 0x008
_TWOPHASE = 0x010
_ORIGIN = 0x020
_GID = 0x080
_DROPPED_STATS = 0x100

SIZE_OF_INVALIDATION = 16
_SIZE_OF_XID = 4
_SIZE_OF_LOCATOR = 12
_SIZE_OF_TIME = 8
_SIZE_OF_XINFO = 4
_SIZE_OF_DBINFO = 8
_SIZE_OF_COUNT = 4
_ORIGIN_TIME_AT, _SIZE_OF_ORIGIN = 8, 16

# xl_xact_prepare. 15 put two counts into the middle of it, so what stands behind them is told from its end.
_COUNTS = {"nsubxacts": U32, "ncommitrels": U32, "nabortrels": U32}
_COUNTS_15 = _COUNTS | {"ncommitstats": U32, "nabortstats": U32}
_BEFORE = {"magic": U32, "total_len": U32, "xid": U32, "database": U32, "prepared_at": I64, "owner": U32}
_BEHIND = {"ninvalmsgs": U32, "initfileinval": BOOL, "gidlen": U16, "origin_lsn": LSN, "origin_timestamp": I64}
PREPARE_HEADERS = COMPARED.table({14: Layout(_BEFORE | _COUNTS | _BEHIND), 15: Layout(_BEFORE | _COUNTS_15 | _BEHIND)})
_PREPARE = PREPARE_HEADERS[NEWEST]
PREPARE_XID_AT = _PREPARE.at("xid")
_PREPARE_DATABASE_AT = _PREPARE.at("database")
_PREPARED_AT_AT = _PREPARE.at("prepared_at")
_NSUBXACTS_AT = _PREPARE.at("nsubxacts")
_NCOMMITRELS_AT = _PREPARE.at("ncommitrels")
_NABORTRELS_AT = _PREPARE.at("nabortrels")
_NCOMMITSTATS_AT = _PREPARE.at("ncommitstats")
_NABORTSTATS_AT = _PREPARE.at("nabortstats")
_NINVALMSGS_BEFORE_END = _PREPARE.size - _PREPARE.at("ninvalmsgs")
_GIDLEN_BEFORE_END = _PREPARE.size - _PREPARE.at("gidlen")
_ORIGIN_BEFORE_END = _PREPARE.size - _PREPARE.at("origin_lsn")

# Columns of one end, as the kernel writes them
E_KIND = 0
E_XID = 1
E_TIME = 2
E_DATABASE = 3
E_SUBXACTS = 4  # offset of the xids in the record
E_SUBXACT_COUNT = 5
E_ORIGIN_LSN = 6
E_ORIGIN_TIME = 7
E_GID = 8  # offset
E_GID_LENGTH = 9
E_INVALIDATIONS = 10  # offset
E_INVALIDATION_COUNT = 11
E_FIELDS = 12


@kernel
def parse_end(buf, parsed, stats_item, prepare_header, end):  # type: ignore[no-untyped-def]
    """Fill `end` (int64[E_FIELDS]) from a commit, abort or prepare record. False if the chunks do not add up."""
    opcode = parsed[INFO] & OPCODE
    at = parsed[MAIN]
    stop = at + parsed[MAIN_LENGTH]
    end[:] = 0
    end[E_KIND] = opcode
    end[E_XID] = parsed[XID]
    if opcode == PREPARE:
        return _parse_prepare(buf, at, stop, stats_item, prepare_header, end)
    if at + _SIZE_OF_TIME > stop:
        return False
    end[E_TIME] = u64(buf, at)
    at += _SIZE_OF_TIME
    if not parsed[INFO] & _HAS_XINFO:
        return at == stop
    if at + _SIZE_OF_XINFO > stop:
        return False
    xinfo = u32(buf, at)
    at += _SIZE_OF_XINFO
    if xinfo & _DBINFO:
        if at + _SIZE_OF_DBINFO > stop:
            return False
        end[E_DATABASE] = u32(buf, at)
        at += _SIZE_OF_DBINFO
    if xinfo & _SUBXACTS:
        end[E_SUBXACTS] = at + _SIZE_OF_COUNT
        end[E_SUBXACT_COUNT], at = _list_of(buf, at, stop, _SIZE_OF_XID)
    if xinfo & _RELFILES:
        _, at = _list_of(buf, at, stop, _SIZE_OF_LOCATOR)
    if xinfo & _DROPPED_STATS:
        _, at = _list_of(buf, at, stop, stats_item)
    if xinfo & _INVALS:
        end[E_INVALIDATIONS] = at + _SIZE_OF_COUNT
        end[E_INVALIDATION_COUNT], at = _list_of(buf, at, stop, SIZE_OF_INVALIDATION)
    if xinfo & _TWOPHASE:
        if at + _SIZE_OF_XID > stop:
            return False
        end[E_XID] = u32(buf, at)
        at += _SIZE_OF_XID
        if xinfo & _GID:
            end[E_GID] = at
            while at < stop and buf[at] != 0:
                at += 1
            end[E_GID_LENGTH] = at - end[E_GID]
            at += 1
    if xinfo & _ORIGIN:
        if at + _SIZE_OF_ORIGIN > stop:
            return False
        end[E_ORIGIN_LSN] = u64(buf, at)
        end[E_ORIGIN_TIME] = u64(buf, at + _ORIGIN_TIME_AT)
        at += _SIZE_OF_ORIGIN
    return at <= stop


@inner_kernel
def _list_of(buf, at, stop, size):  # type: ignore[no-untyped-def]
    """A count at `buf[at]` and as many items of `size` bytes: how many, and what stands behind them. That is beyond `stop` where it does not fit, as
    is all that follows."""
    if at + _SIZE_OF_COUNT > stop:
        return 0, stop + 1
    count = u32(buf, at)
    return count, at + _SIZE_OF_COUNT + size * count


@kernel
def _parse_prepare(buf, at, stop, stats_item, header, end):  # type: ignore[no-untyped-def]
    if at + header > stop:
        return False
    end[E_XID] = u32(buf, at + PREPARE_XID_AT)
    end[E_DATABASE] = u32(buf, at + _PREPARE_DATABASE_AT)
    end[E_TIME] = u64(buf, at + _PREPARED_AT_AT)
    end[E_SUBXACT_COUNT] = u32(buf, at + _NSUBXACTS_AT)
    commit_files = u32(buf, at + _NCOMMITRELS_AT)
    abort_files = u32(buf, at + _NABORTRELS_AT)
    commit_stats = abort_stats = 0
    if stats_item:
        commit_stats = u32(buf, at + _NCOMMITSTATS_AT)
        abort_stats = u32(buf, at + _NABORTSTATS_AT)
    at += header
    end[E_INVALIDATION_COUNT] = u32(buf, at - _NINVALMSGS_BEFORE_END)
    gid_length = u16(buf, at - _GIDLEN_BEFORE_END)
    end[E_ORIGIN_LSN] = u64(buf, at - _ORIGIN_BEFORE_END)
    end[E_ORIGIN_TIME] = u64(buf, at - _ORIGIN_BEFORE_END + _ORIGIN_TIME_AT)
    end[E_GID] = at
    end[E_GID_LENGTH] = gid_length - 1
    # Each list begins at a multiple of 8.
    at += (gid_length + 7) & ~7
    end[E_SUBXACTS] = at
    at += (_SIZE_OF_XID * end[E_SUBXACT_COUNT] + 7) & ~7
    at += ((_SIZE_OF_LOCATOR * commit_files + 7) & ~7) + ((_SIZE_OF_LOCATOR * abort_files + 7) & ~7)
    at += ((stats_item * commit_stats + 7) & ~7) + ((stats_item * abort_stats + 7) & ~7)
    end[E_INVALIDATIONS] = at
    return gid_length > 0 and at + SIZE_OF_INVALIDATION * end[E_INVALIDATION_COUNT] <= stop


@dataclass(frozen=True, slots=True)
class End:
    """What one commit, abort or prepare says (xl_xact_parsed_commit and its like). `xid` as in `Ends`; times are microseconds since PG_EPOCH."""

    kind: int
    xid: int
    time: int
    database: int
    subxids: tuple[int, ...]
    origin: int
    origin_lsn: Lsn
    origin_time: int
    gid: bytes
    invalidations: int

    def desc(self) -> str:
        words = [desc_time(self.time)]
        if self.kind in (COMMIT_PREPARED, ABORT_PREPARED):
            words.append(f"xid {self.xid}")
        if self.gid:
            words.append(f"gid {self.gid.decode(errors='replace')}")
        if self.subxids:
            words.append(f"subxacts: {desc_list(self.subxids)}")
        if self.invalidations:
            words.append(f"inval msgs: {self.invalidations}")
        if self.origin:
            words.append(f"origin: node {self.origin}, lsn {self.origin_lsn}, at {desc_time(self.origin_time)}")
        return "; ".join(words)


def read_end(buf: NDArray[np.uint8], parsed: NDArray[np.int64], form: WalFormat) -> End:
    """One record, of which `parsed` are the headers. Raises CorruptWal if its chunks do not add up."""
    end = np.zeros(E_FIELDS, np.int64)
    if not parse_end(buf, parsed, form.stats_item, PREPARE_HEADERS[form.major].size, end):
        raise CorruptWal("invalid length of transaction record")
    says = end.tolist()
    subxids = buf[says[E_SUBXACTS] :][: _SIZE_OF_XID * says[E_SUBXACT_COUNT]]
    return End(
        kind=says[E_KIND],
        xid=says[E_XID],
        time=says[E_TIME],
        database=says[E_DATABASE],
        subxids=tuple(read_u32s(subxids.tobytes(), 0, says[E_SUBXACT_COUNT]).tolist()),
        origin=int(parsed[ORIGIN]),
        origin_lsn=Lsn(says[E_ORIGIN_LSN]),
        origin_time=says[E_ORIGIN_TIME],
        gid=buf[says[E_GID] :][: says[E_GID_LENGTH]].tobytes(),
        invalidations=says[E_INVALIDATION_COUNT],
    )


@dataclass(frozen=True, slots=True)
class Assignment:
    """xl_xact_assignment: whose these subtransactions are."""

    LAYOUT: ClassVar = Layout({"top_xid": U32, "count": U32})

    top_xid: int
    subxids: tuple[int, ...]

    @classmethod
    def read(cls, data: bytes, major: int) -> Assignment:
        """Raises CorruptWal if the data are too short."""
        COMPARED.check(major)
        head = cls.LAYOUT.read(data)
        return cls(head["top_xid"], tuple(read_u32s(data, cls.LAYOUT.size, head["count"]).tolist()))

    def write(self, major: int) -> bytes:
        """The same bytes again."""
        COMPARED.check(major)
        return self.LAYOUT.write({"top_xid": self.top_xid, "count": len(self.subxids)}) + write_u32s(self.subxids)

    def desc(self) -> str:
        return f"xtop: {self.top_xid}, subxacts: {desc_list(self.subxids)}"


@dataclass(frozen=True, slots=True)
class XactInvalidations:
    """xl_xact_invals: `messages` are SharedInvalidationMessages, of SIZE_OF_INVALIDATION bytes each (`wal/invalidations.py`)."""

    LAYOUT: ClassVar = Layout({"count": U32})

    messages: bytes

    @property
    def count(self) -> int:
        return len(self.messages) // SIZE_OF_INVALIDATION

    @classmethod
    def read(cls, data: bytes, major: int) -> XactInvalidations:
        """Raises CorruptWal if the data are too short."""
        COMPARED.check(major)
        head = cls.LAYOUT.read(data)
        messages = data[cls.LAYOUT.size : cls.LAYOUT.size + head["count"] * SIZE_OF_INVALIDATION]
        if len(messages) < head["count"] * SIZE_OF_INVALIDATION:
            raise CorruptWal("invalid length of transaction record")
        return cls(messages)

    def write(self, major: int) -> bytes:
        """The same bytes again."""
        COMPARED.check(major)
        return self.LAYOUT.write({"count": self.count}) + self.messages

    def desc(self) -> str:
        return f"messages: {self.count}"


RECORD_TYPES = (
    RecordType(COMMIT, "COMMIT", DECODED, End),
    RecordType(PREPARE, "PREPARE", DECODED, End),
    RecordType(ABORT, "ABORT", DECODED, End),
    RecordType(COMMIT_PREPARED, "COMMIT_PREPARED", DECODED, End),
    RecordType(ABORT_PREPARED, "ABORT_PREPARED", DECODED, End),
    # for standbys; the first record of a subtransaction names its top-level transaction
    RecordType(ASSIGNMENT, "ASSIGNMENT", PASSED_OVER, Assignment),
    RecordType(INVALIDATIONS, "INVALIDATION", DECODED, XactInvalidations),
)


@dataclass(slots=True)
class Ends:
    """Commits, aborts and prepares in WAL order. `subxids` of row i are `subxids[subxact_bounds[i]:subxact_bounds[i+1]]`.

    `xid` is the transaction's own, also of COMMIT PREPARED (whose record header says 0); it and `subxids` are 32 bits wide, or full
    (:mod:`tailrace.transactions.epochs`). Times are microseconds since PG_EPOCH.
    """

    kind: NDArray[np.uint8]
    xid: NDArray[np.integer]
    lsn: NDArray[np.int64]
    end_lsn: NDArray[np.int64]
    time: NDArray[np.int64]
    database: NDArray[np.uint32]
    origin: NDArray[np.uint16]
    origin_lsn: NDArray[np.int64]
    origin_time: NDArray[np.int64]
    subxact_bounds: NDArray[np.int64]
    subxids: NDArray[np.integer]
    gid_bounds: NDArray[np.int64]
    gids: NDArray[np.uint8]
    invalidation_bounds: NDArray[np.int64]
    invalidations: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.xid)

    @classmethod
    def bare(
        cls, kind: Sequence[int], xid: Sequence[int], lsn: Sequence[int], end_lsn: Sequence[int], time: Sequence[int],
        database: int, subxids: Sequence[Sequence[int]]
    ) -> Ends:  # fmt: skip
        """Of these, with full xids, nothing else is known."""
        rows = len(kind)
        nothing, no_bytes = np.zeros(rows, np.int64), np.zeros(0, np.uint8)
        bounds = bounds_of(np.array([len(each) for each in subxids], np.int64))
        return cls(
            kind=np.array(kind, np.uint8), xid=np.array(xid, np.int64), lsn=np.array(lsn, np.int64), end_lsn=np.array(end_lsn, np.int64),
            time=np.array(time, np.int64), database=np.full(rows, database, np.uint32), origin=np.zeros(rows, np.uint16), origin_lsn=nothing,
            origin_time=nothing, subxact_bounds=bounds, subxids=np.array([xid for each in subxids for xid in each], np.int64),
            gid_bounds=np.zeros(rows + 1, np.int64), gids=no_bytes, invalidation_bounds=np.zeros(rows + 1, np.int64), invalidations=no_bytes,
        )  # fmt: skip

    def taken(self, rows: NDArray[np.int64]) -> Ends:
        """These rows alone."""
        subxids, subxact_bounds = lists_of(rows, self.subxact_bounds)
        gids, gid_bounds = lists_of(rows, self.gid_bounds)
        invalidations, byte_bounds = lists_of(rows, self.invalidation_bounds * SIZE_OF_INVALIDATION)
        return taken_of(
            self, rows, subxact_bounds=subxact_bounds, subxids=self.subxids[subxids], gid_bounds=gid_bounds, gids=self.gids[gids],
            invalidation_bounds=byte_bounds // SIZE_OF_INVALIDATION, invalidations=self.invalidations[invalidations],
        )  # fmt: skip

    def gid(self, row: int) -> str:
        """The prepared transaction's name, empty for others."""
        return self.gids[self.gid_bounds[row] : self.gid_bounds[row + 1]].tobytes().decode(errors="surrogateescape")
