"""numeric as it is stored: a header, and base-10000 digits.

The header (`adt/numeric.c`, NumericChoice) is a u16. Top bits 11: NaN or an infinity. 10: the short form, sign, display
scale and weight in the header. Else the long form: sign and scale, then an i16 weight. Then u16 digits, the first of
which counts 10000^weight. The display scale says how many places to print, whatever the digits are.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from tailrace.kernels import kernel


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


def write_numeric(text: str, point: int, negative: bool, scale: int) -> bytes:
    weight = (point + 3) // 4 - 1 if text else 0
    text = "0" * ((weight + 1) * 4 - point) + text if text else ""
    text = text.ljust(-(-len(text) // 4) * 4, "0")
    negative = negative and bool(text)
    digits = [int(text[place : place + 4]) for place in range(0, len(text), 4)]
    body = struct.pack(f"<{len(digits)}H", *digits)
    if scale <= 0x3F and -0x40 <= weight <= 0x3F:
        return struct.pack("<H", 0x8000 | (0x2000 if negative else 0) | scale << 7 | weight & 0x7F) + body
    return struct.pack("<Hh", (0x4000 if negative else 0) | scale, weight) + body
