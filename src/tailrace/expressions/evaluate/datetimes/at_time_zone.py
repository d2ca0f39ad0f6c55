"""AT TIME ZONE (`adt/timestamp.c`), with a zone that the expression names: by its place, as UTC, or as an interval.

The rules of a zone are those of this machine's time zone database.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tailrace.errors import UsageError
from tailrace.expressions.evaluate.datetimes.datetime_limits import quotient, valid_timestamp
from tailrace.expressions.evaluate.datetimes.intervals import Interval
from tailrace.expressions.evaluate.fmgr.datum_forms import type_of, writer_of
from tailrace.expressions.evaluate.fmgr.function_calls import Implementation, rows
from tailrace.expressions.evaluate.fmgr.refusals import invalid_parameter, refused
from tailrace.types import oids
from tailrace.types.registry import TextStyle, format_values
from tailrace.types.times.calendar import USECS_PER_DAY, USECS_PER_SEC, timestamp_not_finite
from tailrace.types.times.zones import utc_offsets
from tailrace.types.values import Values


def _offset(zone: str, moment: int) -> int:
    """Seconds east of Greenwich."""
    return int(utc_offsets(np.array([moment]), np.ones(1, np.bool_), zone)[0])


def _zone(text: str) -> str:
    """A zone whose rules are known: by the name of a place, or UTC. Abbreviations mean what the server's files say, so they are refused."""
    if text.upper() in ("UTC", "GMT", "ZULU", "ETC/UTC", "ETC/GMT", "UCT", "Z"):
        return "UTC"
    if "/" not in text:
        raise refused(f'the time zone "{text}"', "Name a zone by its place, such as Europe/Berlin.")
    try:
        _offset(text, 0)
    except UsageError:
        raise refused(f'the time zone "{text}"') from None
    return text


def _to_local(text: str, moment: int) -> int:
    """timestamptz AT TIME ZONE."""
    if timestamp_not_finite(moment):
        return moment
    zone = _zone(text)
    return valid_timestamp(moment + _offset(zone, moment) * USECS_PER_SEC)


def _from_local(text: str, local: int) -> int:
    """timestamp AT TIME ZONE: of a local time that is there twice the later one, of one that is not there the one before the change."""
    if timestamp_not_finite(local):
        return local
    zone = _zone(text)
    before, after = _offset(zone, local - USECS_PER_DAY), _offset(zone, local + USECS_PER_DAY)
    if before == after and _offset(zone, local) == before:
        return valid_timestamp(local - before * USECS_PER_SEC)
    early, late = local - USECS_PER_DAY, local + USECS_PER_DAY
    while late - early > USECS_PER_SEC:
        middle = (early + late) // 2
        early, late = (middle, late) if _offset(zone, middle) == before else (early, middle)
    change = late // USECS_PER_SEC * USECS_PER_SEC
    first, second = local - before * USECS_PER_SEC, local - after * USECS_PER_SEC
    if first < change and second < change:
        return valid_timestamp(first)
    if first >= change and second >= change:
        return valid_timestamp(second)
    return valid_timestamp(max(first, second))


def _fixed_zone(value: Interval) -> int:
    if value[0] or value[1]:
        stored = Values.of_payloads([writer_of(type_of(oids.INTERVAL), "UTF8")(value)], 16)
        (printed,) = format_values(stored, type_of(oids.INTERVAL), TextStyle()).to_list()
        raise invalid_parameter(f'interval time zone "{printed}" must not include months or days')
    return quotient(value[2], USECS_PER_SEC)


def _moved(sign: int) -> Callable[[Interval, int], int]:
    def run(zone: Interval, moment: int) -> int:
        if timestamp_not_finite(moment):
            return moment
        return valid_timestamp(moment + sign * _fixed_zone(zone) * USECS_PER_SEC)

    return run


def _timetz_at(zone: Interval, time: tuple[int, int]) -> tuple[int, int]:
    west = -_fixed_zone(zone)
    return (time[0] + (time[1] - west) * USECS_PER_SEC) % USECS_PER_DAY, west


FUNCTIONS: dict[str, Implementation] = {
    "timestamptz_zone": rows(_to_local),
    "timestamp_zone": rows(_from_local),
    "timestamptz_izone": rows(_moved(1)),
    "timestamp_izone": rows(_moved(-1)),
    "timetz_izone": rows(_timetz_at),
}
