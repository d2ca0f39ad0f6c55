"""Composite values in binary form: how many fields; of each the type, the length (-1 for NULL) and its own binary form."""

from __future__ import annotations

import struct

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.codec import format_binary, parse_binary
from tailrace.types.composites.stored import columns_of, composites_of, live_fields
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values


def send_composites(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As record_send, which asks for a field's function at its first value. Every field is sent as a column of its own."""
    columns = []
    for kind, stored in columns_of(values, pg_type):
        sent = format_binary(stored, kind, style).to_bytes() if stored.valid.any() else [b""] * len(stored)
        forms = zip(sent, stored.valid.tolist(), strict=True)
        columns.append([struct.pack(">Ii", kind.oid, len(form) if present else -1) + form for form, present in forms])
    count = struct.pack(">i", len(columns))
    return Texts.of(
        [
            count + b"".join(column[row] for column in columns) if present else b""
            for row, present in enumerate(values.valid.tolist())
        ]
    )


def receive_composites(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As record_recv."""
    fields = live_fields(pg_type)
    forms = zip(texts.to_bytes(), valid.tolist(), strict=True)
    rows = [_split(form, len(fields)) if present else [None] * len(fields) for form, present in forms]
    return composites_of(rows, valid, pg_type, parse_binary)


def _split(form: bytes, expected: int) -> list[bytes | None]:
    """The binary forms of so many fields, None for NULL."""
    (count,) = struct.unpack_from(">i", form)
    if count != expected:
        raise UsageError(f"wrong number of columns: {count}, expected {expected}", sqlstate="42804")
    fields: list[bytes | None] = []
    at = 4
    for _ in range(count):
        _, size = struct.unpack_from(">Ii", form, at)
        at += 8
        fields.append(None if size < 0 else form[at : at + size])
        at += max(size, 0)
    return fields
