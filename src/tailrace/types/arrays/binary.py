"""Arrays in binary form: i32 dimensions, i32 whether there may be NULLs, u32 the element's type, length and lower bound of each
dimension, then the elements, each after its length (-1 for NULL). All big-endian.

Elements go through their own send function as one column; a kernel puts the rows together.
"""

from __future__ import annotations

import struct
from itertools import chain
from typing import Any

import numpy as np

from tailrace.kernels import kernel
from tailrace.model import PgType
from tailrace.types.arrays.stored import Literal, element_of, stored_arrays, take_apart
from tailrace.types.codec import format_binary, format_error, parse_binary
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_writable


@kernel
def _put_word(out: Any, at: Any, word: Any) -> Any:
    """An i32, big-endian."""
    for shift in (24, 16, 8, 0):
        out[at] = (word >> shift) & 255
        at += 1
    return at


@kernel
def _assemble_binary(starts: Any, data: Any, valid: Any, firsts: Any, present: Any, offsets: Any, sent: Any) -> Any:
    rows = len(valid)
    ends = np.empty(rows + 1, np.int64)
    ends[0] = 0
    out = np.empty(64 * rows + 4 * len(present) + len(sent), np.uint8)
    at = 0
    for row in range(rows):
        if valid[row]:
            start = starts[row]
            dimensions = np.int64(data[start])
            at = _put_word(out, at, dimensions)
            holes = data[start + 4] | data[start + 5] | data[start + 6] | data[start + 7]
            at = _put_word(out, at, 1 if holes else 0)
            for place in (11, 10, 9, 8):
                out[at] = data[start + place]
                at += 1
            for dimension in range(dimensions):
                for word in (start + 12 + 4 * dimension, start + 12 + 4 * (dimensions + dimension)):
                    for place in (3, 2, 1, 0):
                        out[at] = data[word + place]
                        at += 1
            for each in range(firsts[row], firsts[row + 1]):
                if not present[each]:
                    at = _put_word(out, at, -1)
                    continue
                at = _put_word(out, at, offsets[each + 1] - offsets[each])
                for place in range(offsets[each], offsets[each + 1]):
                    out[at] = sent[place]
                    at += 1
        ends[row + 1] = at
    return ends, out[:at]


def send_arrays(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As array_send (and int2vectorsend, oidvectorsend)."""
    firsts, _, elements = take_apart(values, pg_type)
    sent = format_binary(elements, element_of(pg_type), style)
    valid, present = as_writable(values.valid), as_writable(elements.valid)
    return Texts(*_assemble_binary(*values.payloads, valid, firsts, present, as_writable(sent.offsets), as_writable(sent.data)))


def receive_arrays(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As array_recv. All elements of all rows are received as one column."""
    literals = [_read_sent(sent) if there else None for sent, there in zip(texts.to_bytes(), valid.tolist(), strict=True)]
    parts = list(chain.from_iterable(found[1] for found in literals if found is not None))
    present = np.array([part is not None for part in parts], np.bool_)
    payloads = parse_binary(Texts.of([part or b"" for part in parts]), present, element_of(pg_type)).payload_list()
    return stored_arrays([None if found is None else found[0] for found in literals], present.tolist(), payloads, pg_type)


def _read_sent(sent: bytes) -> tuple[Literal, list[bytes | None]]:
    dimensions, flags = struct.unpack_from(">ii", sent)
    if not 0 <= dimensions <= 6 or flags not in {0, 1}:
        raise format_error("array")
    bounds = struct.unpack_from(f">{2 * dimensions}i", sent, 12)
    at = 12 + 8 * dimensions
    count = int(np.prod(bounds[::2])) if dimensions else 0
    elements: list[bytes | None] = []
    for _ in range(count):
        (size,) = struct.unpack_from(">i", sent, at)
        at += 4
        elements.append(None if size < 0 else sent[at : at + size])
        at += max(size, 0)
    if at != len(sent):
        raise format_error("array")
    return Literal(list(bounds[::2]), list(bounds[1::2]), [""] * count), elements
