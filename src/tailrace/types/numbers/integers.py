"""Whole numbers: int2, int4, int8, oid, xid, cid, xid8. Their binary form has the same bytes in the other order."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.kernels import kernel
from tailrace.model import PgType
from tailrace.types import oids
from tailrace.types.codec import ArrowStyle, primitive_array, range_error, syntax_error
from tailrace.types.codec.ascii import MINUS, NINE, ZERO
from tailrace.types.codec.plain_forms import parse_numbers
from tailrace.types.numbers.digits import put_signed, put_unsigned
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, as_writable

DTYPES = {
    oids.INT8: "<i8", oids.INT2: "<i2", oids.INT4: "<i4", oids.OID: "<u4", oids.XID: "<u4", oids.CID: "<u4", oids.XID8: "<u8",
}  # fmt: skip
"""The stored form of each type oid (`catalog/pg_type.dat`)."""
NAMES = {
    oids.INT8: "bigint", oids.INT2: "smallint", oids.INT4: "integer", oids.OID: "oid", oids.XID: "xid", oids.CID: "cid",
    oids.XID8: "xid8",
}  # fmt: skip
LONGEST = 20
"""Of any 64-bit number: -9223372036854775808."""
PLAIN_DIGITS = 18
"""So many always fit 64 bits."""


@kernel
def _format_integers(numbers: Any, valid: Any, unsigned: Any) -> Any:
    """Decimal digits, with a sign where there is one. Untouched room costs no memory."""
    rows = len(numbers)
    offsets = np.empty(rows + 1, np.int64)
    offsets[0] = 0
    out = np.empty(LONGEST * rows, np.uint8)
    at = 0
    for row in range(rows):
        if valid[row]:
            at = put_unsigned(out, at, np.uint64(numbers[row])) if unsigned else put_signed(out, at, numbers[row])
        offsets[row + 1] = at
    return offsets, out[:at]


def format_integers(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """Decimal digits, as int4out and its kin."""
    dtype = DTYPES[pg_type.oid]
    numbers = values.as_dtype(dtype)
    wide = numbers.view(np.int64) if dtype == "<u8" else numbers.astype(np.int64, copy=False)
    return Texts(*_format_integers(as_writable(wide), as_writable(values.valid), dtype == "<u8"))


@kernel
def _parse_plain(offsets: Any, data: Any, valid: Any, low: Any, high: Any, numbers: Any) -> Any:
    """Decimal digits with perhaps a minus, of a number between `low` and `high`. Returns which rows are something else."""
    left = np.zeros(len(valid), np.bool_)
    for row in range(len(valid)):
        if not valid[row]:
            continue
        at, stop = offsets[row], offsets[row + 1]
        negative = at < stop and data[at] == MINUS
        if negative:
            at += 1
        number = np.int64(0)
        plain = 0 < stop - at <= PLAIN_DIGITS
        while plain and at < stop:
            plain = ZERO <= data[at] <= NINE
            number = number * 10 + np.int64(data[at]) - ZERO
            at += 1
        if negative:
            number = -number
        if plain and low <= number <= high:
            numbers[row] = number
        else:
            left[row] = True
    return left


def parse_integers(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As int4in: decimal with surrounding spaces (the other radixes of newer versions are never printed)."""
    bounds, name = np.iinfo(DTYPES[pg_type.oid]), NAMES[pg_type.oid]

    def parse_one(text: str) -> bytes:
        try:
            number = int(text)
        except ValueError:
            raise syntax_error(name, text) from None
        if not bounds.min <= number <= bounds.max:
            raise range_error(name, text)
        return number.to_bytes(pg_type.length, "little", signed=bounds.min < 0)

    low, high = np.int64(bounds.min), np.int64(min(bounds.max, np.iinfo(np.int64).max))
    return parse_numbers(texts, valid, DTYPES[pg_type.oid], partial(_with_bounds, low, high), parse_one)


def _with_bounds(low: np.int64, high: np.int64, offsets: Any, data: Any, valid: Any, numbers: Any) -> Any:
    return _parse_plain(offsets, data, valid, low, high, numbers)


def arrow_integers(pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.DataType:
    """Spark has no unsigned numbers: those of 32 bits are longs, those of 64 decimals."""
    if DTYPES[pg_type.oid] == "<u8":
        return pa.decimal128(20, 0)
    if pg_type.oid == oids.INT2:
        return pa.int16() if style.smallint == "int16" else pa.int32()
    return pa.int32() if pg_type.oid == oids.INT4 else pa.int64()


def integers_to_arrow(values: Values, pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.Array:
    """The numbers themselves."""
    numbers = values.as_dtype(DTYPES[pg_type.oid])
    if numbers.dtype == np.uint32:
        numbers = numbers.astype(np.int64)
    elif numbers.dtype == np.uint64:
        # The low half of a 128-bit number that is never negative.
        numbers = np.stack((numbers, np.zeros_like(numbers)), axis=1)
    elif numbers.dtype == np.int16 and style.smallint == "int32":
        numbers = numbers.astype(np.int32)
    return primitive_array(numbers, values.valid, arrow_integers(pg_type, typmod, style))
