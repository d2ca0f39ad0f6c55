"""What travels in CopyData while a slot is streamed (manual, "Streaming Replication Protocol"): a walsender's data and keepalives,
a receiver's status. `read_x` beside `write_x`; how a batch of data is framed is in `wire.frames`.
"""

from __future__ import annotations

from struct import Struct

from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
from tailrace.model import Lsn
from tailrace.wire.fields import (
    VIOLATION,
    Body,
    read_i64,
    read_rest,
    read_u8,
    read_u32,
    read_u64,
    write_i64,
    write_u8,
    write_u32,
    write_u64,
)

XLOG_DATA, KEEPALIVE = ord("w"), ord("k")
STATUS_UPDATE, FEEDBACK = ord("r"), ord("h")
_DATA_HEADER = 1 + 8 + 8 + 8
_STARTS_AND_ENDS = Struct(">QQ").unpack_from
HEADER = 5 + _DATA_HEADER
"""Bytes before the payload: CopyData's type and length, then `w`, two LSNs and a time."""


@dataclass(frozen=True, slots=True)
class XLogData:
    """`sent_at` in microseconds since 2000. Of logical decoding both LSNs are one."""

    start: Lsn
    end: Lsn
    sent_at: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class PrimaryKeepalive:
    """`end` is where the walsender is."""

    end: Lsn
    sent_at: int
    wants_reply: bool


@dataclass(frozen=True, slots=True)
class StandbyStatusUpdate:
    """The bytes behind the last that the receiver has written, has made durable, and has applied; 0: it does not say."""

    written: Lsn
    flushed: Lsn
    applied: Lsn
    sent_at: int
    wants_reply: bool


@dataclass(frozen=True, slots=True)
class HotStandbyFeedback:
    """Of which nothing concerns logical decoding."""

    sent_at: int
    xmin: int
    epoch: int
    catalog_xmin: int
    catalog_epoch: int


FromWalSender = XLogData | PrimaryKeepalive
FromReceiver = StandbyStatusUpdate | HotStandbyFeedback


def read_from_walsender(data: bytes) -> FromWalSender:
    """What the CopyData of a walsender says. Raises PeerError (08P01)."""
    body = Body(data)
    kind = read_u8(body)
    if kind == XLOG_DATA:
        return XLogData(Lsn(read_u64(body)), Lsn(read_u64(body)), read_i64(body), read_rest(body))
    if kind == KEEPALIVE:
        return PrimaryKeepalive(Lsn(read_u64(body)), read_i64(body), bool(read_u8(body)))
    raise PeerError(f'unexpected message type "{chr(kind)}"', sqlstate=VIOLATION)


def wal_in(data: memoryview) -> tuple[int, int, memoryview] | None:
    """Of an XLogData, where its bytes begin, where the walsender's log ends, and the bytes, which are not copied; None for another message."""
    if data[0] != XLOG_DATA or len(data) < _DATA_HEADER:
        return None
    start, end = _STARTS_AND_ENDS(data, 1)
    return start, end, data[_DATA_HEADER:]


def read_from_receiver(data: bytes) -> FromReceiver:
    """What the CopyData of a receiver says (`ProcessStandbyMessage`). Raises PeerError (08P01)."""
    body = Body(data)
    kind = read_u8(body)
    if kind == STATUS_UPDATE:
        written, flushed, applied = (Lsn(read_u64(body)) for _ in range(3))
        return StandbyStatusUpdate(written, flushed, applied, read_i64(body), bool(read_u8(body)))
    if kind == FEEDBACK:
        return HotStandbyFeedback(read_i64(body), *(read_u32(body) for _ in range(4)))
    raise PeerError(f'unexpected message type "{chr(kind)}"', sqlstate=VIOLATION)


def write_to_receiver(message: FromWalSender) -> bytes:
    """The data of the CopyData."""
    out = bytearray()
    if isinstance(message, XLogData):
        write_u8(out, XLOG_DATA)
        write_u64(out, message.start)
        write_u64(out, message.end)
        write_i64(out, message.sent_at)
        out += message.payload
    else:
        write_u8(out, KEEPALIVE)
        write_u64(out, message.end)
        write_i64(out, message.sent_at)
        write_u8(out, message.wants_reply)
    return bytes(out)


def write_to_walsender(message: FromReceiver) -> bytes:
    """The data of the CopyData."""
    out = bytearray()
    if isinstance(message, StandbyStatusUpdate):
        write_u8(out, STATUS_UPDATE)
        for lsn in (message.written, message.flushed, message.applied):
            write_u64(out, lsn)
        write_i64(out, message.sent_at)
        write_u8(out, message.wants_reply)
    else:
        write_u8(out, FEEDBACK)
        write_i64(out, message.sent_at)
        for number in (message.xmin, message.epoch, message.catalog_xmin, message.catalog_epoch):
            write_u32(out, number)
    return bytes(out)
