"""Ranges and multiranges in binary form: the flags, then each finite bound behind its length. Bounds are sent as one column of the subtype."""

from __future__ import annotations

import struct

from tailrace.model import PgType
from tailrace.types.codec import format_binary, parse_binary
from tailrace.types.inner_values import WORD
from tailrace.types.ranges.stored import (
    EMPTY,
    LOWER_INFINITE,
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


def send_ranges(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As range_send: the flags, then each finite bound with its length."""
    subtype = subtype_of(pg_type)
    rows = [
        [read_range(payload, payload[-1], WORD + 4, subtype)[0]] if present else []
        for payload, present in zip(values.payload_list(), values.valid.tolist(), strict=True)
    ]
    return Texts.of([b"".join(row) for row in _sent(rows, subtype, style)])


def send_multiranges(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As multirange_send: how many, then each range with its length."""
    subtype, valid = subtype_of(subtype_of(pg_type)), values.valid.tolist()
    rows = [
        read_multirange(payload, subtype) if present else []
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


def receive_ranges(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As range_recv, of canonical ranges."""
    live = valid.tolist()
    rows = [[_receive_range(form, 0)[0]] if there else [] for form, there in zip(texts.to_bytes(), live, strict=True)]
    make_stored(rows, subtype_of(pg_type), parse_binary)
    return Values.of_payloads([write_range(row[0], pg_type) if row else None for row in rows], -1)


def receive_multiranges(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As multirange_recv, of canonical ranges in their order."""
    rows: list[list[Range]] = []
    for form, there in zip(texts.to_bytes(), valid.tolist(), strict=True):
        row, at = [], 4
        for _ in range(struct.unpack_from(">I", form)[0] if there else 0):
            one, at = _receive_range(form, at + 4)
            row.append(one)
        rows.append(row)
    make_stored(rows, subtype_of(subtype_of(pg_type)), parse_binary)
    stored = [write_multirange(row, pg_type) if there else None for row, there in zip(rows, valid.tolist(), strict=True)]
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
