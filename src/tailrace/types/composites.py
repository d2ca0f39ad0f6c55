"""Composite types (`adt/rowtypes.c`): rows inside a value. In Arrow they are strings of their text, (a,"b c",).

A composite value is stored as a heap tuple inside a value; attributes that were dropped have left their bytes there. After the length word
(`access/htup_details.h`, HeapTupleHeader with datum fields): i32 typmod, u32 type oid, 6 bytes of row address, u16 number of fields (11 bits),
u16 flags (1: has a null bitmap), u8 where the data starts, bitmap, fields. Its binary form is how many fields there are; of each the type, the length
(-1 for NULL) and its own binary form.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np

from tailrace.errors import UnsupportedWal, UsageError
from tailrace.model import Column, PgType
from tailrace.types.codec import Codec, format_binary, format_values, parse_binary, parse_texts
from tailrace.types.codec.inner_values import WORD, quoted, read_quoted, read_value, write_value
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

HEADER = struct.Struct("<iI6sHHB")
HAS_NULLS, HAS_VARWIDTH = 1, 2
FIELD_COUNT = 0x07FF
NO_ADDRESS = b"\xff\xff\xff\xff\0\0"
"""A row that was never in a table."""
SPECIAL = "(),"


def live_fields(pg_type: PgType) -> list[Column]:
    return [field for field in pg_type.fields if not field.dropped]


def columns_of(values: Values, pg_type: PgType) -> list[tuple[PgType, Values]]:
    """The live fields: of each the type, and the values in all rows."""
    fields = live_fields(pg_type)
    rows = [
        _read_fields(payload, pg_type) if present else [None] * len(fields)
        for payload, present in zip(values.payload_list(), values.valid.tolist(), strict=True)
    ]
    return [
        (field.live_type, Values.of_payloads([row[number] for row in rows], field.length)) for number, field in enumerate(fields)
    ]


def _read_fields(payload: bytes, pg_type: PgType) -> list[bytes | None]:
    """The live fields of one value; those added after it was stored are NULL."""
    _, _, _, count, flags, at = HEADER.unpack_from(payload)
    count &= FIELD_COUNT
    fields = {field.number: field for field in pg_type.fields}
    live: list[bytes | None] = []
    for number in range(1, max(fields, default=0) + 1):
        field = fields.get(number)
        bit = number - 1
        if bit >= count or (flags & HAS_NULLS and not payload[HEADER.size + bit // 8] >> bit % 8 & 1):
            value = None
        elif field is None:
            raise UnsupportedWal(f'a value of "{pg_type.label}" holds a dropped attribute (number {number})')
        else:
            value, at = read_value(payload, at, field.length, field.align)
        if field is not None and not field.dropped:
            live.append(value)
    return live


def composites_of(
    rows: Sequence[Sequence[str | bytes | None]], valid: Mask, pg_type: PgType, read: Callable[[Texts, Mask, PgType], Values]
) -> Values:
    """Stored values of the texts (or binary forms) of their live fields, which `read` takes. Every field is read as a column of its own."""
    columns: list[list[bytes | None]] = []
    for number, field in enumerate(live_fields(pg_type)):
        words = [row[number] for row in rows]
        present = np.array([word is not None for word in words], np.bool_)
        stored = read(Texts.of([word or b"" for word in words]), present, field.live_type).payload_list()
        columns.append([payload if there else None for payload, there in zip(stored, present.tolist(), strict=True)])
    payloads = [
        _write_fields([column[row] for column in columns], pg_type) if present else None
        for row, present in enumerate(valid.tolist())
    ]
    return Values.of_payloads(payloads, -1)


def _write_fields(live: list[bytes | None], pg_type: PgType) -> bytes:
    """A tuple of the live fields; dropped ones are NULL."""
    fields = pg_type.fields
    left = iter(live)
    values = [None if field.dropped else next(left) for field in fields]
    has_nulls = None in values
    start = WORD + HEADER.size + (-(-len(values) // 8) if has_nulls else 0)
    start += -start % 8
    has_varwidth = any(value is not None and field.length < 0 for value, field in zip(values, fields, strict=True))
    flags = (HAS_NULLS if has_nulls else 0) | (HAS_VARWIDTH if has_varwidth else 0)
    body = bytearray(HEADER.pack(-1, pg_type.oid, NO_ADDRESS, len(values), flags, start))
    if has_nulls:
        body += np.packbits([value is not None for value in values], bitorder="little").tobytes()
    body += bytes(start - WORD - len(body))
    for value, field in zip(values, fields, strict=True):
        if value is not None:
            write_value(body, value, field.length, field.align)
    return bytes(body)


def format_composites(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As record_out. Every field is printed as a column of its own."""
    columns = []
    for kind, stored in columns_of(values, pg_type):
        words = zip(format_values(stored, kind, style).to_list(), stored.valid.tolist(), strict=True)
        columns.append([quoted(word, SPECIAL) if present else "" for word, present in words])
    return Texts.of(
        [
            f"({','.join(column[row] for column in columns)})" if present else ""
            for row, present in enumerate(values.valid.tolist())
        ]
    )


def parse_composites(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As record_in."""
    count = len(live_fields(pg_type))
    rows = [
        _split_text(text, count) if present else [None] * count
        for text, present in zip(texts.to_list(), valid.tolist(), strict=True)
    ]
    return composites_of(rows, valid, pg_type, parse_texts)


def _split_text(text: str, count: int) -> list[str | None]:
    """The texts of so many fields, None for NULL."""
    at, words = 0, []
    bare = text.strip()
    while at < len(bare) and bare[at] in "(,":
        word, at = read_quoted(bare, at + 1, ",)")
        words.append(word)
    if at != len(bare) - 1 or bare[at] != ")" or len(words) != count:
        raise UsageError(f'malformed record literal: "{text}"', sqlstate="22P02")
    return words


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
    rows = [_split_binary(form, len(fields)) if present else [None] * len(fields) for form, present in forms]
    return composites_of(rows, valid, pg_type, parse_binary)


def _split_binary(form: bytes, expected: int) -> list[bytes | None]:
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


COMPOSITE = Codec(format=format_composites, parse=parse_composites, send=send_composites, receive=receive_composites)
