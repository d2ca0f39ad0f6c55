"""Transaction records -> columns (`access/xact.h`).

In: contiguous XACT records. Out: `Ends`, one row per commit, abort or prepare. A stretch of small transactions holds hundreds of
thousands of these, so they are columns from the start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import kernel
from tailrace.wal.records import INFO, MAIN, MAIN_LENGTH, XID
from tailrace.wal.unaligned import u16, u32, u64

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

_SIZE_OF_INVALIDATION = 16

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
    end[E_TIME] = u64(buf, at)
    at += 8
    if not parsed[INFO] & _HAS_XINFO:
        return at == stop
    xinfo = u32(buf, at)
    at += 4
    if xinfo & _DBINFO:
        end[E_DATABASE] = u32(buf, at)
        at += 8
    if xinfo & _SUBXACTS:
        end[E_SUBXACT_COUNT] = u32(buf, at)
        end[E_SUBXACTS] = at + 4
        at += 4 + 4 * end[E_SUBXACT_COUNT]
    if xinfo & _RELFILES:
        at += 4 + 12 * u32(buf, at)
    if xinfo & _DROPPED_STATS:
        at += 4 + stats_item * u32(buf, at)
    if xinfo & _INVALS:
        end[E_INVALIDATION_COUNT] = u32(buf, at)
        end[E_INVALIDATIONS] = at + 4
        at += 4 + _SIZE_OF_INVALIDATION * end[E_INVALIDATION_COUNT]
    if xinfo & _TWOPHASE:
        end[E_XID] = u32(buf, at)
        at += 4
        if xinfo & _GID:
            end[E_GID] = at
            while buf[at] != 0:
                at += 1
            end[E_GID_LENGTH] = at - end[E_GID]
            at += 1
    if xinfo & _ORIGIN:
        end[E_ORIGIN_LSN] = u64(buf, at)
        end[E_ORIGIN_TIME] = u64(buf, at + 8)
        at += 16
    return at <= stop


@kernel
def _parse_prepare(buf, at, stop, stats_item, header, end):  # type: ignore[no-untyped-def]
    end[E_XID] = u32(buf, at + 8)
    end[E_DATABASE] = u32(buf, at + 12)
    end[E_TIME] = u64(buf, at + 16)
    end[E_SUBXACT_COUNT] = u32(buf, at + 28)
    commit_files = u32(buf, at + 32)
    abort_files = u32(buf, at + 36)
    commit_stats = abort_stats = 0
    rest = at + 40
    if stats_item:
        commit_stats = u32(buf, at + 40)
        abort_stats = u32(buf, at + 44)
        rest = at + 48
    end[E_INVALIDATION_COUNT] = u32(buf, rest)
    gid_length = u16(buf, rest + 6)
    end[E_ORIGIN_LSN] = u64(buf, at + header - 16)
    end[E_ORIGIN_TIME] = u64(buf, at + header - 8)
    at += header
    end[E_GID] = at
    end[E_GID_LENGTH] = gid_length - 1
    at += (gid_length + 7) & ~7
    end[E_SUBXACTS] = at
    at += (4 * end[E_SUBXACT_COUNT] + 7) & ~7
    at += ((12 * commit_files + 7) & ~7) + ((12 * abort_files + 7) & ~7)
    at += ((stats_item * commit_stats + 7) & ~7) + ((stats_item * abort_stats + 7) & ~7)
    end[E_INVALIDATIONS] = at
    return at <= stop


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

    def gid(self, row: int) -> str:
        """The prepared transaction's name, empty for others."""
        return self.gids[self.gid_bounds[row] : self.gid_bounds[row + 1]].tobytes().decode(errors="surrogateescape")
