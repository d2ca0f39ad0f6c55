"""Literals of intervals: numbers with units, clocks, and ISO 8601 durations (`adt/datetime.c`, DecodeInterval).

In: text, and the modifier of `interval day to second (3)` and its like. Out: the stored form: microseconds, days, months.
"""

from __future__ import annotations

import re
import struct
from fractions import Fraction

from tailrace.errors import UsageError
from tailrace.types.times.calendar import USECS_PER_DAY, USECS_PER_HOUR, USECS_PER_MINUTE, USECS_PER_SEC
from tailrace.types.typmods import INTERVAL_FULL_RANGE, INTERVAL_MASK, interval_typmod

FIELDS = struct.Struct("<qii")
_MONTH, _YEAR, _DAY, _HOUR, _MINUTE, _SECOND = INTERVAL_MASK.values()
_MICROS = {
    1: "us usec usecs useconds microsecon microsecond microseconds", 1_000: "ms msec msecs mseconds millisecon millisecond milliseconds",
    USECS_PER_SEC: "s sec secs second seconds", USECS_PER_MINUTE: "m min mins minute minutes", USECS_PER_HOUR: "h hr hrs hour hours",
}  # fmt: skip
_DAYS = {1: "d day days", 7: "w week weeks"}
_MONTHS = {
    1: "mon mons month months", 12: "y yr yrs year years", 120: "dec decs decade decades", 1200: "c cent century centuries",
    12000: "mil mils millennia millennium",
}  # fmt: skip
_UNITS = {
    word: (part, factor)
    for part, table in (("micros", _MICROS), ("days", _DAYS), ("months", _MONTHS))
    for factor, names in table.items()
    for word in names.split()
}
_PIECE = re.compile(
    r"\s*(?:([+-]?)(\d+):(\d\d)(?::(\d\d(?:\.\d*)?))?(?=$|\s)|([+-]?)(\d+)-(\d+)(?=$|\s)"
    r"|([+-]?(?:\d+\.?\d*|\.\d+))(?:\s*([a-z]+)(?=$|[\s+-]|\d)|(?=\s*$|\s+([+-]?\d+:)))|(@)|(ago))",
    re.IGNORECASE | re.ASCII,
)
_ISO = re.compile(r"\s*P(?=.)((?:-?[\d.]+[YMWD])*)(?:T((?:-?[\d.]+[HMS])+))?\s*")
_ISO_PIECE = re.compile(r"(-?[\d.]+)([A-Z])")
_ISO_UNITS = {"Y": "year", "W": "week", "D": "day", "H": "hour", "S": "second"}
_ENDLESS = {"infinity": (2**63 - 1, 2**31 - 1, 2**31 - 1), "-infinity": (-(2**63), -(2**31), -(2**31))}


def read_interval(text: str, typmod: int) -> bytes:
    """interval_in. Raises UsageError, invalid datetime format, for what it does not read."""
    fields, precision = interval_typmod(typmod)
    if text.strip().lower() in _ENDLESS:
        return FIELDS.pack(*_ENDLESS[text.strip().lower()])
    iso = _ISO.fullmatch(text)
    total = _iso(iso, text) if iso else _plain(text, fields)
    micros, days, months = _limited(total, fields, precision)
    try:
        return FIELDS.pack(micros, days, months)
    except struct.error:
        raise UsageError(f'interval field value out of range: "{text}"', sqlstate="22015") from None


def _refusal(text: str) -> UsageError:
    return UsageError(f'invalid input syntax for type interval: "{text}"', sqlstate="22007")


def _plain(text: str, fields: int) -> dict[str, int]:
    total = {"micros": 0, "days": 0, "months": 0}
    at, ago, end = 0, False, len(text.rstrip())
    seen: set[tuple[str, int]] = set()
    if not end:
        raise _refusal(text)
    while at < end:
        piece = _PIECE.match(text, at, end)
        if piece is None or piece.end() == at or ago:
            raise _refusal(text)
        at = piece.end()
        if piece[12]:
            ago = True
        elif piece[2] is not None:
            clock = (int(piece[2]) * 60 + int(piece[3])) * 60 + Fraction(piece[4] or 0)
            total["micros"] += round(clock * USECS_PER_SEC) * (-1 if piece[1] == "-" else 1)
        elif piece[6] is not None:
            total["months"] += (int(piece[6]) * 12 + int(piece[7])) * (-1 if piece[5] == "-" else 1)
        elif piece[8] is not None:
            unit = (piece[9] or ("day" if piece[10] else "")).lower() or _unit_of(fields)
            if unit not in _UNITS or _UNITS[unit] in seen:
                raise _refusal(text)
            seen.add(_UNITS[unit])
            _add(total, Fraction(piece[8]), unit)
    return {name: -number for name, number in total.items()} if ago else total


def _iso(match: re.Match[str], text: str) -> dict[str, int]:
    total = {"micros": 0, "days": 0, "months": 0}
    for part, month_or_minute in ((match[1], "month"), (match[2] or "", "minute")):
        for number, letter in _ISO_PIECE.findall(part):
            try:
                _add(total, Fraction(number), _ISO_UNITS.get(letter, month_or_minute))
            except ValueError:
                raise _refusal(text) from None
    return total


def _unit_of(fields: int) -> str:
    """Of a number alone: the lowest field that the modifier names."""
    if fields == INTERVAL_FULL_RANGE:
        return "second"
    lowest = ((_SECOND, "second"), (_MINUTE, "minute"), (_HOUR, "hour"), (_DAY, "day"), (_MONTH, "month"), (_YEAR, "year"))
    return next(unit for bit, unit in lowest if fields & bit)


def _add(total: dict[str, int], number: Fraction, unit: str) -> None:
    """A fraction of a unit goes on into smaller ones: of a year into months, of a month into days of which it has 30, of a day into the clock."""
    part, factor = _UNITS[unit]
    scaled = number * factor
    if part == "micros":
        total["micros"] += round(scaled)
        return
    whole = int(scaled) if factor < 12 else int(number) * factor
    rest = scaled - whole
    total[part] += whole
    if part == "months" and factor >= 12:
        total["months"] += round(rest)
        return
    if part == "months":
        days = rest * 30
        total["days"] += int(days)
        rest = days - int(days)
    total["micros"] += round(rest * USECS_PER_DAY)


def _limited(total: dict[str, int], fields: int, precision: int) -> tuple[int, int, int]:
    """AdjustIntervalForTypmod: fields below the lowest named are cut off, and the seconds rounded."""
    micros, days, months = total["micros"], total["days"], total["months"]
    if fields != INTERVAL_FULL_RANGE:
        if not fields & (_DAY | _HOUR | _MINUTE | _SECOND):
            months = months if fields & _MONTH else _toward_zero(months, 12)
            return 0, 0, months
        units = ((_SECOND, 1), (_MINUTE, USECS_PER_MINUTE), (_HOUR, USECS_PER_HOUR))
        unit = next((size for bit, size in units if fields & bit), 0)
        micros = _toward_zero(micros, unit) if unit else 0
    if precision <= 6:
        scale = 10 ** (6 - precision)
        sign = -1 if micros < 0 else 1
        micros = sign * ((abs(micros) + scale // 2) // scale * scale)
    return micros, days, months


def _toward_zero(number: int, unit: int) -> int:
    return (abs(number) // unit * unit) * (-1 if number < 0 else 1)
