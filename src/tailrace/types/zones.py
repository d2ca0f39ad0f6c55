"""Offsets of named time zones, for many moments at once.

Python's zoneinfo answers for one moment. Zones change rarely, so we ask it for the changes of each year that occurs
(a probe per week, then bisection to the second) and look all moments up in that table.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import UsageError
from tailrace.types.values import Mask

SECOND = 1_000_000
EPOCH = datetime(2000, 1, 1)
CYCLE = 146_097 * 86_400
"""Seconds in 400 years: the calendar, days of the week included, repeats."""
WEEK = 7 * 86_400


def zone_of(name: str) -> ZoneInfo:
    """The zone of a TimeZone setting. POSIX rules such as <+03>-03 are not read."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f'invalid value for parameter "TimeZone": "{name}"', hint="Use a name of the tz database.") from None


def utc_offsets(stamps: NDArray[np.int64], valid: Mask, name: str) -> NDArray[np.int64]:
    """Seconds east of Greenwich for each moment (microseconds of UTC since 2000)."""
    zone_of(name)
    bounds = np.iinfo(np.int64)
    finite = valid & (stamps != bounds.min) & (stamps != bounds.max)
    seconds = np.where(finite, stamps // SECOND, 0)
    low, high = int((datetime(1, 1, 2) - EPOCH).total_seconds()), int((datetime(9599, 1, 1) - EPOCH).total_seconds())
    # Before year 1 the first rule holds, as at its start; beyond the calendar of Python the last rules repeat.
    seconds = np.where(seconds < low, low, np.where(seconds >= high, high - CYCLE + (seconds - high) % CYCLE, seconds))
    years = (np.datetime64("2000-01-01", "s") + seconds.astype("timedelta64[s]")).astype("datetime64[Y]").astype(np.int64)
    span = range(int(years.min()), int(years.max()) + 1) if len(years) else range(0)
    changes: list[int] = []
    offsets: list[int] = []
    for year in span if len(span) <= 300 else np.unique(years).tolist():
        moments, easts = _changes(name, 1970 + year)
        changes += moments
        offsets += easts
    return np.array(offsets, np.int64)[np.searchsorted(np.array(changes, np.int64), seconds, side="right") - 1]


@lru_cache(maxsize=4096)
def _changes(name: str, year: int) -> tuple[list[int], list[int]]:
    """From when (seconds since 2000) which offset holds, in one year; the first entry is the year's start."""
    zone = zone_of(name)
    start, stop = (int((datetime(y, 1, 1) - EPOCH).total_seconds()) for y in (year, year + 1))
    moments, easts = [start], [_offset(zone, max(start, int((datetime(1, 1, 2) - EPOCH).total_seconds())))]
    before = start
    for probe in [*range(start + WEEK, stop, WEEK), stop - 1]:
        east = _offset(zone, probe)
        while east != easts[-1]:
            held = easts[-1]
            span = range(before, probe + 1)
            found = before + bisect_right(span, False, key=lambda moment, held=held: _offset(zone, moment) != held)  # type: ignore[misc]
            moments.append(found)
            easts.append(_offset(zone, found))
            before = found
        before = probe
    return moments, easts


def _offset(zone: ZoneInfo, seconds: int) -> int:
    there = (EPOCH + timedelta(seconds=seconds)).replace(tzinfo=zone)
    east = zone.fromutc(there).utcoffset()
    assert east is not None
    return int(east.total_seconds())
