"""The header of a record (`access/xlogrecord.h`, XLogRecord): where its fields stand, in bytes. What follows it, :mod:`tailrace.wal.records`."""

from __future__ import annotations

H_LENGTH = 0  # 4 bytes
H_XID = 4  # 4
H_PREVIOUS = 8  # 8
H_INFO = 16  # 1
H_MANAGER = 17  # 1, then two of padding
H_CRC = 20  # 4
