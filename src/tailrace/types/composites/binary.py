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
    """As record_send: how many fields; of each the type, the length (-1 for NULL) and the binary form."""
    columns = []
    for field, stored in columns_of(values, pg_type):
        assert field.type is not None
        forms = format_binary(stored, field.type, style).to_bytes()
        heads = [
            struct.pack(">Ii", field.type.oid, len(form) if there else -1)
            for form, there in zip(forms, stored.valid, strict=True)
        ]
        columns.append([head + form for head, form in zip(heads, forms, strict=True)])
    count = struct.pack(">i", len(columns))
    live = values.valid.tolist()
    return Texts.of([count + b"".join(column[place] for column in columns) if live[place] else b"" for place in range(len(live))])


def receive_composites(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As record_recv."""
    fields = live_fields(pg_type)
    rows: list[list[bytes | None]] = []
    for form, present in zip(texts.to_bytes(), valid.tolist(), strict=True):
        row: list[bytes | None] = []
        at = 4
        if present and struct.unpack_from(">i", form)[0] != len(fields):
            raise UsageError(
                f"wrong number of columns: {struct.unpack_from('>i', form)[0]}, expected {len(fields)}", sqlstate="42804"
            )
        for _ in fields:
            size = struct.unpack_from(">i", form, at + 4)[0] if present else -1
            row.append(None if size < 0 else form[at + 8 : at + 8 + size])
            at += 8 + max(size, 0)
        rows.append(row)
    return composites_of(rows, valid, pg_type, parse_binary)
