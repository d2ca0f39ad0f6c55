"""numeric as PostgreSQL computes with it (`adt/numeric.c`): exact numbers with a display scale, NaN and the infinities.

In: stored payloads. Out: `Numeric`, an integer and how many of its decimal places are behind the point, on which arithmetic gives the same numbers
and the same scales as on the server. Errors are the server's.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from math import isqrt
from typing import NamedTuple

from tailrace.expressions.evaluate.fmgr.refusals import division_by_zero, evaluation_error
from tailrace.majors import SQRT_SCALE_BY_WEIGHT, supports
from tailrace.types.numbers.numeric import stored
from tailrace.types.numbers.numeric.stored import (
    INFINITY_HEADER,
    MINUS_INFINITY_HEADER,
    NAN_HEADER,
    write_numeric,
    write_special,
)
from tailrace.types.typmods import numeric_typmod

FINITE, MINUS, PLUS, NAN_KIND = 0, -1, 1, 2
MIN_SIGNIFICANT, MAX_DISPLAY_SCALE, MAX_SCALE, MAX_RESULT_SCALE = 16, 1000, 0x3FFF, 2000
"""NUMERIC_MIN_SIG_DIGITS, NUMERIC_MAX_DISPLAY_SCALE, NUMERIC_DSCALE_MAX, NUMERIC_MAX_RESULT_SCALE (`utils/numeric.h`)."""
_TOO_LARGE_BITS = 435411
"""How many bits 10^131072 has: a smaller number fits into 32768 digits of base 10000."""
TOO_LARGE = 131072
_CHUNK = 4000
"""Python refuses to make texts of numbers of more than 4300 digits, and numbers of such texts."""
_header = lru_cache(maxsize=1 << 12)(stored.read_header)
"""Numbers of a column have few headers."""


class Numeric(NamedTuple):
    """`digits` / 10^`scale`, or no number, as `kind` says."""

    digits: int
    scale: int = 0
    kind: int = FINITE


NAN, INFINITY, MINUS_INFINITY, ZERO = Numeric(0, 0, NAN_KIND), Numeric(0, 0, PLUS), Numeric(0, 0, MINUS), Numeric(0)


def read_numeric_payload(payload: bytes) -> Numeric:
    """A stored number."""
    words = struct.unpack_from(f"<{len(payload) // 2}H", payload)
    sign, weight, scale, size = _header(words[0], 0 if words[0] & stored.SHORT else words[1])
    if sign >= stored.NAN:
        return {stored.NAN: NAN, stored.INFINITY: INFINITY}.get(sign, MINUS_INFINITY)
    digits = words[size // 2 :]
    number = 0
    for at_digit in range(0, len(digits), _CHUNK // 4):
        chunk = digits[at_digit : at_digit + _CHUNK // 4]
        number = number * 10 ** (4 * len(chunk)) + int("%04d" * len(chunk) % chunk)
    shift = 4 * (weight + 1 - len(digits)) + scale
    number = number * 10**shift if shift >= 0 else number // 10**-shift
    return Numeric(-number if sign == stored.NEGATIVE else number, scale)


def write_numeric_payload(value: Numeric) -> bytes:
    """The stored form (`make_result`)."""
    if value.kind:
        return write_special({NAN_KIND: NAN_HEADER, PLUS: INFINITY_HEADER}.get(value.kind, MINUS_INFINITY_HEADER))
    weight, digits = base_10000(value)
    return write_numeric(value.digits < 0, weight, value.scale, digits)


def base_10000(value: Numeric) -> tuple[int, list[int]]:
    """The weight and the digits of base 10000, without zeros before the first or behind the last."""
    text = _decimal(abs(value.digits)) + "0" * (-value.scale % 4)
    places = value.scale + -value.scale % 4
    text = text.rjust(-(-max(len(text), places) // 4) * 4, "0")
    digits = [int(text[at : at + 4]) for at in range(0, len(text), 4)]
    weight = len(digits) - places // 4 - 1
    while digits and digits[0] == 0:
        del digits[0]
        weight -= 1
    while digits and digits[-1] == 0:
        digits.pop()
    return weight if digits else 0, digits


def _decimal(number: int) -> str:
    """The digits of a number that is not negative."""
    chunks: list[str] = []
    while number.bit_length() > 13000:
        number, low = divmod(number, 10**_CHUNK)
        chunks.append(str(low).rjust(_CHUNK, "0"))
    return (str(number) + "".join(reversed(chunks))).lstrip("0") or "0"


def checked(value: Numeric) -> Numeric:
    """The number, if numeric can hold it."""
    if value.digits.bit_length() > _TOO_LARGE_BITS and abs(value.digits) >= 10 ** (TOO_LARGE + value.scale):
        raise overflow()
    return value


def overflow() -> Exception:
    return evaluation_error("value overflows numeric format", "22003")


def parse(text: str) -> Numeric:
    """A decimal number, with an exponent perhaps; for constants and numbers of JSON."""
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    scale, digits = len(fraction) - int(exponent or 0), int(whole + fraction)
    return Numeric(digits, scale) if scale >= 0 else Numeric(digits * 10**-scale, 0)


def text_of(value: Numeric) -> str:
    """As numeric_out prints it."""
    if value.kind:
        return {NAN_KIND: "NaN", PLUS: "Infinity"}.get(value.kind, "-Infinity")
    text = _decimal(abs(value.digits)).rjust(value.scale + 1, "0")
    sign = "-" if value.digits < 0 else ""
    return sign + (f"{text[: -value.scale]}.{text[-value.scale :]}" if value.scale else text)


def aligned(left: Numeric, right: Numeric) -> tuple[int, int, int]:
    """Both numbers' digits at the larger scale, and that."""
    scale = max(left.scale, right.scale)
    return left.digits * 10 ** (scale - left.scale), right.digits * 10 ** (scale - right.scale), scale


def compare(left: Numeric, right: Numeric) -> int:
    """-1, 0 or 1: NaN equals NaN, and is above all (`cmp_numerics`)."""
    if left.kind or right.kind:
        return (left.kind > right.kind) - (left.kind < right.kind)
    if left.scale == right.scale:
        return (left.digits > right.digits) - (left.digits < right.digits)
    mine, other, _ = aligned(left, right)
    return (mine > other) - (mine < other)


def sign_of(value: Numeric) -> int:
    return value.kind if value.kind else (value.digits > 0) - (value.digits < 0)


def _special(sign: int) -> Numeric:
    return INFINITY if sign > 0 else MINUS_INFINITY if sign < 0 else NAN


def negative(value: Numeric) -> Numeric:
    if value.kind:
        return value if value.kind == NAN_KIND else _special(-value.kind)
    return Numeric(-value.digits, value.scale)


def add(left: Numeric, right: Numeric) -> Numeric:
    if left.kind or right.kind:
        if NAN_KIND in (left.kind, right.kind) or left.kind * right.kind < 0:
            return NAN
        return _special(left.kind or right.kind)
    mine, other, scale = aligned(left, right)
    return checked(Numeric(mine + other, scale))


def subtract(left: Numeric, right: Numeric) -> Numeric:
    return add(left, negative(right))


def multiply(left: Numeric, right: Numeric) -> Numeric:
    if left.kind or right.kind:
        return NAN if NAN_KIND in (left.kind, right.kind) else _special(sign_of(left) * sign_of(right))
    found = Numeric(left.digits * right.digits, left.scale + right.scale)
    return checked(found if found.scale <= MAX_SCALE else rounded(found, MAX_SCALE))


def first_digit(value: Numeric) -> tuple[int, int]:
    """(weight, the first digit of base 10000); zeros of zero."""
    if not value.digits:
        return 0, 0
    text = _decimal(abs(value.digits))
    before = len(text) - value.scale  # decimal digits before the point, or minus the zeros behind it
    weight = -(-before // 4) - 1
    taken = before - 4 * weight
    return weight, int(text[:taken].ljust(taken, "0"))


def _division_scale(left: Numeric, right: Numeric) -> int:
    """select_div_scale: at least 16 significant digits."""
    (weight, first), (other_weight, other_first) = first_digit(left), first_digit(right)
    quotient_weight = weight - other_weight - (first <= other_first)
    return min(max(MIN_SIGNIFICANT - 4 * quotient_weight, left.scale, right.scale, 0), MAX_DISPLAY_SCALE)


def _special_quotient(left: Numeric, right: Numeric) -> Numeric | None:
    """What a division gives where something is no number, or fails; None where both are numbers."""
    if NAN_KIND in (left.kind, right.kind):
        return NAN
    if not right.kind and not right.digits:
        raise division_by_zero()
    if left.kind:
        return NAN if right.kind else _special(left.kind * sign_of(right))
    return ZERO if right.kind else None


def divide(left: Numeric, right: Numeric) -> Numeric:
    special = _special_quotient(left, right)
    if special is not None:
        return special
    scale = _division_scale(left, right)
    return checked(quotient(left, right, scale))


def quotient(left: Numeric, right: Numeric, scale: int) -> Numeric:
    shift = scale + right.scale - left.scale
    top, bottom = abs(left.digits), abs(right.digits)
    if shift >= 0:
        top *= 10**shift
    else:
        bottom *= 10**-shift
    digits = (2 * top + bottom) // (2 * bottom)
    return Numeric(-digits if (left.digits < 0) != (right.digits < 0) else digits, scale)


def divide_whole(left: Numeric, right: Numeric) -> Numeric:
    """div(): the quotient without what is behind its point."""
    special = _special_quotient(left, right)
    if special is not None:
        return special
    mine, other, _ = aligned(left, right)
    digits = abs(mine) // abs(other)
    return checked(Numeric(-digits if (mine < 0) != (other < 0) else digits, 0))


def remainder(left: Numeric, right: Numeric) -> Numeric:
    """mod(): has the sign of what is divided."""
    if NAN_KIND in (left.kind, right.kind):
        return NAN
    if left.kind:
        if not right.kind and not right.digits:
            raise division_by_zero()
        return NAN
    if right.kind:
        return left
    if not right.digits:
        raise division_by_zero()
    mine, other, scale = aligned(left, right)
    digits = abs(mine) % abs(other)
    return Numeric(-digits if mine < 0 else digits, scale)


def rounded(value: Numeric, scale: int) -> Numeric:
    """Half away from zero; a negative scale rounds before the point."""
    return value if value.kind else checked(round_var(value, scale))


def round_var(value: Numeric, scale: int) -> Numeric:
    """The same of a finite number, however large it becomes."""
    if scale >= value.scale:
        return Numeric(value.digits * 10 ** (scale - value.scale), scale)
    unit = 10 ** (value.scale - scale)
    digits = (2 * abs(value.digits) + unit) // (2 * unit)
    digits = -digits if value.digits < 0 else digits
    return Numeric(digits * 10 ** max(-scale, 0), max(scale, 0))


def truncated(value: Numeric, scale: int) -> Numeric:
    if value.kind:
        return value
    if scale >= value.scale:
        return Numeric(value.digits * 10 ** (scale - value.scale), scale)
    digits = abs(value.digits) // 10 ** (value.scale - scale)
    digits = -digits if value.digits < 0 else digits
    return Numeric(digits * 10 ** max(-scale, 0), max(scale, 0))


def ceiling(value: Numeric) -> Numeric:
    return value if value.kind else checked(Numeric(-(-value.digits // 10**value.scale)))


def floor(value: Numeric) -> Numeric:
    return value if value.kind else checked(Numeric(value.digits // 10**value.scale))


def to_integer(value: Numeric, bits: int, label: str) -> int:
    """numeric_int4 and its like: rounded, if it fits."""
    if value.kind:
        noun = "NaN" if value.kind == NAN_KIND else "infinity"
        raise evaluation_error(f"cannot convert {noun} to {label}", "0A000")
    number = rounded(value, 0).digits
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise evaluation_error(f"{label} out of range", "22003")
    return number


def square_root(value: Numeric, major: int) -> Numeric:
    """With at least 16 significant digits."""
    if value.kind in (NAN_KIND, PLUS):
        return value
    if sign_of(value) < 0:
        raise evaluation_error("cannot take square root of a negative number", "2201F")
    weight = first_digit(value)[0] if value.digits else 0
    half = _half_weight(weight) if supports(major, SQRT_SCALE_BY_WEIGHT) else _toward_zero((weight + 1) * 4, 2) - 1
    scale = min(max(MIN_SIGNIFICANT - half, value.scale, 0), MAX_DISPLAY_SCALE)
    return root(value, scale)


def root(value: Numeric, scale: int) -> Numeric:
    """The square root of what is not negative, rounded half up; a negative scale rounds before the point (`sqrt_var`)."""
    shift = 2 * scale - value.scale
    squared = 4 * value.digits * 10**shift if shift >= 0 else 4 * value.digits // 10**-shift
    return Numeric((isqrt(squared) + 1) // 2 * 10 ** max(-scale, 0), max(scale, 0))


def _half_weight(weight: int) -> int:
    return weight * 2 + 1 if weight >= 0 else 1 - _toward_zero(1 - weight * 4, 2)


def _toward_zero(number: int, divisor: int) -> int:
    """As integers are divided in C."""
    return -(-number // divisor) if number < 0 else number // divisor


def least_scale(value: Numeric) -> int:
    """How many places behind the point are needed."""
    if not value.digits:
        return 0
    scale, digits = value.scale, value.digits
    while scale and digits % 10 == 0:
        scale, digits = scale - 1, digits // 10
    return scale


def coerced(value: Numeric, typmod: int) -> Numeric:
    """numeric(p, s): rounded to the scale, if the digits before the point are few enough (`apply_typmod`)."""
    declared = numeric_typmod(typmod)
    if declared is None or value.kind == NAN_KIND:
        return value
    precision, scale = declared
    if value.kind:
        raise evaluation_error("numeric field overflow", "22003")
    found = rounded(value, scale)
    if abs(found.digits) >= 10 ** max(precision - scale + found.scale, 0):
        raise evaluation_error("numeric field overflow", "22003")
    return found
