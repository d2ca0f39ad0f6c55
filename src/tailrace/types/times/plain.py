"""Dates and time stamps as servers print them in ISO style, read by a kernel: YYYY-MM-DD, YYYY-MM-DD HH:MM:SS.ffffff, and the same with +HH:MM:SS.

The infinities, years before Christ or of five digits, and all that is not a date are left to `text`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrace.kernels import inner_kernel, kernel
from tailrace.types.codec.ascii import COLON, MINUS, NINE, PLUS, POINT, SPACE, ZERO
from tailrace.types.times.calendar import POSTGRES_EPOCH_JDATE, USECS_PER_DAY, USECS_PER_SEC, date2j_kernel, isleap_kernel

_DATE, _CLOCK, _ZONE = 10, 8, 3
"""How long they are at least."""
_WRONG = np.int64(-1)


@kernel
def parse_plain_dates(offsets: Any, data: Any, valid: Any, numbers: Any) -> Any:
    """Days since 2000-01-01; returns which rows are something else."""
    left = np.zeros(len(valid), np.bool_)
    for row in range(len(valid)):
        if valid[row]:
            at, stop = offsets[row], offsets[row + 1]
            good = stop - at == _DATE and _is_date(data, at)
            if good:
                numbers[row] = _days(data, at)
            left[row] = not good
    return left


@kernel
def parse_plain_stamps(offsets: Any, data: Any, valid: Any, numbers: Any) -> Any:
    """Microseconds since 2000 of time stamps without a zone; returns which rows are something else."""
    left = np.zeros(len(valid), np.bool_)
    for row in range(len(valid)):
        if valid[row]:
            at, stop = offsets[row], offsets[row + 1]
            clock, end = _clock(data, at + _DATE, stop)
            good = end == stop and _is_date(data, at)
            if good:
                numbers[row] = _days(data, at) * USECS_PER_DAY + clock
            left[row] = not good
    return left


@kernel
def parse_plain_zoned_stamps(offsets: Any, data: Any, valid: Any, numbers: Any) -> Any:
    """Microseconds since 2000, UTC, of time stamps with a zone; returns which rows are something else."""
    left = np.zeros(len(valid), np.bool_)
    for row in range(len(valid)):
        if valid[row]:
            at, stop = offsets[row], offsets[row + 1]
            clock, end = _clock(data, at + _DATE, stop)
            good = end > 0 and _is_date(data, at)
            if good:
                east, end = _east(data, end, stop)
                good = end == stop
                if good:
                    numbers[row] = _days(data, at) * USECS_PER_DAY + clock - east * USECS_PER_SEC
            left[row] = not good
    return left


@inner_kernel
def _two(data: Any, at: Any) -> Any:
    """A number of two digits; large if they are none."""
    tens, ones = np.int64(data[at]) - ZERO, np.int64(data[at + 1]) - ZERO
    return 10 * tens + ones if 0 <= tens <= 9 and 0 <= ones <= 9 else np.int64(1000)


@inner_kernel
def _is_date(data: Any, at: Any) -> Any:
    """Whether YYYY-MM-DD lies here, and is a day of the calendar from year 1 on."""
    century, year, month, day = _two(data, at), _two(data, at + 2), _two(data, at + 5), _two(data, at + 8)
    if data[at + 4] != MINUS or data[at + 7] != MINUS or max(century, year, day) > 99 or not 1 <= month <= 12 or day < 1:
        return False
    year += 100 * century
    if year == 0:
        return False
    if month == 2:
        return day <= (29 if isleap_kernel(year) else 28)
    return day <= (30 if month in (4, 6, 9, 11) else 31)


@inner_kernel
def _days(data: Any, at: Any) -> Any:
    """Of such a date, since 2000-01-01."""
    year, month, day = 100 * _two(data, at) + _two(data, at + 2), _two(data, at + 5), _two(data, at + 8)
    return date2j_kernel(year, month, day) - POSTGRES_EPOCH_JDATE


@inner_kernel
def _clock(data: Any, at: Any, stop: Any) -> Any:
    """Microseconds of ` HH:MM:SS[.ffffff]`, and where it ends; -1 there if it is none."""
    if stop - at < 1 + _CLOCK or data[at] != SPACE or data[at + 3] != COLON or data[at + 6] != COLON:
        return np.int64(0), _WRONG
    hour, minute, second = _two(data, at + 1), _two(data, at + 4), _two(data, at + 7)
    if hour > 23 or minute > 59 or second > 59:
        return np.int64(0), _WRONG
    at += 1 + _CLOCK
    micros = np.int64(0)
    if at < stop and data[at] == POINT:
        at += 1
        unit = np.int64(100_000)
        first = at
        while at < stop and ZERO <= data[at] <= NINE and unit > 0:
            micros += unit * (np.int64(data[at]) - ZERO)
            unit //= 10
            at += 1
        if at == first:
            return np.int64(0), _WRONG
    return ((hour * 60 + minute) * 60 + second) * USECS_PER_SEC + micros, at


@inner_kernel
def _east(data: Any, at: Any, stop: Any) -> Any:
    """Seconds of `+HH[:MM[:SS]]`, and where it ends; -1 there if it is none."""
    if stop - at not in (_ZONE, 2 * _ZONE, 3 * _ZONE) or data[at] not in (PLUS, MINUS):
        return np.int64(0), _WRONG
    seconds, unit = np.int64(0), np.int64(3600)
    for here in range(at, stop, _ZONE):
        part = _two(data, here + 1)
        if part > 99 or (here > at and data[here] != COLON):
            return np.int64(0), _WRONG
        seconds += unit * part
        unit //= 60
    return (-seconds if data[at] == MINUS else seconds), stop
