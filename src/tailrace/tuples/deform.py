"""Heap tuples -> where each attribute lies (`access/htup_details.h`).

In: references to logged tuples, each an xl_heap_header (infomask2, infomask, hoff: 5 bytes) and what follows it. Out: for each attribute and row its
payload's position, length and form. Nothing is copied here and no value is looked at; `tuples.gather` makes columns of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CorruptWal
from tailrace.kernels import inner_kernel, kernel
from tailrace.wal.unaligned import u8, u16, u32

HEAP_HEADER = 5
TUPLE_HEADER = 23  # sizeof up to t_bits: what xl_heap_header stands for
_HOFF_AT = 4
_HAS_NULL = 0x0001
_NATTS = 0x07FF

# How an attribute is stored
PLAIN = 0
NULL = 1
MISSING = 2  # the tuple is older than the column
PGLZ = 3  # inline compressed; `size` is the stored length of the stream, after the tcinfo word
LZ4 = 4
EXTERNAL = 5  # `at` points to the 16 bytes of varatt_external

EXTERNAL_SIZE = 18
_ON_DISK = 18  # vartag_external


@inner_kernel
def user_data_at(buf, tuple_at):  # type: ignore[no-untyped-def]
    """Where the attributes of a tuple begin, behind the bitmap of NULLs."""
    return tuple_at + HEAP_HEADER + u8(buf, tuple_at + _HOFF_AT) - TUPLE_HEADER


@kernel
def deform_rows(buf, row_at, row_length, lengths, aligns, at, size, form):  # type: ignore[no-untyped-def]
    """Fill at, size, form (natts x n) for tuples `buf[row_at[i] : row_at[i] + row_length[i]]`; a row_at of -1 is no tuple (all NULL).

    Returns -1, or the first row whose attributes run past its end.
    """
    natts = len(lengths)
    for row in range(len(row_at)):
        start = row_at[row]
        if start < 0:
            for i in range(natts):
                form[i, row] = NULL
            continue
        stop = start + row_length[row]
        if row_length[row] < HEAP_HEADER:
            return row
        stored = u16(buf, start) & _NATTS
        has_null = u16(buf, start + 2) & _HAS_NULL
        bitmap = start + HEAP_HEADER
        data = bitmap + u8(buf, start + 4) - TUPLE_HEADER
        if data > stop or bitmap + (((stored + 7) >> 3) if has_null else 0) > data:
            return row
        offset = 0
        for i in range(natts):
            if i >= stored:
                form[i, row] = MISSING
                continue
            if has_null and not (u8(buf, bitmap + (i >> 3)) >> (i & 7)) & 1:
                form[i, row] = NULL
                continue
            length = lengths[i]
            align = aligns[i]
            form[i, row] = PLAIN
            if length > 0:
                offset = (offset + align - 1) & -align
                at[i, row] = data + offset
                size[i, row] = length
                offset += length
            elif length == -1:
                if data + offset >= stop:
                    return row
                if buf[data + offset] == 0:
                    offset = (offset + align - 1) & -align
                    if data + offset >= stop:
                        return row
                first = u8(buf, data + offset)
                if first == 1:
                    if data + offset + EXTERNAL_SIZE > stop or u8(buf, data + offset + 1) != _ON_DISK:
                        return row
                    form[i, row] = EXTERNAL
                    at[i, row] = data + offset + 2
                    size[i, row] = 16
                    offset += EXTERNAL_SIZE
                elif first & 1:
                    at[i, row] = data + offset + 1
                    size[i, row] = (first >> 1) - 1
                    offset += first >> 1
                else:
                    if data + offset + 4 > stop:
                        return row
                    total = u32(buf, data + offset) >> 2
                    if total < (8 if first & 3 == 2 else 4):
                        return row
                    if first & 3 == 2:
                        form[i, row] = LZ4 if u32(buf, data + offset + 4) >> 30 else PGLZ
                        at[i, row] = data + offset + 8
                        size[i, row] = total - 8
                    else:
                        at[i, row] = data + offset + 4
                        size[i, row] = total - 4
                    offset += total
            else:  # cstring
                at[i, row] = data + offset
                while data + offset < stop and u8(buf, data + offset) != 0:
                    offset += 1
                size[i, row] = data + offset - at[i, row]
                offset += 1
            if data + offset > stop:
                return row
    return -1


def deform(
    buf: NDArray[np.uint8], row_at: NDArray[np.int64], row_length: NDArray[np.int64], lengths: NDArray[np.int64], aligns: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8]]:  # fmt: skip
    """Positions, sizes and forms, each of shape (attributes, rows). Raises CorruptWal for a tuple that does not hold what its relation has."""
    bad, at, size, form = _deformed(buf, row_at, row_length, lengths, aligns)
    if bad >= 0:
        raise CorruptWal(
            f"tuple {bad} of {len(row_at)} does not have the layout of its relation",
            hint="The catalog state may not belong to this WAL.",
        )
    return at, size, form


def first_misfit(
    buf: NDArray[np.uint8],
    row_at: NDArray[np.int64],
    row_length: NDArray[np.int64],
    lengths: Sequence[int],
    aligns: Sequence[int],
) -> int:
    """The first tuple whose header or attributes run beyond its end, -1 if all keep within. The tuples themselves must lie in `buf`."""
    return _deformed(buf, row_at, row_length, np.array(lengths, np.int64), np.array(aligns, np.int64))[0]


def _deformed(
    buf: NDArray[np.uint8], row_at: NDArray[np.int64], row_length: NDArray[np.int64], lengths: NDArray[np.int64], aligns: NDArray[np.int64]
) -> tuple[int, NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8]]:  # fmt: skip
    shape = (len(lengths), len(row_at))
    at = np.zeros(shape, np.int64)
    size = np.zeros(shape, np.int32)
    form = np.zeros(shape, np.uint8)
    return deform_rows(buf, row_at, row_length, lengths, aligns, at, size, form), at, size, form
