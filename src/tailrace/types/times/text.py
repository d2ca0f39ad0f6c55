"""date, time, timetz, timestamp and timestamptz as text: in ISO style here, from which `date_styles` makes the others.

date is an i32 of days, timestamp an i64 of microseconds, both from 2000-01-01; their extremes are the infinities
(`datatype/timestamp.h`, `utils/date.h`). timestamptz is UTC; the session's TimeZone only matters for printing. What is read is what a server in
ISO style prints.
"""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import UsageError
from tailrace.kernels import inner_kernel, kernel
from tailrace.model import PgType
from tailrace.types import oids
from tailrace.types.codec import parse_each, syntax_error
from tailrace.types.codec.ascii import COLON, MINUS, PLUS, POINT, SPACE, ZERO
from tailrace.types.codec.plain_forms import parse_numbers
from tailrace.types.numbers.digits import put_padded, put_unsigned
from tailrace.types.style import TextStyle
from tailrace.types.times.calendar import POSTGRES_EPOCH_JDATE, USECS_PER_DAY, USECS_PER_SEC, date2j, days_in_month, j2date_kernel
from tailrace.types.times.date_styles import in_date_style
from tailrace.types.times.plain import parse_plain_dates, parse_plain_stamps, parse_plain_zoned_stamps
from tailrace.types.times.zones import abbreviations, utc_offsets
from tailrace.types.values import Mask, Texts, Values, as_writable

INFINITY = np.frombuffer(b"-infinity", np.uint8).copy()
LONGEST = 40
"""More than any takes: 294276-12-31 23:59:59.999999+167:59:59."""
DAYS, CLOCK = 1, 2
"""What is printed of a moment: the date, the time of day; or both."""
LETTER_B, LETTER_C = b"BC"
_TIMESTAMPTZ = PgType(oids.TIMESTAMPTZ, "pg_catalog", "timestamptz", "timestamp with time zone", "b", 8, 8)
_NO_ZONE = np.zeros(0, np.int64)
_UTC = np.zeros(1, np.int64)


@inner_kernel
def _put_date(out: Any, at: Any, days: Any) -> Any:
    """YYYY-MM-DD of days since 2000-01-01, and whether the year is BC."""
    year, month, day = j2date_kernel(days + POSTGRES_EPOCH_JDATE)
    ago = year <= 0
    if ago:
        year = 1 - year
    at = put_padded(out, at, np.uint64(year), 4) if year < 10000 else put_unsigned(out, at, np.uint64(year))
    out[at] = MINUS
    at = put_padded(out, at + 1, np.uint64(month), 2)
    out[at] = MINUS
    return put_padded(out, at + 1, np.uint64(day), 2), ago


@inner_kernel
def _put_time(out: Any, at: Any, clock: Any) -> Any:
    """HH:MM:SS[.ffffff] of microseconds in the day; zeros at the end of the fraction are dropped."""
    seconds = clock // USECS_PER_SEC
    at = put_padded(out, at, np.uint64(seconds // 3600), 2)
    out[at] = COLON
    at = put_padded(out, at + 1, np.uint64(seconds // 60 % 60), 2)
    out[at] = COLON
    at = put_padded(out, at + 1, np.uint64(seconds % 60), 2)
    fraction = clock - seconds * USECS_PER_SEC
    if fraction:
        out[at] = POINT
        at = put_padded(out, at + 1, np.uint64(fraction), 6)
        while out[at - 1] == ZERO:
            at -= 1
    return at


@inner_kernel
def _put_zone(out: Any, at: Any, east: Any) -> Any:
    """+HH[:MM[:SS]] of seconds east of Greenwich."""
    out[at] = PLUS if east >= 0 else MINUS
    away = abs(east)
    at = put_padded(out, at + 1, np.uint64(away // 3600), 2 if away < 360_000 else 3)
    if away % 3600:
        out[at] = COLON
        at = put_padded(out, at + 1, np.uint64(away // 60 % 60), 2)
    if away % 60:
        out[at] = COLON
        at = put_padded(out, at + 1, np.uint64(away % 60), 2)
    return at


@inner_kernel
def _put_timestamp(out: Any, at: Any, stamp: Any, parts: Any) -> Any:
    """The date, the time of day or both, and whether the year is BC."""
    both, ago = parts == DAYS | CLOCK, False
    days = stamp // USECS_PER_DAY if both else stamp
    if parts & DAYS:
        at, ago = _put_date(out, at, days)
    if both:
        out[at] = SPACE
        at += 1
    if parts & CLOCK:
        at = _put_time(out, at, stamp - days * USECS_PER_DAY if both else stamp)
    return at, ago


@kernel
def _format(stamps: Any, valid: Any, zones: Any, low: Any, high: Any, parts: Any) -> Any:
    """Days (`parts` is DAYS), microseconds of the day (CLOCK), or microseconds since 2000 (DAYS | CLOCK).

    `zones` are seconds east: none, one for all, or one a row. Of days with a time of day, which are UTC, they are added; a time of day alone is
    local already. `low` and `high` are the infinities, equal if the type has none.
    """
    rows = len(stamps)
    offsets = np.empty(rows + 1, np.int64)
    offsets[0] = 0
    out = np.empty(LONGEST * rows, np.uint8)
    at = 0
    for row in range(rows):
        if valid[row]:
            stamp = stamps[row]
            if low != high and stamp in (low, high):
                for place in range(0 if stamp == low else 1, 9):
                    out[at] = INFINITY[place]
                    at += 1
            else:
                east = zones[row if len(zones) > 1 else 0] if len(zones) else 0
                if parts == DAYS | CLOCK:
                    stamp += east * USECS_PER_SEC
                at, ago = _put_timestamp(out, at, stamp, parts)
                if len(zones):
                    at = _put_zone(out, at, east)
                if ago:
                    out[at] = SPACE
                    out[at + 1] = LETTER_B
                    out[at + 2] = LETTER_C
                    at += 3
        offsets[row + 1] = at
    return offsets, out[:at]


def _run(numbers: NDArray, values: Values, parts: int, zones: NDArray[np.int64] = _NO_ZONE, endless: type | None = None) -> Texts:
    """`endless` is the integer type whose extremes are the infinities."""
    low, high = (int(np.iinfo(endless).min), int(np.iinfo(endless).max)) if endless else (0, 0)
    return Texts(*_format(as_writable(numbers), as_writable(values.valid), zones, low, high, parts))


def format_dates(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As date_out."""
    texts = _run(values.as_dtype("<i4").astype(np.int64), values, DAYS, endless=np.int32)
    return texts if style.date_form == "ISO" else in_date_style(texts, style)


def format_times(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As time_out: 24:00:00 is a time of day."""
    return _run(values.as_dtype("<i8"), values, CLOCK)


def format_timetzs(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As timetz_out: i64 microseconds of local time, i32 seconds *west* of Greenwich."""
    clock, east = _timetz_fields(values)
    return _run(clock, values, CLOCK, east)


def _timetz_fields(values: Values) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Microseconds of the local day, and seconds east of Greenwich."""
    assert values.fixed is not None
    clock = np.ascontiguousarray(values.fixed[:, :8]).view("<i8")[:, 0]
    return clock, -np.ascontiguousarray(values.fixed[:, 8:]).view("<i4")[:, 0].astype(np.int64)


def format_timestamps(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As timestamp_out, and timestamptz_out in the style's TimeZone."""
    stamps = values.as_dtype("<i8")
    zones = _NO_ZONE
    if pg_type.oid == oids.TIMESTAMPTZ:
        zones = _UTC if style.is_utc else utc_offsets(stamps, values.valid, style.time_zone)
    texts = _run(stamps, values, DAYS | CLOCK, zones, np.int64)
    if style.date_form == "ISO":
        return texts
    return in_date_style(texts, style, abbreviations(stamps, values.valid, style.time_zone) if len(zones) else ())


def timestamptz_to_str(microseconds: NDArray[np.int64], style: TextStyle) -> Texts:
    """When something happened, as the log says it (microseconds since PG_EPOCH), in the time zone of `style`, and in ISO form whatever its
    DateStyle is."""
    return format_timestamps(Values.of_numbers(microseconds), _TIMESTAMPTZ, replace(style, date_style="ISO, MDY"))


def times_in_utc(values: Values) -> Values:
    """timetz as times of day in UTC, in stored form."""
    clock, east = _timetz_fields(values)
    utc = (clock - east * USECS_PER_SEC) % USECS_PER_DAY
    return Values(values.valid, fixed=utc.view(np.uint8).reshape(-1, 8), unchanged=values.unchanged)


_DATE = r"(?P<year>\d{4,7})-(?P<month>\d\d)-(?P<day>\d\d)"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,6}))?)?"
_ZONE = r"(?P<sign>[+-])(?P<zone_hour>\d\d)(?::?(?P<zone_minute>\d\d))?(?::?(?P<zone_second>\d\d))?"
DATE = re.compile(rf"\s*{_DATE}(?P<ago> BC)?\s*")
TIME = re.compile(rf"\s*{_TIME}(?:{_ZONE})?\s*")
STAMP = re.compile(rf"\s*{_DATE}(?:[ T]{_TIME})?\s*(?:{_ZONE}|Z)?(?P<ago> BC)?\s*")
NAMES = {
    oids.DATE: "date", oids.TIME: "time", oids.TIMETZ: "time with time zone", oids.TIMESTAMP: "timestamp",
    oids.TIMESTAMPTZ: "timestamp with time zone",
}  # fmt: skip
Fields = dict[str, str | None]
"""What the groups of these have matched."""


def parse_dates(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As date_in, of ISO dates."""

    def parse_one(text: str) -> bytes:
        word = text.strip().lower()
        if word in {"infinity", "-infinity"}:
            return struct.pack("<i", -(1 << 31) if word[0] == "-" else (1 << 31) - 1)
        return struct.pack("<i", _days(_match(DATE, text, pg_type.oid), text))

    return parse_numbers(texts, valid, "<i4", parse_plain_dates, parse_one)


def parse_times(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """time, and timetz, whose zone is stored as seconds west."""

    def parse_one(text: str) -> bytes:
        fields = _match(TIME, text, pg_type.oid)
        clock = struct.pack("<q", _clock(fields, text))
        return clock if pg_type.length == 8 else clock + struct.pack("<i", -_east(fields))

    return parse_each(texts, valid, pg_type, parse_one)


def parse_timestamps(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """A timestamptz without a zone is taken as UTC."""

    def parse_one(text: str) -> bytes:
        word = text.strip().lower()
        if word in {"infinity", "-infinity"}:
            return struct.pack("<q", -(1 << 63) if word[0] == "-" else (1 << 63) - 1)
        fields = _match(STAMP, text, pg_type.oid)
        east = _east(fields) if pg_type.oid == oids.TIMESTAMPTZ else 0
        return struct.pack("<q", _days(fields, text) * USECS_PER_DAY + _clock(fields, text) - east * USECS_PER_SEC)

    plain = parse_plain_zoned_stamps if pg_type.oid == oids.TIMESTAMPTZ else parse_plain_stamps
    return parse_numbers(texts, valid, "<i8", plain, parse_one)


def _match(syntax: re.Pattern[str], text: str, oid: int) -> Fields:
    match = syntax.fullmatch(text)
    if match is None:
        raise syntax_error(NAMES[oid], text)
    return match.groupdict()


def _days(fields: Fields, text: str) -> int:
    """Days since 2000-01-01."""
    year, month, day = (int(fields[name] or 0) for name in ("year", "month", "day"))
    if fields.get("ago"):
        year = 1 - year
    if not 1 <= month <= 12 or not 1 <= day <= days_in_month(year, month):
        raise UsageError(f'date/time field value out of range: "{text}"', sqlstate="22008")
    return date2j(year, month, day) - POSTGRES_EPOCH_JDATE


def _clock(fields: Fields, text: str) -> int:
    hour, minute, second = (int(fields[name] or 0) for name in ("hour", "minute", "second"))
    clock = ((hour * 60 + minute) * 60 + second) * USECS_PER_SEC + int((fields["fraction"] or "0").ljust(6, "0"))
    if minute > 59 or second > 60 or clock > USECS_PER_DAY:
        raise UsageError(f'date/time field value out of range: "{text}"', sqlstate="22008")
    return clock


def _east(fields: Fields) -> int:
    hour, minute, second = (int(fields[name] or 0) for name in ("zone_hour", "zone_minute", "zone_second"))
    return ((hour * 60 + minute) * 60 + second) * (-1 if fields["sign"] == "-" else 1)
