"""Which dates, timestamps and intervals there are: what leaves their ranges is the server's error (`datatype/timestamp.h`)."""

from __future__ import annotations

from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error
from tailrace.types.times.calendar import (
    DATEVAL_NOBEGIN,
    DATEVAL_NOEND,
    DT_NOBEGIN,
    DT_NOEND,
    END_TIMESTAMP,
    MIN_TIMESTAMP,
    POSTGRES_EPOCH_JDATE,
    USECS_PER_DAY,
    date2j,
)  # fmt: skip

_TIMESTAMP_END_JULIAN = 109203528


def tm2timestamp(year: int, month: int, day: int, clock: int) -> int:
    """The timestamp, if it is one. Raises the server's error."""
    return valid_timestamp((date2j(year, month, day) - POSTGRES_EPOCH_JDATE) * USECS_PER_DAY + clock)


def valid_timestamp(timestamp: int) -> int:
    if not MIN_TIMESTAMP <= timestamp < END_TIMESTAMP:
        raise evaluation_error("timestamp out of range", "22008")
    return timestamp


def interval_out_of_range() -> Exception:
    return evaluation_error("interval out of range", "22008")


def date_out_of_range() -> Exception:
    return evaluation_error("date out of range", "22008")


def date2timestamp(date: int) -> int:
    """Midnight of a day."""
    if date == DATEVAL_NOBEGIN:
        return DT_NOBEGIN
    if date == DATEVAL_NOEND:
        return DT_NOEND
    if date >= _TIMESTAMP_END_JULIAN - POSTGRES_EPOCH_JDATE:
        raise evaluation_error("date out of range for timestamp", "22008")
    return date * USECS_PER_DAY


def quotient(number: int, divisor: int) -> int:
    """Toward zero, as integers are divided in C."""
    return -(-number // divisor) if (number < 0) != (divisor < 0) and number % divisor else number // divisor


def rest(number: int, divisor: int) -> int:
    """What `quotient` leaves, with the sign of the number."""
    return number - quotient(number, divisor) * divisor
