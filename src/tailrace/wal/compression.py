"""The two block formats that PostgreSQL compresses with inside records and values: pglz (`common/pg_lzcompress.c`) and raw LZ4 blocks.

Kernels over one array: source range to target range, returning the bytes written or -1 for damaged input. zstd (page images only)
comes from Arrow, outside kernels.
"""

from __future__ import annotations

import numpy as np

from tailrace.errors import CorruptWal
from tailrace.kernels import kernel
from tailrace.memcpy import memcpy
from tailrace.wal.unaligned import u16

RAW_SIZE = 0x3FFFFFFF
"""Bits of the word behind the length word that give the size before compression; the two above them name the method (`varatt.h`)."""


@kernel
def pglz(src, at, stop, dst, to, size):  # type: ignore[no-untyped-def]
    """Expand `src[at:stop]`, all of it, to exactly `size` bytes at `dst[to:]`. Control byte, then eight items, literal or (length, offset)
    (`common/pg_lzcompress.h`)."""
    begin = to
    end = to + size
    while at < stop and to < end:
        control = src[at]
        at += 1
        for _ in range(8):
            if at >= stop or to >= end:
                break
            if control & 1:
                if at + 1 >= stop:
                    return -1
                length = (src[at] & 0x0F) + 3
                offset = ((src[at] & 0xF0) << 4) | src[at + 1]
                at += 2
                if length == 18:
                    if at >= stop:
                        return -1
                    length += src[at]
                    at += 1
                if offset == 0 or to - offset < begin:
                    return -1
                length = min(length, end - to)
                for i in range(length):
                    dst[to + i] = dst[to + i - offset]
                to += length
            else:
                dst[to] = src[at]
                to += 1
                at += 1
            control >>= 1
    return to - begin if to == end and at == stop else -1


@kernel
def lz4(src, at, stop, dst, to, size):  # type: ignore[no-untyped-def]
    """Expand the LZ4 block `src[at:stop]` to exactly `size` bytes at `dst[to:]`."""
    begin = to
    end = to + size
    while at < stop:
        token = src[at]
        at += 1
        length = token >> 4
        if length == 15:
            while True:
                if at >= stop:
                    return -1
                more = src[at]
                at += 1
                length += more
                if more != 255:
                    break
        if to + length > end or at + length > stop:
            return -1
        memcpy(dst, to, src, at, length)
        to += length
        at += length
        if at >= stop:
            break  # the last sequence is literals only
        if at + 2 > stop:
            return -1
        offset = u16(src, at)
        at += 2
        length = token & 15
        if length == 15:
            while True:
                if at >= stop:
                    return -1
                more = src[at]
                at += 1
                length += more
                if more != 255:
                    break
        length += 4
        if offset == 0 or to - offset < begin or to + length > end:
            return -1
        for i in range(length):
            dst[to + i] = dst[to + i - offset]
        to += length
    return to - begin if to == end else -1


def expanded(stored: bytes) -> bytes:
    """The payload of a value that is compressed where it lies inside another value; `stored` has its length word. Raises CorruptWal."""
    info = int.from_bytes(stored[4:8], "little")
    out = np.zeros(info & RAW_SIZE, np.uint8)
    expand = lz4 if info >> 30 else pglz
    if expand(np.frombuffer(stored, np.uint8).copy(), 8, len(stored), out, 0, len(out)) != len(out):
        raise CorruptWal("compressed data inside a value is corrupted")
    return out.tobytes()
