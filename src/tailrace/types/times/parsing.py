"""Reading dates and times back: the ISO texts that `times` prints (and that a server in ISO style sends)."""

from __future__ import annotations

import re
import struct
from datetime import date

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.codec import parse_each, syntax_error
from tailrace.types.times.text import DAY
from tailrace.types.values import Mask, Texts, Values

_DATE = r"(?P<year>\d{4,7})-(?P<month>\d\d)-(?P<day>\d\d)"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,6}))?)?"
_ZONE = r"(?P<sign>[+-])(?P<zone_hour>\d\d)(?::?(?P<zone_minute>\d\d))?(?::?(?P<zone_second>\d\d))?"
DATE = re.compile(rf"\s*{_DATE}(?P<ago> BC)?\s*")
TIME = re.compile(rf"\s*{_TIME}(?:{_ZONE})?\s*")
STAMP = re.compile(rf"\s*{_DATE}(?:[ T]{_TIME})?\s*(?:{_ZONE}|Z)?(?P<ago> BC)?\s*")
NAMES = {1082: "date", 1083: "time", 1266: "time with time zone", 1114: "timestamp", 1184: "timestamp with time zone"}


def parse_dates(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    def parse_one(text: str) -> bytes:
        word = text.strip().lower()
        if word in {"infinity", "-infinity"}:
            return struct.pack("<i", -(1 << 31) if word[0] == "-" else (1 << 31) - 1)
        return struct.pack("<i", _days(_match(DATE, text, 1082), text))

    return parse_each(texts, valid, pg_type, parse_one)


def parse_times(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """time, and timetz, whose zone is stored as seconds west."""

    def parse_one(text: str) -> bytes:
        found = _match(TIME, text, pg_type.oid)
        clock = struct.pack("<q", _clock(found, text))
        return clock if pg_type.length == 8 else clock + struct.pack("<i", -_east(found))

    return parse_each(texts, valid, pg_type, parse_one)


def parse_timestamps(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """A timestamptz without a zone is taken as UTC."""

    def parse_one(text: str) -> bytes:
        word = text.strip().lower()
        if word in {"infinity", "-infinity"}:
            return struct.pack("<q", -(1 << 63) if word[0] == "-" else (1 << 63) - 1)
        found = _match(STAMP, text, pg_type.oid)
        east = _east(found) if pg_type.oid == 1184 else 0
        return struct.pack("<q", _days(found, text) * DAY + _clock(found, text) - east * 1_000_000)

    return parse_each(texts, valid, pg_type, parse_one)


def _match(syntax: re.Pattern[str], text: str, oid: int) -> dict[str, str | None]:
    found = syntax.fullmatch(text)
    if found is None:
        raise syntax_error(NAMES[oid], text)
    return found.groupdict()


def _days(found: dict[str, str | None], text: str) -> int:
    """Days since 2000-01-01. Years outside Python's calendar are moved into it by whole cycles of 400."""
    year, month, day = (int(found[name] or 0) for name in ("year", "month", "day"))
    if found.get("ago"):
        year = 1 - year
    cycles = (year - 2000) // 400
    try:
        return (date(year - 400 * cycles, month, day) - date(2000, 1, 1)).days + 146_097 * cycles
    except ValueError:
        raise UsageError(f'date/time field value out of range: "{text}"', sqlstate="22008") from None


def _clock(found: dict[str, str | None], text: str) -> int:
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    clock = ((hour * 60 + minute) * 60 + second) * 1_000_000 + int((found["fraction"] or "0").ljust(6, "0"))
    if minute > 59 or second > 60 or clock > DAY:
        raise UsageError(f'date/time field value out of range: "{text}"', sqlstate="22008")
    return clock


def _east(found: dict[str, str | None]) -> int:
    hour, minute, second = (int(found[name] or 0) for name in ("zone_hour", "zone_minute", "zone_second"))
    return ((hour * 60 + minute) * 60 + second) * (-1 if found["sign"] == "-" else 1)
