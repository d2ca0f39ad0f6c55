"""Arrays in binary form: i32 dimensions, i32 whether there may be NULLs, u32 the element's type, length and lower bound of each
dimension, then the elements, each after its length (-1 for NULL). All big-endian.

Elements go through their own send function as one column; a kernel puts the rows together.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from tailrace.kernels import inner_kernel, kernel
from tailrace.model import PgType
from tailrace.types.arrays.stored import (
    DATA_OFFSET,
    ELEMENT_TYPE,
    LENGTHS,
    MAX_DIMENSIONS,
    Shape,
    element_of,
    read_dimension,
    read_lower_bound,
    read_word,
    stored_arrays,
    take_apart,
)
from tailrace.types.codec import format_binary, format_error, parse_binary
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_writable


@inner_kernel
def _put_word(out: Any, at: Any, word: Any) -> Any:
    """Write an i32, big-endian."""
    for shift in (24, 16, 8, 0):
        out[at] = (word >> shift) & 255
        at += 1
    return at


@kernel
def _send_arrays(starts: Any, data: Any, valid: Any, firsts: Any, present: Any, offsets: Any, sent: Any) -> Any:
    """Headers and lengths around what was `sent` of the elements. Those of a row are from its `firsts` to the next row's; which of them are `present`
    is no NULL, and the form of each is in `sent` between its `offsets`."""
    rows = len(valid)
    ends = np.empty(rows + 1, np.int64)
    ends[0] = 0
    out = np.empty((LENGTHS + 8 * MAX_DIMENSIONS) * rows + 4 * len(present) + len(sent), np.uint8)
    at = 0
    for row in range(rows):
        if valid[row]:
            start = starts[row]
            dimensions = read_word(data, start)
            at = _put_word(out, at, dimensions)
            at = _put_word(out, at, 1 if read_word(data, start + DATA_OFFSET) else 0)
            at = _put_word(out, at, read_word(data, start + ELEMENT_TYPE))
            for dimension in range(dimensions):
                at = _put_word(out, at, read_dimension(data, start, dimension))
                at = _put_word(out, at, read_lower_bound(data, start, dimensions, dimension))
            for element in range(firsts[row], firsts[row + 1]):
                if not present[element]:
                    at = _put_word(out, at, -1)
                    continue
                at = _put_word(out, at, offsets[element + 1] - offsets[element])
                for place in range(offsets[element], offsets[element + 1]):
                    out[at] = sent[place]
                    at += 1
        ends[row + 1] = at
    return ends, out[:at]


def send_arrays(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As array_send (and int2vectorsend, oidvectorsend), which asks for the element's function at the first array."""
    if not values.valid.any():
        return Texts(np.zeros(len(values) + 1, np.int64), np.zeros(0, np.uint8))
    firsts, _, elements = take_apart(values, pg_type)
    sent = format_binary(elements, element_of(pg_type), style)
    valid, present = as_writable(values.valid), as_writable(elements.valid)
    return Texts(*_send_arrays(*values.payloads, valid, firsts, present, as_writable(sent.offsets), as_writable(sent.data)))


def receive_arrays(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As array_recv. All elements of all rows are received as one column."""
    shapes: list[Shape | None] = []
    forms: list[bytes | None] = []
    for sent, there in zip(texts.to_bytes(), valid.tolist(), strict=True):
        shape, elements = _read_sent(sent) if there else (None, [])
        shapes.append(shape)
        forms += elements
    present = np.array([form is not None for form in forms], np.bool_)
    received = parse_binary(Texts.of([form or b"" for form in forms]), present, element_of(pg_type))
    return stored_arrays(shapes, received, pg_type)


def _read_sent(sent: bytes) -> tuple[Shape, list[bytes | None]]:
    """The shape, and the binary form of each element (None for NULL)."""
    dimensions, flags = struct.unpack_from(">ii", sent)
    if not 0 <= dimensions <= MAX_DIMENSIONS or flags not in {0, 1}:
        raise format_error("array")
    bounds = struct.unpack_from(f">{2 * dimensions}i", sent, LENGTHS)
    shape = Shape(list(bounds[::2]), list(bounds[1::2]))
    at = LENGTHS + 8 * dimensions
    elements: list[bytes | None] = []
    for _ in range(shape.size):
        (size,) = struct.unpack_from(">i", sent, at)
        at += 4
        elements.append(None if size < 0 else sent[at : at + size])
        at += max(size, 0)
    if at != len(sent):
        raise format_error("array")
    return shape, elements
