"""Arrow columns as PostgreSQL's output functions print them: of results of SQL, and of tables written before a value came that Arrow's form cannot
hold.

In: an Arrow array as `to_arrow` makes it of a type. Out: texts, None for NULL.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.model import Lsn, PgType
from tailrace.types import oids
from tailrace.types.numbers.floats import print_floats
from tailrace.types.strings.bytea import format_byteas
from tailrace.types.style import TextStyle
from tailrace.types.times.calendar import UNIX_TO_POSTGRES_DAYS, UNIX_TO_POSTGRES_USECS
from tailrace.types.times.text import format_dates, format_timestamps
from tailrace.types.values import Texts, Values

_QUOTED = '"\\{} \t\n\r\v\f'


def _type(oid: int, name: str, length: int) -> PgType:
    return PgType(oid, "pg_catalog", name, name, "b", length, 8)


_DATE, _BYTEA = _type(oids.DATE, "date", 4), _type(oids.BYTEA, "bytea", -1)
_TIMESTAMP, _TIMESTAMPTZ = _type(oids.TIMESTAMP, "timestamp", 8), _type(oids.TIMESTAMPTZ, "timestamptz", 8)


def as_text(array: pa.Array, pg_type: PgType) -> pa.Array:
    """`array`, whose values are of `pg_type`, as text. Raises NotImplementedError for what never becomes text."""
    return pa.array(texts_of(array, TextStyle(), pg_type), pa.string())


def texts_of(array: pa.Array, style: TextStyle, pg_type: PgType | None = None) -> list[str | None]:
    """The values of an array. A `pg_type` is asked only what stands between its elements; 64 bits without a sign are a pg_lsn. Raises
    NotImplementedError for what nothing here gives."""
    kind = array.type
    if pg_type is not None and pg_type.kind == "d" and pg_type.element is not None:
        return texts_of(array, style, pg_type.element)
    if pa.types.is_list(kind):
        return _lists(array, style, pg_type.element if pg_type else None)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind):
        return list(array.to_pylist())
    if kind == pa.uint64():
        return [None if value is None else str(Lsn(value)) for value in array.to_pylist()]
    if pa.types.is_integer(kind):
        return [None if value is None else str(value) for value in array.to_pylist()]
    if pa.types.is_boolean(kind):
        return [None if value is None else "ft"[value] for value in array.to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if value is None else format(value, "f") for value in array.to_pylist()]
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    texts = _printed(array, valid, style).to_list()
    return [text if is_there else None for text, is_there in zip(texts, valid.tolist(), strict=True)]


def _printed(array: pa.Array, valid: NDArray[np.bool_], style: TextStyle) -> Texts:
    """By the output functions that decoding uses."""
    kind = array.type
    if pa.types.is_floating(kind):
        return print_floats(array.fill_null(0).to_numpy(zero_copy_only=False), valid, style)
    if pa.types.is_date32(kind):
        return format_dates(Values.of_numbers(_since_2000(array, pa.int32(), UNIX_TO_POSTGRES_DAYS), valid), _DATE, style)
    if pa.types.is_timestamp(kind):
        stamps = _since_2000(array.cast(pa.timestamp("us", kind.tz)), pa.int64(), UNIX_TO_POSTGRES_USECS)
        return format_timestamps(Values.of_numbers(stamps, valid), _TIMESTAMPTZ if kind.tz else _TIMESTAMP, style)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        payloads = [value or b"" for value in array.to_pylist()]
        offsets = np.cumsum([0, *map(len, payloads)], dtype=np.int64)
        data = np.frombuffer(b"".join(payloads), np.uint8)
        return format_byteas(Values(valid, offsets=offsets, data=data), _BYTEA, style)
    raise NotImplementedError(kind)


def _lists(array: pa.Array, style: TextStyle, element: PgType | None) -> list[str | None]:
    """As array_out() prints one dimension that begins at 1."""
    between = element.delimiter if element is not None else ","
    texts = ["NULL" if text is None else _element(text, between) for text in texts_of(array.flatten(), style, element)]
    starts = np.concatenate([[0], np.cumsum(array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))]).tolist()
    there = array.is_valid().to_pylist()
    return ["{" + between.join(texts[starts[row] : starts[row + 1]]) + "}" if each else None for row, each in enumerate(there)]


def _element(text: str, delimiter: str) -> str:
    needs = not text or text.upper() == "NULL" or any(letter in _QUOTED or letter == delimiter for letter in text)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if needs else text


def _since_2000(array: pa.Array, whole: pa.DataType, unix: int) -> NDArray:
    """Days or microseconds as PostgreSQL counts them; the infinities are the extremes on both sides."""
    numbers = array.cast(whole).fill_null(0).to_numpy(zero_copy_only=False)
    bounds = np.iinfo(numbers.dtype)
    endless = (numbers == bounds.min) | (numbers == bounds.max)
    return np.where(endless, numbers, np.where(endless, 0, numbers) - numbers.dtype.type(unix))
