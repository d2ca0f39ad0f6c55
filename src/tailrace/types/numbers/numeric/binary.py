"""numeric in binary form: the fields of the stored header in words of their own, then the base-10000 digits."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from tailrace.kernels import inner_kernel, kernel
from tailrace.model import PgType
from tailrace.types.codec import format_error
from tailrace.types.codec.plain_forms import receive_payloads
from tailrace.types.numbers.numeric.stored import (
    INFINITY,
    INFINITY_HEADER,
    LONG_NEGATIVE,
    LONG_SCALE,
    MINUS_INFINITY_HEADER,
    NAN,
    NAN_HEADER,
    NEGATIVE,
    SHORT_SCALE,
    SHORT_WEIGHT,
    SHORT_WEIGHT_SIGN,
    numeric_payloads,
    put_short_header,
    read_numeric,
    write_numeric,
    write_special,
)
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_writable

LARGEST_DIGIT = 9999
INFINITY_SCALE = 32
"""The infinities' own bit lies in the header's field of the scale, and is sent as one."""


@kernel
def _send_numerics(starts: Any, data: Any, valid: Any) -> Any:
    """u16 digits, i16 weight, u16 sign, u16 scale, then the base-10000 digits."""
    rows = len(valid)
    offsets = np.empty(rows + 1, np.int64)
    offsets[0] = 0
    out = np.empty(8 * rows + len(data), np.uint8)
    at = 0
    for row in range(rows):
        if valid[row]:
            sign, weight, scale, here = read_numeric(data, starts[row])
            stop = starts[row + 1]
            if sign >= NAN:
                sign_word = NAN_HEADER if sign == NAN else (INFINITY_HEADER if sign == INFINITY else MINUS_INFINITY_HEADER)
                scale = 0 if sign == NAN else INFINITY_SCALE
            else:
                sign_word = LONG_NEGATIVE if sign == NEGATIVE else 0
            for word in ((stop - here) // 2, weight & 0xFFFF, sign_word, scale):
                out[at] = word >> 8
                out[at + 1] = word & 255
                at += 2
            while here < stop:
                out[at] = data[here + 1]
                out[at + 1] = data[here]
                here += 2
                at += 2
        offsets[row + 1] = at
    return offsets, out[:at]


def send_numerics(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As numeric_send."""
    return Texts(*_send_numerics(*numeric_payloads(values), as_writable(values.valid)))


@kernel
def _receive_plain(offsets: Any, data: Any, valid: Any) -> Any:
    """Numbers that are stored behind a short header. Returns what is stored, and which rows are something else."""
    rows = len(valid)
    left = np.zeros(rows, np.bool_)
    ends = np.zeros(rows + 1, np.int64)
    out = np.empty(len(data), np.uint8)
    at = np.int64(0)
    for row in range(rows):
        if valid[row]:
            end = _put_received(out, at, data, offsets[row], offsets[row + 1])
            left[row] = end < 0
            at = max(at, end)
        ends[row + 1] = at
    return ends, out[:at], left


@inner_kernel
def _put_received(out: Any, at: Any, data: Any, start: Any, stop: Any) -> Any:
    """The stored form of one. Returns where it ends, or -1 for what is not plain."""
    if stop - start < 8:
        return np.int64(-1)
    count, weight, sign, scale = _word(data, start), _word(data, start + 2), _word(data, start + 4), _word(data, start + 6)
    if weight >= 0x8000:
        weight -= 0x10000
    if stop - start != 8 + 2 * count or sign not in (0, LONG_NEGATIVE) or scale > SHORT_SCALE:
        return np.int64(-1)
    if not -SHORT_WEIGHT_SIGN <= weight <= SHORT_WEIGHT:
        return np.int64(-1)
    put_short_header(out, at, sign == LONG_NEGATIVE, weight, scale)
    at += 2
    for here in range(start + 8, stop, 2):
        if _word(data, here) > LARGEST_DIGIT:
            return np.int64(-1)
        out[at] = data[here + 1]
        out[at + 1] = data[here]
        at += 2
    return at


@inner_kernel
def _word(data: Any, at: Any) -> Any:
    return np.int64(data[at]) << 8 | np.int64(data[at + 1])


def receive_numerics(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As numeric_recv without a modifier."""

    def read_one(sent: bytes) -> bytes:
        count, weight, sign, scale = struct.unpack_from(">HhHH", sent)
        if sign in {NAN_HEADER, INFINITY_HEADER, MINUS_INFINITY_HEADER}:
            return write_special(sign)
        digits = struct.unpack_from(f">{count}H", sent, 8)
        if sign not in {0, LONG_NEGATIVE} or any(digit > LARGEST_DIGIT for digit in digits) or scale > LONG_SCALE:
            raise format_error("numeric")
        return write_numeric(sign == LONG_NEGATIVE, weight, scale, digits)

    return receive_payloads(texts, valid, pg_type, _receive_plain, read_one)
