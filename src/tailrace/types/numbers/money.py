"""money: cents in an i64. In Arrow a string of its text."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrace.kernels import kernel
from tailrace.model import PgType
from tailrace.types.codec import parse_each, syntax_error
from tailrace.types.codec.ascii import COMMA, DOLLAR, MINUS, POINT
from tailrace.types.numbers.digits import put_padded, put_unsigned
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_writable

LONGEST = 32
"""More than any takes: 19 digits have at most 6 commas."""


@kernel
def _format_money(numbers: Any, valid: Any) -> Any:
    """-$1,234.56, in groups of three digits."""
    rows = len(numbers)
    offsets = np.empty(rows + 1, np.int64)
    offsets[0] = 0
    out = np.empty(LONGEST * rows, np.uint8)
    at = 0
    thousand, cents = np.uint64(1000), np.uint64(100)
    for row in range(rows):
        if valid[row]:
            magnitude = np.uint64(numbers[row])
            if numbers[row] < 0:
                out[at] = MINUS
                at += 1
                magnitude = ~magnitude + np.uint64(1)
            out[at] = DOLLAR
            at += 1
            whole = magnitude // cents
            unit = np.uint64(1)
            while whole // unit >= thousand:
                unit = unit * thousand
            at = put_unsigned(out, at, whole // unit)
            while unit > np.uint64(1):
                unit = unit // thousand
                out[at] = COMMA
                at = put_padded(out, at + 1, (whole // unit) % thousand, 3)
            out[at] = POINT
            at = put_padded(out, at + 1, magnitude % cents, 2)
        offsets[row + 1] = at
    return offsets, out[:at]


def format_money(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As cash_out with lc_monetary C (or en_US): dollars with commas. Other locales are not in the WAL's keeping."""
    return Texts(*_format_money(as_writable(values.as_dtype("<i8")), as_writable(values.valid)))


def parse_money(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As cash_in: dollars and cents, with commas or without."""

    def parse_one(text: str) -> bytes:
        plain = text.strip().replace("$", "").replace(",", "")
        whole, _, part = plain.lstrip("-").partition(".")
        if not whole.isdecimal() or len(part) > 2 or (part and not part.isdecimal()):
            raise syntax_error("money", text)
        number = int(whole + part.ljust(2, "0")) * (-1 if plain.startswith("-") else 1)
        return number.to_bytes(8, "little", signed=True)

    return parse_each(texts, valid, pg_type, parse_one)
