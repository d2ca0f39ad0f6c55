"""Ranges and multiranges as they are stored.

A range (`utils/rangetypes.h`) is u32 its type, the bounds that are finite, u8 flags at the very end. A multirange
(`utils/multirangetypes.h`) is u32 its type, u32 count, count - 1 words that say where each further range's bounds begin
(a length, or with the top bit an offset), the flags of all ranges, and the bounds, aligned as the subtype.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from tailrace.dataclass import dataclass
from tailrace.model import PgType
from tailrace.types.codec.inner_values import WORD, read_value, write_value
from tailrace.types.values import Mask, Texts, Values

EMPTY, LOWER_INCLUSIVE, UPPER_INCLUSIVE, LOWER_INFINITE, UPPER_INFINITE = 1, 2, 4, 8, 16
COUNT, ITEMS = 4, 8
"""Where these of a multirange begin in the payload; of a range the bounds begin where the count is."""
BY_OFFSET = 0x80000000
STRIDE = 4
"""Every 4th further range has an offset instead of a length (MULTIRANGE_ITEM_OFFSET_STRIDE)."""

Bound = bytes | str
ParseBounds = Callable[[Texts, Mask, PgType], Values]


@dataclass(frozen=True, slots=True)
class Range:
    """Flags, and the bounds that are there: in stored form, or as their type's text or binary form."""

    flags: int
    lower: Bound | None = None
    upper: Bound | None = None

    @property
    def has_lower(self) -> bool:
        return not self.flags & (EMPTY | LOWER_INFINITE)

    @property
    def has_upper(self) -> bool:
        return not self.flags & (EMPTY | UPPER_INFINITE)

    @property
    def bounds(self) -> list[Bound]:
        """Those that are there."""
        return [bound for bound in (self.lower, self.upper) if bound is not None]

    def with_bounds(self, bounds: Iterator[Bound]) -> Range:
        """The same range with the next of these in place of its own."""
        lower = None if self.lower is None else next(bounds)
        return Range(self.flags, lower, None if self.upper is None else next(bounds))


def subtype_of(pg_type: PgType) -> PgType:
    """What its bounds are; a multirange's element is a range type."""
    element = pg_type.element
    assert element is not None, "a range has a subtype"
    return subtype_of(element) if pg_type.kind == "m" else element


def convert_bounds(rows: list[list[Range]], convert: Callable[[list[Any]], Iterable[Bound]]) -> list[list[Range]]:
    """The ranges in another form: all bounds of all rows are converted at once."""
    converted = iter(convert([bound for row in rows for one in row for bound in one.bounds]))
    return [[one.with_bounds(converted) for one in row] for row in rows]


def stored_ranges(parse: ParseBounds, rows: list[list[Range]], valid: Mask, pg_type: PgType) -> Values:
    """Ranges whose bounds are text, or in binary form, as they are stored; `parse` reads such bounds as values of the subtype."""
    subtype = subtype_of(pg_type)

    def stored(bounds: list[Bound]) -> list[bytes]:
        return parse(Texts.of(bounds), np.ones(len(bounds), np.bool_), subtype).payload_list()

    return write_ranges(convert_bounds(rows, stored), valid.tolist(), pg_type)


def read_ranges(values: Values, pg_type: PgType) -> list[list[Range]]:
    """The ranges of each row, bounds in stored form: one of a range, several of a multirange, none of NULL."""
    subtype, read = subtype_of(pg_type), _read_multirange if pg_type.kind == "m" else _read_range
    rows = zip(values.payload_list(), values.valid.tolist(), strict=True)
    return [read(payload, subtype) if present else [] for payload, present in rows]


def _read_range(payload: bytes, subtype: PgType) -> list[Range]:
    return [_read_bounds(payload, WORD + COUNT, payload[-1], subtype)]


def _read_multirange(payload: bytes, subtype: PgType) -> list[Range]:
    (count,) = struct.unpack_from("<I", payload, COUNT)
    if count == 0:
        return []
    words = struct.unpack_from(f"<{count - 1}I", payload, ITEMS)
    flags = payload[ITEMS + 4 * (count - 1) :][:count]
    base = WORD + ITEMS + 4 * (count - 1) + count
    base += -base % subtype.align
    begins = [0]
    for word in words:
        begins.append(word & ~BY_OFFSET if word & BY_OFFSET else begins[-1] + word)
    return [_read_bounds(payload, base + begin, flag, subtype) for begin, flag in zip(begins, flags, strict=True)]


def _read_bounds(payload: bytes, at: int, flags: int, subtype: PgType) -> Range:
    bare = Range(flags)
    lower = upper = None
    if bare.has_lower:
        lower, at = read_value(payload, at, subtype.length, subtype.align)
    if bare.has_upper:
        upper, at = read_value(payload, at, subtype.length, subtype.align)
    return Range(flags, lower, upper)


def write_ranges(rows: list[list[Range]], present: list[bool], pg_type: PgType) -> Values:
    """The reverse of `read_ranges`; rows that are not `present` are NULL."""
    write = _write_multirange if pg_type.kind == "m" else _write_range
    payloads = [write(row, pg_type) if there else None for row, there in zip(rows, present, strict=True)]
    return Values.of_payloads(payloads, -1)


def _write_range(row: list[Range], pg_type: PgType) -> bytes:
    body = bytearray(struct.pack("<I", pg_type.oid))
    _write_bounds(body, row[0], subtype_of(pg_type))
    return bytes(body) + bytes([row[0].flags])


def _write_multirange(row: list[Range], pg_type: PgType) -> bytes:
    subtype, count = subtype_of(pg_type), len(row)
    head = struct.pack("<II", pg_type.oid, count)
    if count == 0:
        return head + bytes(-(len(head) + WORD) % subtype.align)
    base = len(head) + 4 * (count - 1) + count
    base += -(base + WORD) % subtype.align
    body, begins = bytearray(base), []
    for one in row:
        begins.append(len(body) - base)
        _write_bounds(body, one, subtype)
        body += bytes(-(len(body) + WORD) % subtype.align)
    words = [
        begin | BY_OFFSET if number % STRIDE == 0 else begin - before
        for number, (before, begin) in enumerate(pairwise(begins), 1)
    ]  # fmt: skip
    head += struct.pack(f"<{count - 1}I", *words) + bytes(one.flags for one in row)
    return head + bytes(body[len(head) :])


def _write_bounds(body: bytearray, one: Range, subtype: PgType) -> None:
    for bound in one.bounds:
        assert isinstance(bound, bytes), "a bound is written in stored form"
        write_value(body, bound, subtype.length, subtype.align)
