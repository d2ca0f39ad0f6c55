"""Composite values: a heap tuple inside a value, printed as (a,"b c",). Attributes that were dropped have left their bytes there.

After the length word (`access/htup_details.h`, HeapTupleHeader with datum fields): i32 typmod, u32 type oid, 6 bytes of row
address, u16 number of fields (11 bits), u16 flags (1: has a null bitmap), u8 where the data starts, bitmap, fields.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np

from tailrace.errors import UnsupportedWal, UsageError
from tailrace.model import Column, PgType
from tailrace.types.codec import format_binary, format_values, parse_binary, parse_texts
from tailrace.types.inner_values import WORD, quoted, read_quoted, read_value, texts_of, write_value
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

HAS_NULLS, HAS_VARWIDTH = 1, 2
FIELD_COUNT = 0x07FF
BITMAP = 23
"""Where the null bitmap begins, counted from the length word."""


def format_composites(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As record_out. Every field is printed as a column of its own."""
    columns = []
    for field, stored in _columns(values, pg_type):
        assert field.type is not None
        columns.append(texts_of(format_values(stored, field.type, style), stored.valid.tolist()))
    texts = []
    for place, present in enumerate(values.valid.tolist()):
        words = ("" if column[place] is None else quoted(column[place] or "", "(),") for column in columns)
        texts.append("(" + ",".join(words) + ")" if present else "")
    return Texts.of(texts)


def send_composites(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As record_send: how many fields; of each the type, the length (-1 for NULL) and the binary form."""
    columns = []
    for field, stored in _columns(values, pg_type):
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


def _columns(values: Values, pg_type: PgType) -> list[tuple[Column, Values]]:
    """The live fields, each with its values in all rows."""
    fields = live_fields(pg_type)
    rows = [
        _read_fields(payload, pg_type) if present else [None] * len(fields)
        for payload, present in zip(values.payload_list(), values.valid.tolist(), strict=True)
    ]
    return [(field, Values.of_payloads([row[number] for row in rows], field.length)) for number, field in enumerate(fields)]


def live_fields(pg_type: PgType) -> list[Column]:
    return [field for field in pg_type.fields if not field.dropped]


def _read_fields(payload: bytes, pg_type: PgType) -> list[bytes | None]:
    """The live fields of one value; those added after it was stored are NULL."""
    count, flags, at = struct.unpack_from("<HHB", payload, 14)
    count &= FIELD_COUNT
    found: list[bytes | None] = []
    fields = {field.number: field for field in pg_type.fields}
    for number in range(1, max(fields, default=0) + 1):
        field = fields.get(number)
        place = number - 1
        null = place >= count or (flags & HAS_NULLS and not payload[BITMAP - WORD + place // 8] >> place % 8 & 1)
        if null:
            value = None
        elif field is None:
            raise UnsupportedWal(f'a value of "{pg_type.label}" holds a dropped attribute (number {number})')
        else:
            value, at = read_value(payload, at, field.length, field.align)
        if field is not None and not field.dropped:
            found.append(value)
    return found


def parse_composites(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As record_in."""
    count = len(live_fields(pg_type))
    rows = [
        _split(text, count) if present else [None] * count for text, present in zip(texts.to_list(), valid.tolist(), strict=True)
    ]
    return _made(rows, valid, pg_type, parse_texts)


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
    return _made(rows, valid, pg_type, parse_binary)


def _made(
    rows: Sequence[Sequence[str | bytes | None]], valid: Mask, pg_type: PgType, read: Callable[[Texts, Mask, PgType], Values]
) -> Values:
    """Stored values of texts (or binary forms) of fields. Every field is read as a column of its own."""
    columns: list[list[bytes | None]] = []
    for number, field in enumerate(live_fields(pg_type)):
        assert field.type is not None
        words = [row[number] for row in rows]
        present = np.array([word is not None for word in words], np.bool_)
        stored = read(Texts.of([word or b"" for word in words]), present, field.type).payload_list()
        columns.append([each if there else None for each, there in zip(stored, present.tolist(), strict=True)])
    live = valid.tolist()
    made = [_write_fields([column[place] for column in columns], pg_type) if live[place] else None for place in range(len(live))]
    return Values.of_payloads(made, -1)


def _split(text: str, count: int) -> list[str | None]:
    at, found = 0, []
    bare = text.strip()
    while at < len(bare) and bare[at] in "(,":
        word, at = read_quoted(bare, at + 1, ",)")
        found.append(word)
    if at != len(bare) - 1 or bare[at] != ")" or len(found) != count:
        raise UsageError(f'malformed record literal: "{text}"', sqlstate="22P02")
    return found


def _write_fields(values: list[bytes | None], pg_type: PgType) -> bytes:
    """A tuple that was never in a table: no row address; dropped fields are NULL."""
    fields = pg_type.fields
    left = iter(values)
    values = [None if field.dropped else next(left) for field in fields]
    holes = None in values
    start = BITMAP + (-(-len(values) // 8) if holes else 0)
    start += -start % 8
    wide = any(value is not None and field.length < 0 for value, field in zip(values, fields, strict=True))
    flags = (HAS_NULLS if holes else 0) | (HAS_VARWIDTH if wide else 0)
    body = bytearray(struct.pack("<iI6sHHB", -1, pg_type.oid, b"\xff\xff\xff\xff\0\0", len(values), flags, start))
    if holes:
        body += np.packbits([value is not None for value in values], bitorder="little").tobytes()
    body += bytes(start - WORD - len(body))
    for value, field in zip(values, fields, strict=True):
        if value is not None:
            _write_field(body, value, field)
    return bytes(body)


def _write_field(body: bytearray, value: bytes, field: Column) -> None:
    write_value(body, value, field.length, field.align)
