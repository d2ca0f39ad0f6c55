"""numeric in binary form: the fields of the stored header in words of their own, then the base-10000 digits."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from tailrace.kernels import kernel
from tailrace.model import PgType
from tailrace.types.codec import format_error, receive_each
from tailrace.types.numbers.numeric.stored import read_numeric
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_writable


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
            if sign >= 2:
                # The infinities' own bit lies in the field of the scale, and is sent as one.
                kind = 0xC000 if sign == 2 else (0xD000 if sign == 3 else 0xF000)
                scale = 0 if sign == 2 else 32
            else:
                kind = 0x4000 if sign == 1 else 0
            for word in ((stop - here) // 2, weight & 0xFFFF, kind, scale):
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
    return Texts(*_send_numerics(*values.payloads, as_writable(values.valid)))


def receive_numerics(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As numeric_recv without a modifier."""

    def read_one(sent: bytes) -> bytes:
        count, weight, sign, scale = struct.unpack_from(">HhHH", sent)
        if sign in {0xC000, 0xD000, 0xF000}:
            return struct.pack("<H", sign)
        digits = struct.unpack_from(f">{count}H", sent, 8)
        if sign not in {0, 0x4000} or any(digit > 9999 for digit in digits) or scale > 0x3FFF:
            raise format_error("numeric")
        body = struct.pack(f"<{count}H", *digits)
        if scale <= 0x3F and -0x40 <= weight <= 0x3F:
            return struct.pack("<H", 0x8000 | sign >> 1 | scale << 7 | weight & 0x7F) + body
        return struct.pack("<Hh", sign | scale, weight) + body

    return receive_each(texts, valid, pg_type, read_one)
