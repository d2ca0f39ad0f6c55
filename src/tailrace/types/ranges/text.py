"""Ranges and multiranges of any subtype as text: [1,5), empty, {[1,2),[4,6)}. Bounds are printed as one column of the subtype."""

from __future__ import annotations

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.codec import format_values
from tailrace.types.inner_values import WORD, quoted, read_quoted
from tailrace.types.ranges.stored import (
    EMPTY,
    LOWER_INCLUSIVE,
    LOWER_INFINITE,
    UPPER_INCLUSIVE,
    UPPER_INFINITE,
    Range,
    make_stored,
    read_multirange,
    read_range,
    subtype_of,
    write_multirange,
    write_range,
)
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

SPECIAL = "()[],"


def format_ranges(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As range_out: [1,5), empty."""
    subtype = subtype_of(pg_type)
    rows = [
        [read_range(payload, payload[-1], WORD + 4, subtype)[0]] if present else []
        for payload, present in zip(values.payload_list(), values.valid.tolist(), strict=True)
    ]
    return Texts.of(["".join(row) for row in _printed(rows, subtype, style)])


def format_multiranges(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As multirange_out: {[1,2),[4,6)}."""
    subtype, valid = subtype_of(subtype_of(pg_type)), values.valid.tolist()
    rows = [
        read_multirange(payload, subtype) if present else []
        for payload, present in zip(values.payload_list(), valid, strict=True)
    ]
    printed = _printed(rows, subtype, style)
    return Texts.of(["{" + ",".join(row) + "}" if present else "" for row, present in zip(printed, valid, strict=True)])


def _printed(rows: list[list[Range]], subtype: PgType, style: TextStyle) -> list[list[str]]:
    """All bounds of all rows through the subtype's output function at once."""
    bounds = [each for row in rows for one in row for each in (one.lower, one.upper) if isinstance(each, bytes)]
    texts = iter(format_values(Values.of_payloads(bounds, subtype.length), subtype, style).to_list())

    def text_of(one: Range) -> str:
        if one.flags & EMPTY:
            return "empty"
        lower = "" if one.lower is None else quoted(next(texts), SPECIAL)
        upper = "" if one.upper is None else quoted(next(texts), SPECIAL)
        return f"{'[' if one.flags & LOWER_INCLUSIVE else '('}{lower},{upper}{']' if one.flags & UPPER_INCLUSIVE else ')'}"

    return [[text_of(one) for one in row] for row in rows]


def parse_ranges(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As range_in, for ranges in the canonical form that the server prints."""
    rows = [[_parse_range(text, 0)[0]] if present else [] for text, present in zip(texts.to_list(), valid.tolist(), strict=True)]
    make_stored(rows, subtype_of(pg_type))
    return Values.of_payloads([write_range(row[0], pg_type) if row else None for row in rows], -1)


def parse_multiranges(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As multirange_in, for canonical texts."""
    rows = [_parse_multirange(text) if present else None for text, present in zip(texts.to_list(), valid.tolist(), strict=True)]
    make_stored([row for row in rows if row is not None], subtype_of(subtype_of(pg_type)))
    return Values.of_payloads([None if row is None else write_multirange(row, pg_type) for row in rows], -1)


def _parse_range(text: str, at: int) -> tuple[Range, int]:
    if text[at : at + 5].lower() == "empty":
        return Range(EMPTY), at + 5
    opened = text[at : at + 1]
    lower, at = read_quoted(text, at + 1, ",")
    upper, at = read_quoted(text, at + 1, ")]")
    closed = text[at : at + 1]
    if opened not in {"[", "("} or closed not in {"]", ")"}:
        raise UsageError(f'malformed range literal: "{text}"', sqlstate="22P02")
    flags = LOWER_INFINITE if lower is None else LOWER_INCLUSIVE if opened == "[" else 0
    flags |= UPPER_INFINITE if upper is None else UPPER_INCLUSIVE if closed == "]" else 0
    return Range(flags, lower, upper), at + 1


def _parse_multirange(text: str) -> list[Range]:
    found, at, bare = [], 1, text.strip()
    if bare[:1] != "{" or bare[-1:] != "}":
        raise UsageError(f'malformed multirange literal: "{text}"', sqlstate="22P02")
    while at < len(bare) - 1:
        one, at = _parse_range(bare, at)
        found.append(one)
        at += 1
    return found
