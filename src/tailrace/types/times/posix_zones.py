"""Time zones that a TimeZone setting spells out instead of naming them: hours eastward, an interval, or a POSIX string, with or without summer.

In: the setting. Out: a `PosixZone`, which knows offset and abbreviation of any number of moments. The server's own reading is followed closely
(`check_timezone` in `commands/variable.c`, `tzparse` and `localsub` in `timezone/localtime.c`), since it takes more than POSIX does: `5:30` is a
zone without a name, 5:30 hours *west*.
"""

from __future__ import annotations

import re
from calendar import monthrange

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.types.times.calendar import POSTGRES_EPOCH_JDATE, SECS_PER_DAY, SECS_PER_HOUR, date2j, isleap

CYCLE = 146_097 * SECS_PER_DAY
"""Seconds in 400 years: the calendar, days of the week included, repeats."""
FIRST_YEAR, MOST_CHANGES = 1770, 2000
MOST_HOURS = 167
LONGEST_NAME = 255
DEFAULT_RULES = ",M3.2.0,M11.1.0"
DECIMAL = re.compile(r"\s*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.A | re.I)
HEXADECIMAL = re.compile(r"\s*[+-]?0x(?:[\da-f]+\.?[\da-f]*|\.[\da-f]+)(?:p[+-]?\d+)?", re.A | re.I)
QUOTED, NAME = re.compile(r"<([^>]*)>"), re.compile(r"([^0-9,+-]*)")
OFFSET = re.compile(r"([+-]?)(\d+)(?::(\d*))?(?::(\d*))?", re.A)
RULE = re.compile(r"J(\d+)|M(\d+)\.(\d+)\.(\d+)|(\d+)", re.A)
INTERVAL = re.compile(r"interval\s*'([^']*)'", re.I)
PIECE = re.compile(r"\s*(?:([+-]?)(\d+):(\d+)(?::(\d+(?:\.\d*)?))?|([+-]?(?:\d+\.?\d*|\.\d+))\s*([a-z]*))\s*", re.A | re.I)
UNITS = {
    "": 1, **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1), **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), SECS_PER_HOUR),
}  # fmt: skip
Rule = tuple[str, int, int, int, int]
"""J, M or D; month, week, day; and seconds into that day."""


@dataclass(frozen=True, slots=True, eq=False)
class PosixZone:
    """Kinds of time (seconds east, abbreviation), and when which begins (seconds since 2000); before the first, kind 0. All may repeat."""

    offsets: tuple[int, ...]
    labels: tuple[str, ...]
    begins: NDArray[np.int64]
    kinds: NDArray[np.int64]
    repeats: bool = False

    def kinds_at(self, seconds: NDArray[np.int64]) -> NDArray[np.int64]:
        """The kind of time at each moment (`localsub`)."""
        if not len(self.begins):
            return np.zeros(len(seconds), np.int64)
        first, last = self.begins[0], self.begins[-1]
        if self.repeats:
            early, late = (first - seconds - 1) // CYCLE + 1, (seconds - last - 1) // CYCLE + 1
            seconds = seconds + CYCLE * np.where(seconds < first, early, np.where(seconds > last, -late, 0))
        low, high = np.ones(len(seconds), np.int64), np.full(len(seconds), len(self.begins), np.int64)
        # Strange rules are not in order, so the server's own search is followed step by step.
        for _ in range(len(self.begins).bit_length()):
            middle = np.minimum((low + high) >> 1, len(self.begins) - 1)
            before = seconds < self.begins[middle]
            low, high = np.where((low < high) & ~before, middle + 1, low), np.where((low < high) & before, middle, high)
        return np.where(seconds < first, 0, self.kinds[low - 1])


def zone_of_offset(setting: str) -> PosixZone | None:
    """The zone of a number of hours or of an interval; None if the setting is neither. Raises UsageError, as the server does."""
    if setting[:8].lower() == "interval":
        east = _interval(setting)
    elif (hours := _number(setting)) is not None:
        if not abs(hours) <= MOST_HOURS + 1:
            raise refusal(setting, "UTC timezone offset is out of range.")
        east = int(hours * SECS_PER_HOUR)
    else:
        return None
    minutes, second = divmod(abs(east), 60)
    hour, minute = divmod(minutes, 60)
    if hour > MOST_HOURS:
        raise refusal(setting, "UTC timezone offset is out of range.")
    label = f"{'-' if east < 0 else '+'}{hour:02d}" + (f":{minute:02d}" if minute or second else "")
    return _steady(east, label + (f":{second:02d}" if second else ""))


def posix_zone(name: str) -> PosixZone:
    """The zone of a POSIX string. Raises UsageError if it is none, or one whose clocks do not show whole minutes in 2000."""
    zone = None
    if len(name.encode()) <= LONGEST_NAME and not name.startswith(":"):
        # The server does not mind the case of letters in names of zones, and has them in upper case here.
        zone = _parse(re.sub("[a-z]+", lambda letters: letters[0].upper(), name))
    if zone is None:
        raise refusal(name, "Use a name of the tz database.")
    if zone.offsets[int(zone.kinds_at(np.zeros(1, np.int64))[0])] % 60:
        raise UsageError(f'time zone "{name}" appears to use leap seconds', hint="PostgreSQL does not support leap seconds.")
    return zone


def refusal(setting: str, hint: str) -> UsageError:
    return UsageError(f'invalid value for parameter "TimeZone": "{setting}"', hint=hint)


def _steady(east: int, label: str) -> PosixZone:
    return PosixZone((east,), (label,), np.zeros(0, np.int64), np.zeros(0, np.int64))


def _number(setting: str) -> float | None:
    """What strtod takes, to the last character."""
    if DECIMAL.fullmatch(setting):
        return float(setting)
    try:
        return float.fromhex(setting) if HEXADECIMAL.fullmatch(setting) else None
    except OverflowError:
        return float("inf")


def _interval(setting: str) -> int:
    """Seconds; of what interval_in takes, times only."""
    quoted = INTERVAL.fullmatch(setting)
    text, at, seconds = quoted[1] if quoted else "", 0, 0.0
    while at < len(text):
        piece = PIECE.match(text, at)
        unit = piece[6].lower() if piece and piece[6] else ""
        if piece is None or unit not in UNITS:
            raise refusal(setting, "An interval of hours, minutes and seconds is a zone, one of days or months is not.")
        at = piece.end()
        if piece[5]:
            seconds += float(piece[5]) * UNITS[unit]
        else:
            clock = int(piece[2]) * SECS_PER_HOUR + int(piece[3]) * 60 + float(piece[4] or 0)
            seconds += -clock if piece[1] == "-" else clock
    if not text.strip():
        raise refusal(setting, "Write interval '5:30'.")
    return int(round(seconds, 6))


def _parse(text: str) -> PosixZone | None:
    name = _name(text, 0)
    west = _offset(text, name[1]) if name else None
    if name is None or west is None:
        return None
    if west[1] == len(text):
        return _steady(-west[0], name[0])
    summer = _name(text, west[1])
    if summer is None or not summer[0]:
        return None
    summer_west, at = west[0] - SECS_PER_HOUR, summer[1]
    if text[at : at + 1] not in ("", ",", ";"):
        summer_offset = _offset(text, at)
        if summer_offset is None:
            return None
        summer_west, at = summer_offset
    rules = _rules(text[at:] or DEFAULT_RULES)
    return None if rules is None else _zone(rules, (west[0], summer_west), (name[0], summer[0]))


def _name(text: str, at: int) -> tuple[str, int] | None:
    name = (QUOTED if text[at : at + 1] == "<" else NAME).match(text, at)
    return (name[1], name.end()) if name else None


def _offset(text: str, at: int) -> tuple[int, int] | None:
    """Seconds."""
    offset = OFFSET.match(text, at)
    if offset is None or "" in (offset[3], offset[4]):
        return None
    hours, minutes, seconds = int(offset[2]), int(offset[3] or 0), int(offset[4] or 0)
    if hours > MOST_HOURS or minutes > 59 or seconds > 60:
        return None
    return ((hours * 60 + minutes) * 60 + seconds) * (-1 if offset[1] == "-" else 1), offset.end()


def _rules(text: str) -> tuple[Rule, Rule] | None:
    """When summer begins and ends."""
    if text[0] not in ",;":
        return None
    start = _rule(text, 1)
    if start is None or text[start[1] : start[1] + 1] != ",":
        return None
    end = _rule(text, start[1] + 1)
    return (start[0], end[0]) if end is not None and end[1] == len(text) else None


def _rule(text: str, at: int) -> tuple[Rule, int] | None:
    rule = RULE.match(text, at)
    if rule is None:
        return None
    kind = "J" if rule[1] else "M" if rule[2] else "D"
    month, week, day = int(rule[2] or 1), int(rule[3] or 1), int(rule[1] or rule[4] or rule[5])
    most = {"J": 365, "M": 6, "D": 365}[kind]
    if not (1 <= month <= 12 and 1 <= week <= 5 and (kind == "J") <= day <= most):
        return None
    if text[rule.end() : rule.end() + 1] != "/":
        return (kind, month, week, day, 2 * SECS_PER_HOUR), rule.end()
    time = _offset(text, rule.end() + 1)
    return None if time is None else ((kind, month, week, day, time[0]), time[1])


def _zone(rules: tuple[Rule, Rule], west: tuple[int, int], labels: tuple[str, str]) -> PosixZone:
    """The changes of all years until there are as many as the server keeps."""
    begins: list[int] = []
    kinds: list[int] = []
    january = (date2j(FIRST_YEAR, 1, 1) - POSTGRES_EPOCH_JDATE) * SECS_PER_DAY
    year, limit = FIRST_YEAR, FIRST_YEAR + 401
    while year < limit and len(begins) <= MOST_CHANGES - 2:
        length = (366 if isleap(year) else 365) * SECS_PER_DAY
        start, end = (_moment(year, rule, ahead) for rule, ahead in zip(rules, west, strict=True))
        southern = end < start
        start, end = min(start, end), max(start, end)
        if southern or start < end < start + length + west[0] - west[1]:
            begins += [january + start, january + end]
            kinds += [int(not southern), int(southern)]
            limit = year + 401
        january += length
        year += 1
    if not begins:
        return _steady(-west[1], labels[1])  # summer for ever
    offsets = (-west[0], -west[1])
    return PosixZone(offsets, labels, np.array(begins, np.int64), np.array(kinds, np.int64), repeats=year - FIRST_YEAR > 400)


def _moment(year: int, rule: Rule, west: int) -> int:
    """Seconds of UTC from the beginning of the year, under an offset (`transtime`)."""
    kind, month, week, day, time = rule
    if kind == "J":
        day -= 0 if isleap(year) and day >= 60 else 1
    elif kind == "M":
        weekday, days = monthrange(2000 + year % 400, month)
        first = (day - 1 - weekday) % 7
        while first + 7 * (week - 1) >= days:
            week -= 1
        day = date2j(year, month, 1) - date2j(year, 1, 1) + first + 7 * (week - 1)
    return day * SECS_PER_DAY + time + west
