"""Literals of dates and times: ISO forms, with or without a zone (`adt/datetime.c`, DecodeDateTime).

In: text as somebody wrote it, who may leave out zeros, seconds, the zone. Out: the stored form, of a timestamptz without a zone in the session's
TimeZone. Words that mean the moment at which they are read (now, today …) and dates that are not in ISO form are refused.
"""

from __future__ import annotations

import re
import struct
from datetime import timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tailrace.errors import UsageError
from tailrace.majors import DATE_STYLE, said_by
from tailrace.model import datetime_of
from tailrace.types import oids
from tailrace.types.style import TextStyle
from tailrace.types.times.calendar import (
    POSTGRES_EPOCH_JDATE,
    UNIX_TO_POSTGRES_DAYS,
    UNIX_TO_POSTGRES_USECS,
    USECS_PER_DAY,
    USECS_PER_SEC,
    date2j,
    days_in_month,
)
from tailrace.types.times.text import NAMES

_MOMENT = re.compile(
    r"\s*(?:(?P<year>\d{4,6})-(?P<month>\d{1,2})-(?P<day>\d{1,2})|(?P<packed>\d{8}))?"
    r"(?:(?:\s+|[Tt])?(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d*))?)?)?"
    r"\s*(?P<zone>[Zz]|[+-]\d{1,2}(?::?\d\d(?::\d\d)?)?|(?!BC|AD)[A-Za-z]+(?:/[A-Za-z_+-]+[0-9]*)*)?(?:\s+(?P<era>BC|AD))?\s*",
    re.ASCII | re.IGNORECASE,
)
_WORDS = re.compile(r"now|today|tomorrow|yesterday|allballs|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|[0-9]", re.IGNORECASE)


def read_date(text: str, oid: int, style: TextStyle) -> bytes:
    """date_in: a time of day is read over."""
    endless = _endless(text)
    if endless:
        return struct.pack("<i", (1 << 31) - 1 if endless > 0 else -(1 << 31))
    if text.strip().lower() == "epoch":
        return struct.pack("<i", -UNIX_TO_POSTGRES_DAYS)
    fields = _fields(text, oid)
    if fields["year"] is None:
        raise _unread(text, oid)
    return struct.pack("<i", _days(fields, text, style))


def read_timestamp(text: str, oid: int, style: TextStyle) -> bytes:
    """timestamp_in, which reads over a zone, and timestamptz_in."""
    endless = _endless(text)
    if endless:
        return struct.pack("<q", (1 << 63) - 1 if endless > 0 else -(1 << 63))
    if text.strip().lower() == "epoch":
        return struct.pack("<q", -UNIX_TO_POSTGRES_USECS)
    fields = _fields(text, oid)
    if fields["year"] is None:
        raise _unread(text, oid)
    stamp = _days(fields, text, style) * USECS_PER_DAY + _clock(fields, text)
    if oid == oids.TIMESTAMPTZ:
        stamp -= _east(fields["zone"] or style.time_zone, stamp, text, oid) * USECS_PER_SEC
    return struct.pack("<q", stamp)


def read_time(text: str, oid: int, style: TextStyle) -> bytes:
    """time_in and timetz_in, of a time of day alone."""
    fields = _fields(text, oid)
    if fields["hour"] is None or fields["year"] is not None:
        raise _unread(text, oid)
    clock = struct.pack("<q", _clock(fields, text))
    if oid != oids.TIMETZ:
        return clock
    zone = fields["zone"] or ("UTC" if style.is_utc else "")
    if not zone or (zone[0] not in "+-" and zone.upper() not in ("Z", "UTC", "GMT")):
        raise _unread(text, oid)
    return clock + struct.pack("<i", -_east(zone, 0, text, oid))


def _endless(text: str) -> int:
    word = text.strip().lower()
    return 1 if word in ("infinity", "+infinity") else -1 if word == "-infinity" else 0


def _fields(text: str, oid: int) -> dict[str, str | None]:
    match = _MOMENT.fullmatch(text)
    if match is None or not text.strip():
        raise _unread(text, oid)
    fields = match.groupdict()
    packed = fields["packed"]
    if packed:
        fields |= {"year": packed[:4], "month": packed[4:6], "day": packed[6:]}
    if fields["year"] is None and fields["hour"] is None:
        raise _unread(text, oid)
    return fields


def _unread(text: str, oid: int) -> UsageError:
    """PostgreSQL's refusal where it would refuse as well; ours where it might read what we do not."""
    if not _WORDS.search(text):
        return UsageError(f'invalid input syntax for type {NAMES[oid]}: "{text}"', sqlstate="22007")
    return UsageError(
        f'cannot read "{text}" as {NAMES[oid]}',
        sqlstate="0A000",
        hint="Write it in ISO form, such as 2020-01-31 or 2020-01-31 12:30:00+00.",
    )


def _range_error(text: str) -> UsageError:
    return UsageError(f'date/time field value out of range: "{text}"', sqlstate="22008")


def _days(fields: dict[str, str | None], text: str, style: TextStyle) -> int:
    """Days since 2000-01-01."""
    year, month, day = (int(fields[name] or 0) for name in ("year", "month", "day"))
    if (fields["era"] or "").upper() == "BC":
        year = 1 - year
    elif year == 0:
        raise _range_error(text)
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        hint = f'Perhaps you need a different "{said_by(style.major, DATE_STYLE)}" setting.'
        raise UsageError(f'date/time field value out of range: "{text}"', hint=hint, sqlstate="22008")
    if day > days_in_month(year, month):
        raise _range_error(text)
    return date2j(year, month, day) - POSTGRES_EPOCH_JDATE


def _clock(fields: dict[str, str | None], text: str) -> int:
    hour, minute, second = (int(fields[name] or 0) for name in ("hour", "minute", "second"))
    fraction = round(float(f"0.{fields['fraction'] or 0}") * USECS_PER_SEC)
    clock = ((hour * 60 + minute) * 60 + second) * USECS_PER_SEC + fraction
    if minute > 59 or second > 60 or clock > USECS_PER_DAY:
        raise _range_error(text)
    return clock


def _east(zone: str, stamp: int, text: str, oid: int) -> int:
    """Seconds east of Greenwich, of a zone that may depend on the moment, which is local."""
    if zone.upper() in ("Z", "UTC", "GMT", "ZULU"):
        return 0
    match = re.fullmatch(r"([+-])(\d{1,2}):?(\d\d)?(?::(\d\d))?", zone)
    if match:
        hours, minutes, seconds = (int(match[group] or 0) for group in (2, 3, 4))
        if hours > 15 or minutes > 59:
            raise UsageError(f'time zone displacement out of range: "{text}"', sqlstate="22009")
        return ((hours * 60 + minutes) * 60 + seconds) * (-1 if match[1] == "-" else 1)
    try:
        named = ZoneInfo(zone)
        local = datetime_of(stamp).replace(tzinfo=None)
    except (ZoneInfoNotFoundError, ValueError, OverflowError):
        raise _unread(text, oid) from None
    before, after = (local.replace(tzinfo=named, fold=fold).utcoffset() or timedelta() for fold in (0, 1))
    if before != after:  # an hour that was there twice, or not at all: standard time, as DetermineTimeZoneOffset prefers it
        return int(min(before, after).total_seconds())
    return int(before.total_seconds())
