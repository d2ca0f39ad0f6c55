"""The header of a record (`access/xlogrecord.h`, XLogRecord), both ways.

Kernels take it apart by the offsets below; what follows it, :mod:`tailrace.wal.records`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailrace.dataclass import dataclass
from tailrace.majors import OLDEST, Compared
from tailrace.model import Lsn
from tailrace.wal.crc import record_crc
from tailrace.wal.structs import LSN, U32, Struct, Uint8, Uint16, Uint32, XLogRecPtr

COMPARED = Compared(__name__, "access/xlogrecord.h", upto=18)
# Behind the header come fragments, each begun by its id: block references have 0 to 32 (XLR_MAX_BLOCK_ID), others XLR_BLOCK_ID_…
ID_DATA_SHORT = 255  # main data, their length in one byte
ID_DATA_LONG = 254  # main data, their length in four
ID_ORIGIN = 253  # the replication origin, two bytes
ID_TOP_XID = 252  # the xid of the top-level transaction


@dataclass(frozen=True, slots=True)
class RecordHeader(Struct, compared=COMPARED):
    """XLogRecord. `previous` is where the record before begins."""

    length: Uint32
    xid: Uint32
    previous: XLogRecPtr
    info: Uint8
    manager: Uint8
    unused: Uint16 = 0
    crc: Uint32 = 0


_LAYOUT = RecordHeader.LAYOUTS[OLDEST]  # as in every major
H_LENGTH = _LAYOUT.at("length")
H_XID = _LAYOUT.at("xid")
H_PREVIOUS = _LAYOUT.at("previous")
H_INFO = _LAYOUT.at("info")
H_MANAGER = _LAYOUT.at("manager")
H_CRC = _LAYOUT.at("crc")


def may_begin(data: bytes, previous: int | None) -> bool:
    """Whether `data`, up to the end of its page, may be the beginning of the record behind the one at `previous` (None: not known). Zeros are not,
    nor is what a segment held before it was recycled."""
    if not any(data[H_LENGTH : H_LENGTH + U32.size]):
        return False
    named = data[H_PREVIOUS : H_PREVIOUS + LSN.size]
    return previous is None or len(named) < LSN.size or int.from_bytes(named, "little") == previous


def write_record(manager: int, info: int, main: bytes, *, xid: int, previous: int, major: int, origin: int = 0) -> bytes:
    """A record of main data and nothing else but for its origin, sound as it stands behind the record at `previous`."""
    fragments = bytes([ID_ORIGIN]) + origin.to_bytes(2, "little") if origin else b""
    short = len(main) < 256
    fragments += bytes([ID_DATA_SHORT, len(main)]) if short else bytes([ID_DATA_LONG]) + len(main).to_bytes(4, "little")
    data = fragments + main
    header = RecordHeader(_LAYOUT.size + len(data), xid, Lsn(previous), info, manager)
    crc = record_crc(np.frombuffer(header.write(major) + data, np.uint8), 0, header.length)
    return replace(header, crc=int(crc)).write(major) + data
