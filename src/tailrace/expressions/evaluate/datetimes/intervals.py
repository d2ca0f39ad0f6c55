"""interval (`adt/timestamp.c`): (months, days, microseconds). Comparisons take a month for 30 days and a day for 24 hours.

Since 17 there are infinite intervals; with the least or the greatest months, days and microseconds, which older majors take for what they say.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tailrace.expressions.evaluate.datetimes.datetime_limits import interval_out_of_range, quotient
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows
from tailrace.expressions.evaluate.fmgr.refusals import division_by_zero, evaluation_error, invalid_parameter, refused
from tailrace.majors import INFINITE_INTERVALS, supports
from tailrace.types.times.calendar import USECS_PER_DAY, USECS_PER_HOUR, USECS_PER_MINUTE, USECS_PER_SEC
from tailrace.types.typmods import INTERVAL_FULL_PRECISION, INTERVAL_FULL_RANGE, interval_typmod

Interval = tuple[int, int, int]
MONTH_DAYS = 30
_INT32, _INT64 = 1 << 31, 1 << 63
INFINITE = ((_INT32 - 1, _INT32 - 1, _INT64 - 1), (-_INT32, -_INT32, -_INT64))


def span(value: Interval) -> int:
    """By what intervals are compared."""
    months, days, micros = value
    return (months * MONTH_DAYS + days) * USECS_PER_DAY + micros


def checked(months: int, days: int, micros: int) -> Interval:
    if not (-_INT32 <= months < _INT32 and -_INT32 <= days < _INT32 and -_INT64 <= micros < _INT64):
        raise interval_out_of_range()
    return months, days, micros


def finite(value: Interval, major: int) -> Interval:
    """The interval, unless it is infinite to this major."""
    if supports(major, INFINITE_INTERVALS) and value in INFINITE:
        raise refused("an infinite interval")
    return value


def add(left: Interval, right: Interval) -> Interval:
    return checked(left[0] + right[0], left[1] + right[1], left[2] + right[2])


def subtract(left: Interval, right: Interval) -> Interval:
    return checked(left[0] - right[0], left[1] - right[1], left[2] - right[2])


def negative(value: Interval) -> Interval:
    return checked(-value[0], -value[1], -value[2])


def justify_hours(value: Interval) -> Interval:
    months, days, micros = value
    more = quotient(micros, USECS_PER_DAY)
    days, micros = days + more, micros - more * USECS_PER_DAY
    if days > 0 and micros < 0:
        days, micros = days - 1, micros + USECS_PER_DAY
    elif days < 0 and micros > 0:
        days, micros = days + 1, micros - USECS_PER_DAY
    return checked(months, days, micros)


def justify_days(value: Interval) -> Interval:
    months, days, micros = value
    more = quotient(days, MONTH_DAYS)
    months, days = months + more, days - more * MONTH_DAYS
    if months > 0 and days < 0:
        months, days = months - 1, days + MONTH_DAYS
    elif months < 0 and days > 0:
        months, days = months + 1, days - MONTH_DAYS
    return checked(months, days, micros)


def justify(value: Interval) -> Interval:
    """Both, with one sign for all."""
    months, days, micros = value
    if (days > 0 and micros > 0) or (days < 0 and micros < 0):
        more = quotient(days, MONTH_DAYS)
        months, days = months + more, days - more * MONTH_DAYS
    more = quotient(micros, USECS_PER_DAY)
    days, micros = days + more, micros - more * USECS_PER_DAY
    more = quotient(days, MONTH_DAYS)
    months, days = months + more, days - more * MONTH_DAYS
    if months > 0 and (days < 0 or (days == 0 and micros < 0)):
        months, days = months - 1, days + MONTH_DAYS
    elif months < 0 and (days > 0 or (days == 0 and micros > 0)):
        months, days = months + 1, days - MONTH_DAYS
    if days > 0 and micros < 0:
        days, micros = days - 1, micros + USECS_PER_DAY
    elif days < 0 and micros > 0:
        days, micros = days + 1, micros - USECS_PER_DAY
    return checked(months, days, micros)


def _whole(number: float, limit: int) -> int:
    if math.isnan(number) or not -limit <= number < limit:
        raise interval_out_of_range()
    return int(number)


def _rounded(number: float) -> float:
    """TSROUND: to a microsecond."""
    return round(number * 1e6) / 1e6


def _scaled(value: Interval, how: Callable[[float], float]) -> Interval:
    """What is not whole months or days goes down to days and seconds (`interval_mul`)."""
    months, days, micros = value
    new_months, new_days = _whole(how(months), _INT32), _whole(how(days), _INT32)
    more_days = _rounded((how(months) - new_months) * MONTH_DAYS)
    seconds = _rounded((how(days) - new_days + more_days - int(more_days)) * 86400)
    if abs(seconds) >= 86400:
        new_days += int(seconds / 86400)
        seconds -= int(seconds / 86400) * 86400
    new_days += int(more_days)
    total = how(micros) + seconds * 1e6
    if math.isnan(total) or math.isinf(total) or not -_INT64 <= round(total) < _INT64 or not -_INT32 <= new_days < _INT32:
        raise interval_out_of_range()
    return new_months, new_days, round(total)


def multiply(value: Interval, factor: float) -> Interval:
    return _scaled(value, lambda number: number * factor)


def divide(value: Interval, divisor: float) -> Interval:
    if divisor == 0:
        raise division_by_zero()
    return _scaled(value, lambda number: number / divisor)


def fitted(value: Interval, typmod: int) -> Interval:
    """interval year, interval day to second(2) and so on (`AdjustIntervalForTypmod`)."""
    if typmod < 0:
        return value
    months, days, micros = value
    fields, precision = interval_typmod(typmod)
    years = quotient(months, 12) * 12
    if fields != INTERVAL_FULL_RANGE:
        match fields:
            case 4:
                months, days, micros = years, 0, 0
            case 2 | 6:
                days = micros = 0
            case 8:
                micros = 0
            case 1024 | 1032:
                micros = quotient(micros, USECS_PER_HOUR) * USECS_PER_HOUR
            case 2048 | 3072 | 3080:
                micros = quotient(micros, USECS_PER_MINUTE) * USECS_PER_MINUTE
            case 4096 | 6144 | 7168 | 7176:
                pass
            case _:
                raise evaluation_error(f"unrecognized interval typmod: {typmod}", "XX000")
    if precision != INTERVAL_FULL_PRECISION:
        if precision > 6:
            raise invalid_parameter(f"interval({precision}) precision must be between 0 and 6")
        micros = rounded_to(micros, precision)
    return checked(months, days, micros)


def rounded_to(micros: int, precision: int) -> int:
    """Half away from zero, to so many places of a second."""
    unit = 10 ** (6 - precision)
    found = (abs(micros) + unit // 2) // unit * unit
    return -found if micros < 0 else found


def make(years: int, months: int, weeks: int, days: int, hours: int, minutes: int, seconds: float) -> Interval:
    """make_interval."""
    if math.isinf(seconds) or math.isnan(seconds):
        raise interval_out_of_range()
    total = round(seconds * USECS_PER_SEC) if abs(seconds) < _INT64 else _INT64
    new_months, new_days, micros = (
        years * 12 + months,
        weeks * 7 + days,
        hours * USECS_PER_HOUR + minutes * USECS_PER_MINUTE + total,
    )
    if abs(total) >= _INT64 or max(abs(new_months), abs(new_days)) >= _INT32 or abs(micros) >= _INT64:
        raise refused("function make_interval of numbers that overflow")
    return new_months, new_days, micros


def _larger(left: Interval, right: Interval) -> Interval:
    return left if span(left) > span(right) else right


def _smaller(left: Interval, right: Interval) -> Interval:
    return left if span(left) < span(right) else right


def _finite_only(function: Callable[..., object]) -> Implementation:
    """A function that does not know of infinite intervals, of which the newer majors have some."""

    def make_it(call: FunctionCallInfo) -> Implementation:
        if not supports(call.facts.style.major, INFINITE_INTERVALS):
            return rows(function)

        def run(*arguments: object) -> object:
            for each in arguments:
                if each in INFINITE or (isinstance(each, float) and not math.isfinite(each)):
                    raise refused("an infinite interval")
            found = function(*arguments)
            if found in INFINITE:
                raise refused("an infinite interval")
            return found

        return rows(run)

    return made(make_it)


def _is_finite(call: FunctionCallInfo) -> Implementation:
    infinite = INFINITE if supports(call.facts.style.major, INFINITE_INTERVALS) else ()
    return rows(lambda value: value not in infinite, True)


FUNCTIONS: dict[str, Implementation] = {
    "interval_eq": rows(lambda left, right: span(left) == span(right), True), "interval_ne": rows(lambda left, right: span(left) != span(right),
    True),
    "interval_lt": rows(lambda left, right: span(left) < span(right), True), "interval_le": rows(lambda left, right: span(left) <= span(right), True),
    "interval_gt": rows(lambda left, right: span(left) > span(right), True), "interval_ge": rows(lambda left, right: span(left) >= span(right), True),
    "interval_cmp": rows(lambda left, right: (span(left) > span(right)) - (span(left) < span(right)), True),
    "interval_larger": rows(_larger, True), "interval_smaller": rows(_smaller, True), "interval_finite": made(_is_finite),
    "interval_pl": _finite_only(add), "interval_mi": _finite_only(subtract), "interval_um": _finite_only(negative),
    "interval_justify_hours": _finite_only(justify_hours), "interval_justify_days": _finite_only(justify_days),
    "interval_justify_interval": _finite_only(justify), "interval_mul": _finite_only(multiply),
    "mul_d_interval": _finite_only(lambda factor, value: multiply(value, factor)), "interval_div": _finite_only(divide),
    "interval_scale": _finite_only(fitted), "make_interval": _finite_only(make),
}  # fmt: skip
