"""float4 and float8 as text: the shortest decimal that reads back to the same number, laid out as PostgreSQL does.

Arrow finds the shortest digits (as fast as anyone); a kernel lays them out as PostgreSQL does (`common/d2s.c`): positional
while the exponent of the first digit is in [-4, 15) for float8 and [-4, 6) for float4, else d.ddde+XX.

One difference is in the digits: Arrow accepts a decimal that lies exactly half-way between two floats and only reads back
by rounding to even (1e23); PostgreSQL does not (9.999999999999999e+22). Such decimals are whole numbers beyond 2^53; the
kernel finds them exactly, and the handful is searched again in Python. In Arrow they are the same numbers, not copied.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.kernels import inner_kernel, kernel
from tailrace.model import PgType
from tailrace.types import oids
from tailrace.types.codec import ArrowStyle, primitive_array, syntax_error
from tailrace.types.codec.ascii import MINUS, NINE, PLUS, POINT, ZERO
from tailrace.types.numbers.digits import INFINITY, MINUS_INFINITY, NAN, put_not_finite, put_padded
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_writable

DIGITS4, DIGITS8 = 6, 15
"""FLT_DIG and DBL_DIG: digits that any decimal keeps, and the exponent from which on a number is not positional."""
LOWEST_POSITIONAL = -4
LONGEST = 32
"""No text of a float takes more: -2.2250738585072014e-308."""
DIGITS_FROM_ARROW = 400
"""More than Arrow prints of any number, be all its zeros written out."""
LETTER_E, LETTER_N = b"en"


@inner_kernel
def _read_decimal(data: Any, here: Any, stop: Any, digits: Any) -> Any:
    """An unsigned decimal in Arrow's form, without the zeros at either end: how many digits, and the power of ten of the first."""
    count = whole = power = 0
    pointed = False
    while here < stop and data[here] != LETTER_E:
        byte = data[here]
        if byte == POINT:
            pointed = True
        elif count or byte != ZERO:
            digits[count] = byte
            count += 1
            whole += 0 if pointed else 1
        elif pointed:
            whole -= 1
        here += 1
    if here < stop:
        down = data[here + 1] == MINUS
        for place in range(here + 2 if down or data[here + 1] == PLUS else here + 1, stop):
            power = 10 * power + int(data[place]) - ZERO
        power = -power if down else power
    while count and digits[count - 1] == ZERO:
        count -= 1
    return count, whole - 1 + power


@inner_kernel
def _is_half_way(digits: Any, count: Any, exponent: Any, mantissa: Any, limit: Any) -> Any:
    """Whether the decimal is the exact middle between a float and its neighbour.

    A middle is an odd number (2m+1, 2m-1, or 4m-1 below a power of two) times a power of two; compare the odd parts.
    """
    last = exponent - count + 1
    if count == 0 or last < 0:
        return False
    odd, five = np.uint64(0), np.uint64(5)
    for place in range(count):
        odd = odd * np.uint64(10) + np.uint64(digits[place] - ZERO)
    while odd & np.uint64(1) == np.uint64(0):
        odd >>= np.uint64(1)
    for _ in range(last):
        if odd >= limit:
            return False
        odd *= five
    one, two = np.uint64(1), np.uint64(2)
    return odd in (two * mantissa + one, two * mantissa - one, two * two * mantissa - one)


@inner_kernel
def _put_decimal(out: Any, at: Any, digits: Any, count: Any, exponent: Any, threshold: Any) -> Any:
    """`count` digits, of which the first counts 10^exponent, as PostgreSQL lays them out. No digits are 0."""
    if count == 0:
        out[at] = ZERO
        return at + 1
    if exponent < LOWEST_POSITIONAL or exponent >= threshold:
        out[at] = digits[0]
        at += 1
        if count > 1:
            out[at] = POINT
            at += 1
            for place in range(1, count):
                out[at] = digits[place]
                at += 1
        out[at] = LETTER_E
        out[at + 1] = MINUS if exponent < 0 else PLUS
        away = np.uint64(abs(exponent))
        return put_padded(out, at + 2, away, 3 if away >= np.uint64(100) else 2)
    if exponent < 0:
        out[at] = ZERO
        out[at + 1] = POINT
        at += 2
        for _ in range(-exponent - 1):
            out[at] = ZERO
            at += 1
    for place in range(max(count, exponent + 1)):
        if place == exponent + 1 and exponent >= 0:
            out[at] = POINT
            at += 1
        out[at] = digits[place] if place < count else ZERO
        at += 1
    return at


@kernel
def _lay_out(starts: Any, data: Any, valid: Any, mantissas: Any, threshold: Any) -> Any:
    """Arrow's texts in PostgreSQL's form, and which rows have digits that are half-way ones. Pass no mantissas to skip that."""
    rows = len(valid)
    offsets = np.empty(rows + 1, np.int64)
    offsets[0] = 0
    out = np.empty(LONGEST * rows, np.uint8)
    half_way = np.zeros(rows, np.bool_)
    digits = np.empty(DIGITS_FROM_ARROW, np.uint8)
    limit = np.uint64(1) << np.uint64(56 if threshold == DIGITS8 else 27)
    at = 0
    for row in range(rows):
        if valid[row]:
            here, stop = starts[row], starts[row + 1]
            negative = data[here] == MINUS
            if negative:
                here += 1
            if data[here] > NINE:
                at = put_not_finite(out, at, NAN if data[here] == LETTER_N else (MINUS_INFINITY if negative else INFINITY))
            else:
                if negative:
                    out[at] = MINUS
                    at += 1
                count, exponent = _read_decimal(data, here, stop, digits)
                if len(mantissas):
                    half_way[row] = _is_half_way(digits, count, exponent, mantissas[row], limit)
                at = _put_decimal(out, at, digits, count, exponent, threshold)
        offsets[row + 1] = at
    return offsets, out[:at], half_way


def format_floats(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As float4out and float8out."""
    return print_floats(values.as_dtype("<f4" if pg_type.oid == oids.FLOAT4 else "<f8"), values.valid, style)


def print_floats(numbers: NDArray, valid: Mask, style: TextStyle) -> Texts:
    """The same of numbers that lie inside other values: those of 4 bytes as float4, those of 8 as float8."""
    single = numbers.itemsize == 4
    threshold = DIGITS4 if single else DIGITS8
    if style.extra_float_digits <= 0:
        return _rounded(numbers, valid, max(threshold + style.extra_float_digits, 1))
    bits = numbers.view("<u4").astype(np.uint64) if single else numbers.view("<u8")
    hidden = np.uint64(1) << np.uint64(23 if single else 52)
    mantissas = (bits & (hidden - np.uint64(1))) | hidden
    valid = as_writable(valid)
    printed = Texts.of_numbers(numbers)
    offsets, out, half_way = _lay_out(as_writable(printed.offsets), as_writable(printed.data), valid, mantissas, threshold)
    if half_way.any():
        rows = np.flatnonzero(half_way)
        again = Texts.of([_search_digits(float(numbers[row]), int(mantissas[row])) for row in rows.tolist()])
        places = np.arange(len(numbers))
        places[rows] = len(numbers) + np.arange(len(rows))
        printed = Texts.concatenated([printed, again], len(printed.data) + len(again.data)).take(places)
        offsets, out, _ = _lay_out(printed.offsets, printed.data, valid, mantissas[:0], threshold)
    return Texts(offsets, out)


def _rounded(numbers: NDArray, valid: Mask, digits: int) -> Texts:
    """As C's %g prints them, with so many digits: what extra_float_digits of 0 and below asks for. Rarely set."""
    special = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    printed = [f"{number:.{digits}g}" for number in numbers.astype(np.float64).tolist()]
    return Texts.of([special.get(text, text) if there else "" for text, there in zip(printed, valid.tolist(), strict=True)])


def _search_digits(number: float, mantissa: int) -> str:
    """The shortest whole number strictly between the middles around a large float, and nearest to it."""
    exact = abs(int(number))
    quarter = exact // mantissa
    low = 4 * exact - (quarter if mantissa & (mantissa - 1) == 0 else 2 * quarter)
    high = 4 * exact + 2 * quarter
    for places in range(len(str(exact)) - 1, -1, -1):
        unit = 10**places
        below = exact // unit * unit
        fitting = [each for each in (below, below + unit) if low < 4 * each < high]
        if fitting:
            return ("-" if number < 0 else "") + str(min(fitting, key=lambda each: abs(each - exact)))
    raise AssertionError("the number itself fits")


def parse_floats(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As float8in; Arrow reads to the nearest float."""
    single = pg_type.oid == oids.FLOAT4
    from pyarrow.compute import utf8_trim_whitespace  # noqa: PLC0415 - it takes a tenth of a second, and printing needs none

    trimmed = utf8_trim_whitespace(texts.to_arrow(valid))
    try:
        numbers = trimmed.cast(pa.float32() if single else pa.float64())
    except pa.ArrowInvalid:
        bad = next(text for text in trimmed.to_pylist() if text is not None and not _is_float(text))
        raise syntax_error("real" if single else "double precision", bad) from None
    plain = np.array(numbers.fill_null(pa.scalar(0.0, numbers.type)).to_numpy(zero_copy_only=False))
    plain[np.isnan(plain)] = np.nan
    return Values(valid, fixed=plain.view(np.uint8).reshape(len(texts), pg_type.length))


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def arrow_floats(pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.DataType:
    return pa.float32() if pg_type.oid == oids.FLOAT4 else pa.float64()


def floats_to_arrow(values: Values, pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.Array:
    single = pg_type.oid == oids.FLOAT4
    return primitive_array(values.as_dtype("<f4" if single else "<f8"), values.valid, arrow_floats(pg_type, typmod, style))
