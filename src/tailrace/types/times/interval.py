"""interval (months, days and microseconds kept apart) and tid (a row's place: block and item)."""

from __future__ import annotations

import re
import struct

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.codec import format_each, parse_each, syntax_error
from tailrace.types.style import TextStyle
from tailrace.types.times.interval_styles import FIELDS, FOREVER, print_interval
from tailrace.types.values import Mask, Texts, Values

UNITS = {"year": (0, 12), "mon": (0, 1), "month": (0, 1), "week": (1, 7), "day": (1, 1)}
PIECE = re.compile(r"\s*([+-]?\d+)\s*(year|month|mon|week|day)s?(?![a-z])|\s*([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.I)


def format_intervals(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As interval_out."""
    return format_each(values, lambda payload: print_interval(payload, style.interval_style, style.major))


def parse_intervals(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As interval_in, for the forms that the postgres style prints."""
    return parse_each(texts, valid, pg_type, parse_interval)


def parse_interval(text: str) -> bytes:
    word = text.strip().lower()
    if word in {"infinity", "-infinity"}:
        return FIELDS.pack(*FOREVER[word[0] == "-"])
    at, micros, parts = 0, 0, [0, 0]
    while at < len(text.rstrip()):
        found = PIECE.match(text, at)
        if found is None:
            raise syntax_error("interval", text)
        at = found.end()
        if found[2]:
            place, factor = UNITS[found[2].lower()]
            parts[place] += int(found[1]) * factor
        else:
            seconds = (int(found[4]) * 60 + int(found[5])) * 60 + int(found[6])
            clock = seconds * 1_000_000 + int((found[7] or "").ljust(6, "0"))
            micros += -clock if found[3] == "-" else clock
    if not text.strip():
        raise syntax_error("interval", text)
    try:
        return FIELDS.pack(micros, parts[1], parts[0])
    except struct.error:
        raise UsageError(f'interval field value out of range: "{text}"', sqlstate="22015") from None


def format_tids(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """(block,item); the block's halves are stored high one first (`storage/block.h`)."""

    def text_of(payload: bytes) -> str:
        high, low, item = struct.unpack("<HHH", payload)
        return f"({high << 16 | low},{item})"

    return format_each(values, text_of)


def parse_tids(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    def parse_one(text: str) -> bytes:
        found = re.fullmatch(r"\s*\((\d+),(\d+)\)\s*", text)
        if found is None or int(found[1]) >> 32 or int(found[2]) >> 16:
            raise syntax_error("tid", text)
        return struct.pack("<HHH", int(found[1]) >> 16, int(found[1]) & 0xFFFF, int(found[2]))

    return parse_each(texts, valid, pg_type, parse_one)
