"""Literals of ranges in the form in which PostgreSQL stores them (`adt/rangetypes.c`, range_in; `adt/multirangetypes.c`).

In: `(1,5]` and the range's subtype. Out: the same range as the type's own functions would write it: of integers and dates `[2,6)`, of what holds
nothing `empty`. The readers of `types/ranges` take such text on trust, as the server prints no other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

from tailrace.errors import UsageError
from tailrace.model import PG_EPOCH
from tailrace.types import oids

_WHOLE = (oids.INT4, oids.INT8)
_BOUND = r'("(?:[^"\\]|\\.|"")*"|[^",\[\]()]*)'
_RANGE = re.compile(rf"\s*([\[(]){_BOUND},{_BOUND}([\])])\s*", re.DOTALL)
_ENDLESS_DAYS = 1 << 28
"""Dates beyond are the infinities, or outside Python's calendar, and are left as they are."""

Read = Callable[[str], bytes]
"""The input function of the subtype."""


def canonical_range(text: str, subtype: int, read: Read) -> str:
    """Raises UsageError for what is no range, or stands the wrong way round."""
    if text.strip().lower() == "empty":
        return "empty"
    match = _RANGE.fullmatch(text)
    if match is None:
        detail = "" if text.lstrip().startswith(("[", "(")) else "Missing left parenthesis or bracket."
        raise UsageError(f'malformed range literal: "{text}"', detail=detail, sqlstate="22P02")
    opening, low, high, closing = match.groups()
    low_key, high_key = (_key(bound, subtype, read) if bound else None for bound in (low, high))
    if low_key is not None and high_key is not None and low_key > high_key:
        raise UsageError("range lower bound must be less than or equal to range upper bound", sqlstate="22000")
    if low_key is None:
        opening = "("
    if high_key is None:
        closing = ")"
    if subtype in (oids.INT4, oids.INT8, oids.DATE):
        if low_key is not None and opening == "(":
            low, low_key, opening = *_next(low, low_key, subtype), "["
        if high_key is not None and closing == "]":
            high, high_key, closing = *_next(high, high_key, subtype), ")"
    if low_key is not None and low_key == high_key and (opening, closing) != ("[", "]"):
        return "empty"
    return f"{opening}{low},{high}{closing}"


def _key(bound: str, subtype: int, read: Read) -> Any:
    """What bounds are compared by: the number, or the stored integer of a moment."""
    text = re.sub(r'\\(.)|""', lambda match: match[1] or '"', bound[1:-1]) if bound.startswith('"') else bound
    raw = read(text)
    return Decimal(text) if subtype == oids.NUMERIC else int.from_bytes(raw, "little", signed=True)


def _next(bound: str, key: int, subtype: int) -> tuple[str, int]:
    if subtype in _WHOLE:
        if key + 1 >= 1 << (31 if subtype == oids.INT4 else 63):
            raise UsageError("integer out of range" if subtype == oids.INT4 else "bigint out of range", sqlstate="22003")
        return str(key + 1), key + 1
    if abs(key) > _ENDLESS_DAYS:
        return bound, key
    try:
        return (PG_EPOCH + timedelta(days=key + 1)).date().isoformat(), key + 1
    except OverflowError:
        raise UsageError(f'cannot read "{bound}" as the bound of a range', sqlstate="0A000") from None


def canonical_multirange(text: str, subtype: int, read: Read) -> str:
    """Of ranges that follow each other with something between them; others, which PostgreSQL sorts and joins, are refused."""
    inner = text.strip()
    if not inner.startswith("{"):
        raise UsageError(f'malformed multirange literal: "{text}"', detail="Missing left brace.", sqlstate="22P02")
    if not inner.endswith("}"):
        raise UsageError(f'malformed multirange literal: "{text}"', detail="Unexpected end of input.", sqlstate="22P02")
    found: list[str] = []
    at, body = 0, inner[1:-1]
    while body[at:].strip():
        match = re.compile(r"\s*,").match(body, at) if found else None
        match = _RANGE.match(body, match.end() if match else at)
        if match is None:
            raise UsageError(
                f'cannot read the multirange "{text}"', sqlstate="0A000", hint="Write its ranges in order, none of them empty."
            )
        found.append(canonical_range(match[0], subtype, read))
        at = match.end()
    keys = [_RANGE.fullmatch(each) for each in found]
    for before, after in zip(keys, keys[1:], strict=False):
        gap = before and after and before[3] and after[2] and _key(before[3], subtype, read) < _key(after[2], subtype, read)
        if not gap:
            raise UsageError(
                f'cannot read the multirange "{text}"', sqlstate="0A000", hint="Write its ranges in order, none of them empty."
            )
    if "empty" in found:
        raise UsageError(
            f'cannot read the multirange "{text}"', sqlstate="0A000", hint="Write its ranges in order, none of them empty."
        )
    return "{" + ",".join(found) + "}"
