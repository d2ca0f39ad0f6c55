"""Arrays as they are stored: taken apart into one column of all their elements, and put together of one.

A stored array (`utils/array.h`) is i32 dimensions, i32 offset of the data (0: no NULLs), u32 element type, then a length and a
lower bound per dimension, a null bitmap if there is one, and the elements, each aligned as its type. Offsets and alignment
count from the 4-byte length word, which our payloads lack.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailrace.errors import CorruptWal, UnsupportedWal
from tailrace.kernels import kernel
from tailrace.model import PgType
from tailrace.types.values import Values, as_writable


@kernel
def read_word(data: Any, at: Any) -> Any:
    """An i32 as int64, wherever it stands."""
    word = np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24
    return word - 0x100000000 if word & 0x80000000 else word


@kernel
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


@kernel
def _find_elements(starts: Any, data: Any, valid: Any, firsts: Any, length: Any, align: Any) -> Any:
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
        for each in range(sizes[place]):
            out[at + each] = data[places[place] + each]
    return offsets, out


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
    offsets, gathered = _gather_elements(data, places, sizes, max(element.length, 0))
    if element.length > 0:
        return firsts, plain, Values(present, fixed=gathered.reshape(len(sizes), element.length))
    return firsts, plain, Values(present, offsets=offsets, data=gathered)


MAX_DIMENSIONS = 6
"""MAXDIM (`utils/array.h`)."""


@dataclass(slots=True)
class Literal:
    """One array: its lengths, lower bounds, and elements (None for NULL)."""

    lengths: list[int] = field(default_factory=list)
    lowers: list[int] = field(default_factory=list)
    elements: list[str | None] = field(default_factory=list)


def stored_arrays(literals: list[Literal | None], present: list[bool], payloads: list[bytes], pg_type: PgType) -> Values:
    """Stored arrays of the shapes of the literals; their elements, NULLs included, are `payloads` where `present`."""
    element = element_of(pg_type)
    stored = iter([payload if there else None for payload, there in zip(payloads, present, strict=True)])
    rows = [
        None if literal is None else _write_array(literal, [next(stored) for _ in literal.elements], element)
        for literal in literals
    ]
    return Values.of_payloads(rows, -1)


def _write_array(literal: Literal, elements: list[bytes | None], element: PgType) -> bytes:
    dimensions = len(literal.lengths)
    holes = None in elements
    head = 16 + 8 * dimensions + (-(-len(elements) // 8) if holes else 0)
    head += -head % 8
    body = bytearray(struct.pack(f"<iiI{2 * dimensions}i", dimensions, head if holes else 0, element.oid,
                                 *literal.lengths, *literal.lowers))  # fmt: skip
    if holes:
        flags = np.array([each is not None for each in elements])
        body += np.packbits(flags, bitorder="little").tobytes()
    # Without elements the header ends the value; with them, data starts aligned to 8 from the length word.
    body += bytes(head - 4 - len(body)) if elements else b""
    for each in elements:
        if each is not None:
            body += bytes(-(len(body) + 4) % element.align)
            body += each if element.length > 0 else struct.pack("<I", len(each) + 4 << 2) + each
    if element.length < 0:
        body += bytes(-(len(body) + 4) % element.align)
    return bytes(body)
