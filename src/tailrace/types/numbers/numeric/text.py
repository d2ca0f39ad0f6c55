"""numeric as text: decimal digits, with as many places as the display scale says."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tailrace.errors import UsageError
from tailrace.kernels import inner_kernel, kernel
from tailrace.model import PgType
from tailrace.types.codec import syntax_error
from tailrace.types.codec.ascii import MINUS, NINE, POINT, ZERO
from tailrace.types.codec.plain_forms import parse_payloads
from tailrace.types.numbers.digits import put_not_finite, put_padded, put_unsigned
from tailrace.types.numbers.numeric.stored import (
    INFINITY_HEADER,
    LONG_SCALE,
    MINUS_INFINITY_HEADER,
    NAN,
    NAN_HEADER,
    NEGATIVE,
    SHORT_SCALE,
    numeric_payloads,
    put_short_header,
    read_digit,
    read_numeric,
    write_numeric,
    write_special,
)
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_string, as_writable

SPECIALS = {
    "nan": NAN_HEADER, "infinity": INFINITY_HEADER, "inf": INFINITY_HEADER, "+infinity": INFINITY_HEADER,
    "-infinity": MINUS_INFINITY_HEADER, "-inf": MINUS_INFINITY_HEADER,
}  # fmt: skip
SYNTAX = re.compile(r"\s*([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?\s*")
MOST_DIGITS = 131072
"""Before the point (manual, "Arbitrary Precision Numbers")."""
PLAIN_DIGITS = 64
"""So many before the point are stored behind a short header."""


@inner_kernel
def numeric_room(data: Any, start: Any) -> Any:
    """An upper bound of the printed length: sign, point, four digits a base-10000 digit before the point, and the places."""
    _, weight, scale, _ = read_numeric(data, start)
    return 12 + 4 * max(weight, 0) + scale


@inner_kernel
def put_numeric(out: Any, at: Any, data: Any, start: Any, stop: Any) -> Any:
    """Print one: digits before the point without leading zeros, then exactly `scale` places."""
    sign, weight, scale, here = read_numeric(data, start)
    if sign >= NAN:
        return put_not_finite(out, at, sign - NAN)
    if sign == NEGATIVE:
        out[at] = MINUS
        at += 1
    if weight < 0:
        out[at] = ZERO
        at += 1
    for group in range(weight + 1):
        digit = np.uint64(0)
        if here < stop:
            digit = read_digit(data, here)
            here += 2
        at = put_unsigned(out, at, digit) if group == 0 else put_padded(out, at, digit, 4)
    if scale:
        out[at] = POINT
        at += 1
        end = at + scale
        group = -1
        while at < end:
            digit = np.uint64(0)
            if group <= weight and here < stop:
                digit = read_digit(data, here)
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
    return print_numerics(values)


def print_numerics(values: Values) -> Texts:
    """The same, whatever type they are part of."""
    return Texts(*_format_numerics(*numeric_payloads(values), as_writable(values.valid)))


@kernel
def _parse_plain(offsets: Any, data: Any, valid: Any) -> Any:
    """Decimal digits with perhaps a minus and a point. Returns what is stored, and which rows are something else, or long."""
    rows = len(valid)
    left = np.zeros(rows, np.bool_)
    ends = np.zeros(rows + 1, np.int64)
    out = np.empty(len(data) + 8 * rows, np.uint8)  # a point may cut four digits in two groups of two bytes each
    at = np.int64(0)
    for row in range(rows):
        if valid[row]:
            end = _put_plain(out, at, data, offsets[row], offsets[row + 1])
            left[row] = end < 0
            at = max(at, end)
        ends[row + 1] = at
    return ends, out[:at], left


@inner_kernel
def _put_plain(out: Any, at: Any, data: Any, start: Any, stop: Any) -> Any:
    """The stored form of one. Returns where it ends, or -1 for what is not plain."""
    negative = start < stop and data[start] == MINUS
    if negative:
        start += 1
    point = stop
    for here in range(start, stop):
        if data[here] == POINT and point == stop:
            point = here
        elif not ZERO <= data[here] <= NINE:
            return np.int64(-1)
    scale = max(stop - point - 1, 0)
    whole = point - start
    if whole + scale == 0 or whole > PLAIN_DIGITS or scale > SHORT_SCALE:
        return np.int64(-1)
    to = end = at + 2
    weight = np.int64(0)
    for group in range((whole + 3) // 4 - 1, -((scale + 3) // 4) - 1, -1):
        digit = np.int64(0)
        for power in range(4 * group + 3, 4 * group - 1, -1):
            # The digit that counts 10^power stands so far before the point, or behind it.
            here = point - 1 - power if power >= 0 else point - power
            digit *= 10
            if start <= here < stop:
                digit += np.int64(data[here]) - ZERO
        if to == at + 2 and digit == 0:
            continue
        if to == at + 2:
            weight = np.int64(group)
        out[to] = digit & 0xFF
        out[to + 1] = digit >> 8
        to += 2
        if digit:
            end = to
    put_short_header(out, at, negative and end > at + 2, weight, scale)
    return end


def parse_numerics(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As numeric_in without a modifier."""
    return parse_payloads(texts, valid, _parse_plain, lambda raw: parse_numeric(as_string(raw)))


def parse_numeric(text: str) -> bytes:
    """The stored form of one number, short where it fits, without zero digits at either end."""
    special = SPECIALS.get(text.strip().lower())
    if special is not None:
        return write_special(special)
    match = SYNTAX.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise syntax_error("numeric", text)
    whole, fraction, exponent = match[2], match[3] or "", int(match[4] or 0)
    scale = max(len(fraction) - exponent, 0)
    if scale > LONG_SCALE or exponent + len(whole) > MOST_DIGITS:
        raise UsageError("value overflows numeric format", sqlstate="22003")
    decimals = (whole + fraction).lstrip("0")
    # How many decimal digits stand before the point, counted from the first that is not zero.
    before = len(decimals) - len(fraction) + exponent
    decimals = decimals.rstrip("0")
    if not decimals:
        return write_numeric(False, 0, scale, ())
    # Base-10000 digits are groups of four that meet at the point.
    weight = (before + 3) // 4 - 1
    decimals = "0" * ((weight + 1) * 4 - before) + decimals
    decimals = decimals.ljust(-(-len(decimals) // 4) * 4, "0")
    digits = [int(decimals[place : place + 4]) for place in range(0, len(decimals), 4)]
    return write_numeric(match[1] == "-", weight, scale, digits)
