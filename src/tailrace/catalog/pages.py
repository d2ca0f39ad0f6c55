"""The files beside the heap that catalogs need: pg_control, relation maps, commit status. Bytes in, values out.

Layouts: `catalog/pg_control.h`, `utils/cache/relmapper.c`, `access/clog.h`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CorruptFile, UnsupportedWal
from tailrace.model import Lsn
from tailrace.wal.crc import crc32c

_RELMAP_MAGIC = 0x00592717
_RELMAP_CRC = {512: 504, 524: 520}
"""Where the checksum stands, by the size of the file: up to 15 there is room for 62 catalogs, since 16 for 64."""
_XIDS_PER_STATUS_FILE = 1048576
_XIDS_KEPT = 1 << 31
SHUT_DOWN = (1,)  # DB_SHUTDOWNED. A standby that was stopped has replayed more than its checkpoint says.

# xid states in pg_xact (access/clog.h)
IN_PROGRESS, COMMITTED, ABORTED, SUB_COMMITTED = 0, 1, 2, 3

_MAJOR_OF_CATALOG = {202107181: 14, 202209061: 15, 202307071: 16, 202406281: 17, 202506291: 18}


@dataclass(frozen=True, slots=True)
class ControlFile:
    """What we ask of global/pg_control (`catalog/pg_control.h`). `next_xid` carries the epoch."""

    system: int
    major: int
    shut_down: bool
    checkpoint: Lsn
    redo: Lsn
    timeline: int
    full_page_writes: bool
    next_xid: int
    wal_level: int
    segment_size: int
    checksums: bool
    min_recovery: Lsn


def read_control(data: bytes, where: str) -> ControlFile:
    """Parse pg_control. Raises UnsupportedWal for an unknown catalog version, CorruptFile for a wrong checksum."""
    if len(data) < 300:
        raise CorruptFile(f'could not read file "{where}": read {len(data)} of 8192')
    catalog_version = struct.unpack_from("<I", data, 12)[0]
    major = _MAJOR_OF_CATALOG.get(catalog_version)
    if major is None:
        raise UnsupportedWal(
            f"database files have catalog version {catalog_version}, which tailrace does not know",
            hint=f"Known are {', '.join(f'{major} ({version})' for version, major in _MAJOR_OF_CATALOG.items())}.",
            context=where,
        )
    crc_at = 292 if major >= 18 else 288
    if crc32c(data[:crc_at]) != struct.unpack_from("<I", data, crc_at)[0]:
        raise CorruptFile("incorrect checksum in control file", context=where)
    state, checkpoint, redo, timeline = (
        struct.unpack_from("<I", data, 16)[0], *struct.unpack_from("<QQ", data, 32), struct.unpack_from("<I", data, 48)[0],
    )  # fmt: skip
    return ControlFile(
        system=struct.unpack_from("<Q", data, 0)[0],
        major=major,
        shut_down=state in SHUT_DOWN,
        checkpoint=Lsn(checkpoint),
        redo=Lsn(redo),
        timeline=timeline,
        full_page_writes=bool(data[56]),
        next_xid=struct.unpack_from("<Q", data, 64)[0],
        wal_level=struct.unpack_from("<i", data, 172)[0],
        segment_size=struct.unpack_from("<I", data, 228)[0],
        checksums=struct.unpack_from("<I", data, 252)[0] != 0,
        min_recovery=Lsn(struct.unpack_from("<Q", data, 136)[0]),
    )


def read_relation_map(data: bytes, where: str) -> dict[int, int]:
    """pg_filenode.map, or the image of one in a RELMAP record: catalog oid -> file number (`utils/cache/relmapper.c`)."""
    magic, count = struct.unpack_from("<Ii", data.ljust(8, b"\0"), 0)
    if magic != _RELMAP_MAGIC or not 0 <= count <= 64 or len(data) < 8 + 8 * count:
        raise CorruptFile(f'relation mapping file "{where}" contains invalid data')
    crc_at = _RELMAP_CRC.get(len(data))
    if crc_at and crc32c(data[:crc_at]) != struct.unpack_from("<I", data, crc_at)[0]:
        raise CorruptFile(f'relation mapping file "{where}" contains incorrect checksum')
    pairs = struct.unpack_from(f"<{2 * count}I", data, 8)
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


@dataclass(frozen=True, slots=True)
class CommitStatus:
    """pg_xact: two bits per xid. `files` maps file number (the low 32 bits of an xid / 1048576) to its bytes; `next_xid`, full, was the next then."""

    files: dict[int, bytes]
    next_xid: int

    def of(self, full_xids: NDArray[np.int64]) -> NDArray[np.uint8]:
        """State of each xid; IN_PROGRESS where it began after `next_xid`, or the bits are another's by now. Raises CorruptFile if the file that
        should have it is gone or too short."""
        states = np.zeros(len(full_xids), np.uint8)
        xids = full_xids & 0xFFFFFFFF
        lacking = (full_xids >= self.next_xid - _XIDS_KEPT) & (full_xids < self.next_xid)
        for number, data in self.files.items():
            status = np.frombuffer(data, np.uint8)
            mine = (xids // _XIDS_PER_STATUS_FILE == number) & (full_xids >= self.next_xid - _XIDS_KEPT)
            within = xids[mine] % _XIDS_PER_STATUS_FILE
            at = within // 4
            known = at < len(status)
            found = np.zeros(len(within), np.uint8)
            found[known] = (status[at[known]] >> (2 * (within[known] % 4)).astype(np.uint8)) & 3
            states[mine] = found
            lacking[np.flatnonzero(mine)[known]] = False
        if lacking.any():
            first = int(xids[np.flatnonzero(lacking)[0]])
            raise CorruptFile(
                f"could not access status of transaction {first}",
                hint="Take the file from a backup, or give a catalog state that was captured before it was damaged (--catalog).",
                context=f'file "pg_xact/{first // _XIDS_PER_STATUS_FILE:04X}" is missing or too short',
            )
        return states


def page_lsns(pages: NDArray[np.uint8]) -> NDArray[np.int64]:
    """pd_lsn of each page of an (n, 8192) array: two u32, high first (`storage/bufpage.h`)."""
    words = np.ascontiguousarray(pages[:, :8]).view("<u4").astype(np.int64)
    return (words[:, 0] << 32) | words[:, 1]
