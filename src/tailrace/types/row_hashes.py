"""A number for each row, by which rows of two places are compared without bringing them together.

In: columns as Arrow arrays, in the same order on both sides. Out: 64 bits for each row, which are equal where all values are, and differ, but for
one pair in 2^64, where one bit does. NULL is different from all values, and the same value in another column is another. Values count and not their
form: whole numbers of any width, slices, and offsets of 32 and of 64 bits are the same. Kernels go through the buffers of a column; no row becomes
an object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.kernels import inner_kernel, kernel
from tailrace.wal.unaligned import u8, word

Hashes = NDArray[np.uint64]
_BEGIN = 0x9E3779B97F4A7C15
_ALL = np.zeros(0, np.uint8)
"""In place of a validity bitmap: all rows have a value."""


def row_hashes(columns: Sequence[pa.Array], count: int, before: Hashes | None = None) -> Hashes:
    """Of `count` rows; with `before`, hashes of other columns of theirs, of these and then those."""
    hashes = np.full(count, _BEGIN, np.uint64) if before is None else before.copy()
    for column in columns:
        _add(hashes, column)
    return hashes


def _add(hashes: Hashes, column: pa.Array) -> None:
    """Take in a column's values. Raises NotImplementedError for a type of Arrow that no table of a lake has."""
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        _add(hashes, column.storage)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        items = column.flatten()
        _add_lists(hashes, row_hashes([items], len(items)), np.concatenate([[0], np.cumsum(lengths)]), *_validity(column))
    elif pa.types.is_struct(kind):
        _add_words(hashes, row_hashes(column.flatten(), len(column)), 0, *_validity(column))
    elif pa.types.is_null(kind):
        _add_words(hashes, np.zeros(len(column), np.uint64), 0, np.zeros(-(-len(column) // 8), np.uint8), 0)
    elif pa.types.is_boolean(kind):
        _add_bits(hashes, _bytes(column.buffers()[1]), column.offset, *_validity(column))
    elif pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
        offsets = np.frombuffer(column.buffers()[1] or b"", np.int64 if wide else np.int32)[column.offset :][: len(column) + 1]
        _add_texts(hashes, _bytes(column.buffers()[2]), offsets, *_validity(column))
    elif pa.types.is_decimal128(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_interval(kind):
        width = kind.byte_width if not pa.types.is_interval(kind) else 16
        start = column.offset * width
        data = _bytes(column.buffers()[1])[start : start + len(column) * width]
        _add_texts(hashes, data, np.arange(len(column) + 1, dtype=np.int64) * width, *_validity(column))
    else:
        _add_words(hashes, _words(column), 0, *_validity(column))


def _words(column: pa.Array) -> NDArray[Any]:
    """Values of a fixed width, whole numbers (dates and times are) as such, others by their bits."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind)):
        raise NotImplementedError(kind)
    number = f"{'u' if pa.types.is_unsigned_integer(kind) else 'i'}{kind.bit_width // 8}"
    return np.frombuffer(column.buffers()[1] or b"", np.dtype(number))[column.offset :][: len(column)]


def _bytes(buffer: pa.Buffer | None) -> NDArray[np.uint8]:
    return np.frombuffer(buffer, np.uint8) if buffer is not None and buffer.size else _ALL


def _validity(column: pa.Array) -> tuple[NDArray[np.uint8], int]:
    """The bitmap, and at which bit it begins."""
    return (_bytes(column.buffers()[0]), column.offset) if column.null_count else (_ALL, 0)


@inner_kernel
def _mixed(one: Any, other: Any) -> Any:
    """Two numbers as one, so that each bit of either changes half of all bits (the multiplier of MurmurHash3's finalizer, twice)."""
    number = (one ^ other) * np.uint64(0xFF51AFD7ED558CCD)
    number ^= number >> np.uint64(32)
    number = (number + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xC4CEB9FE1A85EC53)
    return number ^ (number >> np.uint64(29))


@inner_kernel
def _without_value(number: Any) -> Any:
    return _mixed(number + np.uint64(0x632BE59BD9B4E019), np.uint64(0xD1B54A32D192ED03))


@inner_kernel
def _has_value(bitmap: Any, at: Any) -> Any:
    return len(bitmap) == 0 or (bitmap[at >> 3] >> (at & 7)) & 1 == 1


@kernel
def _add_words(hashes: Any, values: Any, _: Any, bitmap: Any, first: Any) -> None:
    for row in range(len(hashes)):
        if _has_value(bitmap, first + row):
            hashes[row] = _mixed(hashes[row], np.uint64(values[row]))
        else:
            hashes[row] = _without_value(hashes[row])


@kernel
def _add_bits(hashes: Any, values: Any, begin: Any, bitmap: Any, first: Any) -> None:
    for row in range(len(hashes)):
        if _has_value(bitmap, first + row):
            at = begin + row
            hashes[row] = _mixed(hashes[row], np.uint64((values[at >> 3] >> (at & 7)) & 1))
        else:
            hashes[row] = _without_value(hashes[row])


@kernel
def _add_texts(hashes: Any, data: Any, offsets: Any, bitmap: Any, first: Any) -> None:
    for row in range(len(hashes)):
        if not _has_value(bitmap, first + row):
            hashes[row] = _without_value(hashes[row])
            continue
        at, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        number = _mixed(hashes[row], np.uint64(end - at))
        while at + 8 <= end:
            number = _mixed(number, word(data, at))
            at += 8
        if at < end:
            rest = np.uint64(0)
            while end > at:
                end -= 1
                rest = (rest << np.uint64(8)) | np.uint64(u8(data, end))
            number = _mixed(number, rest)
        hashes[row] = number


@kernel
def _add_lists(hashes: Any, items: Any, bounds: Any, bitmap: Any, first: Any) -> None:
    for row in range(len(hashes)):
        if not _has_value(bitmap, first + row):
            hashes[row] = _without_value(hashes[row])
            continue
        number = _mixed(hashes[row], np.uint64(bounds[row + 1] - bounds[row]))
        for at in range(bounds[row], bounds[row + 1]):
            number = _mixed(number, items[at])
        hashes[row] = number
