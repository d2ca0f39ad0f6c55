"""exp, ln, log and power of numeric (`adt/numeric.c`): exp_var, ln_var, log_var, power_var and power_var_int, with the scales that they compute with.

Products, quotients and roots are rounded to those scales exactly; PostgreSQL's have four digits of base 10000 to spare, and come to the same.
"""

from __future__ import annotations

import math
from functools import partial

from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows
from tailrace.expressions.evaluate.fmgr.refusals import division_by_zero, evaluation_error
from tailrace.expressions.evaluate.numbers.numeric_arithmetic import (
    INFINITY,
    MAX_DISPLAY_SCALE,
    MAX_RESULT_SCALE,
    MIN_SIGNIFICANT,
    MINUS,
    MINUS_INFINITY,
    NAN,
    NAN_KIND,
    PLUS,
    ZERO,
    Numeric,
    add,
    base_10000,
    checked,
    compare,
    first_digit,
    overflow,
    quotient,
    root,
    round_var,
    sign_of,
    subtract,
)
from tailrace.majors import POWER_SCALE_BY_WEIGHT, supports

_ONE, _TWO, _TEN = Numeric(1), Numeric(2), Numeric(10)
_NEAR_ONE = Numeric(9, 1), Numeric(11, 1)
_LOG10_E, _LOG10_2, _LN_10 = 0.434294481903252, 0.301029995663981, 2.302585092994046
_WEIGHT_MAX = 32767


def _to_double(value: Numeric) -> float:
    """numericvar_to_double_no_overflow."""
    try:
        return value.digits / 10**value.scale
    except OverflowError:
        return math.inf if value.digits > 0 else -math.inf


def _times(left: Numeric, right: Numeric, scale: int) -> Numeric:
    """mul_var."""
    return round_var(Numeric(left.digits * right.digits, left.scale + right.scale), scale)


def _weight(value: Numeric) -> int:
    return first_digit(value)[0]


def _result_scale(digits: int, *arguments: Numeric) -> int:
    """At least NUMERIC_MIN_SIG_DIGITS digits of a result that has so many before its point, and no less than the arguments' scales."""
    return min(max(MIN_SIGNIFICANT - digits, 0, *(each.scale for each in arguments)), MAX_DISPLAY_SCALE)


def _exp_var(x: Numeric, scale: int) -> Numeric:
    value = _to_double(x)
    if abs(value) >= MAX_RESULT_SCALE * 3:
        if value > 0:
            raise overflow()
        return Numeric(0, scale)
    weight, halvings = int(value * _LOG10_E), 0
    while abs(value) > 0.01:
        halvings += 1
        value /= 2
    if halvings:
        x = quotient(x, Numeric(1 << halvings), x.scale + halvings)
    significant = max(1 + weight + scale + int(halvings * _LOG10_2), 0) + 8
    local = significant - 1
    found, term, number = add(_ONE, x), quotient(_times(x, x, local), _TWO, local), 2
    while term.digits:
        found, number = add(found, term), number + 1
        term = quotient(_times(term, x, local), Numeric(number), local)
    for _ in range(halvings):
        found = _times(found, found, max(significant - _weight(found) * 8, 0))
    return round_var(found, scale)


def _estimate_ln_dweight(value: Numeric) -> int:
    """How many digits the logarithm has before its point, about; 0 where there is none."""
    if value.digits <= 0:
        return 0
    if compare(value, _NEAR_ONE[0]) >= 0 and compare(value, _NEAR_ONE[1]) <= 0:
        beyond = subtract(value, _ONE)
        weight, first = first_digit(beyond)
        return weight * 4 + int(math.log10(first)) if beyond.digits else 0
    weight, digits = base_10000(value)
    number = digits[0] if len(digits) == 1 else digits[0] * 10000 + digits[1]
    return int(math.log10(abs(math.log(number) + (weight - (len(digits) > 1)) * 4 * _LN_10)))


def _ln_var(x: Numeric, scale: int) -> Numeric:
    if x.digits <= 0:
        raise _no_logarithm(x)
    roots = 0
    while compare(x, _NEAR_ONE[0]) <= 0 or compare(x, _NEAR_ONE[1]) >= 0:
        x = root(x, scale - _weight(x) * 2 + 8)
        roots += 1
    local = scale + int((roots + 1) * _LOG10_2) + 8
    found = power = quotient(subtract(x, _ONE), add(x, _ONE), local)
    square, number = _times(found, found, local), 1
    while True:
        number += 2
        power = _times(power, square, local)
        term = quotient(power, Numeric(number), local)
        if not term.digits:
            break
        found = add(found, term)
        if _weight(term) < _weight(found) - local // 2:
            break
    return _times(found, Numeric(2 << roots), scale)


def _log_var(base: Numeric, value: Numeric) -> Numeric:
    base_weight, value_weight = _estimate_ln_dweight(base), _estimate_ln_dweight(value)
    weight = value_weight - base_weight
    scale = _result_scale(weight, base, value)
    ln_base = _ln_var(base, max(scale + weight - base_weight + 8, 0))
    ln_value = _ln_var(value, max(scale + weight - value_weight + 8, 0))
    if not ln_base.digits:
        raise division_by_zero()
    return quotient(ln_value, ln_base, scale)


def _is_integral(value: Numeric) -> bool:
    return value.digits % 10**value.scale == 0


def _is_odd(value: Numeric) -> bool:
    return _is_integral(value) and value.digits // 10**value.scale % 2 == 1


def _power_var(base: Numeric, exponent: Numeric, by_weight: bool) -> Numeric:
    if _is_integral(exponent):
        whole = exponent.digits // 10**exponent.scale
        if -(1 << 31) <= whole < 1 << 31:
            return _power_var_int(base, whole, exponent.scale, by_weight)
    if not base.digits:
        return Numeric(0, MIN_SIGNIFICANT)
    if base.digits < 0:
        if not _is_integral(exponent):
            raise _complex_result()
        found = _power_var(Numeric(-base.digits, base.scale), exponent, by_weight)
        return Numeric(-found.digits, found.scale) if _is_odd(exponent) else found
    ln_weight = _estimate_ln_dweight(base)
    local = max(8 - ln_weight, 0)
    value = _to_double(_times(_ln_var(base, local), exponent, local))
    if abs(value) > MAX_RESULT_SCALE * 3.01:
        if value > 0:
            raise overflow()
        return Numeric(0, MAX_DISPLAY_SCALE)
    weight = int(value * _LOG10_E)
    scale = _result_scale(weight, base, exponent)
    local = max(max(scale + weight, 0) - ln_weight + 8, 0)
    return _exp_var(_times(_ln_var(base, local), exponent, local), scale)


def _power_var_int(base: Numeric, exponent: int, exponent_scale: int, by_weight: bool) -> Numeric:
    """Which scale the result has, its size decides (`by_weight`), or did not yet."""
    digits = _digits_of_power(base, exponent) if base.digits else 0.0
    if by_weight:
        if digits > (_WEIGHT_MAX + 1) * 4:
            raise overflow()
        if digits + 1 < -MAX_DISPLAY_SCALE:
            return Numeric(0, MAX_DISPLAY_SCALE)
    scale = _result_scale(int(digits), base, Numeric(0, exponent_scale)) if by_weight else _result_scale(0, base)
    match exponent:
        case 0:
            return Numeric(10**scale, scale)
        case 1:
            return round_var(base, scale)
        case 2:
            return _times(base, base, scale)
    if not base.digits:
        if exponent < 0:
            raise division_by_zero()
        return Numeric(0, scale)
    if exponent == -1:
        return quotient(_ONE, base, scale)
    if digits > 3 * _WEIGHT_MAX * 4:
        raise overflow()
    if digits + 1 < -min(scale, MAX_DISPLAY_SCALE) and not by_weight:
        return Numeric(0, scale)
    significant = 1 + scale + int(digits) + int(math.log(abs(exponent))) + 8
    found = _multiplied(base, abs(exponent), significant)
    if found is None:
        if exponent > 0:
            raise overflow()
        return Numeric(0, scale)
    if exponent > 0:
        return round_var(found, scale)
    if not found.digits:
        raise division_by_zero()
    return quotient(_ONE, found, scale)


def _digits_of_power(base: Numeric, exponent: int) -> float:
    """About how many digits before the point the power has."""
    weight, digits = base_10000(base)
    first, place = float(digits[0]), weight * 4
    for digit in digits[1:4]:
        first, place = first * 10000 + digit, place - 4
    return exponent * (math.log10(first) + place)


def _multiplied(base: Numeric, exponent: int, significant: int) -> Numeric | None:
    """The base multiplied by itself along the bits of the exponent; None where that becomes too large."""
    product, found = base, base if exponent & 1 else _ONE
    while exponent := exponent >> 1:
        product = _times(product, product, max(min(significant - 2 * _weight(product) * 4, 2 * product.scale), 0))
        if exponent & 1:
            scale = min(significant - (_weight(product) + _weight(found)) * 4, product.scale + found.scale)
            found = _times(product, found, max(scale, 0))
        if max(_weight(product), _weight(found)) > _WEIGHT_MAX:
            return None
    return found


def _no_logarithm(value: Numeric) -> Exception:
    what = "zero" if sign_of(value) == 0 else "a negative number"
    return evaluation_error(f"cannot take logarithm of {what}", "2201E")


def _complex_result() -> Exception:
    return evaluation_error("a negative number raised to a non-integer power yields a complex result", "2201F")


def _exponential(value: Numeric) -> Numeric:
    if value.kind:
        return ZERO if value.kind == MINUS else value
    weight = max(min(_to_double(value) * _LOG10_E, MAX_RESULT_SCALE), -MAX_RESULT_SCALE)
    return checked(_exp_var(value, _result_scale(int(weight), value)))


def _natural_logarithm(value: Numeric) -> Numeric:
    if value.kind == MINUS:
        raise _no_logarithm(value)
    if value.kind:
        return value
    return _ln_var(value, _result_scale(_estimate_ln_dweight(value), value))


def _logarithm(base: Numeric, value: Numeric) -> Numeric:
    if not base.kind and not value.kind:
        return _log_var(base, value)
    if NAN_KIND in (base.kind, value.kind):
        return NAN
    least = min(base, value, key=sign_of)
    if sign_of(least) <= 0:
        raise _no_logarithm(least)
    if base.kind:
        return NAN if value.kind else ZERO
    return INFINITY


def _power(base: Numeric, exponent: Numeric, by_weight: bool) -> Numeric:
    special = bool(base.kind or exponent.kind)
    if NAN_KIND in (base.kind, exponent.kind):
        is_one = (exponent.kind == 0 and not exponent.digits) or (base.kind == 0 and compare(base, _ONE) == 0)
        return _ONE if is_one else NAN
    if sign_of(base) == 0 and sign_of(exponent) < 0:
        raise evaluation_error("zero raised to a negative power is undefined", "2201F")
    if not special:
        return checked(_power_var(base, exponent, by_weight))
    if sign_of(base) < 0 and not (exponent.kind or _is_integral(exponent)):
        raise _complex_result()
    return _power_of_infinity(base, exponent)


def _power_of_infinity(base: Numeric, exponent: Numeric) -> Numeric:
    """By the rules of POSIX for pow(3), where the base or the exponent is infinite."""
    if (not base.kind and compare(base, _ONE) == 0) or sign_of(exponent) == 0:
        return _ONE
    if sign_of(base) == 0:
        return ZERO
    if exponent.kind:
        if not base.kind and compare(base, Numeric(-1)) == 0:
            return _ONE
        is_large = bool(base.kind) or compare(Numeric(abs(base.digits), base.scale), _ONE) > 0
        return INFINITY if is_large == (exponent.kind == PLUS) else ZERO
    if sign_of(exponent) < 0:
        return ZERO
    return MINUS_INFINITY if base.kind == MINUS and _is_odd(exponent) else INFINITY


def _power_of_major(call: FunctionCallInfo) -> Implementation:
    return rows(partial(_power, by_weight=supports(call.facts.style.major, POWER_SCALE_BY_WEIGHT)))


FUNCTIONS: dict[str, Implementation] = {
    "numeric_exp": rows(_exponential), "numeric_ln": rows(_natural_logarithm), "numeric_log": rows(_logarithm),
    "numeric_power": made(_power_of_major),
    "log(numeric)": rows(lambda value: _logarithm(_TEN, value)), "log10(numeric)": rows(lambda value: _logarithm(_TEN, value)),
}  # fmt: skip
