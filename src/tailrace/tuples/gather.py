"""Positions of attributes -> columns of values: copied together, decompressed, TOAST put in (`varatt.h`).

In: what `tuples.deform` found, and the TOAST chunks that serve each row. Out: `Values`. A value that lies in a TOAST table and did not come
with this record is *unchanged*: neither a value nor NULL.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CorruptWal
from tailrace.kernels import kernel
from tailrace.tuples.deform import EXTERNAL, LZ4, MISSING, NULL, PGLZ, PLAIN
from tailrace.tuples.toast import Chunks, find_value
from tailrace.types.values import Values
from tailrace.wal.compression import lz4, pglz
from tailrace.wal.unaligned import copy, u16, u32, u64

_RAW_SIZE = 0x3FFFFFFF
_WORDS: dict[int, np.dtype[Any]] = {2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}


@kernel
def measure(buf, at, size, form, missing_size, epoch, chunk_table, chunk_key, chunk_next, chunk_size, out_size, first_chunk):  # type: ignore[no-untyped-def]
    """Final length of each value of one column. Returns the total; marks unchanged values with first_chunk = -2."""
    total = np.int64(0)
    for row in range(len(at)):
        kind = form[row]
        first_chunk[row] = -1
        if kind == PLAIN:
            length = np.int64(size[row])
        elif kind == NULL:
            length = np.int64(0)
        elif kind == MISSING:
            length = np.int64(max(missing_size, 0))
        elif kind == EXTERNAL:
            raw = u32(buf, at[row]) - 4
            stored = u32(buf, at[row] + 4) & _RAW_SIZE
            first = find_value(chunk_table, chunk_key, epoch[row], u32(buf, at[row] + 8))
            if first < 0:
                first_chunk[row] = -2
                length = np.int64(0)
            else:
                got = np.int64(0)
                chunk = first
                while chunk >= 0:
                    got += chunk_size[chunk]
                    chunk = chunk_next[chunk]
                if got != stored:
                    return -1 - np.int64(row)
                first_chunk[row] = first
                length = raw
        else:
            length = u32(buf, at[row] - 4) & _RAW_SIZE
        out_size[row] = length
        total += length
    return total


@kernel
def collect(buf, at, size, form, missing, first_chunk, chunk_next, chunk_at, chunk_size, offsets, out):  # type: ignore[no-untyped-def]
    """Write each value at its offset. Returns -1, or the row that could not be expanded."""
    scratch = np.zeros(0, np.uint8)
    for row in range(len(at)):
        kind = form[row]
        to = offsets[row]
        length = offsets[row + 1] - to
        if kind == PLAIN:
            copy(out, to, buf, at[row], length)
        elif kind == MISSING:
            out[to : to + length] = missing[:length]
        elif kind == PGLZ:
            if pglz(buf, at[row], at[row] + size[row], out, to, length) != length:
                return row
        elif kind == LZ4:
            if lz4(buf, at[row], at[row] + size[row], out, to, length) != length:
                return row
        elif kind == EXTERNAL and first_chunk[row] >= 0:
            stored = u32(buf, at[row] + 4) & _RAW_SIZE
            chunk = first_chunk[row]
            if stored == length:
                while chunk >= 0:
                    n = chunk_size[chunk]
                    copy(out, to, buf, chunk_at[chunk], n)
                    to += n
                    chunk = chunk_next[chunk]
            else:
                if len(scratch) < stored:
                    scratch = np.zeros(stored, np.uint8)
                got = 0
                while chunk >= 0:
                    n = chunk_size[chunk]
                    scratch[got : got + n] = buf[chunk_at[chunk] : chunk_at[chunk] + n]
                    got += n
                    chunk = chunk_next[chunk]
                done = (
                    lz4(scratch, 4, stored, out, to, length)
                    if u32(buf, at[row] + 4) >> 30
                    else pglz(scratch, 4, stored, out, to, length)
                )
                if done != length:
                    return row
    return -1


@kernel
def collect_fixed(buf, at, form, missing, out):  # type: ignore[no-untyped-def]
    """A fixed-length column: out is (rows, length), zeros."""
    length = out.shape[1]
    for row in range(len(at)):
        if form[row] == PLAIN:
            copy(out, row * length, buf, at[row], length)
        elif form[row] == MISSING:
            for i in range(len(missing)):
                out[row, i] = missing[i]


@kernel
def collect_words(buf, at, form, filler, out):  # type: ignore[no-untyped-def]
    """A column of 2, 4 or 8 bytes as numbers, each moved in one step where a copy would be a call."""
    width = out.itemsize
    for row in range(len(at)):
        if form[row] == PLAIN:
            if width == 8:
                out[row] = u64(buf, at[row])
            elif width == 4:
                out[row] = u32(buf, at[row])
            else:
                out[row] = u16(buf, at[row])
        elif form[row] == MISSING:
            out[row] = filler


def column_of(
    buf: NDArray[np.uint8], at: NDArray[np.int64], size: NDArray[np.int32], form: NDArray[np.uint8], length: int,
    missing: bytes | None, epoch: NDArray[np.int64], chunks: Chunks,
) -> Values:  # fmt: skip
    """One attribute of all rows as `Values`. `missing` is the stored value of rows too short for the column; `epoch` says which chunks serve
    a row. Raises CorruptWal for a value that does not expand to its size or whose chunks do not add up."""
    valid = form != NULL
    if missing is None:
        valid &= form != MISSING
    filler = np.frombuffer(missing or b"", np.uint8)
    if length > 0:
        fixed = np.zeros((len(at), length), np.uint8)
        if length in _WORDS:
            words = fixed.view(_WORDS[length])[:, 0]
            collect_words(buf, at, form, np.frombuffer(missing or bytes(length), _WORDS[length])[0], words)
        else:
            collect_fixed(buf, at, form, filler, fixed)
        return Values(valid, fixed=fixed)
    sizes = np.empty(len(at), np.int64)
    first_chunk = np.empty(len(at), np.int64)
    total = measure(
        buf, at, size, form, len(filler), epoch, chunks.table, chunks.keys, chunks.next, chunks.size, sizes, first_chunk
    )
    if total < 0:
        raise CorruptWal(f"missing or extra chunks of a TOAST value of row {-1 - total}")
    offsets = np.zeros(len(at) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    out = np.empty(total, np.uint8)
    bad = collect(buf, at, size, form, filler, first_chunk, chunks.next, chunks.at, chunks.size, offsets, out)
    if bad >= 0:
        raise CorruptWal(f"compressed data of row {bad} is corrupted")
    unchanged = first_chunk == -2
    if not unchanged.any():
        return Values(valid, offsets=offsets, data=out)
    return Values(valid & ~unchanged, offsets=offsets, data=out, unchanged=unchanged)
