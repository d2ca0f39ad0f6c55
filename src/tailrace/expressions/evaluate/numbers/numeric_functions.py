"""numeric (`adt/numeric.c`): comparisons as a kernel over the stored digits, arithmetic a row at a time (`numeric_arithmetic`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows, whole
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, refused
from tailrace.expressions.evaluate.fmgr.vectors import Vector
from tailrace.expressions.evaluate.numbers import numeric_arithmetic as numeric
from tailrace.expressions.evaluate.numbers.numeric_arithmetic import NAN_KIND, Numeric
from tailrace.kernels import kernel
from tailrace.majors import BUCKETS_BY_PORTION, supports
from tailrace.types.numbers.numeric.stored import (
    INFINITY,
    MINUS_INFINITY,
    NAN,
    NEGATIVE,
    numeric_payloads,
    read_digit,
    read_numeric,
)
from tailrace.types.values import Mask, Values

FUNCTIONS: dict[str, Implementation] = {}
LARGEST_FACTORIAL = 32177


@kernel
def _compare_stored(left_starts: Any, left: Any, right_starts: Any, right: Any, valid: Any) -> Any:
    """-1, 0 or 1 for each row; a side of one value stands for all rows. NaN is above the infinities (`cmp_numerics`)."""
    rows = len(valid)
    found = np.zeros(rows, np.int64)
    for row in range(rows):
        if not valid[row]:
            continue
        mine = row if len(left_starts) > 2 or rows == 1 else 0
        other = row if len(right_starts) > 2 or rows == 1 else 0
        sign, weight, _, at = read_numeric(left, left_starts[mine])
        other_sign, other_weight, _, other_at = read_numeric(right, right_starts[other])
        stop, other_stop = left_starts[mine + 1], right_starts[other + 1]
        count, other_count = (stop - at) // 2, (other_stop - other_at) // 2
        rank = 3 if sign == NAN else 2 if sign == INFINITY else -2 if sign == MINUS_INFINITY else 0
        other_rank = 3 if other_sign == NAN else 2 if other_sign == INFINITY else -2 if other_sign == MINUS_INFINITY else 0
        if rank == 0 and count > 0:
            rank = -1 if sign == NEGATIVE else 1
        if other_rank == 0 and other_count > 0:
            other_rank = -1 if other_sign == NEGATIVE else 1
        if rank != other_rank:
            found[row] = 1 if rank > other_rank else -1
            continue
        if rank not in (1, -1):
            continue
        result = 0
        if weight != other_weight:
            result = 1 if weight > other_weight else -1
        place = 0
        while result == 0 and (place < count or place < other_count):
            digit = np.int64(read_digit(left, at + 2 * place)) if place < count else np.int64(0)
            other_digit = np.int64(read_digit(right, other_at + 2 * place)) if place < other_count else np.int64(0)
            if digit != other_digit:
                result = 1 if digit > other_digit else -1
            place += 1
        found[row] = result * rank
    return found


def _stored(vector: Vector) -> Values:
    """A vector's numbers as they are stored."""
    if vector.stored is not None:
        return vector.stored
    pairs = zip(vector.data, vector.valid.tolist(), strict=True)
    return Values.of_payloads([numeric.write_numeric_payload(each) if there else None for each, there in pairs], -1)


def _compared(test: Callable[[NDArray], NDArray]) -> Implementation:
    def run(vectors: Sequence[Vector], count: int, valid: Mask) -> NDArray:
        left, right = vectors
        if left.stored is None and right.stored is None:
            pairs = zip(left.objects(count), right.objects(count), valid.tolist(), strict=True)
            return test(np.array([numeric.compare(mine, other) if there else 0 for mine, other, there in pairs], np.int64))
        return test(
            _compare_stored(*numeric_payloads(_stored(left)), *numeric_payloads(_stored(right)), np.ascontiguousarray(valid))
        )

    return whole(run)


FUNCTIONS.update(
    {
        "numeric_eq": _compared(lambda found: found == 0), "numeric_ne": _compared(lambda found: found != 0),
        "numeric_lt": _compared(lambda found: found < 0), "numeric_le": _compared(lambda found: found <= 0),
        "numeric_gt": _compared(lambda found: found > 0), "numeric_ge": _compared(lambda found: found >= 0),
        "numeric_cmp": _compared(lambda found: found.astype(np.int32)),
    }
)  # fmt: skip


def _larger(left: Numeric, right: Numeric) -> Numeric:
    return left if numeric.compare(left, right) > 0 else right


def _smaller(left: Numeric, right: Numeric) -> Numeric:
    return left if numeric.compare(left, right) < 0 else right


def _absolute(value: Numeric) -> Numeric:
    return numeric.negative(value) if numeric.sign_of(value) < 0 else value


def _sign(value: Numeric) -> Numeric:
    return value if value.kind == NAN_KIND else Numeric(numeric.sign_of(value))


def _round(how: Callable[[Numeric, int], Numeric]) -> Callable[[Numeric, int], Numeric]:
    def run(value: Numeric, scale: int) -> Numeric:
        return how(value, max(-numeric.MAX_RESULT_SCALE, min(numeric.MAX_RESULT_SCALE, scale)))

    return run


def _to_integer(bits: int, label: str) -> Implementation:
    return rows(lambda value: numeric.to_integer(value, bits, label))


def _of_float(digits: int) -> Callable[[float], Numeric]:
    """By as many digits as the type surely has (`float8_numeric`: DBL_DIG, FLT_DIG)."""

    def run(value: float) -> Numeric:
        if math.isnan(value):
            return numeric.NAN
        if math.isinf(value):
            return numeric.INFINITY if value > 0 else numeric.MINUS_INFINITY
        return numeric.parse(format(value, f".{digits}g"))

    return run


def _to_float8(value: Numeric) -> float:
    if value.kind:
        return {NAN_KIND: math.nan, numeric.PLUS: math.inf}.get(value.kind, -math.inf)
    text = numeric.text_of(value)
    found = float(text)
    if math.isinf(found) or (found == 0 and value.digits):
        raise evaluation_error(f'"{text}" is out of range for type double precision', "22003")
    return found


def _to_float4(value: Numeric) -> float:
    """Rounded once: through double precision a number halfway between two would be rounded twice."""
    if value.kind:
        return _to_float8(value)
    text = numeric.text_of(value)
    wide = float(text)
    with np.errstate(all="ignore"):
        found = np.float32(wide)
    if not math.isinf(found) and not math.isinf(wide):
        toward = np.float32(np.inf if wide > found else -np.inf)
        following = float(np.nextafter(found, toward))
        if wide != float(found) and abs(wide - float(found)) == abs(following - wide):
            numerator, denominator = wide.as_integer_ratio()
            difference = value.digits * denominator - numerator * 10**value.scale
            if difference:
                found = np.float32(max(float(found), following) if difference > 0 else min(float(found), following))
    if math.isinf(found) or (found == 0 and value.digits):
        raise evaluation_error(f'"{text}" is out of range for type real', "22003")
    return float(found)


def _gcd(left: Numeric, right: Numeric) -> Numeric:
    if left.kind or right.kind:
        return numeric.NAN
    mine, other, scale = numeric.aligned(left, right)
    return Numeric(math.gcd(mine, other), scale)


def _lcm(left: Numeric, right: Numeric) -> Numeric:
    if left.kind or right.kind:
        return numeric.NAN
    mine, other, scale = numeric.aligned(left, right)
    return numeric.checked(Numeric(math.lcm(mine, other), scale))


def _factorial(number: int) -> Numeric:
    if number < 0:
        raise evaluation_error("factorial of a negative number is undefined", "22003")
    if number > LARGEST_FACTORIAL:
        raise evaluation_error("value overflows numeric format", "22003")
    return Numeric(math.factorial(number))


def _width_bucket(clamped: bool, operand: Numeric, low: Numeric, high: Numeric, count: int) -> int:
    """Which of `count` equal buckets; up to 15 a quotient that is rounded up to the end is not put back into the last one."""
    if count <= 0:
        raise evaluation_error("count must be greater than zero", "2201G")
    if NAN_KIND in (operand.kind, low.kind, high.kind):
        raise evaluation_error("operand, lower bound, and upper bound cannot be NaN", "2201G")
    if low.kind or high.kind:
        raise evaluation_error("lower and upper bounds must be finite", "2201G")
    order = numeric.compare(low, high)
    if order == 0:
        raise evaluation_error("lower bound cannot equal upper bound", "2201G")
    if numeric.compare(operand, low) * order > 0:
        return 0
    if numeric.compare(operand, high) * order <= 0:
        if count >= 2147483647:
            raise evaluation_error("integer out of range", "22003")
        return count + 1
    if operand.scale > 400 or low.scale > 400 or high.scale > 400:
        raise refused("function width_bucket of numeric with more than 400 decimal places")
    top = numeric.subtract(operand, low) if order < 0 else numeric.subtract(low, operand)
    bottom = numeric.subtract(high, low) if order < 0 else numeric.subtract(low, high)
    found = numeric.floor(numeric.divide(numeric.multiply(top, Numeric(count)), bottom)).digits
    return (min(found, count - 1) if clamped else found) + 1


def _coerced(value: Numeric, typmod: int) -> Numeric:
    return numeric.coerced(value, typmod)


def _pretty(size: Numeric) -> str:
    """pg_size_pretty of numeric: the same units as of bigint, divisions toward zero."""
    if size.kind:
        raise refused("function pg_size_pretty of NaN or an infinity")
    if abs(size.digits) < 10 * 1024 * 10**size.scale:
        return numeric.text_of(size) + " bytes"
    half = _shifted(numeric.truncated(size, 0).digits, 9)
    for place, unit in enumerate(("kB", "MB", "GB", "TB", "PB")):
        if abs(half) < 20 * 1024 - 1 or place == 4:
            rounded = half + (1 if half > 0 else -1)
            return f"{_shifted(rounded, 1)} {unit}"
        half = _shifted(half, 10)
    raise AssertionError("the last unit takes all")


def _shifted(number: int, bits: int) -> int:
    return -(-number >> bits) if number < 0 else number >> bits


def _subdiff(left: Numeric, right: Numeric) -> float:
    return _to_float8(numeric.subtract(left, right))


def _to_lsn(value: Numeric) -> int:
    if value.kind:
        raise evaluation_error(f"cannot convert {'NaN' if value.kind == NAN_KIND else 'infinity'} to pg_lsn", "0A000")
    number = numeric.rounded(value, 0).digits
    if not 0 <= number < 1 << 64:
        raise evaluation_error("pg_lsn out of range", "22023")
    return number


def _lsn_moved(sign: int) -> Callable[[int, Numeric], int]:
    words = ("add NaN to", "pg_lsn") if sign > 0 else ("subtract NaN from", "pg_lsn")

    def run(lsn: int, distance: Numeric) -> int:
        if distance.kind == NAN_KIND:
            raise evaluation_error(f"cannot {words[0]} {words[1]}", "0A000")
        moved = numeric.add(Numeric(lsn), distance if sign > 0 else numeric.negative(distance))
        return _to_lsn(moved)

    return run


def _square_root(call: FunctionCallInfo) -> Implementation:
    major = call.facts.style.major
    return rows(lambda value: numeric.square_root(value, major))


FUNCTIONS.update(
    {
        "numeric_add": rows(numeric.add), "numeric_sub": rows(numeric.subtract),
        "numeric_mul": rows(numeric.multiply), "numeric_div": rows(numeric.divide),
        "numeric_mod": rows(numeric.remainder), "numeric_div_trunc": rows(numeric.divide_whole), "numeric_uminus": rows(numeric.negative, True),
        "numeric_uplus": rows(lambda value: value, True), "numeric_abs": rows(_absolute, True), "numeric_sign": rows(_sign, True),
        "numeric_round": rows(_round(numeric.rounded)), "numeric_trunc": rows(_round(numeric.truncated), True), "numeric_ceil": rows(numeric.ceiling),
        "numeric_floor": rows(numeric.floor), "numeric_larger": rows(_larger, True), "numeric_smaller": rows(_smaller, True),
        "round(numeric)": rows(lambda value: numeric.rounded(value, 0)), "trunc(numeric)": rows(lambda value: numeric.truncated(value, 0), True),
        "numeric_inc": rows(lambda value: numeric.add(value, Numeric(1))), "numeric": rows(_coerced), "numeric_sqrt": made(_square_root),
        "numeric_int2": _to_integer(16, "smallint"), "numeric_int4": _to_integer(32, "integer"), "numeric_int8": _to_integer(64, "bigint"),
        "int2_numeric": rows(Numeric, True), "int4_numeric": rows(Numeric, True), "int8_numeric": rows(Numeric, True),
        "float8_numeric": rows(_of_float(15)), "float4_numeric": rows(_of_float(6)), "numeric_float8": rows(_to_float8),
        "numeric_float4": rows(_to_float4), "numeric_gcd": rows(_gcd), "numeric_lcm": rows(_lcm), "numeric_fac": rows(_factorial),
        "numeric_scale": rows(lambda value: None if value.kind else value.scale, True),
        "numeric_min_scale": rows(lambda value: None if value.kind else numeric.least_scale(value), True),
        "numeric_trim_scale": rows(lambda value: value if value.kind else numeric.rounded(value, numeric.least_scale(value)), True),
        "width_bucket_numeric": made(lambda call: rows(partial(_width_bucket, supports(call.facts.style.major, BUCKETS_BY_PORTION)))),
        "pg_size_pretty_numeric": rows(_pretty), "numrange_subdiff": rows(_subdiff),
        "numeric_pg_lsn": rows(_to_lsn), "pg_lsn_pli": rows(_lsn_moved(1)), "pg_lsn_mii": rows(_lsn_moved(-1)),
        "numeric_pl_pg_lsn(numeric, pg_lsn)": rows(lambda distance, lsn: _lsn_moved(1)(lsn, distance)),
        "pg_lsn_mi": rows(lambda left, right: Numeric(left - right), True),
        "pg_wal_lsn_diff": rows(lambda left, right: Numeric(left - right), True),
    }
)  # fmt: skip
