"""A result's columns as PostgreSQL's output functions print them, under the parameters of the session.

In: Arrow columns, of the types in `kinds.ARROW`. Out: texts, None for NULL.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np
import pyarrow as pa

from tailrace.errors import UnsupportedWal
from tailrace.expressions.evaluate.numbers.numeric_arithmetic import divide, parse, text_of
from tailrace.model import Lsn, PgType
from tailrace.sql.query.expression_types import ResultColumn
from tailrace.sql.result import TextColumn
from tailrace.types import oids
from tailrace.types.registry import format_values
from tailrace.types.style import TextStyle
from tailrace.types.times.calendar import UNIX_TO_POSTGRES_DAYS, UNIX_TO_POSTGRES_USECS
from tailrace.types.values import Values

"""From 1970 to 2000, from where PostgreSQL counts."""
_QUOTED = '"\\{}, \t\n\r\v\f'


def _type(oid: int, name: str, length: int) -> PgType:
    return PgType(oid, "pg_catalog", name, name, "b", length, 8)


_DATE, _TIMESTAMP, _TIMESTAMPTZ = (
    _type(oids.DATE, "date", 4), _type(oids.TIMESTAMP, "timestamp", 8), _type(oids.TIMESTAMPTZ, "timestamptz", 8),
)  # fmt: skip
_FLOAT4, _FLOAT8, _BYTEA = _type(oids.FLOAT4, "float4", 4), _type(oids.FLOAT8, "float8", 8), _type(oids.BYTEA, "bytea", -1)


def text_columns(
    table: pa.Table, columns: Sequence[ResultColumn], style: TextStyle, averages: Container[int] = ()
) -> list[TextColumn]:
    """All columns of a result, under these names and types. `averages` are the places of those that have sums and counts."""
    cells = [
        [_average(each) for each in values.to_pylist()] if place in averages else texts_of(values.combine_chunks(), style)
        for place, values in enumerate(table.columns)
    ]
    return [TextColumn(each.name, texts, each.type, each.typmod) for each, texts in zip(columns, cells, strict=True)]


def _average(parts: list[str | None]) -> str | None:
    """The average of so many that have this sum (`int8_avg`, `numeric_avg`); NULL of none."""
    total, count = parts
    return None if total is None or count is None else text_of(divide(parse(total), parse(count)))


def texts_of(array: pa.Array, style: TextStyle) -> list[str | None]:
    """A column's values. Raises UnsupportedWal for a type that nothing here gives."""
    kind = array.type
    if isinstance(array, pa.ChunkedArray):
        return [text for chunk in array.chunks for text in texts_of(chunk, style)]
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
    if pa.types.is_list(kind):
        return _lists(array, style)
    return _stored(array, style)


def _lists(array: pa.Array, style: TextStyle) -> list[str | None]:
    found: list[str | None] = []
    for row in array:
        texts = None if not row.is_valid else texts_of(row.values, style)
        found.append(
            None if texts is None else "{" + ",".join("NULL" if text is None else _element(text) for text in texts) + "}"
        )
    return found


def _element(text: str) -> str:
    needs = not text or text.upper() == "NULL" or any(letter in _QUOTED for letter in text)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if needs else text


def _stored(array: pa.Array, style: TextStyle) -> list[str | None]:
    """By the output functions that decoding uses."""
    kind = array.type
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        payloads = [value or b"" for value in array.to_pylist()]
        offsets = np.cumsum([0, *map(len, payloads)], dtype=np.int64)
        values, pg_type = Values(valid, offsets=offsets, data=np.frombuffer(b"".join(payloads), np.uint8)), _BYTEA
    elif pa.types.is_floating(kind):
        pg_type = _FLOAT4 if kind == pa.float32() else _FLOAT8
        values = Values.of_numbers(array.fill_null(0).to_numpy(zero_copy_only=False), valid)
    elif pa.types.is_date32(kind):
        values, pg_type = Values.of_numbers(_numbers(array, pa.int32()) - np.int32(UNIX_TO_POSTGRES_DAYS), valid), _DATE
    elif pa.types.is_timestamp(kind):
        stamps = array.cast(pa.timestamp("us", kind.tz))
        values = Values.of_numbers(_numbers(stamps, pa.int64()) - np.int64(UNIX_TO_POSTGRES_USECS), valid)
        pg_type = _TIMESTAMPTZ if kind.tz else _TIMESTAMP
    else:
        raise UnsupportedWal(f"a result of type {kind} cannot be printed")
    texts = format_values(values, pg_type, style).to_list()
    return [text if is_there else None for text, is_there in zip(texts, valid.tolist(), strict=True)]


def _numbers(array: pa.Array, whole: pa.DataType) -> np.ndarray:
    return array.cast(whole).fill_null(0).to_numpy(zero_copy_only=False)


def record_text(values: list[str | None]) -> str:
    """A row as record_out prints it."""
    return "(" + ",".join("" if value is None else _field(value) for value in values) + ")"


def _field(text: str) -> str:
    if text and not any(letter in '"\\(), \t\n\r\v\f' for letter in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'
