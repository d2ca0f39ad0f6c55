"""Writing decimal digits: the innermost kernels, shared by all families that print numbers.

Every function writes into `out` from `at` on and returns where it stopped. Room is the caller's concern.
Everything is uint64: Numba turns a mix of signed and unsigned integers into floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrace.kernels import inner_kernel, kernel
from tailrace.types.codec.ascii import MINUS

TEN, HUNDRED = np.uint64(10), np.uint64(100)
PAIRS = np.frombuffer("".join(f"{n:02d}" for n in range(100)).encode(), np.uint8).copy()
"""The digits of 0 to 99, two bytes each: halves the number of divisions."""
NOT_FINITE = np.frombuffer(b"NaN\0\0\0\0\0\0Infinity\0-Infinity", np.uint8).reshape(3, 9).copy()
NAN, INFINITY, MINUS_INFINITY = range(3)
"""Its rows."""


@inner_kernel
def put_unsigned(out: Any, at: Any, value: Any) -> Any:
    """The digits of a uint64, without leading zeros."""
    width, rest = 1, value
    while rest >= TEN:
        rest = rest // TEN
        width += 1
    put_padded(out, at, value, width)
    return at + width


@inner_kernel
def put_padded(out: Any, at: Any, value: Any, width: Any) -> Any:
    """The last `width` digits of a uint64, with leading zeros."""
    here = at + width
    while here - at >= 2:
        rest = value // HUNDRED
        pair = 2 * np.int64(value - rest * HUNDRED)
        here -= 2
        out[here] = PAIRS[pair]
        out[here + 1] = PAIRS[pair + 1]
        value = rest
    if here > at:
        out[at] = PAIRS[2 * np.int64(value % TEN) + 1]
    return at + width


@inner_kernel
def put_signed(out: Any, at: Any, value: Any) -> Any:
    """An int64 with its sign. The magnitude of the smallest one only fits unsigned."""
    magnitude = np.uint64(value)
    if value < 0:
        out[at] = MINUS
        at += 1
        magnitude = ~magnitude + np.uint64(1)
    return put_unsigned(out, at, magnitude)


@inner_kernel
def put_not_finite(out: Any, at: Any, which: Any) -> Any:
    """NaN, Infinity or -Infinity."""
    for place in range(NOT_FINITE.shape[1]):
        if NOT_FINITE[which, place]:
            out[at] = NOT_FINITE[which, place]
            at += 1
    return at


@kernel
def grown(out: Any, need: Any) -> Any:
    """`out`, or a copy with room for `need` bytes and as many again."""
    if need <= len(out):
        return out
    more = np.empty(2 * need, np.uint8)
    more[: len(out)] = out
    return more
