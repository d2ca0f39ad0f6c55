"""date, time, timetz, timestamp, timestamptz: counts of days or microseconds, printed in ISO style, from which `datestyles` makes the others.

date is an i32 of days, timestamp an i64 of microseconds, both from 2000-01-01; their extremes are the infinities
(`datatype/timestamp.h`, `utils/date.h`). timestamptz is UTC; the session's TimeZone only matters for printing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.errors import UsageError
from tailrace.kernels import kernel
from tailrace.model import PgType
from tailrace.types.codec import ArrowStyle, primitive_array, string_array
from tailrace.types.numbers.digits import put_padded, put_unsigned
from tailrace.types.style import TextStyle
from tailrace.types.times.date_styles import restyled
from tailrace.types.times.zones import abbreviations, utc_offsets
from tailrace.types.values import Mask, Texts, Values, as_writable

DAY = 86_400_000_000
UNIX_DAYS, UNIX_MICROSECONDS = 10957, 946_684_800_000_000
"""From 1970-01-01 to 2000-01-01."""
_DATES = (-719_162, 2_932_896)
_TIMESTAMPS = (_DATES[0] * DAY, (_DATES[1] + 1) * DAY - 1)
_MOMENTS = (_TIMESTAMPS[0] + 2 * DAY, _TIMESTAMPS[1] - DAY)
"""The years 1 to 9999, from 1970-01-01: what Python's datetime holds and Spark documents. Moments must be in them in every time zone, and at
the beginning datetime.fromtimestamp() looks at the day before as well."""
INFINITY = np.frombuffer(b"-infinity", np.uint8).copy()
TIMESTAMPTZ = 1184
_NO_ZONE = np.zeros(0, np.int64)
_UTC = np.zeros(1, np.int64)


@kernel
def _put_date(out: Any, at: Any, days: Any) -> Any:
    """YYYY-MM-DD of days since 2000-01-01, and whether the year is BC. Years are counted from March, eras of 400 years."""
    shifted = days + 730425
    era = shifted // 146097
    day_of_era = shifted - era * 146097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    year = year_of_era + 400 * era + (1 if month >= 10 else 0)
    month += 3 if month < 10 else -9
    ago = year <= 0
    if ago:
        year = 1 - year
    at = put_padded(out, at, np.uint64(year), 4) if year < 10000 else put_unsigned(out, at, np.uint64(year))
    out[at] = 45
    at = put_padded(out, at + 1, np.uint64(month), 2)
    out[at] = 45
    return put_padded(out, at + 1, np.uint64(day), 2), ago


@kernel
def _put_time(out: Any, at: Any, clock: Any) -> Any:
    """HH:MM:SS[.ffffff] of microseconds in the day; zeros at the end of the fraction are dropped."""
    seconds = clock // 1_000_000
    at = put_padded(out, at, np.uint64(seconds // 3600), 2)
    out[at] = 58
    at = put_padded(out, at + 1, np.uint64(seconds // 60 % 60), 2)
    out[at] = 58
    at = put_padded(out, at + 1, np.uint64(seconds % 60), 2)
    fraction = clock - seconds * 1_000_000
    if fraction:
        out[at] = 46
        at = put_padded(out, at + 1, np.uint64(fraction), 6)
        while out[at - 1] == 48:
            at -= 1
    return at


@kernel
def _put_zone(out: Any, at: Any, east: Any) -> Any:
    """+HH[:MM[:SS]] of seconds east of Greenwich."""
    out[at] = 43 if east >= 0 else 45
    away = abs(east)
    at = put_padded(out, at + 1, np.uint64(away // 3600), 2 if away < 360_000 else 3)
    if away % 3600:
        out[at] = 58
        at = put_padded(out, at + 1, np.uint64(away // 60 % 60), 2)
    if away % 60:
        out[at] = 58
        at = put_padded(out, at + 1, np.uint64(away % 60), 2)
    return at


@kernel
def _format_moments(stamps: Any, valid: Any, zones: Any, low: Any, high: Any, parts: Any) -> Any:
    """`parts` is 1 for days, 2 for a time of day in microseconds, 3 for both; `zones` is empty, one offset, or one a row.

    `low` and `high` are the infinities (equal if the type has none). 40 bytes hold the longest:
    294276-12-31 23:59:59.999999+167:59:59.
    """
    rows = len(stamps)
    offsets = np.empty(rows + 1, np.int64)
    offsets[0] = 0
    out = np.empty(40 * rows, np.uint8)
    at = 0
    for row in range(rows):
        if valid[row]:
            stamp = stamps[row]
            if low != high and stamp in (low, high):
                for place in range(0 if stamp == low else 1, 9):
                    out[at] = INFINITY[place]
                    at += 1
            else:
                ago = False
                if len(zones) and parts == 3:
                    stamp += zones[row if len(zones) > 1 else 0] * 1_000_000
                days = stamp // 86_400_000_000 if parts == 3 else stamp
                if parts & 1:
                    at, ago = _put_date(out, at, days)
                if parts == 3:
                    out[at] = 32
                    at += 1
                if parts & 2:
                    at = _put_time(out, at, stamp - days * 86_400_000_000 if parts == 3 else stamp)
                if len(zones):
                    at = _put_zone(out, at, zones[row if len(zones) > 1 else 0])
                if ago:
                    out[at] = 32
                    out[at + 1] = 66
                    out[at + 2] = 67
                    at += 3
        offsets[row + 1] = at
    return offsets, out[:at]


def _run(numbers: np.ndarray, values: Values, parts: int, zones: np.ndarray = _NO_ZONE, endless: type | None = None) -> Texts:
    low, high = (int(np.iinfo(endless).min), int(np.iinfo(endless).max)) if endless else (0, 0)
    return Texts(*_format_moments(as_writable(numbers), as_writable(values.valid), zones, low, high, parts))


def format_dates(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As date_out."""
    texts = _run(values.as_dtype("<i4").astype(np.int64), values, 1, endless=np.int32)
    return texts if style.date_form == "ISO" else restyled(texts, style)


def format_times(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As time_out: 24:00:00 is a time of day."""
    return _run(values.as_dtype("<i8"), values, 2)


def format_timetzs(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As timetz_out: i64 microseconds of local time, i32 seconds *west* of Greenwich."""
    assert values.fixed is not None
    clock = np.ascontiguousarray(values.fixed[:, :8]).view("<i8")[:, 0]
    east = -np.ascontiguousarray(values.fixed[:, 8:]).view("<i4")[:, 0].astype(np.int64)
    return _run(clock, values, 2, east)


def format_timestamps(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As timestamp_out, and timestamptz_out in the style's TimeZone."""
    stamps = values.as_dtype("<i8")
    zones = _NO_ZONE
    if pg_type.oid == TIMESTAMPTZ:
        zones = _UTC if style.is_utc else utc_offsets(stamps, values.valid, style.time_zone)
    texts = _run(stamps, values, 3, zones, np.int64)
    if style.date_form == "ISO":
        return texts
    return restyled(texts, style, abbreviations(stamps, values.valid, style.time_zone) if len(zones) else ())


def arrow_times(pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.DataType:
    """date32, or microseconds with or without UTC; or string."""
    if style.times == "text":
        return pa.string()
    return {1082: pa.date32(), 1114: pa.timestamp("us")}.get(pg_type.oid, pa.timestamp("us", "UTC"))


def dates_to_arrow(values: Values, pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.Array:
    """Days since 1970. The infinities stay the extremes of int32, and every other date of PostgreSQL fits; bounded ones are of the years 1
    to 9999."""
    if style.times == "text":
        return string_array(format_dates(values, pg_type, style.text), values.valid)
    days, bounds = values.as_dtype("<i4"), np.iinfo(np.int32)
    endless = (days == bounds.min) | (days == bounds.max)
    moved = np.where(endless, days, days + np.int32(UNIX_DAYS))
    if style.times == "bounded":
        moved = np.clip(moved, *_check_bounds(values, moved, endless, _DATES, "date", format_dates, pg_type))
    return primitive_array(moved.astype(np.int32, copy=False), values.valid, pa.date32())


def timestamps_to_arrow(values: Values, pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.Array:
    """Microseconds since 1970. The infinities stay the extremes of int64; finite moments after 294247-01-10, which int64 cannot
    count from 1970, are refused rather than bent. Bounded ones are of the years 1 to 9999."""
    if style.times == "text":
        return string_array(format_timestamps(values, pg_type, style.text), values.valid)
    stamps, bounds = values.as_dtype("<i8"), np.iinfo(np.int64)
    endless = (stamps == bounds.min) | (stamps == bounds.max)
    beyond = values.valid & ~endless & (stamps >= bounds.max - UNIX_MICROSECONDS)
    if bool(beyond.any()):
        late = format_timestamps(values.take(np.flatnonzero(beyond)[:1]), pg_type, style.text).to_list()[0]
        raise UsageError(
            f"timestamp out of range: {late} does not fit an Arrow timestamp", hint="Set times=text.", sqlstate="22008"
        )
    moved = np.where(endless, stamps, np.where(endless, 0, stamps) + UNIX_MICROSECONDS)
    if style.times == "bounded":
        limits = _MOMENTS if pg_type.oid == TIMESTAMPTZ else _TIMESTAMPS
        moved = np.clip(moved, *_check_bounds(values, moved, endless, limits, "timestamp", format_timestamps, pg_type))
    return primitive_array(moved, values.valid, arrow_times(pg_type, typmod, style))


def _check_bounds(
    values: Values, moved: NDArray, endless: Mask, limits: tuple[int, int], noun: str,
    format_them: Callable[[Values, PgType, TextStyle], Texts], pg_type: PgType,
) -> tuple[int, int]:  # fmt: skip
    """The limits. Raises UsageError for a finite value outside of them."""
    outside = values.valid & ~endless & ((moved < limits[0]) | (moved > limits[1]))
    if bool(outside.any()):
        told = format_them(values.take(np.flatnonzero(outside)[:1]), pg_type, TextStyle()).to_list()[0]
        raise UsageError(
            f'{noun} out of range: "{told}"',
            hint="Python's dates are of the years 1 to 9999. Set times=text, or times=native for Spark's own functions.",
            sqlstate="22008",
        )
    return limits
