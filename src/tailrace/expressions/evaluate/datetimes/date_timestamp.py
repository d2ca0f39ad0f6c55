"""date, time, timestamp and timestamptz (`adt/date.c`, `adt/timestamp.c`): comparisons over arrays, the rest a value at a time.

Only what is immutable on the server is here,
so nothing depends on the session's time zone; a zone named in the expression does on the time zone database.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.expressions.evaluate.datetimes import intervals
from tailrace.expressions.evaluate.datetimes.datetime_limits import (
    date2timestamp,
    date_out_of_range,
    interval_out_of_range,
    tm2timestamp,
    valid_timestamp,
)
from tailrace.expressions.evaluate.datetimes.intervals import Interval
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, columns, made, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, invalid_parameter, refused
from tailrace.expressions.evaluate.numbers.integers import COMPARISONS, order
from tailrace.majors import BINS_BEFORE_ORIGIN, INFINITE_INTERVALS, supports
from tailrace.types.times.calendar import (
    DATEVAL_NOBEGIN,
    DATEVAL_NOEND,
    DT_NOBEGIN,
    DT_NOEND,
    END_DATE,
    END_TIMESTAMP,
    MIN_DATE,
    MIN_TIMESTAMP,
    POSTGRES_EPOCH_JDATE,
    UNIX_EPOCH_JDATE,
    USECS_PER_DAY,
    USECS_PER_HOUR,
    USECS_PER_MINUTE,
    USECS_PER_SEC,
    date2j,
    days_in_month,
    timestamp2tm,
    timestamp_not_finite,
)

TimeTz = tuple[int, int]
_INT64 = 1 << 63


def plus(moment: int, value: Interval) -> int:
    """Months first, to the last day of the month at most; then days; then the rest (`timestamp_pl_interval`)."""
    if timestamp_not_finite(moment):
        return moment
    months, days, micros = value
    if months:
        year, month, day, clock = timestamp2tm(moment)
        years, place = divmod(year * 12 + month - 1 + months, 12)
        moment = tm2timestamp(years, place + 1, min(day, days_in_month(years, place + 1)), clock)
    if days:
        moment = valid_timestamp(moment + days * USECS_PER_DAY)
    return valid_timestamp(moment + micros)


def minus(moment: int, value: Interval) -> int:
    return plus(moment, (-value[0], -value[1], -value[2]))


def difference(left: int, right: int) -> Interval:
    if timestamp_not_finite(left) or timestamp_not_finite(right):
        raise evaluation_error("cannot subtract infinite timestamps", "22008")
    if not -_INT64 <= left - right < _INT64:
        raise refused("a difference of timestamps that overflows")
    return intervals.justify_hours((0, 0, left - right))


def _moments_compared(name: str, date_first: bool | None) -> Implementation:
    """date with timestamp; a day too late for a timestamp is after all of them, but for infinity."""
    compare: Any = COMPARISONS[name] if name != "cmp" else order

    def run(left: NDArray, right: NDArray) -> NDArray:
        return compare(_as_moments(left), right) if date_first else compare(left, _as_moments(right))

    return columns(run, safe=True)


def _as_moments(dates: NDArray) -> NDArray:
    wide = dates.astype(np.int64)
    late = wide >= END_TIMESTAMP // USECS_PER_DAY
    found = np.where(late, DT_NOEND - 1, np.where(late, 0, wide) * USECS_PER_DAY)
    return np.where(wide == DATEVAL_NOBEGIN, DT_NOBEGIN, np.where(wide == DATEVAL_NOEND, DT_NOEND, found))


def _date_plus(sign: int) -> Callable[[NDArray, NDArray], NDArray]:
    def run(date: NDArray, days: NDArray) -> NDArray:
        endless = (date == DATEVAL_NOBEGIN) | (date == DATEVAL_NOEND)
        found = date.astype(np.int64) + sign * days.astype(np.int64)
        if (((found < MIN_DATE) | (found >= END_DATE)) & ~endless).any():
            raise date_out_of_range()
        return np.where(endless, date, found).astype(np.int32)

    return run


def _date_difference(left: NDArray, right: NDArray) -> NDArray:
    for each in (left, right):
        if ((each == DATEVAL_NOBEGIN) | (each == DATEVAL_NOEND)).any():
            raise evaluation_error("cannot subtract infinite dates", "22008")
    return (left.astype(np.int64) - right).astype(np.int32)


def _date_of(moment: NDArray) -> NDArray:
    found = moment // USECS_PER_DAY
    return np.where(moment == DT_NOBEGIN, DATEVAL_NOBEGIN, np.where(moment == DT_NOEND, DATEVAL_NOEND, found)).astype(np.int32)


def _on(date: int, moment_of: Callable[[int], int]) -> int:
    """A day with something of it, as a timestamp; an infinite day stays so."""
    start = date2timestamp(date)
    return start if timestamp_not_finite(start) else moment_of(start)


def _date_and_time(date: int, clock: int) -> int:
    return _on(date, lambda start: valid_timestamp(start + clock))


def _date_and_timetz(date: int, time: TimeTz) -> int:
    if date in (DATEVAL_NOBEGIN, DATEVAL_NOEND):
        return date2timestamp(date)
    if date >= 109203528 - POSTGRES_EPOCH_JDATE:
        raise evaluation_error("date out of range for timestamp", "22008")
    found = date * USECS_PER_DAY + time[0] + time[1] * USECS_PER_SEC
    if not MIN_TIMESTAMP <= found < END_TIMESTAMP:
        raise evaluation_error("date out of range for timestamp", "22008")
    return found


def _time_plus(sign: int) -> Callable[[int, Interval], int]:
    return lambda clock, value: (clock + sign * value[2]) % USECS_PER_DAY


def _timetz_plus(sign: int) -> Callable[[TimeTz, Interval], TimeTz]:
    return lambda time, value: ((time[0] + sign * value[2]) % USECS_PER_DAY, time[1])


def timetz_key(time: TimeTz) -> tuple[int, int]:
    """By the moment at Greenwich, then by the zone."""
    return time[0] + time[1] * USECS_PER_SEC, time[1]


def _rounded(label: str, low_is_free: bool) -> Callable[[int, int], int]:
    def run(value: int, typmod: int) -> int:
        if label.startswith("timestamp"):
            if timestamp_not_finite(value) or typmod in (-1, 6):
                return value
            if not 0 <= typmod <= 6:
                raise invalid_parameter(f"timestamp({typmod}) precision must be between 0 and 6")
            return intervals.rounded_to(value, typmod)
        return intervals.rounded_to(value, typmod) if 0 <= typmod <= 6 else value

    return run


def _make_date(year: int, month: int, day: int) -> int:
    valid = year != 0 and 1 <= month <= 12 and 1 <= day <= 31
    counted = year if year > 0 else year + 1
    if not valid or day > days_in_month(counted, month):
        shown = counted if year < 0 else year
        raise evaluation_error(f"date field value out of range: {shown}-{month:02d}-{day:02d}", "22008")
    found = date2j(counted, month, day) - POSTGRES_EPOCH_JDATE
    if not (counted > -4713 or (counted == -4713 and month >= 11)) or not MIN_DATE <= found < END_DATE:
        raise evaluation_error(f"date out of range: {year}-{month:02d}-{day:02d}", "22008")
    return found


def _clock_of(hour: int, minute: int, second: float) -> int:
    bad = math.isnan(second) or not (0 <= hour <= 24 and 0 <= minute <= 59 and 0 <= second <= 60)
    micros = 0 if bad else hour * USECS_PER_HOUR + minute * USECS_PER_MINUTE + round(second * USECS_PER_SEC)
    if bad or micros > USECS_PER_DAY:
        raise evaluation_error(f"time field value out of range: {hour}:{minute:02d}:{_general(second)}", "22008")
    return micros


def _general(number: float) -> str:
    """As C prints with %02g."""
    return f"{number:g}".rjust(2, "0") if not math.isnan(number) else "NaN"


def _make_timestamp(year: int, month: int, day: int, hour: int, minute: int, second: float) -> int:
    counted = year if year > 0 else year + 1
    if year == 0 or not 1 <= month <= 12 or not 1 <= day <= days_in_month(counted, month):
        raise evaluation_error(f"date field value out of range: {year}-{month:02d}-{day:02d}", "22008")
    if not (-4713 < counted < 5874898):
        raise evaluation_error(f"date out of range: {year}-{month:02d}-{day:02d}", "22008")
    found = (date2j(counted, month, day) - POSTGRES_EPOCH_JDATE) * USECS_PER_DAY + _clock_of(hour, minute, second)
    if not MIN_TIMESTAMP <= found < END_TIMESTAMP:
        clock = f"{hour}:{minute:02d}:{_general(second)}"
        raise evaluation_error(f"timestamp out of range: {year}-{month:02d}-{day:02d} {clock}", "22008")
    return found


def age(left: int, right: int) -> Interval:
    """Years, months and days between two moments, as one counts them (`timestamp_age`)."""
    if timestamp_not_finite(left) or timestamp_not_finite(right):
        raise refused("function age of an infinite timestamp")
    mine, other = timestamp2tm(left), timestamp2tm(right)
    sign = -1 if left < right else 1
    months = sign * ((mine.year - other.year) * 12 + mine.month - other.month)
    days, clock = sign * (mine.day - other.day), sign * (mine.clock - other.clock)
    if clock < 0:
        clock, days = clock + USECS_PER_DAY, days - 1
    while days < 0:
        borrowed = mine if sign < 0 else other
        days += days_in_month(borrowed.year, borrowed.month)
        months -= 1
    return sign * months, sign * days, sign * clock


def _bin(call: FunctionCallInfo) -> Implementation:
    major = call.facts.style.major

    def run(stride: Interval, moment: int, origin: int) -> int:
        if timestamp_not_finite(moment):
            return moment
        if timestamp_not_finite(origin):
            raise evaluation_error("origin out of range", "22008")
        intervals.finite(stride, major)
        if stride[0]:
            raise evaluation_error("timestamps cannot be binned into intervals containing months or years", "0A000")
        step = stride[1] * USECS_PER_DAY + stride[2]
        if not -_INT64 <= step < _INT64:
            raise interval_out_of_range()
        if step <= 0:
            raise evaluation_error("stride must be greater than zero", "22008")
        if not -_INT64 <= moment - origin < _INT64:
            raise interval_out_of_range()
        if not supports(major, BINS_BEFORE_ORIGIN) and moment < origin and (moment - origin) % step == 0:
            raise refused("function date_bin of a whole number of strides before the origin")
        return valid_timestamp(origin + (moment - origin) // step * step)

    return made(lambda _: rows(run))


def _overlaps(key: Callable[[Any], Any]) -> Callable[..., bool | None]:
    """(start, end) OVERLAPS (start, end), where ends may be NULL or before the start (`overlaps_timestamp`)."""

    def ordered(start: Any, end: Any) -> tuple[Any, Any] | None:
        if start is None:
            return None if end is None else (end, None)
        if end is not None and key(start) > key(end):
            return end, start
        return start, end

    def run(start: Any, end: Any, other_start: Any, other_end: Any) -> bool | None:
        mine, other = ordered(start, end), ordered(other_start, other_end)
        if mine is None or other is None:
            return None
        if key(mine[0]) > key(other[0]):
            mine, other = other, mine
        if key(mine[0]) == key(other[0]):
            return None if mine[1] is None or other[1] is None else True
        if mine[1] is None:
            return None
        if key(other[0]) < key(mine[1]):
            return True
        return None if other[1] is None else False

    return run


def _overlaps_with_lengths(first: bool, second: bool, add: Callable[[Any, Any], Any]) -> Callable[..., bool | None]:
    overlaps = _overlaps(lambda moment: moment)

    def run(start: Any, end: Any, other_start: Any, other_end: Any) -> bool | None:
        if first:
            end = None if start is None or end is None else add(start, end)
        if second:
            other_end = None if other_start is None or other_end is None else add(other_start, other_end)
        return overlaps(start, end, other_start, other_end)

    return run


def _of_seconds(seconds: float) -> int:
    """to_timestamp(double precision)."""
    if math.isnan(seconds):
        raise evaluation_error("timestamp cannot be NaN", "22008")
    if math.isinf(seconds):
        return DT_NOEND if seconds > 0 else DT_NOBEGIN
    low, high = 86400.0 * -2440588, 86400.0 * (109203528 - 2440588)
    if not low <= seconds < high:
        raise evaluation_error(f'timestamp out of range: "{seconds:g}"', "22008")
    found = round((seconds - 86400.0 * (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE)) * USECS_PER_SEC)
    if not MIN_TIMESTAMP <= found < END_TIMESTAMP:
        raise evaluation_error(f'timestamp out of range: "{seconds:g}"', "22008")
    return found


_add = intervals._finite_only
_timetz_test: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda left, right: left == right, "ne": lambda left, right: left != right, "lt": lambda left, right: left < right,
    "le": lambda left, right: left <= right, "gt": lambda left, right: left > right, "ge": lambda left, right: left >= right,
}  # fmt: skip


def _timetz(test: Callable[[Any, Any], Any]) -> Implementation:
    return rows(lambda left, right: test(timetz_key(left), timetz_key(right)), True)


FUNCTIONS: dict[str, Implementation] = {
    "timestamp_pl_interval": _add(plus), "timestamp_mi_interval": _add(minus), "timestamp_mi": made(
        lambda call: rows(_newer_difference if supports(call.facts.style.major, INFINITE_INTERVALS) else difference)),
    "date_pl_interval": _add(lambda date, value: _on(date, lambda start: plus(start, value))),
    "date_mi_interval": _add(lambda date, value: _on(date, lambda start: minus(start, value))),
    "interval_pl_date(interval, date)": _add(lambda value, date: _on(date, lambda start: plus(start, value))),
    "interval_pl_timestamp(interval, timestamp without time zone)": _add(lambda value, moment: plus(moment, value)),
    "date_pli": columns(_date_plus(1)), "date_mii": columns(_date_plus(-1)), "date_mi": columns(_date_difference),
    "integer_pl_date(integer, date)": columns(lambda days, date: _date_plus(1)(date, days)), "timestamp_date": columns(_date_of, True),
    "date_timestamp": rows(date2timestamp),
    "timestamp_time": rows(lambda moment: None if timestamp_not_finite(moment) else moment % USECS_PER_DAY, True),
    "date_finite": columns(lambda date: (date != DATEVAL_NOBEGIN) & (date != DATEVAL_NOEND), True),
    "timestamp_finite": columns(lambda moment: (moment != DT_NOBEGIN) & (moment != DT_NOEND), True),
    "timetz_time": rows(lambda time: time[0], True), "time_interval": rows(lambda clock: (0, 0, clock), True),
    "interval_time": _add(lambda value: value[2] % USECS_PER_DAY), "time_mi_time": rows(lambda left, right: (0, 0, left - right), True),
    "time_pl_interval": _add(_time_plus(1)), "time_mi_interval": _add(_time_plus(-1)), "timetz_pl_interval": _add(_timetz_plus(1)),
    "timetz_mi_interval": _add(_timetz_plus(-1)),
    "interval_pl_time(interval, time without time zone)": _add(lambda value, clock: _time_plus(1)(clock, value)),
    "interval_pl_timetz(interval, time with time zone)": _add(lambda value, time: _timetz_plus(1)(time, value)),
    "datetime_timestamp": rows(_date_and_time), "timedate_pl(time without time zone, date)": rows(lambda clock, date: _date_and_time(date, clock)),
    "datetimetz_timestamptz": rows(_date_and_timetz),
    "timetzdate_pl(time with time zone, date)": rows(lambda time, date: _date_and_timetz(date, time)),
    "timestamp_age": _add(age), "time_scale": rows(_rounded("time", True)),
    "timetz_scale": rows(lambda time, typmod: (_rounded("time", True)(time[0], typmod), time[1])),
    "timestamp_scale": rows(_rounded("timestamp", False)), "timestamptz_scale": rows(_rounded("timestamptz", False)),
    "make_date": rows(_make_date), "make_time": rows(_clock_of), "make_timestamp": rows(_make_timestamp),
    "timestamp_bin": made(_bin), "timestamptz_bin": made(_bin), "overlaps_timestamp": rows(_overlaps(lambda moment: moment), True),
    "overlaps_time": rows(_overlaps(lambda clock: clock), True), "overlaps_timetz": rows(_overlaps(timetz_key), True),
    "float8_timestamptz": rows(_of_seconds), "timetz_cmp": _timetz(lambda left, right: (left > right) - (left < right)),
    "timetz_larger": rows(lambda left, right: left if timetz_key(left) > timetz_key(right) else right, True),
    "timetz_smaller": rows(lambda left, right: left if timetz_key(left) < timetz_key(right) else right, True),
    "tsrange_subdiff": rows(lambda left, right: float(left - right) / 1e6, True), "tstzrange_subdiff": rows(lambda left,
    right: float(left - right) / 1e6, True),
}  # fmt: skip


def _newer_difference(left: int, right: int) -> Interval:
    """Since 17 infinities have a difference."""
    if timestamp_not_finite(left) or timestamp_not_finite(right):
        raise refused("an infinite interval")
    return difference(left, right)


def _age_at_utc(call: FunctionCallInfo) -> Implementation:
    """The server says immutable, and looks at the session's time zone."""
    if not call.facts.style.is_utc:
        raise refused("function age(timestamp with time zone, timestamp with time zone) in a time zone other than UTC")
    return _add(age)


FUNCTIONS["timestamptz_age"] = made(_age_at_utc)
for _name, _test in _timetz_test.items():
    FUNCTIONS[f"timetz_{_name}"] = _timetz(_test)
for _name in (*COMPARISONS, "cmp"):
    FUNCTIONS[f"date_{_name}_timestamp"] = _moments_compared(_name, True)
    FUNCTIONS[f"timestamp_{_name}_date"] = _moments_compared(_name, False)
for _label, _sum in (("timestamp without time zone", plus), ("time without time zone", _time_plus(1))):
    FUNCTIONS[f"overlaps({_label}, {_label}, {_label}, interval)"] = rows(_overlaps_with_lengths(False, True, _sum))
    FUNCTIONS[f"overlaps({_label}, interval, {_label}, {_label})"] = rows(_overlaps_with_lengths(True, False, _sum))
    FUNCTIONS[f"overlaps({_label}, interval, {_label}, interval)"] = rows(_overlaps_with_lengths(True, True, _sum))
