"""Ranges and multiranges in binary form: the flags, then each finite bound behind its length; of a multirange how many, then each range behind
its length. Bounds are sent, and received, as one column of the subtype.
"""

from __future__ import annotations

import struct

from tailrace.model import PgType
from tailrace.types.codec import format_binary, parse_binary
from tailrace.types.ranges.stored import Bound, Range, convert_bounds, read_ranges, stored_ranges, subtype_of
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values


def send_ranges(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As range_send."""
    return Texts.of([b"".join(row) for row in _send(values, pg_type, style)])


def send_multiranges(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As multirange_send."""
    rows = zip(_send(values, pg_type, style), values.valid.tolist(), strict=True)
    return Texts.of(
        [struct.pack(">I", len(row)) + b"".join(map(_behind_length, row)) if present else b"" for row, present in rows]
    )


def _send(values: Values, pg_type: PgType, style: TextStyle) -> list[list[bytes]]:
    """The binary forms of the ranges of each row."""
    subtype = subtype_of(pg_type)

    def forms_of(bounds: list[bytes]) -> list[bytes]:
        return format_binary(Values.of_payloads(bounds, subtype.length), subtype, style).to_bytes()

    rows = convert_bounds(read_ranges(values, pg_type), forms_of)
    return [[bytes([one.flags]) + b"".join(map(_behind_length, one.bounds)) for one in row] for row in rows]


def _behind_length(form: Bound) -> bytes:
    assert isinstance(form, bytes), "a binary form is bytes"
    return struct.pack(">I", len(form)) + form


def receive_ranges(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As range_recv, of canonical ranges."""
    rows = zip(texts.to_bytes(), valid.tolist(), strict=True)
    return stored_ranges(
        parse_binary, [[_receive_range(form, 0)[0]] if present else [] for form, present in rows], valid, pg_type
    )


def receive_multiranges(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As multirange_recv, of canonical ranges in their order."""
    rows = zip(texts.to_bytes(), valid.tolist(), strict=True)
    return stored_ranges(parse_binary, [_receive_multirange(form) if present else [] for form, present in rows], valid, pg_type)


def _receive_multirange(form: bytes) -> list[Range]:
    ranges, at = [], 4
    for _ in range(struct.unpack_from(">I", form)[0]):
        one, at = _receive_range(form, at + 4)
        ranges.append(one)
    return ranges


def _receive_range(form: bytes, at: int) -> tuple[Range, int]:
    """The range that begins there, and where it ends."""
    bare = Range(form[at])
    lower = upper = None
    at += 1
    if bare.has_lower:
        lower, at = _receive_bound(form, at)
    if bare.has_upper:
        upper, at = _receive_bound(form, at)
    return Range(bare.flags, lower, upper), at


def _receive_bound(form: bytes, at: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from(">I", form, at)
    return form[at + 4 : at + 4 + size], at + 4 + size
