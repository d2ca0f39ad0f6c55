"""extract, date_part and date_trunc (`adt/timestamp.c`, `adt/date.c`).

extract gives numeric with as many places as the unit has, date_part double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tailrace.expressions.evaluate.datetimes.datetime_limits import date2timestamp, quotient, rest, tm2timestamp, valid_timestamp
from tailrace.expressions.evaluate.datetimes.intervals import Interval, checked, finite
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, invalid_parameter, refused
from tailrace.expressions.evaluate.numbers import numeric_arithmetic
from tailrace.expressions.evaluate.numbers.numeric_arithmetic import Numeric
from tailrace.majors import INFINITE_UNITS_CHECKED, INTERVAL_QUARTERS, supports
from tailrace.types.times.calendar import (
    DATEVAL_NOBEGIN,
    DATEVAL_NOEND,
    POSTGRES_EPOCH_JDATE,
    UNIX_EPOCH_JDATE,
    USECS_PER_DAY,
    USECS_PER_HOUR,
    USECS_PER_MINUTE,
    USECS_PER_SEC,
    date2isoweek,
    date2j,
    j2date,
    j2day,
    timestamp2tm,
    timestamp_not_finite,
)

_UNIT_WORDS = {
    "century": "c cent centuries century", "day": "d day days", "decade": "dec decade decades decs", "hour": "h hour hours hr hrs",
    "minute": "m min mins minute minutes", "millennium": "mil millennia millennium mils", "milliseconds": "millisecon ms msec msecs msecond mseconds",
    "month": "mon mons month months", "quarter": "qtr quarter", "second": "s sec second seconds secs", "timezone": "timezone",
    "timezone_hour": "timezone_h", "timezone_minute": "timezone_m", "microseconds": "us usec usecond useconds usecs microsecon",
    "week": "w week weeks", "year": "y year years yr yrs", "epoch": "epoch", "dow": "dow", "doy": "doy", "isodow": "isodow", "isoyear": "isoyear",
    "julian": "j jd julian",
}  # fmt: skip
UNITS = {word[:10]: unit for unit, words in _UNIT_WORDS.items() for word in words.split()}
"""What units may be called; PostgreSQL looks at ten letters."""
OTHER_WORDS = frozenset(
    "ago allballs at bc ad dst infinity -infinity now on today tomorrow yesterday undefined invalid am pm".split()
)


SPECIAL = frozenset("epoch dow doy isodow isoyear julian".split())
"""Units that can be extracted, and that nothing can be truncated to."""


def unit_of(text: str, label: str, special: bool = True) -> str:
    """The unit that a text names; it raises the server's error for what is none. Without `special` only what has a length is one."""
    word = text.lower()
    if not word.isascii():
        raise refused("a unit of time with letters beyond ASCII")
    found = UNITS.get(word[:10])
    if found in SPECIAL and not special:
        found = None
    if found is None:
        if special and word[:10] in OTHER_WORDS:
            raise refused(f'the unit of time "{text}"')
        raise invalid_parameter(f'unit "{word}" not recognized for type {label}')
    return found


def _unsupported(text: str, label: str) -> Exception:
    return evaluation_error(f'unit "{text.lower()}" not supported for type {label}', "0A000")


def calendar_part(unit: str, year: int, month: int, day: int) -> int | None:  # noqa: PLR0911 (a unit each)
    """The parts that depend on the day alone; None for others. There is no year 0."""
    julian = date2j(year, month, day)
    shown = year if year > 0 else year - 1
    match unit:
        case "year":
            return shown
        case "decade":
            return year // 10 if year >= 0 else -((8 - shown) // 10) if year < 0 else 0
        case "century":
            return (year + 99) // 100 if year > 0 else -((99 - shown) // 100)
        case "millennium":
            return (year + 999) // 1000 if year > 0 else -((999 - shown) // 1000)
        case "quarter":
            return (month - 1) // 3 + 1
        case "month":
            return month
        case "day":
            return day
        case "week":
            return date2isoweek(year, month, day)[1]
        case "isoyear":
            found = date2isoweek(year, month, day)[0]
            return found if found > 0 else found - 1
        case "dow":
            return j2day(julian)
        case "isodow":
            return j2day(julian) or 7
        case "doy":
            return julian - date2j(year, 1, 1) + 1
    return None


def clock_part(unit: str, clock: int) -> Numeric | None:
    """The parts of a time of day, with their places; None for others."""
    match unit:
        case "microseconds":
            return Numeric(rest(clock, USECS_PER_MINUTE), 0)
        case "milliseconds":
            return Numeric(rest(clock, USECS_PER_MINUTE), 3)
        case "second":
            return Numeric(rest(clock, USECS_PER_MINUTE), 6)
        case "minute":
            return Numeric(rest(quotient(clock, USECS_PER_MINUTE), 60))
        case "hour":
            return Numeric(quotient(clock, USECS_PER_HOUR))
    return None


_GROWING = frozenset("year decade century millennium julian isoyear epoch".split())
_OSCILLATING = frozenset(
    "microseconds milliseconds second minute hour day month quarter week dow isodow doy timezone timezone_hour timezone_minute".split()
)


def _of_infinity(unit: str, positive: bool, text: str, label: str) -> Numeric | None:
    """What an infinite moment has of a unit: an infinity, or nothing where the unit comes round again."""
    if unit in _GROWING:
        return numeric_arithmetic.INFINITY if positive else numeric_arithmetic.MINUS_INFINITY
    if unit in _OSCILLATING:
        return None
    raise _unsupported(text, label)


def _float(value: Numeric | None) -> float | None:
    if value is None:
        return None
    if value.kind:
        return math.inf if value.kind > 0 else -math.inf
    return value.digits / 10**value.scale if value.scale else float(value.digits)


TIMESTAMP_LABEL = "timestamp without time zone"


def extract_timestamp(text: str, moment: int) -> Numeric | None:
    unit = unit_of(text, TIMESTAMP_LABEL)
    if timestamp_not_finite(moment):
        return _of_infinity(unit, moment > 0, text, TIMESTAMP_LABEL)
    year, month, day, clock = timestamp2tm(moment)
    found = clock_part(unit, clock)
    if found is not None:
        return found
    if unit == "epoch":
        return Numeric(moment + (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY, 6)
    if unit == "julian":
        return numeric_arithmetic.add(
            Numeric(date2j(year, month, day)), numeric_arithmetic.divide(Numeric(clock), Numeric(USECS_PER_DAY))
        )
    number = calendar_part(unit, year, month, day)
    if number is None:
        raise _unsupported(text, TIMESTAMP_LABEL)
    return Numeric(number)


def timestamp_part(text: str, moment: int) -> float | None:
    unit = unit_of(text, TIMESTAMP_LABEL)
    if unit in ("second", "milliseconds", "julian") and not timestamp_not_finite(moment):
        year, month, day, clock = timestamp2tm(moment)
        whole, fraction = quotient(clock % USECS_PER_MINUTE, USECS_PER_SEC), clock % USECS_PER_SEC
        if unit == "second":
            return whole + fraction / 1000000.0
        if unit == "milliseconds":
            return whole * 1000.0 + fraction / 1000.0
        return date2j(year, month, day) + (clock // USECS_PER_SEC + fraction / 1000000.0) / 86400.0
    return _float(extract_timestamp(text, moment))


_DATE_UNITS = _GROWING | {"day", "month", "quarter", "week", "dow", "isodow", "doy"}


def extract_date(text: str, date: int) -> Numeric | None:
    unit = unit_of(text, "date")
    if unit not in _DATE_UNITS:
        raise _unsupported(text, "date")
    if date in (DATEVAL_NOBEGIN, DATEVAL_NOEND):
        return _of_infinity(unit, date > 0, text, "date")
    if unit == "epoch":
        return Numeric((date + POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * 86400)
    if unit == "julian":
        return Numeric(date + POSTGRES_EPOCH_JDATE)
    return Numeric(calendar_part(unit, *j2date(date + POSTGRES_EPOCH_JDATE)) or 0)


TIME_LABEL, TIMETZ_LABEL, INTERVAL_LABEL = "time without time zone", "time with time zone", "interval"


def extract_time(text: str, clock: int) -> Numeric:
    unit = unit_of(text, TIME_LABEL)
    found = Numeric(clock, 6) if unit == "epoch" else clock_part(unit, clock)
    if found is None:
        raise _unsupported(text, TIME_LABEL)
    return found


def extract_timetz(text: str, time: tuple[int, int]) -> Numeric:
    unit = unit_of(text, TIMETZ_LABEL)
    clock, west = time
    match unit:
        case "timezone":
            return Numeric(-west)
        case "timezone_hour":
            return Numeric(quotient(-west, 3600))
        case "timezone_minute":
            return Numeric(rest(quotient(-west, 60), 60))
        case "epoch":
            return Numeric(clock + west * USECS_PER_SEC, 6)
    found = clock_part(unit, clock)
    if found is None:
        raise _unsupported(text, TIMETZ_LABEL)
    return found


def _clock_as_float(extract: Callable[[str, Any], Numeric], label: str) -> Callable[[str, Any], float | None]:
    """time_part: seconds and milliseconds are sums there."""

    def run(text: str, value: Any) -> float | None:
        unit = unit_of(text, label)
        clock = value if isinstance(value, int) else value[0]
        if unit == "second":
            return clock % USECS_PER_MINUTE // USECS_PER_SEC + clock % USECS_PER_SEC / 1000000.0
        if unit == "milliseconds":
            return clock % USECS_PER_MINUTE // USECS_PER_SEC * 1000.0 + clock % USECS_PER_SEC / 1000.0
        if unit == "epoch":
            return clock / 1000000.0 + (0 if isinstance(value, int) else value[1])
        return _float(extract(text, value))

    return run


def _extract_interval(major: int) -> Callable[[str, Interval], Numeric]:
    def run(text: str, value: Interval) -> Numeric:
        finite(value, major)
        unit = unit_of(text, INTERVAL_LABEL)
        months, days, clock = value
        years, month = quotient(months, 12), rest(months, 12)
        found = clock_part(unit, clock)
        if found is not None:
            return found
        if unit == "epoch":
            quarters = 4 * days + 4 * 30 * month + 1461 * years
            return Numeric(quarters * 86400 // 4 * USECS_PER_SEC + clock, 6)
        if unit in ("week", "quarter") and supports(major, INTERVAL_QUARTERS):
            raise refused(f'the unit "{unit}" of an interval')
        plain = {
            "day": days, "month": month, "quarter": quotient(month, 3) + 1, "year": years, "decade": quotient(years, 10),
            "century": quotient(years, 100),
            "millennium": quotient(years, 1000),
        }  # fmt: skip
        if unit not in plain:
            raise _unsupported(text, INTERVAL_LABEL)
        return Numeric(plain[unit])

    return run


def _interval_part(major: int) -> Callable[[str, Interval], float | None]:
    extract = _extract_interval(major)

    def run(text: str, value: Interval) -> float | None:
        unit = unit_of(text, INTERVAL_LABEL)
        months, days, clock = value
        if unit == "epoch":
            finite(value, major)
            found = clock / 1000000.0
            found += 365.25 * 86400 * quotient(months, 12)
            found += 30.0 * 86400 * rest(months, 12)
            return found + 86400.0 * days
        if unit == "second":
            return quotient(rest(clock, USECS_PER_MINUTE), USECS_PER_SEC) + rest(clock, USECS_PER_SEC) / 1000000.0
        if unit == "milliseconds":
            return quotient(rest(clock, USECS_PER_MINUTE), USECS_PER_SEC) * 1000.0 + rest(clock, USECS_PER_SEC) / 1000.0
        return _float(extract(text, value))

    return run


_CLOCK_UNITS = {
    "second": USECS_PER_SEC,
    "minute": USECS_PER_MINUTE,
    "hour": USECS_PER_HOUR,
    "milliseconds": 1000,
    "microseconds": 1,
}


def _truncate(call: FunctionCallInfo) -> Implementation:
    major = call.facts.style.major

    def run(text: str, moment: int) -> int:
        if timestamp_not_finite(moment):
            if supports(major, INFINITE_UNITS_CHECKED):
                _truncating_unit(text)
            return moment
        unit = _truncating_unit(text)
        year, month, day, clock = timestamp2tm(moment)
        if unit in _CLOCK_UNITS:
            return moment - clock % _CLOCK_UNITS[unit]
        if unit == "day":
            return moment - clock
        if unit == "week":
            julian = date2j(year, month, day)
            return valid_timestamp((julian - (j2day(julian) - 1) % 7 - POSTGRES_EPOCH_JDATE) * USECS_PER_DAY)
        if unit == "month":
            return tm2timestamp(year, month, 1, 0)
        if unit == "quarter":
            return tm2timestamp(year, (month - 1) // 3 * 3 + 1, 1, 0)
        return tm2timestamp(_first_year(unit, year), 1, 1, 0)

    return rows(run)


def _truncating_unit(text: str) -> str:
    unit = unit_of(text, TIMESTAMP_LABEL, False)
    if unit not in (*_CLOCK_UNITS, "day", "week", "month", "quarter", "year", "decade", "century", "millennium"):
        raise _unsupported(text, TIMESTAMP_LABEL)
    return unit


def _first_year(unit: str, year: int) -> int:
    match unit:
        case "millennium":
            return (year + 999) // 1000 * 1000 - 999 if year > 0 else -((999 - (year - 1)) // 1000) * 1000 + 1
        case "century":
            return (year + 99) // 100 * 100 - 99 if year > 0 else -((99 - (year - 1)) // 100) * 100 + 1
        case "decade":
            return year // 10 * 10 if year > 0 else -((8 - (year - 1)) // 10) * 10
    return year


def _truncate_interval(major: int) -> Callable[[str, Interval], Interval]:
    def run(text: str, value: Interval) -> Interval:
        finite(value, major)
        unit = unit_of(text, INTERVAL_LABEL, False)
        months, days, clock = value
        if unit in _CLOCK_UNITS:
            return checked(months, days, clock - rest(clock, _CLOCK_UNITS[unit]))
        size = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200, "millennium": 12000}.get(unit)
        if size is not None:
            return checked(months - rest(months, size), 0, 0)
        if unit == "day":
            return months, days, 0
        if unit == "week":
            raise evaluation_error(f'unit "{text.lower()}" not supported for type interval', "0A000")
        raise _unsupported(text, INTERVAL_LABEL)

    return run


FUNCTIONS: dict[str, Implementation] = {
    "extract_timestamp": rows(extract_timestamp), "timestamp_part": rows(timestamp_part), "extract_date": rows(extract_date),
    "date_part(text, date)": rows(lambda text, date: timestamp_part(text, date2timestamp(date))),
    "extract_time": rows(extract_time), "time_part": rows(_clock_as_float(extract_time, TIME_LABEL)), "extract_timetz": rows(extract_timetz),
    "timetz_part": rows(_clock_as_float(extract_timetz, TIMETZ_LABEL)),
    "extract_interval": made(lambda call: rows(_extract_interval(call.facts.style.major))),
    "interval_part": made(lambda call: rows(_interval_part(call.facts.style.major))), "timestamp_trunc": made(_truncate),
    "interval_trunc": made(lambda call: rows(_truncate_interval(call.facts.style.major))), }  # fmt: skip
