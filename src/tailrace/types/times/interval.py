"""interval: i64 microseconds, i32 days, i32 months, kept apart; as text in the four styles of IntervalStyle. In Arrow a string of its text.

Row by row: intervals are rare in tables.
"""

from __future__ import annotations

import re
import struct

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import UsageError
from tailrace.majors import INFINITE_INTERVALS, supports
from tailrace.model import PgType
from tailrace.types.codec import format_each, parse_each, syntax_error
from tailrace.types.style import TextStyle
from tailrace.types.times.calendar import USECS_PER_SEC
from tailrace.types.values import Mask, Texts, Values

FIELDS = struct.Struct("<qii")
"""Microseconds, days, months (`datatype/timestamp.h`, Interval)."""
FOREVER = (2**63 - 1, 2**31 - 1, 2**31 - 1), (-(2**63), -(2**31), -(2**31))
"""infinity and -infinity, since 17."""


def format_intervals(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As interval_out."""
    return format_each(values, lambda payload: _print(payload, style.interval_style, style.major))


def _print(payload: bytes, style: str, major: int) -> str:
    """One interval in the style of that name. Majors before 17 print the extremes as the numbers that they are."""
    micros, days, months = fields = FIELDS.unpack(payload)
    if supports(major, INFINITE_INTERVALS) and fields in FOREVER:
        return "infinity" if micros > 0 else "-infinity"
    sign = -1 if months < 0 else 1
    calendar = sign * (abs(months) // 12), sign * (abs(months) % 12), days
    return _STYLES[style.lower()](*calendar, micros)


def interval_parts(values: Values) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Microseconds, days and months of each, with their signs; zeros for NULL."""
    assert values.fixed is not None
    parts = np.ascontiguousarray(values.fixed).view(np.dtype("<i8, <i4, <i4"))[:, 0]
    return parts["f0"].astype(np.int64), parts["f1"].astype(np.int64), parts["f2"].astype(np.int64)


def _clock(micros: int) -> tuple[int, int, str]:
    """Hours, minutes, and seconds with their fraction, of the magnitude."""
    seconds, fraction = divmod(abs(micros), USECS_PER_SEC)
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    return seconds // 3600, seconds // 60 % 60, f"{seconds % 60}{tail}"


def _padded(seconds: str) -> str:
    return seconds if len(seconds.partition(".")[0]) == 2 else "0" + seconds


def _postgres(years: int, months: int, days: int, micros: int) -> str:
    """1 year 2 mons -3 days +04:05:06.7: parts that are zero are left out; after a negative one a positive one shows its sign."""
    pieces, before = [], False
    for number, unit in ((years, "year"), (months, "mon"), (days, "day")):
        if number:
            pieces.append(f"{'+' if before and number > 0 else ''}{number} {unit}{'' if number == 1 else 's'}")
            before = number < 0
    if micros or not pieces:
        hours, minutes, seconds = _clock(micros)
        pieces.append(f"{'-' if micros < 0 else '+' if before else ''}{hours:02d}:{minutes:02d}:{_padded(seconds)}")
    return " ".join(pieces)


def _verbose(years: int, months: int, days: int, micros: int) -> str:
    """@ 1 year 2 mons -3 days 4 hours 5 mins 6.7 secs ago: the sign of the first part that is there stands as `ago`."""
    hours, minutes, seconds = _clock(micros)
    clock_sign = -1 if micros < 0 else 1
    pieces: list[str] = []
    turned = False
    parts = ((years, "year"), (months, "mon"), (days, "day"), (clock_sign * hours, "hour"), (clock_sign * minutes, "min"))
    for number, unit in parts:
        if number:
            if not pieces:
                turned = number < 0
            shown = -number if turned else number
            pieces.append(f"{shown} {unit}{'' if shown == 1 else 's'}")
    if seconds != "0":
        if not pieces:
            turned = micros < 0
        minus = (micros < 0) != turned
        pieces.append(f"{'-' if minus else ''}{seconds} sec{'' if seconds == '1' else 's'}")
    return f"@ {' '.join(pieces) or '0'}{' ago' if turned else ''}"


def _sql_standard(years: int, months: int, days: int, micros: int) -> str:
    """1-2 or 3 4:05:06.7 where the standard has a form for it; else all parts, each with its sign."""
    hours, minutes, seconds = _clock(micros)
    clock = f"{hours}:{minutes:02d}:{_padded(seconds)}"
    parts = (years, months, days, micros)
    negative, positive = any(part < 0 for part in parts), any(part > 0 for part in parts)
    if not negative and not positive:
        return "0"
    monthly, daily = bool(years or months), bool(days or micros)
    if (negative and positive) or (monthly and daily):
        signs = ["-" if minus else "+" for minus in (years < 0 or months < 0, days < 0, micros < 0)]
        return f"{signs[0]}{abs(years)}-{abs(months)} {signs[1]}{abs(days)} {signs[2]}{clock}"
    sign = "-" if negative else ""
    if monthly:
        return f"{sign}{abs(years)}-{abs(months)}"
    return f"{sign}{abs(days)} {clock}" if days else f"{sign}{clock}"


def _iso_8601(years: int, months: int, days: int, micros: int) -> str:
    """P1Y2M3DT4H5M6.7S, each part with its sign."""
    hours, minutes, seconds = _clock(micros)
    sign = "-" if micros < 0 else ""
    calendar = "".join(f"{number}{letter}" for number, letter in ((years, "Y"), (months, "M"), (days, "D")) if number)
    clock = "".join(f"{sign}{number}{letter}" for number, letter in ((hours, "H"), (minutes, "M")) if number)
    clock += f"{sign}{seconds}S" if seconds != "0" else ""
    if not calendar and not clock:
        return "PT0S"
    return f"P{calendar}{'T' + clock if clock else ''}"


_STYLES = {"postgres": _postgres, "postgres_verbose": _verbose, "sql_standard": _sql_standard, "iso_8601": _iso_8601}


MONTHS, DAYS = 0, 1
UNITS = {"year": (MONTHS, 12), "mon": (MONTHS, 1), "month": (MONTHS, 1), "week": (DAYS, 7), "day": (DAYS, 1)}
PIECE = re.compile(r"\s*([+-]?\d+)\s*(year|month|mon|week|day)s?(?![a-z])|\s*([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.I)


def parse_intervals(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As interval_in, for the forms that the postgres style prints."""
    return parse_each(texts, valid, pg_type, _parse)


def _parse(text: str) -> bytes:
    word = text.strip().lower()
    if word in {"infinity", "-infinity"}:
        return FIELDS.pack(*FOREVER[word[0] == "-"])
    at, micros, calendar = 0, 0, [0, 0]
    while at < len(text.rstrip()):
        piece = PIECE.match(text, at)
        if piece is None:
            raise syntax_error("interval", text)
        number, unit, sign, hours, minutes, seconds, fraction = piece.groups(default="")
        at = piece.end()
        if unit:
            field, factor = UNITS[unit.lower()]
            calendar[field] += int(number) * factor
        else:
            whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
            clock = whole * USECS_PER_SEC + int(fraction.ljust(6, "0"))
            micros += -clock if sign == "-" else clock
    if not text.strip():
        raise syntax_error("interval", text)
    try:
        return FIELDS.pack(micros, calendar[DAYS], calendar[MONTHS])
    except struct.error:
        raise UsageError(f'interval field value out of range: "{text}"', sqlstate="22015") from None
