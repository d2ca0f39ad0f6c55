"""Days, dates and timestamps as numbers (`adt/datetime.c`, `adt/timestamp.c`): PostgreSQL's Gregorian calendar, in which the year 0 is 1 BC.

A date is days, a timestamp microseconds since 2000-01-01; the ends of their ranges stand for the infinities. `date2j` and `j2date` go by way of
Julian days, which count from 4714-11-24 BC; of each there is a kernel for columns.
"""

from __future__ import annotations

from typing import NamedTuple

from tailrace.kernels import inner_kernel

SECS_PER_HOUR, SECS_PER_DAY = 3600, 86_400
USECS_PER_SEC, USECS_PER_MINUTE, USECS_PER_HOUR, USECS_PER_DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
POSTGRES_EPOCH_JDATE, UNIX_EPOCH_JDATE = 2451545, 2440588
"""Julian days of 2000-01-01 and 1970-01-01 (`datatype/timestamp.h`)."""
UNIX_TO_POSTGRES_DAYS = POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE
UNIX_TO_POSTGRES_USECS = UNIX_TO_POSTGRES_DAYS * USECS_PER_DAY
DATEVAL_NOBEGIN, DATEVAL_NOEND = -(1 << 31), (1 << 31) - 1
DT_NOBEGIN, DT_NOEND = -(1 << 63), (1 << 63) - 1
"""-infinity and infinity, of date and of timestamp."""
MIN_TIMESTAMP, END_TIMESTAMP = -211813488000000000, 9223371331200000000
MIN_DATE, END_DATE = -POSTGRES_EPOCH_JDATE, 2147483494 - POSTGRES_EPOCH_JDATE
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class Tm(NamedTuple):
    """A timestamp taken apart (struct pg_tm); `clock` is microseconds since midnight."""

    year: int
    month: int
    day: int
    clock: int


def date2j(year: int, month: int, day: int) -> int:
    """The Julian day of a date."""
    month_year, shifted = (year + 4800, month + 1) if month > 2 else (year + 4799, month + 13)
    century = month_year // 100
    return month_year * 365 - 32167 + month_year // 4 - century + century // 4 + 7834 * shifted // 256 + day


def j2date(julian: int) -> tuple[int, int, int]:
    """The year, month and day of a Julian day, counted in eras of 400 years that begin in March, which takes fewer divisions than j2date does."""
    shifted = julian - 1721120
    era = shifted // 146097
    day_of_era = shifted - era * 146097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    return year_of_era + 400 * era + (1 if month >= 10 else 0), month + (3 if month < 10 else -9), day


def isleap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(year: int, month: int) -> int:
    return 29 if month == 2 and isleap(year) else _MONTH_DAYS[month - 1]


date2j_kernel, j2date_kernel, isleap_kernel = inner_kernel(date2j), inner_kernel(j2date), inner_kernel(isleap)
PYTHON_DATES = date2j(1, 1, 1) - UNIX_EPOCH_JDATE, date2j(9999, 12, 31) - UNIX_EPOCH_JDATE
"""The first and the last day that Python's datetime holds and Spark documents, in days since 1970-01-01."""


def timestamp2tm(timestamp: int) -> Tm:
    days, clock = divmod(timestamp, USECS_PER_DAY)
    return Tm(*j2date(days + POSTGRES_EPOCH_JDATE), clock)


def timestamp_not_finite(timestamp: int) -> bool:
    return timestamp in (DT_NOBEGIN, DT_NOEND)


def j2day(julian: int) -> int:
    """The day of the week: 0 is Sunday."""
    return (julian + 1) % 7


def date2isoweek(year: int, month: int, day: int) -> tuple[int, int]:
    """The ISO 8601 year that a day belongs to, and its week: the first week is that of January 4."""
    julian = date2j(year, month, day)
    for candidate in (year + 1, year, year - 1):
        fourth = date2j(candidate, 1, 4)
        monday = fourth - (j2day(fourth) - 1) % 7
        if julian >= monday:
            return candidate, (julian - monday) // 7 + 1
    raise AssertionError("a day is in this year or in one beside it")
