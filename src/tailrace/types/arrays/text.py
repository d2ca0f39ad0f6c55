"""Arrays of any element: taken apart (`elements`), printed as a column of elements, put together by a kernel.

{1,NULL,"a b"}; with [2:3]= in front where a lower bound is not 1; with the delimiter of the element's type (; for box).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.errors import UsageError
from tailrace.kernels import kernel
from tailrace.model import PgType
from tailrace.types.arrays.stored import element_of, read_word, take_apart
from tailrace.types.codec import ArrowStyle, arrow_type, format_values, mask_buffer, string_array, to_arrow
from tailrace.types.numbers.digits import grown, put_signed
from tailrace.types.style import TextStyle
from tailrace.types.values import Texts, Values, as_writable

MAX_DIMENSIONS = 6
"""MAXDIM (`utils/array.h`)."""


@kernel
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


@kernel
def _assemble(
    starts: Any, data: Any, valid: Any, firsts: Any, present: Any, offsets: Any, text: Any, delimiter: Any, vector: Any
) -> Any:
    """Braces, bounds, delimiters and quotes around the elements' texts; a vector is its elements between spaces."""
    rows = len(valid)
    ends = np.empty(rows + 1, np.int64)
    ends[0] = 0
    out = np.empty(len(text) + len(text) // 2 + 3 * len(present) + 2 * rows + 64, np.uint8)
    inner = np.empty(MAX_DIMENSIONS, np.int64)
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
    return pa.list_(arrow_type(element_of(pg_type), typmod, style))


def arrays_to_arrow(values: Values, pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.Array:
    """A list holds one dimension that starts at 1; an array of another shape is refused rather than flattened."""
    if style.arrays == "text":
        return string_array(format_arrays(values, pg_type, style.text), values.valid)
    firsts, plain, elements = take_apart(values, pg_type)
    if not plain.all():
        odd = values.take(np.flatnonzero(~plain)[:1])
        text = format_arrays(odd, pg_type, style.text).to_list()[0]
        raise UsageError(
            f"a {pg_type.label} of several dimensions or other bounds does not fit a list: {text[:80]}", hint="Set arrays=text."
        )
    inner = to_arrow(elements, element_of(pg_type), typmod, style)
    if len(inner) > np.iinfo(np.int32).max:
        raise UsageError("a batch holds more than 2^31 elements of one column", hint="Ask for smaller batches.")
    buffers = [mask_buffer(values.valid), pa.py_buffer(firsts.astype(np.int32))]
    return pa.Array.from_buffers(arrow_arrays(pg_type, typmod, style), len(values), buffers, children=[inner])
