"""Ranges and multiranges of any subtype. Bounds are printed as one column of the subtype.

A range (`utils/rangetypes.h`) is u32 its type, the bounds that are finite, u8 flags at the very end. A multirange
(`utils/multirangetypes.h`) is u32 its type, u32 count, count - 1 words that say where each further range's bounds begin
(a length, or with the top bit an offset), the flags of all ranges, and the bounds, aligned as the subtype.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.codec import format_binary, format_values, parse_binary, parse_texts
from tailrace.types.inner_values import WORD, quoted, read_quoted, read_value, write_value
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

EMPTY, LOWER_INCLUSIVE, UPPER_INCLUSIVE, LOWER_INFINITE, UPPER_INFINITE = 1, 2, 4, 8, 16
BY_OFFSET = 0x80000000
STRIDE = 4
"""Every 4th further range has an offset instead of a length (MULTIRANGE_ITEM_OFFSET_STRIDE)."""
SPECIAL = "()[],"


@dataclass(slots=True)
class Range:
    """Flags, and the bounds that are there (stored form, or text)."""

    flags: int
    lower: bytes | str | None = None
    upper: bytes | str | None = None


def _subtype(pg_type: PgType) -> PgType:
    assert pg_type.element is not None, "a range has a subtype"
    return pg_type.element


def format_ranges(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As range_out: [1,5), empty."""
    subtype = _subtype(pg_type)
    rows = [
        [_read_range(payload, payload[-1], WORD + 4, subtype)[0]] if present else []
        for payload, present in zip(values.payload_list(), values.valid.tolist(), strict=True)
    ]
    return Texts.of(["".join(row) for row in _printed(rows, subtype, style)])


def format_multiranges(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As multirange_out: {[1,2),[4,6)}."""
    subtype, valid = _subtype(_subtype(pg_type)), values.valid.tolist()
    rows = [
        _read_multirange(payload, subtype) if present else []
        for payload, present in zip(values.payload_list(), valid, strict=True)
    ]
    printed = _printed(rows, subtype, style)
    return Texts.of(["{" + ",".join(row) + "}" if present else "" for row, present in zip(printed, valid, strict=True)])


def send_ranges(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As range_send: the flags, then each finite bound with its length."""
    subtype = _subtype(pg_type)
    rows = [
        [_read_range(payload, payload[-1], WORD + 4, subtype)[0]] if present else []
        for payload, present in zip(values.payload_list(), values.valid.tolist(), strict=True)
    ]
    return Texts.of([b"".join(row) for row in _sent(rows, subtype, style)])


def send_multiranges(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As multirange_send: how many, then each range with its length."""
    subtype, valid = _subtype(_subtype(pg_type)), values.valid.tolist()
    rows = [
        _read_multirange(payload, subtype) if present else []
        for payload, present in zip(values.payload_list(), valid, strict=True)
    ]
    sent = _sent(rows, subtype, style)
    bodies = [struct.pack(">I", len(row)) + b"".join(struct.pack(">I", len(one)) + one for one in row) for row in sent]
    return Texts.of([body if present else b"" for body, present in zip(bodies, valid, strict=True)])


def _sent(rows: list[list[Range]], subtype: PgType, style: TextStyle) -> list[list[bytes]]:
    bounds = [each for row in rows for one in row for each in (one.lower, one.upper) if isinstance(each, bytes)]
    forms = iter(format_binary(Values.of_payloads(bounds, subtype.length), subtype, style).to_bytes())

    def form_of(one: Range) -> bytes:
        finite = [next(forms) for bound in (one.lower, one.upper) if bound is not None]
        return bytes([one.flags]) + b"".join(struct.pack(">I", len(form)) + form for form in finite)

    return [[form_of(one) for one in row] for row in rows]


def _read_range(payload: bytes, flags: int, at: int, subtype: PgType) -> tuple[Range, int]:
    found = Range(flags)
    if not flags & (EMPTY | LOWER_INFINITE):
        found.lower, at = read_value(payload, at, subtype.length, subtype.align)
    if not flags & (EMPTY | UPPER_INFINITE):
        found.upper, at = read_value(payload, at, subtype.length, subtype.align)
    return found, at


def _read_multirange(payload: bytes, subtype: PgType) -> list[Range]:
    count = struct.unpack_from("<I", payload, 4)[0]
    if count == 0:
        return []
    words = struct.unpack_from(f"<{count - 1}I", payload, 8)
    flags = payload[8 + 4 * (count - 1) : 8 + 4 * (count - 1) + count]
    base = WORD + 8 + 4 * (count - 1) + count
    base += -base % subtype.align
    begin, found = 0, []
    for place, flag in enumerate(flags):
        if place:
            word = words[place - 1]
            begin = word & ~BY_OFFSET if word & BY_OFFSET else begin + word
        found.append(_read_range(payload, flag, base + begin, subtype)[0])
    return found


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


def receive_ranges(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As range_recv, of canonical ranges."""
    live = valid.tolist()
    rows = [[_receive_range(form, 0)[0]] if there else [] for form, there in zip(texts.to_bytes(), live, strict=True)]
    _to_stored(rows, _subtype(pg_type), parse_binary)
    return Values.of_payloads([_write_range(row[0], pg_type) if row else None for row in rows], -1)


def receive_multiranges(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As multirange_recv, of canonical ranges in their order."""
    rows: list[list[Range]] = []
    for form, there in zip(texts.to_bytes(), valid.tolist(), strict=True):
        row, at = [], 4
        for _ in range(struct.unpack_from(">I", form)[0] if there else 0):
            one, at = _receive_range(form, at + 4)
            row.append(one)
        rows.append(row)
    _to_stored(rows, _subtype(_subtype(pg_type)), parse_binary)
    stored = [_write_multirange(row, pg_type) if there else None for row, there in zip(rows, valid.tolist(), strict=True)]
    return Values.of_payloads(stored, -1)


def _receive_range(form: bytes, at: int) -> tuple[Range, int]:
    found = Range(form[at])
    at += 1
    for name, absent in (("lower", EMPTY | LOWER_INFINITE), ("upper", EMPTY | UPPER_INFINITE)):
        if not found.flags & absent:
            (size,) = struct.unpack_from(">I", form, at)
            setattr(found, name, form[at + 4 : at + 4 + size])
            at += 4 + size
    return found, at


def parse_ranges(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As range_in, for ranges in the canonical form that the server prints."""
    rows = [[_parse_range(text, 0)[0]] if present else [] for text, present in zip(texts.to_list(), valid.tolist(), strict=True)]
    _to_stored(rows, _subtype(pg_type))
    return Values.of_payloads([_write_range(row[0], pg_type) if row else None for row in rows], -1)


def parse_multiranges(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As multirange_in, for canonical texts."""
    rows = [_parse_multirange(text) if present else None for text, present in zip(texts.to_list(), valid.tolist(), strict=True)]
    _to_stored([row for row in rows if row is not None], _subtype(_subtype(pg_type)))
    return Values.of_payloads([None if row is None else _write_multirange(row, pg_type) for row in rows], -1)


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


def _to_stored(rows: list[list[Range]], subtype: PgType, read: Callable[[Texts, Mask, PgType], Values] = parse_texts) -> None:
    """Put stored forms in place of texts (or of binary forms), all through the subtype's input function at once."""
    texts = [each for row in rows for one in row for each in (one.lower, one.upper) if each is not None]
    stored = iter(read(Texts.of(texts), np.ones(len(texts), np.bool_), subtype).payload_list())
    for row in rows:
        for one in row:
            one.lower = None if one.lower is None else next(stored)
            one.upper = None if one.upper is None else next(stored)


def _write_bounds(body: bytearray, one: Range, subtype: PgType) -> None:
    for bound in (one.lower, one.upper):
        if isinstance(bound, bytes):
            write_value(body, bound, subtype.length, subtype.align)


def _write_range(one: Range, pg_type: PgType) -> bytes:
    body = bytearray(struct.pack("<I", pg_type.oid))
    _write_bounds(body, one, _subtype(pg_type))
    return bytes(body) + bytes([one.flags])


def _write_multirange(row: list[Range], pg_type: PgType) -> bytes:
    subtype, count = _subtype(_subtype(pg_type)), len(row)
    head = struct.pack("<II", pg_type.oid, count)
    if count == 0:
        return head + bytes(-(len(head) + WORD) % subtype.align)
    base = len(head) + 4 * (count - 1) + count
    base += -(base + WORD) % subtype.align
    bounds, begins = bytearray(base), []
    for one in row:
        begins.append(len(bounds) - base)
        _write_bounds(bounds, one, subtype)
        bounds += bytes(-(len(bounds) + WORD) % subtype.align)
    words = [
        begin | BY_OFFSET if place % STRIDE == 0 else begin - before
        for place, (before, begin) in enumerate(pairwise(begins), 1)
    ]  # fmt: skip
    head += struct.pack(f"<{count - 1}I", *words) + bytes(one.flags for one in row)
    return head + bytes(bounds[len(head) :])
