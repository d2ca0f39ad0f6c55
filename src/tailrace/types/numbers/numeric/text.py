"""numeric as text: decimal digits, with as many places as the display scale says."""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np

from tailrace.errors import UsageError
from tailrace.kernels import kernel
from tailrace.model import PgType
from tailrace.types.codec import parse_each, syntax_error
from tailrace.types.numbers.digits import NOT_FINITE, put_padded, put_unsigned
from tailrace.types.numbers.numeric.stored import read_numeric, write_numeric
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_writable

SPECIALS = {"nan": 0xC000, "infinity": 0xD000, "inf": 0xD000, "+infinity": 0xD000, "-infinity": 0xF000, "-inf": 0xF000}
SYNTAX = re.compile(r"\s*([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?\s*")


@kernel
def numeric_room(data: Any, start: Any) -> Any:
    """An upper bound of the printed length."""
    _, weight, scale, _ = read_numeric(data, start)
    return 12 + 4 * max(weight, 0) + scale


@kernel
def put_numeric(out: Any, at: Any, data: Any, start: Any, stop: Any) -> Any:
    """Print one: digits before the point without leading zeros, then exactly `scale` places."""
    sign, weight, scale, first = read_numeric(data, start)
    if sign >= 2:
        for byte in NOT_FINITE[sign - 2]:
            if byte:
                out[at] = byte
                at += 1
        return at
    if sign:
        out[at] = 45
        at += 1
    here = first
    if weight < 0:
        out[at] = 48
        at += 1
    for group in range(weight + 1):
        digit = np.uint64(0)
        if here < stop:
            digit = np.uint64(data[here]) | np.uint64(data[here + 1]) << np.uint64(8)
            here += 2
        at = put_unsigned(out, at, digit) if group == 0 else put_padded(out, at, digit, 4)
    if scale:
        out[at] = 46
        at += 1
        end = at + scale
        group = -1
        while at < end:
            digit = np.uint64(0)
            if group <= weight and here < stop:
                digit = np.uint64(data[here]) | np.uint64(data[here + 1]) << np.uint64(8)
                here += 2
            at = put_padded(out, at, digit, 4)
            group -= 1
        at = end
    return at


@kernel
def _format_numerics(starts: Any, data: Any, valid: Any) -> Any:
    """Two passes: bound the room by the headers, then print."""
    rows = len(valid)
    room = 8
    for row in range(rows):
        if valid[row]:
            room += numeric_room(data, starts[row])
    out = np.empty(room, np.uint8)
    offsets = np.empty(rows + 1, np.int64)
    offsets[0] = 0
    at = 0
    for row in range(rows):
        if valid[row]:
            at = put_numeric(out, at, data, starts[row], starts[row + 1])
        offsets[row + 1] = at
    return offsets, out[:at]


def format_numerics(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As numeric_out."""
    return Texts(*_format_numerics(*values.payloads, as_writable(values.valid)))


def parse_numerics(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As numeric_in without a modifier."""
    return parse_each(texts, valid, pg_type, parse_numeric)


def parse_numeric(text: str) -> bytes:
    """The stored form of one number, short where it fits, without zero digits at either end."""
    special = SPECIALS.get(text.strip().lower())
    if special is not None:
        return struct.pack("<H", special)
    found = SYNTAX.fullmatch(text)
    if found is None or not (found[2] or found[3]):
        raise syntax_error("numeric", text)
    negative, whole, part, exponent = found[1] == "-", found[2], found[3] or "", int(found[4] or 0)
    scale = max(len(part) - exponent, 0)
    if scale > 16383 or exponent + len(whole) > 131072:
        raise UsageError("value overflows numeric format", sqlstate="22003")
    digits = (whole + part).lstrip("0")
    # Where the point lies, counted from the first digit that is not zero; groups of four align there.
    point = len(digits) - len(part) + exponent
    return write_numeric(digits.rstrip("0"), point, negative, scale)
