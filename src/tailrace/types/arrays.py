"""Arrays of any element: taken apart by one kernel, printed as a column of elements, put together by another.

A stored array (`utils/array.h`) is i32 dimensions, i32 offset of the data (0: no NULLs), u32 element type, then a length and a
lower bound per dimension, a null bitmap if there is one, and the elements, each aligned as its type. Offsets and alignment
count from the 4-byte length word, which our payloads lack.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

from tailrace.errors import CorruptWal, UnsupportedWal, UsageError
from tailrace.model import PgType
from tailrace.types.codec import ArrowStyle, arrow_type, format_values, mask_buffer, string_array, to_arrow
from tailrace.types.digits import grown, put_signed
from tailrace.types.style import TextStyle
from tailrace.types.values import Texts, Values, as_writable

MAX_DIMENSIONS = 6
"""MAXDIM (`utils/array.h`)."""


@njit(cache=True, nogil=True)
def read_word(data: Any, at: Any) -> Any:
    """An i32 as int64, wherever it stands."""
    word = np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24
    return word - 0x100000000 if word & 0x80000000 else word


@njit(cache=True, nogil=True)
def _count_elements(starts: Any, data: Any, valid: Any) -> Any:
    """Where each row's elements begin in the flattened column, and whether each row is a plain list."""
    rows = len(valid)
    firsts = np.zeros(rows + 1, np.int64)
    plain = np.ones(rows, np.bool_)
    for row in range(rows):
        count = 0
        if valid[row]:
            at = starts[row]
            dimensions = read_word(data, at)
            count = 1 if dimensions else 0
            for place in range(dimensions):
                count *= read_word(data, at + 12 + 4 * place)
            plain[row] = dimensions == 0 or (dimensions == 1 and read_word(data, at + 16) == 1)
        firsts[row + 1] = firsts[row] + count
    return firsts, plain


@njit(cache=True, nogil=True)
def _find_elements(starts: Any, data: Any, valid: Any, firsts: Any, length: Any, align: Any) -> Any:  # noqa: PLR0917
    """Start and size of every element; size -1 for NULL, -2 for one that is compressed or lies elsewhere."""
    total = firsts[-1]
    places = np.zeros(total, np.int64)
    sizes = np.zeros(total, np.int64)
    for row in range(len(valid)):
        if not valid[row] or firsts[row] == firsts[row + 1]:
            continue
        # All positions as in the form with a length word, of which `origin` is the start.
        origin = starts[row] - 4
        dimensions = read_word(data, starts[row])
        bitmap = origin + 16 + 8 * dimensions
        data_offset = read_word(data, starts[row] + 4)
        here = data_offset if data_offset else (16 + 8 * dimensions + 7) // 8 * 8
        for place in range(firsts[row], firsts[row + 1]):
            each = place - firsts[row]
            if data_offset and not (data[bitmap + each // 8] >> (each & 7)) & 1:
                sizes[place] = -1
                continue
            if length > 0:
                here = (here + align - 1) // align * align
                places[place] = origin + here
                sizes[place] = length
                here += length
                continue
            if data[origin + here] == 0:
                here = (here + align - 1) // align * align
            head = data[origin + here]
            if head & 1:
                size = np.int64(head) >> 1
                places[place] = origin + here + 1
                sizes[place] = size - 1 if size else -2
            else:
                size = read_word(data, origin + here) >> 2
                places[place] = origin + here + 4
                sizes[place] = -2 if head & 2 else size - 4
            here += max(size, 1)
    return places, sizes


@njit(cache=True, nogil=True)
def _gather(data: Any, places: Any, sizes: Any, room: Any) -> Any:
    """The elements one after another; a NULL takes `room` zero bytes."""
    offsets = np.empty(len(sizes) + 1, np.int64)
    offsets[0] = 0
    for place in range(len(sizes)):
        offsets[place + 1] = offsets[place] + (sizes[place] if sizes[place] >= 0 else room)
    out = np.zeros(offsets[-1], np.uint8)
    for place in range(len(sizes)):
        at = offsets[place]
        for each in range(sizes[place]):
            out[at + each] = data[places[place] + each]
    return offsets, out


@njit(cache=True, nogil=True)
def _needs_quotes(text: Any, start: Any, stop: Any, delimiter: Any) -> Any:
    """Empty, the word NULL, or holding something with a meaning in an array literal."""
    if start == stop:
        return True
    if stop - start == 4:
        null = text[start] | 32 == 110 and text[start + 1] | 32 == 117
        if null and text[start + 2] | 32 == 108 and text[start + 3] | 32 == 108:
            return True
    for place in range(start, stop):
        byte = text[place]
        if byte in (34, 92, 123, 125, delimiter, 32) or 9 <= byte <= 13:
            return True
    return False


@njit(cache=True, nogil=True)
def _assemble(  # noqa: PLR0917
    starts: Any, data: Any, valid: Any, firsts: Any, present: Any, offsets: Any, text: Any, delimiter: Any, vector: Any
) -> Any:
    """Braces, bounds, delimiters and quotes around the elements' texts; a vector is its elements between spaces."""
    rows = len(valid)
    ends = np.empty(rows + 1, np.int64)
    ends[0] = 0
    out = np.empty(len(text) + len(text) // 2 + 3 * len(present) + 2 * rows + 64, np.uint8)
    inner = np.empty(8, np.int64)
    at = 0
    for row in range(rows):
        out = grown(out, at + 256)
        dimensions = read_word(data, starts[row]) if valid[row] else 0
        total = firsts[row + 1] - firsts[row]
        if vector:
            dimensions = 0
        elif valid[row] and dimensions == 0:
            out[at] = 123
            out[at + 1] = 125
            at += 2
        bounded = False
        product = 1
        for place in range(dimensions - 1, -1, -1):
            product *= read_word(data, starts[row] + 12 + 4 * place)
            inner[place] = product
            bounded |= read_word(data, starts[row] + 12 + 4 * (dimensions + place)) != 1
        if bounded:
            for place in range(dimensions):
                low = read_word(data, starts[row] + 12 + 4 * (dimensions + place))
                out[at] = 91
                at = put_signed(out, at + 1, low)
                out[at] = 58
                at = put_signed(out, at + 1, low + read_word(data, starts[row] + 12 + 4 * place) - 1)
                out[at] = 93
                at += 1
            out[at] = 61
            at += 1
        for each in range(total):
            start, stop = offsets[firsts[row] + each], offsets[firsts[row] + each + 1]
            out = grown(out, at + 2 * (stop - start) + 64)
            for place in range(dimensions):
                if each % inner[place] == 0:
                    out[at] = 123
                    at += 1
            if not present[firsts[row] + each]:
                for letter in (78, 85, 76, 76):
                    out[at] = letter
                    at += 1
            elif vector or not _needs_quotes(text, start, stop, delimiter):
                for place in range(start, stop):
                    out[at] = text[place]
                    at += 1
            else:
                out[at] = 34
                at += 1
                for place in range(start, stop):
                    if text[place] in (34, 92):
                        out[at] = 92
                        at += 1
                    out[at] = text[place]
                    at += 1
                out[at] = 34
                at += 1
            for place in range(dimensions):
                if (each + 1) % inner[place] == 0:
                    out[at] = 125
                    at += 1
            if each + 1 < total:
                out[at] = delimiter
                at += 1
        ends[row + 1] = at
    return ends, out[:at]


def element_of(pg_type: PgType) -> PgType:
    assert pg_type.element is not None, "an array has an element"
    return pg_type.element


def take_apart(values: Values, pg_type: PgType) -> tuple[np.ndarray, np.ndarray, Values]:
    """Where each row's elements begin, which rows are plain lists, and all elements as one column."""
    element = element_of(pg_type)
    if element.length < -1:
        raise UnsupportedWal(f'cannot decode a value of type "{pg_type.label}"')
    starts, data = values.payloads
    valid = as_writable(values.valid)
    firsts, plain = _count_elements(starts, data, valid)
    places, sizes = _find_elements(starts, data, valid, firsts, element.length, element.align)
    if len(sizes) and sizes.min() == -2:
        raise CorruptWal(f'an element of a "{pg_type.label}" is compressed, which no array may hold')
    present = sizes >= 0
    offsets, gathered = _gather(data, places, sizes, max(element.length, 0))
    if element.length > 0:
        return firsts, plain, Values(present, fixed=gathered.reshape(len(sizes), element.length))
    return firsts, plain, Values(present, offsets=offsets, data=gathered)


def format_arrays(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As array_out: {1,NULL,"a b"}, with [2:3]= in front where a lower bound is not 1."""
    return _format(values, pg_type, style, ord(element_of(pg_type).delimiter), False)


def format_vectors(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As int2vectorout: 1 2 3."""
    return _format(values, pg_type, style, ord(" "), True)


def _format(values: Values, pg_type: PgType, style: TextStyle, delimiter: int, vector: bool) -> Texts:
    firsts, _, elements = take_apart(values, pg_type)
    texts = format_values(elements, element_of(pg_type), style)
    text, offsets = as_writable(texts.data), as_writable(texts.offsets)
    valid, present = as_writable(values.valid), as_writable(elements.valid)
    return Texts(*_assemble(*values.payloads, valid, firsts, present, offsets, text, delimiter, vector))


def arrow_arrays(pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.DataType:
    """list of the element's type, or string."""
    if style.arrays == "text":
        return pa.string()
    return pa.list_(arrow_type(element_of(pg_type), typmod, numeric=style.numeric, arrays=style.arrays))


def arrays_to_arrow(values: Values, pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.Array:
    """A list holds one dimension that starts at 1; an array of another shape is refused rather than flattened."""
    if style.arrays == "text":
        return string_array(format_arrays(values, pg_type, TextStyle()), values.valid)
    firsts, plain, elements = take_apart(values, pg_type)
    if not plain.all():
        odd = values.take(np.flatnonzero(~plain)[:1])
        text = format_arrays(odd, pg_type, TextStyle()).to_list()[0]
        raise UsageError(
            f"a {pg_type.label} of several dimensions or other bounds does not fit a list: {text[:80]}", hint="Set arrays=text."
        )
    inner = to_arrow(elements, element_of(pg_type), typmod, numeric=style.numeric, arrays=style.arrays)
    if len(inner) > np.iinfo(np.int32).max:
        raise UsageError("a batch holds more than 2^31 elements of one column", hint="Ask for smaller batches.")
    buffers = [mask_buffer(values.valid), pa.py_buffer(firsts.astype(np.int32))]
    return pa.Array.from_buffers(arrow_arrays(pg_type, typmod, style), len(values), buffers, children=[inner])
