"""Arrays as they are stored: taken apart into one column of all their elements, and put together of one.

A stored array (`utils/array.h`) is i32 dimensions, i32 offset of the data (0: no NULLs), u32 element type, then a length and a
lower bound per dimension, a null bitmap if there is one, and the elements, each aligned as its type. Offsets and alignment
count from the 4-byte length word, which our payloads lack.
"""

from __future__ import annotations

import struct
from dataclasses import field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal, UnsupportedWal
from tailrace.kernels import inner_kernel, kernel
from tailrace.model import PgType
from tailrace.types.codec import none_of_its_type
from tailrace.types.codec.inner_values import WORD
from tailrace.types.values import Values, as_writable

MAX_DIMENSIONS = 6
"""MAXDIM (`utils/array.h`)."""
DATA_OFFSET, ELEMENT_TYPE, LENGTHS = 4, 8, 12
"""Where the header's fields lie in the payload: after the number of dimensions, and before their lengths."""
IS_NULL, IS_NO_VALUE = -1, -2
"""In place of an element's size: it is NULL; it is compressed or lies elsewhere, which cannot be."""


@inner_kernel
def read_word(data: Any, at: Any) -> Any:
    """An i32 as int64, wherever it stands."""
    word = np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24
    return word - 0x100000000 if word & 0x80000000 else word


@inner_kernel
def read_dimension(data: Any, start: Any, dimension: Any) -> Any:
    """The length of a dimension of the array at `start`."""
    return read_word(data, start + LENGTHS + 4 * dimension)


@inner_kernel
def read_lower_bound(data: Any, start: Any, dimensions: Any, dimension: Any) -> Any:
    """The lower bound of one of its dimensions."""
    return read_word(data, start + LENGTHS + 4 * (dimensions + dimension))


@inner_kernel
def _element_count(data: Any, start: Any, stop: Any) -> Any:
    """How many elements the header of an array tells of, -1 if what lies there has no such header. More than a bit each they cannot be."""
    if stop - start < LENGTHS:
        return np.int64(-1)
    dimensions = read_word(data, start)
    if not 0 <= dimensions <= MAX_DIMENSIONS or stop - start < LENGTHS + 8 * dimensions:
        return np.int64(-1)
    most = 8 * (stop - start)
    count = np.int64(1 if dimensions else 0)
    for dimension in range(dimensions):
        length = read_dimension(data, start, dimension)
        if length < 0 or (length and count > most // length):
            return np.int64(-1)
        count *= length
    data_offset = read_word(data, start + DATA_OFFSET)
    if data_offset and not WORD + LENGTHS + 8 * dimensions + (count + 7) // 8 <= data_offset <= WORD + stop - start:
        return np.int64(-1)
    return count


@kernel
def _count_elements(starts: Any, data: Any, valid: Any) -> Any:
    """Where each row's elements begin in the flattened column, whether each row is a plain list, and the first row that is no array, or -1."""
    rows = len(valid)
    firsts = np.zeros(rows + 1, np.int64)
    plain = np.ones(rows, np.bool_)
    for row in range(rows):
        count = np.int64(0)
        if valid[row]:
            start = starts[row]
            count = _element_count(data, start, starts[row + 1])
            if count < 0:
                return firsts, plain, row
            dimensions = read_word(data, start)
            plain[row] = dimensions == 0 or (dimensions == 1 and read_lower_bound(data, start, 1, 0) == 1)
        firsts[row + 1] = firsts[row] + count
    return firsts, plain, -1


@kernel
def _find_elements(starts: Any, data: Any, valid: Any, firsts: Any, length: Any, align: Any) -> Any:
    """Start and size of every element; IS_NULL or IS_NO_VALUE for the size of one that has none. And the first row whose elements run beyond its end,
    or -1."""
    total = firsts[-1]
    places = np.zeros(total, np.int64)
    sizes = np.zeros(total, np.int64)
    for row in range(len(valid)):
        if not valid[row] or firsts[row] == firsts[row + 1]:
            continue
        # All positions as in the form with a length word, of which `origin` is the start.
        origin = starts[row] - WORD
        end = starts[row + 1] - origin
        bitmap = WORD + LENGTHS + 8 * read_word(data, starts[row])
        data_offset = read_word(data, starts[row] + DATA_OFFSET)
        here = data_offset if data_offset else (bitmap + 7) // 8 * 8
        for place in range(firsts[row], firsts[row + 1]):
            number = place - firsts[row]
            if data_offset and not (data[origin + bitmap + number // 8] >> (number & 7)) & 1:
                sizes[place] = IS_NULL
                continue
            if length > 0:
                here = (here + align - 1) // align * align
                places[place] = origin + here
                sizes[place] = length
                here += length
                if here > end:
                    return places, sizes, row
                continue
            if here >= end:
                return places, sizes, row
            if data[origin + here] == 0:
                here = (here + align - 1) // align * align
            if here >= end:
                return places, sizes, row
            head = data[origin + here]
            if head & 1:
                size = np.int64(head) >> 1
                places[place] = origin + here + 1
                sizes[place] = size - 1 if size else IS_NO_VALUE
            else:
                size = (read_word(data, origin + here) & 0xFFFFFFFF) >> 2 if here + WORD <= end else np.int64(0)
                if size < WORD:
                    return places, sizes, row
                places[place] = origin + here + WORD
                sizes[place] = IS_NO_VALUE if head & 2 else size - WORD
            here += max(size, 1)
            if here > end:
                return places, sizes, row
    return places, sizes, -1


@kernel
def _gather_elements(data: Any, places: Any, sizes: Any, room: Any) -> Any:
    """The elements one after another; a NULL takes `room` zero bytes."""
    offsets = np.empty(len(sizes) + 1, np.int64)
    offsets[0] = 0
    for place in range(len(sizes)):
        offsets[place + 1] = offsets[place] + (sizes[place] if sizes[place] >= 0 else room)
    out = np.zeros(offsets[-1], np.uint8)
    for place in range(len(sizes)):
        at = offsets[place]
        for byte in range(sizes[place]):
            out[at + byte] = data[places[place] + byte]
    return offsets, out


def element_of(pg_type: PgType) -> PgType:
    assert pg_type.element is not None, "an array has an element"
    return pg_type.element


def take_apart(values: Values, pg_type: PgType) -> tuple[NDArray[np.int64], NDArray[np.bool_], Values]:
    """Where each row's elements begin, which rows are plain lists, and all elements as one column. Raises CorruptWal if a row is no array."""
    element = element_of(pg_type)
    if element.length < -1:
        raise UnsupportedWal(f'cannot decode a value of type "{pg_type.label}"')
    starts, data = values.payloads
    valid = as_writable(values.valid)
    firsts, plain, bad = _count_elements(starts, data, valid)
    if bad < 0:
        places, sizes, bad = _find_elements(starts, data, valid, firsts, element.length, element.align)
    if bad >= 0:
        raise none_of_its_type(pg_type)
    if len(sizes) and sizes.min() == IS_NO_VALUE:
        raise CorruptWal(f'an element of a "{pg_type.label}" is compressed, which no array may hold')
    present = sizes >= 0
    offsets, gathered = _gather_elements(data, places, sizes, max(element.length, 0))
    if element.length > 0:
        return firsts, plain, Values(present, fixed=gathered.reshape(len(sizes), element.length))
    return firsts, plain, Values(present, offsets=offsets, data=gathered)


@dataclass(frozen=True, slots=True)
class Shape:
    """Length and lower bound of each dimension of an array."""

    lengths: list[int] = field(default_factory=list)
    lowers: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return prod(self.lengths) if self.lengths else 0


def stored_arrays(shapes: list[Shape | None], elements: Values, pg_type: PgType) -> Values:
    """Stored arrays of these shapes (None for NULL), whose elements follow each other in one column."""
    element = element_of(pg_type)
    rows = zip(elements.payload_list(), elements.valid.tolist(), strict=True)
    stored = iter([payload if present else None for payload, present in rows])
    return Values.of_payloads(
        [None if shape is None else _write_array(shape, [next(stored) for _ in range(shape.size)], element) for shape in shapes],
        -1,
    )


def _write_array(shape: Shape, elements: list[bytes | None], element: PgType) -> bytes:
    dimensions = len(shape.lengths)
    has_nulls = None in elements
    data_offset = WORD + LENGTHS + 8 * dimensions + (-(-len(elements) // 8) if has_nulls else 0)
    data_offset += -data_offset % 8
    body = bytearray(struct.pack("<iiI", dimensions, data_offset if has_nulls else 0, element.oid))
    body += struct.pack(f"<{2 * dimensions}i", *shape.lengths, *shape.lowers)
    if has_nulls:
        body += np.packbits([each is not None for each in elements], bitorder="little").tobytes()
    # Without elements the header ends the value; with them, data starts aligned to 8 from the length word.
    body += bytes(data_offset - WORD - len(body)) if elements else b""
    for each in elements:
        if each is not None:
            body += bytes(-(len(body) + WORD) % element.align)
            body += each if element.length > 0 else struct.pack("<I", len(each) + WORD << 2) + each
    if element.length < 0:
        body += bytes(-(len(body) + WORD) % element.align)
    return bytes(body)
