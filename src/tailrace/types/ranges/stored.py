"""Ranges and multiranges as they are stored.

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

from tailrace.model import PgType
from tailrace.types.codec import parse_texts
from tailrace.types.inner_values import WORD, read_value, write_value
from tailrace.types.values import Mask, Texts, Values

EMPTY, LOWER_INCLUSIVE, UPPER_INCLUSIVE, LOWER_INFINITE, UPPER_INFINITE = 1, 2, 4, 8, 16
BY_OFFSET = 0x80000000
STRIDE = 4
"""Every 4th further range has an offset instead of a length (MULTIRANGE_ITEM_OFFSET_STRIDE)."""


@dataclass(slots=True)
class Range:
    """Flags, and the bounds that are there (stored form, or text)."""

    flags: int
    lower: bytes | str | None = None
    upper: bytes | str | None = None


def subtype_of(pg_type: PgType) -> PgType:
    assert pg_type.element is not None, "a range has a subtype"
    return pg_type.element


def read_range(payload: bytes, flags: int, at: int, subtype: PgType) -> tuple[Range, int]:
    found = Range(flags)
    if not flags & (EMPTY | LOWER_INFINITE):
        found.lower, at = read_value(payload, at, subtype.length, subtype.align)
    if not flags & (EMPTY | UPPER_INFINITE):
        found.upper, at = read_value(payload, at, subtype.length, subtype.align)
    return found, at


def read_multirange(payload: bytes, subtype: PgType) -> list[Range]:
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
        found.append(read_range(payload, flag, base + begin, subtype)[0])
    return found


def _write_bounds(body: bytearray, one: Range, subtype: PgType) -> None:
    for bound in (one.lower, one.upper):
        if isinstance(bound, bytes):
            write_value(body, bound, subtype.length, subtype.align)


def write_range(one: Range, pg_type: PgType) -> bytes:
    body = bytearray(struct.pack("<I", pg_type.oid))
    _write_bounds(body, one, subtype_of(pg_type))
    return bytes(body) + bytes([one.flags])


def write_multirange(row: list[Range], pg_type: PgType) -> bytes:
    subtype, count = subtype_of(subtype_of(pg_type)), len(row)
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


def make_stored(rows: list[list[Range]], subtype: PgType, read: Callable[[Texts, Mask, PgType], Values] = parse_texts) -> None:
    """Put stored forms in place of texts (or of binary forms), all through the subtype's input function at once."""
    texts = [each for row in rows for one in row for each in (one.lower, one.upper) if each is not None]
    stored = iter(read(Texts.of(texts), np.ones(len(texts), np.bool_), subtype).payload_list())
    for row in rows:
        for one in row:
            one.lower = None if one.lower is None else next(stored)
            one.upper = None if one.upper is None else next(stored)
