"""smallint, integer, bigint (`adt/int.c`, `adt/int8.c`), boolean (`adt/bool.c`), and types that are numbers inside: oid, xid8, money, pg_lsn, "char".

All over arrays. What leaves a type's range raises the server's error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.expressions.evaluate.fmgr.function_calls import Implementation, columns, rows
from tailrace.expressions.evaluate.fmgr.refusals import division_by_zero, evaluation_error, out_of_range

LABELS = {2: "smallint", 4: "integer", 8: "bigint"}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
FUNCTIONS: dict[str, Implementation] = {}


def fitting(found: NDArray, width: int) -> NDArray:
    """int64 numbers as those of a narrower type, if they fit."""
    limit = 1 << (8 * width - 1)
    if ((found < -limit) | (found >= limit)).any():
        raise out_of_range(LABELS[width])
    return found.astype(f"<i{width}")


def _wide(left: NDArray, right: NDArray) -> tuple[NDArray, NDArray]:
    return left.astype(np.int64), right.astype(np.int64)


def add(left: NDArray, right: NDArray) -> NDArray:
    """Of int64, checked."""
    with np.errstate(over="ignore"):
        found = left + right
    if (((left ^ found) & (right ^ found)) < 0).any():
        raise out_of_range("bigint")
    return found


def subtract(left: NDArray, right: NDArray) -> NDArray:
    with np.errstate(over="ignore"):
        found = left - right
    if (((left ^ right) & (left ^ found)) < 0).any():
        raise out_of_range("bigint")
    return found


def multiply(left: NDArray, right: NDArray) -> NDArray:
    small = 1 << 31
    if (np.abs(left) < small).all() and (np.abs(right) < small).all() and left.min() > -small and right.min() > -small:
        return left * right
    exact = left.astype(object) * right.astype(object)
    if any(not -(1 << 63) <= each < 1 << 63 for each in exact):
        raise out_of_range("bigint")
    return exact.astype(np.int64)


def divide(left: NDArray, right: NDArray) -> NDArray:
    """Toward zero; of int64."""
    if (right == 0).any():
        raise division_by_zero()
    if ((left == np.iinfo(np.int64).min) & (right == -1)).any():
        raise out_of_range("bigint")
    found = left // right
    return found + ((found * right != left) & ((left < 0) != (right < 0)))


def remainder(left: NDArray, right: NDArray) -> NDArray:
    """With the sign of what is divided."""
    if (right == 0).any():
        raise division_by_zero()
    return np.fmod(left, np.where(right == -1, 1, right))


ARITHMETIC = {"pl": add, "mi": subtract, "mul": multiply, "div": divide}


def _arithmetic(how: Callable[[NDArray, NDArray], NDArray], width: int) -> Callable[[NDArray, NDArray], NDArray]:
    if width == 8:
        return lambda left, right: how(*_wide(left, right))
    return lambda left, right: fitting(how(*_wide(left, right)), width)


def order(left: NDArray, right: NDArray) -> NDArray:
    """-1, 0 or 1, as functions that sort by say."""
    return (left > right).astype(np.int32) - (left < right).astype(np.int32)


def larger(left: NDArray, right: NDArray) -> NDArray:
    return np.where(left > right, left, right)


def smaller(left: NDArray, right: NDArray) -> NDArray:
    return np.where(left < right, left, right)


def _negative(width: int) -> Callable[[NDArray], NDArray]:
    def negate(value: NDArray) -> NDArray:
        if (value == np.iinfo(value.dtype).min).any():
            raise out_of_range(LABELS[width])
        return -value

    return negate


def _absolute(width: int) -> Callable[[NDArray], NDArray]:
    negate = _negative(width)
    return lambda value: np.where(value < 0, negate(np.where(value < 0, value, 0)), value)


def _shift(left: bool, width: int) -> Callable[[NDArray, NDArray], NDArray]:
    """As the processor does: only the low bits of the distance count (5, of bigint 6); a smallint is shifted as an integer."""
    mask = 63 if width == 8 else 31
    wide: Any = np.int64 if width == 8 else np.int32
    dtype = f"<i{width}"

    def shift(value: Any, distance: Any) -> NDArray:
        places = (distance & mask).astype(wide)
        found = value.astype(wide) << places if left else value.astype(wide) >> places
        return found.astype(dtype)

    return shift


def _gcd(label: str, least: int) -> Callable[[int, int], int]:
    def gcd(left: int, right: int) -> int:
        found = _euclid(abs(left), abs(right))
        if found > -least - 1:
            raise out_of_range(label)
        return found

    return gcd


def _euclid(left: int, right: int) -> int:
    while right:
        left, right = right, left % right
    return left


def _lcm(label: str, least: int) -> Callable[[int, int], int]:
    gcd = _gcd(label, least)

    def lcm(left: int, right: int) -> int:
        if left == 0 or right == 0:
            return 0
        found = abs(left // gcd(left, right) * right)
        if found > -least - 1:
            raise out_of_range(label)
        return found

    return lcm


def _same(value: NDArray) -> NDArray:
    return value


def _hex(bits: int) -> Callable[[int], str]:
    return lambda value: f"{value & (1 << bits) - 1:x}"


def _names(width: int, other: int) -> str:
    """How functions on two integer types are called: int4 on the same, int48 on integer and bigint."""
    return f"int{width}" if width == other else f"int{width}{other}"


def _add_pair(width: int, other: int) -> None:
    prefix = _names(width, other)
    for name, compare in COMPARISONS.items():
        FUNCTIONS[prefix + name] = columns(compare, safe=True)
    for name, how in ARITHMETIC.items():
        FUNCTIONS[prefix + name] = columns(_arithmetic(how, max(width, other)))
    FUNCTIONS["bt" + prefix + "cmp"] = columns(order, safe=True)


def _add_width(width: int) -> None:
    prefix, least = f"int{width}", -(1 << 8 * width - 1)
    FUNCTIONS.update(
        {
            prefix + "mod": columns(remainder), prefix + "um": columns(_negative(width)), prefix + "up": columns(_same, True),
            prefix + "abs": columns(_absolute(width)), prefix + "and": columns(np.bitwise_and, True), prefix + "or": columns(np.bitwise_or, True),
            prefix + "xor": columns(np.bitwise_xor, True), prefix + "not": columns(np.invert, True),
            prefix + "shl": columns(_shift(True, width), True), prefix + "shr": columns(_shift(False, width), True),
            prefix + "larger": columns(larger, True), prefix + "smaller": columns(smaller, True),
        }
    )  # fmt: skip
    if width > 2:
        FUNCTIONS[prefix + "gcd"] = rows(_gcd(LABELS[width], least))
        FUNCTIONS[prefix + "lcm"] = rows(_lcm(LABELS[width], least))
        FUNCTIONS[prefix + "inc"] = columns(lambda value: _arithmetic(add, width)(value, np.ones(1, np.int64)))


for _one in (2, 4, 8):
    _add_width(_one)
    for _two in (2, 4, 8):
        _add_pair(_one, _two)


def _narrowed(width: int) -> Callable[[NDArray], NDArray]:
    return lambda value: fitting(value.astype(np.int64), width)


def _to_oid(value: NDArray) -> NDArray:
    if ((value < 0) | (value > 0xFFFFFFFF)).any():
        raise out_of_range("OID")
    return value.astype(np.uint32)


def _to_char(value: NDArray) -> NDArray:
    """integer -> "char": one byte, as a signed number."""
    if ((value < -128) | (value > 127)).any():
        raise out_of_range('"char"')
    return value.astype(np.int8).view(np.uint8)


FUNCTIONS.update(
    {
        "int82": columns(_narrowed(2)), "int84": columns(_narrowed(4)), "i4toi2": columns(_narrowed(2)),
        "i2toi4": columns(lambda value: value.astype(np.int32), True), "int28": columns(lambda value: value.astype(np.int64), True),
        "int48": columns(lambda value: value.astype(np.int64), True), "i8tooid": columns(_to_oid),
        "oidtoi8": columns(lambda value: value.astype(np.int64), True),
        "int4_bool": columns(lambda value: value != 0, True), "bool_int4": columns(lambda value: value.astype(np.int32), True),
        "booltext": rows(lambda value: "true" if value else "false", True), "to_hex32": rows(_hex(32), True), "to_hex64": rows(_hex(64), True),
        "chartoi4": columns(lambda value: value.view(np.int8).astype(np.int32), True), "i4tochar": columns(_to_char),
        "booland_statefunc": columns(np.logical_and, True), "boolor_statefunc": columns(np.logical_or, True),
        "int8inc_any": columns(lambda value, other: _arithmetic(add, 8)(value, np.ones(1, np.int64))),
        "int8dec_any": columns(lambda value, other: _arithmetic(subtract, 8)(value, np.ones(1, np.int64))),
        "int8inc_float8_float8": columns(lambda value, one, two: _arithmetic(add, 8)(value, np.ones(1, np.int64))),
        "xid8toxid": columns(lambda value: (value & np.uint64(0xFFFFFFFF)).astype(np.uint32), True),
        "xidneq": columns(lambda left, right: left.astype(np.int64) & 0xFFFFFFFF != right.astype(np.int64) & 0xFFFFFFFF, True),
        "xideq": columns(lambda left, right: left.astype(np.int64) & 0xFFFFFFFF == right.astype(np.int64) & 0xFFFFFFFF, True),
        "cideq": columns(np.equal, True),
        "int8dec": columns(lambda value: _arithmetic(subtract, 8)(value, np.ones(1, np.int64))),
        "int4range_subdiff": columns(lambda left, right: left.astype(np.float64) - right, True),
        "int8range_subdiff": columns(lambda left, right: left.astype(np.float64) - right, True),
        "daterange_subdiff": columns(lambda left, right: left.astype(np.float64) - right, True),
    }
)  # fmt: skip

_NUMBERS_INSIDE = {
    "bool": "btboolcmp", "char": "", "oid": "btoidcmp oidlarger oidsmaller", "xid8": "xid8cmp xid8_larger xid8_smaller",
    "pg_lsn_": "pg_lsn_cmp pg_lsn_larger pg_lsn_smaller", "cash_": "cash_cmp cashlarger cashsmaller",
    "timestamp_": "timestamp_cmp timestamp_larger timestamp_smaller", "time_": "time_cmp time_larger time_smaller",
    "date_": "date_cmp date_larger date_smaller",
}  # fmt: skip
"""How comparisons of these types begin, and how what sorts them and picks of two is called."""
for _prefix, _symbols in _NUMBERS_INSIDE.items():
    for _name, _compare in COMPARISONS.items():
        FUNCTIONS[_prefix + _name] = columns(_compare, safe=True)
    for _symbol, _how in zip(_symbols.split(), (order, larger, smaller), strict=False):
        FUNCTIONS[_symbol] = columns(_how, safe=True)
# These two give the difference itself.
FUNCTIONS["btint2cmp"] = columns(lambda left, right: left.astype(np.int32) - right, True)
FUNCTIONS["btcharcmp"] = columns(lambda left, right: left.astype(np.int32) - right, True)

UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def _pretty(size: int) -> str:
    """pg_size_pretty: up to ten of the next unit, halves rounded away from zero (`adt/dbsize.c`)."""
    if abs(size) < 10 * 1024:
        return f"{size} bytes"
    half_rounded = _quotient(size, 1 << 9)
    for place, unit in enumerate(UNITS[1:], 1):
        if abs(half_rounded) < 20 * 1024 - 1 or place == len(UNITS) - 1:
            rounded = half_rounded + (1 if half_rounded > 0 else -1 if half_rounded < 0 else 0)
            return f"{_quotient(rounded, 2)} {unit}"
        half_rounded = _quotient(half_rounded, 1 << 10)
    raise AssertionError("the last unit takes all")


def _quotient(number: int, divisor: int) -> int:
    return -(-number // divisor) if number < 0 else number // divisor


FUNCTIONS["pg_size_pretty"] = rows(_pretty, True)


def _in_range(bits: int) -> Callable[..., bool]:
    """in_range_int4_int8 and its like: `value <= start + offset`, or >=, or with a minus; what overflows is beyond all."""

    def in_range(value: int, start: int, offset: int, minus: bool, less: bool) -> bool:
        if offset < 0:
            raise evaluation_error("invalid preceding or following size in window function", "22013")
        total = start - offset if minus else start + offset
        if not -(1 << bits - 1) <= total < 1 << bits - 1:
            return less != minus
        return value <= total if less else value >= total

    return in_range


for _name, _bits in {
    "int8_int8": 64,
    "int4_int8": 64,
    "int4_int4": 32,
    "int4_int2": 32,
    "int2_int8": 64,
    "int2_int4": 32,
    "int2_int2": 32,
}.items():
    FUNCTIONS["in_range_" + _name] = rows(_in_range(_bits))
