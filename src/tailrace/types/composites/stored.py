"""Composite values as they are stored: a heap tuple inside a value. Attributes that were dropped have left their bytes there.

After the length word (`access/htup_details.h`, HeapTupleHeader with datum fields): i32 typmod, u32 type oid, 6 bytes of row
address, u16 number of fields (11 bits), u16 flags (1: has a null bitmap), u8 where the data starts, bitmap, fields.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np

from tailrace.errors import UnsupportedWal
from tailrace.model import Column, PgType
from tailrace.types.inner_values import WORD, read_value, write_value
from tailrace.types.values import Mask, Texts, Values

HAS_NULLS, HAS_VARWIDTH = 1, 2
FIELD_COUNT = 0x07FF
BITMAP = 23
"""Where the null bitmap begins, counted from the length word."""


def live_fields(pg_type: PgType) -> list[Column]:
    return [field for field in pg_type.fields if not field.dropped]


def columns_of(values: Values, pg_type: PgType) -> list[tuple[Column, Values]]:
    """The live fields, each with its values in all rows."""
    fields = live_fields(pg_type)
    rows = [
        _read_fields(payload, pg_type) if present else [None] * len(fields)
        for payload, present in zip(values.payload_list(), values.valid.tolist(), strict=True)
    ]
    return [(field, Values.of_payloads([row[number] for row in rows], field.length)) for number, field in enumerate(fields)]


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


def composites_of(
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
