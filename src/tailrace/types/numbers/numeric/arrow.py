"""numeric in Arrow: decimal128 where the declaration numeric(p,s) fits it, else text.

decimal128 is a 128-bit integer in two's complement, scaled by 10^s. The kernel shifts base-10000 digits into two 64-bit words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.errors import UsageError, shortened
from tailrace.kernels import kernel
from tailrace.model import PgType
from tailrace.types.codec import ArrowStyle, mask_buffer, string_array
from tailrace.types.numbers.numeric.stored import NAN, NEGATIVE, numeric_payloads, read_digit, read_numeric
from tailrace.types.numbers.numeric.text import format_numerics
from tailrace.types.typmods import numeric_typmod
from tailrace.types.values import Values, as_writable

MOST_DIGITS = 38
"""Of a decimal128."""


def arrow_numerics(pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.DataType:
    """decimal128 where the declaration fits one and the style wants it, else string."""
    declared = numeric_typmod(typmod)
    if style.numeric == "decimal" and declared is not None and 0 <= declared[1] <= declared[0] <= MOST_DIGITS:
        return pa.decimal128(*declared)
    return pa.string()


@kernel
def _scale_numerics(starts: Any, data: Any, valid: Any, scale: Any, limit_high: Any, limit_low: Any) -> Any:
    """Two's complement 128-bit numbers, low word first, and the first row that reaches the limit or has more places, or -1."""
    rows = len(valid)
    words = np.zeros(2 * rows, np.uint64)
    low_half, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for row in range(rows):
        if not valid[row]:
            continue
        sign, weight, _, here = read_numeric(data, starts[row])
        stop = starts[row + 1]
        if sign >= NAN or (here < stop and 4 * weight > MOST_DIGITS):
            return words, row
        low = high = np.uint64(0)
        group = weight
        left = (stop - here) // 2
        while here < stop or (left and 4 * group + scale > -4):
            digit = np.uint64(0)
            if here < stop:
                digit = read_digit(data, here)
                here += 2
            # The group's last decimal place is 4 * group: keep the places down to -scale, refuse to lose others.
            keep = min(max(4 * group + scale + 4, 0), 4)
            factor = np.uint64(10_000)
            if keep < 4:
                factor = np.uint64(1)
                for _ in range(keep):
                    factor *= np.uint64(10)
                beyond = np.uint64(10_000) // factor
                if digit % beyond != np.uint64(0):
                    return words, row
                digit //= beyond
            if high and high > limit_high // factor:  # a division takes longer than all the rest
                return words, row
            small = (low & low_half) * factor + digit
            large = (low >> half) * factor + (small >> half)
            low = (large << half) | (small & low_half)
            high = high * factor + (large >> half)
            group -= 1
        if high > limit_high or (high == limit_high and low >= limit_low):
            return words, row
        if sign == NEGATIVE:
            low = ~low + np.uint64(1)
            high = ~high + (np.uint64(1) if low == np.uint64(0) else np.uint64(0))
        words[2 * row] = low
        words[2 * row + 1] = high
    return words, -1


def numerics_to_arrow(values: Values, pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.Array:
    """decimal128 or text. A NaN in a decimal column is refused: neither NULL nor a number would be true."""
    kind = arrow_numerics(pg_type, typmod, style)
    if kind == pa.string():
        return string_array(format_numerics(values, pg_type, style.text), values.valid)
    limit = 10**kind.precision
    limits = np.uint64(limit >> 64), np.uint64(limit & (1 << 64) - 1)
    words, bad = _scale_numerics(*numeric_payloads(values), as_writable(values.valid), kind.scale, *limits)
    if bad >= 0:
        text = format_numerics(values.take(np.array([bad])), pg_type, style.text).to_list()[0]
        raise UsageError(f"numeric {shortened(text)} does not fit {kind}", hint="Set numeric=text.", sqlstate="22003")
    return pa.Array.from_buffers(kind, len(values), [mask_buffer(values.valid), pa.py_buffer(words)])
