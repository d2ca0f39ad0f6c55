"""Offsets of named time zones, for many moments at once.

Python's zoneinfo answers for one moment. Zones change rarely, so we ask it for the changes of each year that occurs
(a probe per week, then bisection to the second) and look all moments up in that table. Zones without a name are in `posix_zones`.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import numpy as np
from numpy.typing import NDArray

from tailrace.model import PG_EPOCH
from tailrace.types.times.calendar import SECS_PER_DAY, USECS_PER_SEC
from tailrace.types.times.posix_zones import CYCLE, PosixZone, posix_zone, zone_of_offset
from tailrace.types.values import Mask

EPOCH = PG_EPOCH.replace(tzinfo=None)
WEEK = 7 * SECS_PER_DAY


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo | PosixZone:
    """The zone of a TimeZone setting, in any case of letters: an offset, else a name, else a POSIX string. Raises UsageError."""
    offset = zone_of_offset(name)
    if offset is not None:
        return offset
    named = name.removeprefix(":")
    try:
        return ZoneInfo(named)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        same = [known for known in available_timezones() if known.lower() == named.lower()]
    return ZoneInfo(same[0]) if same else posix_zone(name)


def utc_offsets(stamps: NDArray[np.int64], valid: Mask, name: str) -> NDArray[np.int64]:
    """Seconds east of Greenwich for each moment (microseconds of UTC since 2000)."""
    offsets, _, spans = _spans(stamps, valid, name)
    return np.array(offsets, np.int64)[spans]


def abbreviations(stamps: NDArray[np.int64], valid: Mask, name: str) -> list[str]:
    """What the zone is called at each moment: PST, CEST, +0545."""
    _, labels, spans = _spans(stamps, valid, name)
    return [labels[span] for span in spans.tolist()]


def _spans(stamps: NDArray[np.int64], valid: Mask, name: str) -> tuple[list[int], list[str], NDArray[np.int64]]:
    """Offset and abbreviation of every span of time that matters, and in which of them each moment lies."""
    zone = zone_of(name)
    bounds = np.iinfo(np.int64)
    finite = valid & (stamps != bounds.min) & (stamps != bounds.max)
    seconds = np.where(finite, stamps // USECS_PER_SEC, 0)
    if isinstance(zone, PosixZone):
        return list(zone.offsets), list(zone.labels), zone.kinds_at(seconds)
    low, high = int((datetime(1, 1, 2) - EPOCH).total_seconds()), int((datetime(9599, 1, 1) - EPOCH).total_seconds())
    # Before year 1 the first rule holds, as at its start; beyond the calendar of Python the last rules repeat.
    seconds = np.where(seconds < low, low, np.where(seconds >= high, high - CYCLE + (seconds - high) % CYCLE, seconds))
    years = (np.datetime64("2000-01-01", "s") + seconds.astype("timedelta64[s]")).astype("datetime64[Y]").astype(np.int64)
    calendar = range(int(years.min()), int(years.max()) + 1) if len(years) else range(0)
    moments: list[int] = []
    offsets: list[int] = []
    labels: list[str] = []
    for year in calendar if len(calendar) <= 300 else np.unique(years).tolist():
        for moment, east, label in _changes(name, 1970 + year):
            moments.append(moment)
            offsets.append(east)
            labels.append(label)
    return offsets, labels, np.searchsorted(np.array(moments, np.int64), seconds, side="right") - 1


@lru_cache(maxsize=4096)
def _changes(name: str, year: int) -> list[tuple[int, int, str]]:
    """From when (seconds since 2000) which offset and abbreviation hold, in one year; the first entry is the year's start."""
    zone = zone_of(name)
    assert isinstance(zone, tzinfo)
    start, stop = (int((datetime(y, 1, 1) - EPOCH).total_seconds()) for y in (year, year + 1))
    changes = [(start, *_offset(zone, max(start, int((datetime(1, 1, 2) - EPOCH).total_seconds()))))]
    before = start
    for probe in [*range(start + WEEK, stop, WEEK), stop - 1]:
        now = _offset(zone, probe)
        while now != changes[-1][1:]:
            last = changes[-1][1:]
            span = range(before, probe + 1)
            moment = before + bisect_right(span, False, key=lambda at, last=last: _offset(zone, at) != last)  # type: ignore[misc]
            changes.append((moment, *_offset(zone, moment)))
            before = moment
        before = probe
    return changes


def _offset(zone: tzinfo, seconds: int) -> tuple[int, str]:
    there = zone.fromutc((EPOCH + timedelta(seconds=seconds)).replace(tzinfo=zone))
    east = there.utcoffset()
    assert east is not None
    return int(east.total_seconds()), there.tzname() or ""
