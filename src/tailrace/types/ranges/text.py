"""Ranges and multiranges of any subtype as text: [1,5), empty, {[1,2),[4,6)}. Bounds are printed, and parsed, as one column of the subtype."""

from __future__ import annotations

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.codec import format_values, parse_texts
from tailrace.types.codec.inner_values import quoted, read_quoted
from tailrace.types.ranges.stored import (
    EMPTY,
    LOWER_INCLUSIVE,
    LOWER_INFINITE,
    UPPER_INCLUSIVE,
    UPPER_INFINITE,
    Bound,
    Range,
    convert_bounds,
    read_ranges,
    stored_ranges,
    subtype_of,
)
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

SPECIAL = "()[],"


def format_ranges(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As range_out: [1,5), empty."""
    return Texts.of(["".join(row) for row in _print(values, pg_type, style)])


def format_multiranges(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As multirange_out: {[1,2),[4,6)}."""
    rows = zip(_print(values, pg_type, style), values.valid.tolist(), strict=True)
    return Texts.of(["{" + ",".join(row) + "}" if present else "" for row, present in rows])


def _print(values: Values, pg_type: PgType, style: TextStyle) -> list[list[str]]:
    """The texts of the ranges of each row."""
    subtype = subtype_of(pg_type)

    def texts_of(bounds: list[bytes]) -> list[str]:
        return format_values(Values.of_payloads(bounds, subtype.length), subtype, style).to_list()

    return [[_print_range(one) for one in row] for row in convert_bounds(read_ranges(values, pg_type), texts_of)]


def _print_range(one: Range) -> str:
    if one.flags & EMPTY:
        return "empty"
    lower, upper = _print_bound(one.lower), _print_bound(one.upper)
    return f"{'[' if one.flags & LOWER_INCLUSIVE else '('}{lower},{upper}{']' if one.flags & UPPER_INCLUSIVE else ')'}"


def _print_bound(text: Bound | None) -> str:
    return quoted(text, SPECIAL) if isinstance(text, str) else ""


def parse_ranges(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As range_in, for ranges in the canonical form that the server prints."""
    rows = zip(texts.to_list(), valid.tolist(), strict=True)
    return stored_ranges(parse_texts, [[_parse_range(text, 0)[0]] if present else [] for text, present in rows], valid, pg_type)


def parse_multiranges(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As multirange_in, for canonical texts."""
    rows = zip(texts.to_list(), valid.tolist(), strict=True)
    return stored_ranges(parse_texts, [_parse_multirange(text) if present else [] for text, present in rows], valid, pg_type)


def _parse_range(text: str, at: int) -> tuple[Range, int]:
    """The range that begins there, and where it ends."""
    if text[at : at + 5].lower() == "empty":
        return Range(EMPTY), at + 5
    opening = text[at : at + 1]
    lower, at = read_quoted(text, at + 1, ",")
    upper, at = read_quoted(text, at + 1, ")]")
    closing = text[at : at + 1]
    if opening not in {"[", "("} or closing not in {"]", ")"}:
        raise UsageError(f'malformed range literal: "{text}"', sqlstate="22P02")
    flags = LOWER_INFINITE if lower is None else LOWER_INCLUSIVE if opening == "[" else 0
    flags |= UPPER_INFINITE if upper is None else UPPER_INCLUSIVE if closing == "]" else 0
    return Range(flags, lower, upper), at + 1


def _parse_multirange(text: str) -> list[Range]:
    ranges, at, bare = [], 1, text.strip()
    if bare[:1] != "{" or bare[-1:] != "}":
        raise UsageError(f'malformed multirange literal: "{text}"', sqlstate="22P02")
    while at < len(bare) - 1:
        one, at = _parse_range(bare, at)
        ranges.append(one)
        at += 1
    return ranges
