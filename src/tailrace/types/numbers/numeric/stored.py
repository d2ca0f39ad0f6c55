"""numeric as it is stored: a header, and base-10000 digits.

The header (`adt/numeric.c`, NumericChoice) is a u16. Top bits 11: NaN or an infinity. 10: the short form, sign, display
scale and weight in the header. Else the long form: sign and scale, then an i16 weight. Then u16 digits, the first of
which counts 10000^weight. The display scale says how many places to print, whatever the digits are.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from tailrace.errors import CorruptWal
from tailrace.kernels import inner_kernel, kernel
from tailrace.types.values import Bytes, Offsets, Values, as_writable

SIGN_MASK, LONG_NEGATIVE, SHORT, SPECIAL = 0xC000, 0x4000, 0x8000, 0xC000
SPECIAL_MASK, NAN_HEADER, INFINITY_HEADER, MINUS_INFINITY_HEADER = 0xF000, 0xC000, 0xD000, 0xF000
SHORT_NEGATIVE, SHORT_SCALE_SHIFT, SHORT_SCALE, SHORT_WEIGHT_SIGN, SHORT_WEIGHT = 0x2000, 7, 0x3F, 0x40, 0x3F
LONG_SCALE = 0x3FFF
POSITIVE, NEGATIVE, NAN, INFINITY, MINUS_INFINITY = range(5)
"""What `read_header` calls the sign."""


def read_header(head: Any, following: Any) -> Any:
    """(sign, weight, scale, how many bytes are in front of the digits), from the first u16 of a numeric and the one behind it, which is looked at
    only where the header is long. What is no number has no more than a sign."""
    form = head & SIGN_MASK
    if form == SPECIAL:
        kind = head & SPECIAL_MASK
        return NAN if kind == NAN_HEADER else (INFINITY if kind == INFINITY_HEADER else MINUS_INFINITY), 0, 0, 2
    if form == SHORT:
        sign = NEGATIVE if head & SHORT_NEGATIVE else POSITIVE
        weight = (head & SHORT_WEIGHT) - (SHORT_WEIGHT_SIGN if head & SHORT_WEIGHT_SIGN else 0)
        return sign, weight, (head >> SHORT_SCALE_SHIFT) & SHORT_SCALE, 2
    weight = following - (0x10000 if following >= 0x8000 else 0)
    return NEGATIVE if form == LONG_NEGATIVE else POSITIVE, weight, head & LONG_SCALE, 4


_read_header = inner_kernel(read_header)


@inner_kernel
def read_numeric(data: Any, start: Any) -> Any:
    """(sign, weight, scale, where the digits start) of the numeric at `start`."""
    head, following = np.int64(data[start]) | np.int64(data[start + 1]) << 8, np.int64(0)
    if not head & SHORT:
        following = np.int64(data[start + 2]) | np.int64(data[start + 3]) << 8
    sign, weight, scale, size = _read_header(head, following)
    return sign, weight, scale, start + size


@inner_kernel
def is_numeric(data: Any, start: Any, stop: Any) -> Any:
    """Whether what lies there has a header, and whole digits behind it."""
    if stop - start < 2 or (stop - start) & 1:
        return False
    return stop - start >= 4 or data[start + 1] & (SHORT >> 8) != 0


@kernel
def _first_damaged(starts: Any, data: Any, valid: Any) -> Any:
    for row in range(len(valid)):
        if valid[row] and not is_numeric(data, starts[row], starts[row + 1]):
            return row
    return -1


def numeric_payloads(values: Values) -> tuple[Offsets, Bytes]:
    """Their offsets and bytes, of which the kernels may read what headers tell. Raises CorruptWal if one is no numeric."""
    starts, data = values.payloads
    if _first_damaged(starts, data, as_writable(values.valid)) >= 0:
        raise CorruptWal('found a value of type "numeric" that is none')
    return starts, data


@inner_kernel
def read_digit(data: Any, at: Any) -> Any:
    """One base-10000 digit."""
    return np.uint64(data[at]) | np.uint64(data[at + 1]) << np.uint64(8)


@inner_kernel
def put_short_header(out: Any, at: Any, negative: Any, weight: Any, scale: Any) -> None:
    """The header of a number of at most SHORT_SCALE places, whose weight is in [-SHORT_WEIGHT_SIGN, SHORT_WEIGHT]."""
    head = SHORT | (SHORT_NEGATIVE if negative else 0) | scale << SHORT_SCALE_SHIFT | weight & (SHORT_WEIGHT_SIGN | SHORT_WEIGHT)
    out[at] = head & 0xFF
    out[at + 1] = head >> 8


def write_numeric(negative: bool, weight: int, scale: int, digits: Sequence[int]) -> bytes:
    """The stored form of a number: short where it fits (`make_result`)."""
    body = struct.pack(f"<{len(digits)}H", *digits)
    if scale <= SHORT_SCALE and -SHORT_WEIGHT_SIGN <= weight <= SHORT_WEIGHT:
        head = SHORT | (SHORT_NEGATIVE if negative else 0) | scale << SHORT_SCALE_SHIFT
        return struct.pack("<H", head | weight & (SHORT_WEIGHT_SIGN | SHORT_WEIGHT)) + body
    return struct.pack("<Hh", (LONG_NEGATIVE if negative else 0) | scale, weight) + body


def write_special(header: int) -> bytes:
    """NaN or an infinity."""
    return struct.pack("<H", header)
