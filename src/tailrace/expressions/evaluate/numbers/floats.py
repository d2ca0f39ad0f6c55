"""real and double precision (`adt/float.c`): IEEE arithmetic with PostgreSQL's order of NaN and its errors.

Functions of the mathematical library are computed with this machine's, which need not be the server's to the last bit; so only those that IEEE 754
defines exactly (square root and rounding) are here, and the others are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.expressions.evaluate.fmgr.function_calls import Implementation, columns, made, rows
from tailrace.expressions.evaluate.fmgr.refusals import division_by_zero, evaluation_error, out_of_range, refused
from tailrace.expressions.evaluate.numbers.integers import LABELS
from tailrace.majors import BUCKETS_BY_PORTION, supports

FUNCTIONS: dict[str, Implementation] = {}


def _equal(left: NDArray, right: NDArray) -> NDArray:
    return (left == right) | (np.isnan(left) & np.isnan(right))


def _less(left: NDArray, right: NDArray) -> NDArray:
    """NaN is above all other numbers."""
    return (left < right) | (np.isnan(right) & ~np.isnan(left))


COMPARISONS: dict[str, Callable[[NDArray, NDArray], NDArray]] = {
    "eq": _equal,
    "ne": lambda left, right: ~_equal(left, right),
    "lt": _less,
    "le": lambda left, right: ~_less(right, left),
    "gt": lambda left, right: _less(right, left),
    "ge": lambda left, right: ~_less(left, right),
}


def order(left: NDArray, right: NDArray) -> NDArray:
    return _less(right, left).astype(np.int32) - _less(left, right).astype(np.int32)


def overflow() -> Exception:
    return evaluation_error("value out of range: overflow", "22003")


def underflow() -> Exception:
    return evaluation_error("value out of range: underflow", "22003")


def _checked(how: str, dtype: str) -> Callable[[NDArray, NDArray], NDArray]:
    """Arithmetic whose result is infinite only if an argument is, and zero by `*` or `/` only if that is exact (`utils/float.h`)."""
    act: Any = {"pl": np.add, "mi": np.subtract, "mul": np.multiply, "div": np.divide}[how]

    def run(left: NDArray, right: NDArray) -> NDArray:
        left, right = left.astype(dtype), right.astype(dtype)
        if how == "div" and ((right == 0) & ~np.isnan(left)).any():
            raise division_by_zero()
        with np.errstate(all="ignore"):
            found = act(left, right)
        endless = np.isinf(found) & ~np.isinf(left)
        if how == "div":
            _raise_first(endless, (found == 0) & (left != 0) & ~np.isinf(right))
        elif how == "mul":
            _raise_first(endless & ~np.isinf(right), (found == 0) & (left != 0) & (right != 0))
        elif (endless & ~np.isinf(right)).any():
            raise overflow()
        return found

    return run


def _raise_first(over: NDArray, under: NDArray) -> None:
    if over.any():
        raise overflow()
    if under.any():
        raise underflow()


def _larger(left: NDArray, right: NDArray) -> NDArray:
    return np.where(_less(right, left), left, right)


def _smaller(left: NDArray, right: NDArray) -> NDArray:
    return np.where(_less(left, right), left, right)


for _prefix, _dtype in (("float4", "<f4"), ("float8", "<f8"), ("float48", "<f8"), ("float84", "<f8")):
    for _name, _compare in COMPARISONS.items():
        FUNCTIONS[_prefix + _name] = columns(_compare, safe=True)
    for _name in ("pl", "mi", "mul", "div"):
        FUNCTIONS[_prefix + _name] = columns(_checked(_name, _dtype))
    FUNCTIONS[f"bt{_prefix}cmp"] = columns(order, safe=True)
    if len(_prefix) == 6:
        FUNCTIONS[_prefix + "um"] = columns(np.negative, True)
        FUNCTIONS[_prefix + "up"] = columns(lambda value: value, True)
        FUNCTIONS[_prefix + "abs"] = columns(np.abs, True)
        FUNCTIONS[_prefix + "larger"] = columns(_larger, True)
        FUNCTIONS[_prefix + "smaller"] = columns(_smaller, True)


def _to_integer(width: int) -> Callable[[NDArray], NDArray]:
    """Half to even, if it fits (`dtoi4`)."""
    limit = float(1 << (8 * width - 1))

    def convert(value: NDArray) -> NDArray:
        found = np.rint(value)
        if (np.isnan(found) | (found < -limit) | (found >= limit)).any():
            raise out_of_range(LABELS[width])
        return found.astype(f"<i{width}")

    return convert


def _to_float4(value: NDArray) -> NDArray:
    with np.errstate(all="ignore"):
        found = value.astype(np.float32)
    _raise_first(np.isinf(found) & ~np.isinf(value), (found == 0) & (value != 0))
    return found


def _square_root(value: NDArray) -> NDArray:
    if (value < 0).any():
        raise evaluation_error("cannot take square root of a negative number", "2201F")
    return np.sqrt(value)


def _sign(value: NDArray) -> NDArray:
    return np.where(value > 0, 1.0, np.where(value < 0, -1.0, 0.0))


def _plain(how: Callable[[NDArray], NDArray]) -> Implementation:
    def run(value: NDArray) -> NDArray:
        with np.errstate(all="ignore"):
            return how(value)

    return columns(run, safe=True)


def _scaled(factor: float, divide: bool) -> Callable[[NDArray], NDArray]:
    how = _checked("div" if divide else "mul", "<f8")
    return lambda value: how(value, np.array([factor]))


def _width_bucket(divides_first: bool, operand: float, low: float, high: float, count: int) -> int:
    """Which of `count` equal buckets between the bounds (`width_bucket_float8`); up to 15 it multiplies before it divides."""
    if count <= 0:
        raise evaluation_error("count must be greater than zero", "2201G")
    if math.isnan(operand) or math.isnan(low) or math.isnan(high):
        raise evaluation_error("operand, lower bound, and upper bound cannot be NaN", "2201G")
    if math.isinf(low) or math.isinf(high):
        raise evaluation_error("lower and upper bounds must be finite", "2201G")
    if low == high:
        raise evaluation_error("lower bound cannot equal upper bound", "2201G")
    if low < high:
        below, above, portion = operand < low, operand >= high, (operand - low, high - low)
    else:
        below, above, portion = operand > low, operand <= high, (low - operand, low - high)
    if below:
        return 0
    if above:
        if count >= 2147483647:
            raise out_of_range("integer")
        return count + 1
    if math.isinf(portion[0]) or math.isinf(portion[1]) or math.isinf(count * portion[0]):
        raise refused("function width_bucket of double precision whose distance from a bound overflows")
    if divides_first:
        return min(int(count * (portion[0] / portion[1])), count - 1) + 1
    return int(count * portion[0] / portion[1] + 1)


def _in_range(value: float, start: float, offset: float, minus: bool, less: bool) -> bool:
    """in_range_float8_float8: NaN is above all, and as far from itself as one likes."""
    if math.isnan(offset) or offset < 0:
        raise evaluation_error("invalid preceding or following size in window function", "22013")
    if math.isnan(value):
        return True if math.isnan(start) else not less
    if math.isnan(start):
        return less
    if math.isinf(offset) and math.isinf(start) and (start > 0 if minus else start < 0):
        return True
    total = start - offset if minus else start + offset
    return value <= total if less else value >= total


FUNCTIONS.update(
    {
        "dtoi2": columns(_to_integer(2)), "dtoi4": columns(_to_integer(4)), "dtoi8": columns(_to_integer(8)), "ftoi2": columns(_to_integer(2)),
        "ftoi4": columns(_to_integer(4)), "ftoi8": columns(_to_integer(8)), "dtof": columns(_to_float4),
        "ftod": columns(lambda value: value.astype(np.float64), True), "i2tod": columns(lambda value: value.astype(np.float64), True),
        "i4tod": columns(lambda value: value.astype(np.float64), True), "i8tod": columns(lambda value: value.astype(np.float64), True),
        "i2tof": columns(lambda value: value.astype(np.float32), True), "i4tof": columns(lambda value: value.astype(np.float32), True),
        "i8tof": columns(lambda value: value.astype(np.float32), True),
        "dsqrt": columns(_square_root), "dround": _plain(np.rint), "dtrunc": _plain(np.trunc), "dceil": _plain(np.ceil), "dfloor": _plain(np.floor),
        "dsign": columns(_sign, True), "dpi": columns(lambda: np.array([math.pi]), True),
        "degrees": columns(_scaled(math.pi / 180.0, True)), "radians": columns(_scaled(math.pi / 180.0, False)),
        "width_bucket_float8": made(lambda call: rows(partial(_width_bucket, supports(call.facts.style.major, BUCKETS_BY_PORTION)))),
        "in_range_float8_float8": rows(_in_range), "in_range_float4_float8": rows(_in_range),
    }
)  # fmt: skip
