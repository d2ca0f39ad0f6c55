"""Positions of attributes -> columns of values: copied together, decompressed, TOAST put in (`varatt.h`).

In: what `tuples.deform` tells of an attribute, and the TOAST chunks that serve each row. Out: `Values`. A value that lies in a TOAST table and did
not come with this record is *unchanged*: neither a value nor NULL.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.kernels import inner_kernel, kernel
from tailrace.memcpy import memcpy
from tailrace.tuples.deform import Attributes
from tailrace.tuples.errors import CorruptTuple
from tailrace.tuples.toast import Chunks, first_chunk, size_of_chunks
from tailrace.tuples.varlena import (
    EXTERNAL,
    LZ4,
    MISSING,
    NULL,
    PGLZ,
    PLAIN,
    external_is_lz4,
    external_size,
    size_before,
    stored_size,
    value_id,
)
from tailrace.types.values import Mask, Values
from tailrace.wal.compression import lz4, pglz
from tailrace.wal.unaligned import u16, u32, u64

_WORDS: dict[int, np.dtype[Any]] = {2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
_TCINFO = 4
"""Bytes in front of a compressed value in chunks: its tcinfo word again."""
_MOST_OF_BYTE = 255
"""What one byte of a compressed stream makes at most: so much in LZ4, a third of it in pglz."""

# Instead of an external value's first chunk
_NOT_EXTERNAL = -1
_UNCHANGED = -2

# Instead of how many are not there
_WRONG_CHUNKS = -1
_WRONG_SIZE = -2


@kernel
def measure(buf, attribute, missing_size, turn, chunks, offsets, external):  # type: ignore[no-untyped-def]
    """Fill `offsets` by the final length of each value, and `external` with the first chunk of those in chunks. Returns how many values are not
    there, and -1; or what is wrong, and the first row with which it is."""
    total = unchanged = np.int64(0)
    offsets[0] = 0
    for row in range(len(external)):
        form = attribute.form[row]
        external[row] = _NOT_EXTERNAL
        if form == PLAIN:
            size = np.int64(attribute.size[row])
        elif form == NULL:
            size = np.int64(0)
        elif form == MISSING:
            size = np.int64(missing_size)
        elif form == EXTERNAL:
            at = attribute.at[row]
            chunk = first_chunk(chunks, turn[row], value_id(buf, at))
            if chunk < 0:
                external[row] = _UNCHANGED
                unchanged += 1
                size = np.int64(0)
            elif size_of_chunks(chunks, chunk) != stored_size(buf, at):
                return np.int64(_WRONG_CHUNKS), row
            else:
                external[row] = chunk
                size = external_size(buf, at)
                if not 0 <= size <= _MOST_OF_BYTE * stored_size(buf, at):
                    return np.int64(_WRONG_SIZE), row
        else:
            size = size_before(buf, attribute.at[row])
            if size > _MOST_OF_BYTE * np.int64(attribute.size[row]):
                return np.int64(_WRONG_SIZE), row
        total += size
        offsets[row + 1] = total
    return unchanged, -1


@kernel
def collect(buf, attribute, missing, external, chunks, offsets, out):  # type: ignore[no-untyped-def]
    """Write each value at its offset. Returns -1, or the row that could not be expanded."""
    for row in range(len(offsets) - 1):
        form = attribute.form[row]
        at = attribute.at[row]
        to = offsets[row]
        size = offsets[row + 1] - to
        expanded = size
        if form == PLAIN:
            memcpy(out, to, buf, at, size)
        elif form == MISSING:
            memcpy(out, to, missing, 0, size)
        elif form == PGLZ:
            expanded = pglz(buf, at, at + attribute.size[row], out, to, size)
        elif form == LZ4:
            expanded = lz4(buf, at, at + attribute.size[row], out, to, size)
        elif form == EXTERNAL and external[row] >= 0:
            if stored_size(buf, at) == size:
                copy_chunks(buf, chunks, external[row], out, to)
            else:
                expanded = expand_chunks(buf, at, chunks, external[row], out, to, size)
        if expanded != size:
            return row
    return -1


@inner_kernel
def copy_chunks(buf, chunks, first, out, to):  # type: ignore[no-untyped-def]
    """What the chunks of a value hold, one after another, to `out[to:]`."""
    chunk = first
    while chunk >= 0:
        memcpy(out, to, buf, chunks.at[chunk], chunks.size[chunk])
        to += chunks.size[chunk]
        chunk = chunks.next[chunk]


@kernel
def expand_chunks(buf, at, chunks, first, out, to, size):  # type: ignore[no-untyped-def]
    """The same of a compressed value, which the varatt_external at `at` tells of. Returns the size that it has then, or -1."""
    stored = stored_size(buf, at)
    stream = np.empty(stored, np.uint8)
    copy_chunks(buf, chunks, first, stream, 0)
    if external_is_lz4(buf, at):
        return lz4(stream, _TCINFO, stored, out, to, size)
    return pglz(stream, _TCINFO, stored, out, to, size)


@kernel
def collect_fixed(buf, attribute, missing, out):  # type: ignore[no-untyped-def]
    """A fixed-length column: out is (rows, length), zeros."""
    length = out.shape[1]
    for row in range(len(out)):
        if attribute.form[row] == PLAIN:
            memcpy(out, row * length, buf, attribute.at[row], length)
        elif attribute.form[row] == MISSING:
            memcpy(out, row * length, missing, 0, len(missing))


@kernel
def collect_words(buf, attribute, filler, out):  # type: ignore[no-untyped-def]
    """A column of 2, 4 or 8 bytes as numbers, each moved in one step where a copy would be a call."""
    width = out.itemsize
    for row in range(len(out)):
        if attribute.form[row] == PLAIN:
            if width == 8:
                out[row] = u64(buf, attribute.at[row])
            elif width == 4:
                out[row] = u32(buf, attribute.at[row])
            else:
                out[row] = u16(buf, attribute.at[row])
        elif attribute.form[row] == MISSING:
            out[row] = filler
        else:
            out[row] = 0


def column_of(
    buf: NDArray[np.uint8], attribute: Attributes, length: int, missing: bytes | None, turn: NDArray[np.int64], chunks: Chunks
) -> Values:
    """One attribute of all rows as `Values`. `missing` is the stored value of rows too short for the column; `turn` says which chunks serve
    a row. Raises CorruptTuple for a value that does not expand to its size or whose chunks do not add up."""
    if missing is not None and length > 0 and len(missing) != length:
        raise CorruptTuple(f"the value of older rows is {len(missing)} bytes long, and its column {length}")
    valid = attribute.form != NULL
    if missing is None:
        valid &= attribute.form != MISSING
    filler = np.frombuffer(missing or b"", np.uint8)
    if length > 0:
        if length in _WORDS:
            words = np.empty(len(valid), _WORDS[length])
            collect_words(buf, attribute, np.frombuffer(missing or bytes(length), _WORDS[length])[0], words)
            return Values(valid, fixed=words.view(np.uint8).reshape(len(valid), length))
        fixed = np.zeros((len(valid), length), np.uint8)
        collect_fixed(buf, attribute, filler, fixed)
        return Values(valid, fixed=fixed)
    return _varlena_column(buf, attribute, filler, turn, chunks, valid)


def _varlena_column(
    buf: NDArray[np.uint8], attribute: Attributes, filler: NDArray[np.uint8], turn: NDArray[np.int64], chunks: Chunks, valid: Mask
) -> Values:
    offsets, external = np.empty(len(valid) + 1, np.int64), np.empty(len(valid), np.int64)
    absent, bad = measure(buf, attribute, len(filler), turn, chunks, offsets, external)
    if absent == _WRONG_CHUNKS:
        raise CorruptTuple("missing or extra chunks of a TOAST value", row=bad)
    if absent == _WRONG_SIZE:
        raise CorruptTuple("compressed data is corrupt", row=bad)
    out = np.empty(offsets[-1], np.uint8)
    bad = collect(buf, attribute, filler, external, chunks, offsets, out)
    if bad >= 0:
        raise CorruptTuple("compressed data is corrupt", row=bad)
    if not absent:
        return Values(valid, offsets=offsets, data=out)
    unchanged = external == _UNCHANGED
    return Values(valid & ~unchanged, offsets=offsets, data=out, unchanged=unchanged)
