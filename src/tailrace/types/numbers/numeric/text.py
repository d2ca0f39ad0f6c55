"""numeric: base-10000 digits on disk, decimal digits as text. (`decimals` has its Arrow form.)

On disk (`adt/numeric.c`, NumericChoice): a u16 header. Top bits 11: NaN or an infinity. 10: the short form, sign, display
scale and weight in the header. Else the long form: sign and scale, then an i16 weight. Then u16 digits, the first of
which counts 10000^weight. The display scale says how many places to print, whatever the digits are.
"""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np

from tailrace.errors import UsageError
from tailrace.kernels import kernel
from tailrace.model import PgType
from tailrace.types.codec import parse_each, syntax_error
from tailrace.types.numbers.digits import put_padded, put_unsigned
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_writable

WORDS = np.frombuffer(b"NaN\0\0\0\0\0\0Infinity\0-Infinity", np.uint8).reshape(3, 9).copy()
"""NaN, Infinity, -Infinity, one a row."""
SPECIALS = {"nan": 0xC000, "infinity": 0xD000, "inf": 0xD000, "+infinity": 0xD000, "-infinity": 0xF000, "-inf": 0xF000}
SYNTAX = re.compile(r"\s*([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?\s*")


@kernel
def read_numeric(data: Any, start: Any) -> Any:
    """(sign, weight, scale, where the digits start); sign is 0, 1 for negative, 2 NaN, 3 Infinity, 4 -Infinity."""
    head = np.int64(data[start]) | np.int64(data[start + 1]) << 8
    top = head & 0xC000
    if top == 0xC000:
        kind = head & 0xF000
        return 2 if kind == 0xC000 else (3 if kind == 0xD000 else 4), 0, 0, start + 2
    if top == 0x8000:
        weight = (head & 0x3F) - (0x40 if head & 0x40 else 0)
        return (head >> 13) & 1, weight, (head >> 7) & 0x3F, start + 2
    weight = np.int64(data[start + 2]) | np.int64(data[start + 3]) << 8
    if weight >= 0x8000:
        weight -= 0x10000
    return (1 if top == 0x4000 else 0), weight, head & 0x3FFF, start + 4


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
        for byte in WORDS[sign - 2]:
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
    return _stored(digits.rstrip("0"), point, negative, scale)


def _stored(text: str, point: int, negative: bool, scale: int) -> bytes:
    weight = (point + 3) // 4 - 1 if text else 0
    text = "0" * ((weight + 1) * 4 - point) + text if text else ""
    text = text.ljust(-(-len(text) // 4) * 4, "0")
    negative = negative and bool(text)
    digits = [int(text[place : place + 4]) for place in range(0, len(text), 4)]
    body = struct.pack(f"<{len(digits)}H", *digits)
    if scale <= 0x3F and -0x40 <= weight <= 0x3F:
        return struct.pack("<H", 0x8000 | (0x2000 if negative else 0) | scale << 7 | weight & 0x7F) + body
    return struct.pack("<Hh", (0x4000 if negative else 0) | scale, weight) + body
