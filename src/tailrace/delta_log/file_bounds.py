"""What is known of the least and the greatest value of columns in data files, to find those in which a value may be.

In: files as the log has them. Out: per column, an array of lower and one of upper bounds, a file in each place; null is no bound. Of statistics that
others wrote, those are not believed that delta-rs (up to 1.6) gets wrong or that leave values out: of decimals of many digits, and of floats, where
NaN may be among them. Others' timestamps were cut to milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import DataFile
from tailrace.delta_log.file_statistics import EXACT

_DECODER = json.JSONDecoder(parse_float=Decimal)
_ALL_DIGITS = Context(prec=100)
_MOST_DIGITS = 15
"""Any decimal of so many digits is told from its neighbours by a 64-bit float."""
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND, _MICROSECOND = timedelta(seconds=1), timedelta(microseconds=1)
_NO_BOUNDS: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class FileBounds:
    """Of one column, a value for each file; of the column's type."""

    lower: pa.Array
    upper: pa.Array


def file_bounds(files: Sequence[DataFile], schema: pa.Schema, columns: Collection[str]) -> dict[str, FileBounds]:
    """Of each of these columns of the schema, the bounds in each file."""
    said = [_statistics(file.statistics) for file in files]
    ours = [EXACT.items() <= file.tags.items() for file in files]
    return {name: _bounds(said, ours, schema.field(name)) for name in columns}


def row_count(file: DataFile) -> int | None:
    """How many rows the file has, deleted ones included; None if the log does not say."""
    count = _statistics(file.statistics).get("numRecords")
    return count if type(count) is int and count >= 0 else None


def null_count(file: DataFile, column: str) -> int | None:
    """How many rows of the file, deleted ones included, have no value in the column; None if the log does not say."""
    return null_counts(file).get(column)


def null_counts(file: DataFile) -> dict[str, int]:
    """The same of all columns of which the log says it."""
    said = _statistics(file.statistics).get("nullCount") or _NO_BOUNDS
    return {name: count for name, count in said.items() if type(count) is int and count >= 0}


def rows_left(file: DataFile) -> int | None:
    """How many rows of the file are in the table; None if the log does not say."""
    count, vector = row_count(file), file.deletion_vector
    return None if count is None else count - (vector.cardinality if vector else 0)


def _statistics(text: str) -> Mapping[str, Any]:
    """Of statistics that cannot be read nothing is known: they are optional."""
    try:
        said = _DECODER.decode(text) if text else _NO_BOUNDS
    except (ValueError, RecursionError):
        return _NO_BOUNDS
    return said if isinstance(said, Mapping) else _NO_BOUNDS


def _bounds(said: Sequence[Mapping[str, Any]], ours: Sequence[bool], field: pa.Field) -> FileBounds:
    sides = []
    for side, is_upper in (("minValues", False), ("maxValues", True)):
        values = [(each.get(side) or _NO_BOUNDS).get(field.name) for each in said]
        believed = [_value(value, field.type, is_upper, is_ours) for value, is_ours in zip(values, ours, strict=True)]
        sides.append(_array(believed, field.type))
    return FileBounds(*sides)


def _value(value: Any, kind: pa.DataType, is_upper: bool, is_ours: bool) -> Any:
    """The bound in the form that Arrow takes; None for what is no value of the type, or not to be believed."""
    try:
        if value is None or isinstance(value, bool):
            return None
        if pa.types.is_decimal(kind):
            return _decimal(value, kind) if is_ours or kind.precision <= _MOST_DIGITS else None
        if pa.types.is_floating(kind):
            return float(value) if is_ours and isinstance(value, int | Decimal) else None
        if pa.types.is_integer(kind):
            return value if type(value) is int else None
        if pa.types.is_date32(kind):
            return date.fromisoformat(value).toordinal() - _UNIX_EPOCH.toordinal()
        if pa.types.is_timestamp(kind):
            return _microseconds(value) + (999 if is_upper and not is_ours else 0)
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        return value if is_text and isinstance(value, str) else None
    except (ValueError, TypeError, OverflowError, InvalidOperation):
        return None


def _decimal(value: int | Decimal, kind: pa.DataType) -> Decimal | None:
    exact = Decimal(value)
    fits = not exact or exact.adjusted() < kind.precision - kind.scale
    return exact if fits and exact == exact.quantize(Decimal(1).scaleb(-kind.scale), context=_ALL_DIGITS) else None


def _microseconds(text: str) -> int:
    at = datetime.fromisoformat(text)
    return (at.replace(tzinfo=at.tzinfo or UTC) - _UNIX_EPOCH) // _MICROSECOND


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_integer(kind):
        low, high = -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1
        values = [value if value is not None and low <= value <= high else None for value in values]
    if not (
        pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    ):
        return pa.nulls(len(values), kind)
    return pa.array(values, kind)
