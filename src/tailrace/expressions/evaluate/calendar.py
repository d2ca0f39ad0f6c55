"""Days, dates and moments as numbers (`adt/datetime.c`): PostgreSQL's Gregorian calendar, in which the year 0 is 1 BC.

Dates are days, moments microseconds since 2000-01-01. The ends of their ranges stand for the infinities.
"""

from __future__ import annotations

from typing import NamedTuple

from tailrace.expressions.evaluate.refusals import evaluation_error

DAY = 86_400_000_000
HOUR, MINUTE, SECOND = 3_600_000_000, 60_000_000, 1_000_000
EPOCH_JULIAN, UNIX_JULIAN = 2451545, 2440588
"""Julian days of 2000-01-01 and 1970-01-01 (`datatype/timestamp.h`)."""
DATE_BEGIN, DATE_END = -(1 << 31), (1 << 31) - 1
MOMENT_BEGIN, MOMENT_END = -(1 << 63), (1 << 63) - 1
"""-infinity and infinity."""
LEAST_MOMENT, MOMENT_LIMIT = -211813488000000000, 9223371331200000000
LEAST_DATE, DATE_LIMIT = -EPOCH_JULIAN, 2147483494 - EPOCH_JULIAN
MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class Fields(NamedTuple):
    """A moment taken apart; `clock` is microseconds since midnight."""

    year: int
    month: int
    day: int
    clock: int


def julian_of(year: int, month: int, day: int) -> int:
    """date2j: counts from 4714-11-24 BC."""
    month_year, shifted = (year + 4800, month + 1) if month > 2 else (year + 4799, month + 13)
    century = month_year // 100
    return month_year * 365 - 32167 + month_year // 4 - century + century // 4 + 7834 * shifted // 256 + day


def date_of(julian: int) -> tuple[int, int, int]:
    """j2date: year, month, day."""
    number = julian + 32044
    quad = number // 146097
    extra = (number - quad * 146097) * 4 + 3
    number += 60 + quad * 3 + extra // 146097
    quad = number // 1461
    number -= quad * 1461
    year = number * 4 // 1461
    number = (number + 305) % 365 + 123 if year else (number + 306) % 366 + 123
    year += quad * 4
    fraction = number * 2141 // 65536
    return year - 4800, (fraction + 10) % 12 + 1, number - 7834 * fraction // 256


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in(year: int, month: int) -> int:
    return 29 if month == 2 and is_leap(year) else MONTH_DAYS[month - 1]


def fields_of(moment: int) -> Fields:
    days, clock = divmod(moment, DAY)
    return Fields(*date_of(days + EPOCH_JULIAN), clock)


def moment_of(year: int, month: int, day: int, clock: int) -> int:
    """The moment, if it is one. Raises the server's error."""
    return valid_moment((julian_of(year, month, day) - EPOCH_JULIAN) * DAY + clock)


def valid_moment(moment: int) -> int:
    if not LEAST_MOMENT <= moment < MOMENT_LIMIT:
        raise moment_out_of_range()
    return moment


def moment_out_of_range() -> Exception:
    return evaluation_error("timestamp out of range", "22008")


def interval_out_of_range() -> Exception:
    return evaluation_error("interval out of range", "22008")


def date_out_of_range() -> Exception:
    return evaluation_error("date out of range", "22008")


def moment_of_date(date: int) -> int:
    """Midnight of a day."""
    if date == DATE_BEGIN:
        return MOMENT_BEGIN
    if date == DATE_END:
        return MOMENT_END
    if date >= 109203528 - EPOCH_JULIAN:  # TIMESTAMP_END_JULIAN
        raise evaluation_error("date out of range for timestamp", "22008")
    return date * DAY


def is_endless(moment: int) -> bool:
    return moment in (MOMENT_BEGIN, MOMENT_END)


def weekday(julian: int) -> int:
    """0 is Sunday."""
    return (julian + 1) % 7


def iso_year_and_week(year: int, month: int, day: int) -> tuple[int, int]:
    """The ISO 8601 year that a day belongs to, and its week: the first week is that of January 4."""
    julian = julian_of(year, month, day)
    for candidate in (year + 1, year, year - 1):
        fourth = julian_of(candidate, 1, 4)
        monday = fourth - (weekday(fourth) - 1) % 7
        if julian >= monday:
            return candidate, (julian - monday) // 7 + 1
    raise AssertionError("a day is in this year or in one beside it")


def quotient(number: int, divisor: int) -> int:
    """Toward zero, as integers are divided in C."""
    return -(-number // divisor) if (number < 0) != (divisor < 0) and number % divisor else number // divisor


def rest(number: int, divisor: int) -> int:
    """What `quotient` leaves, with the sign of the number."""
    return number - quotient(number, divisor) * divisor
