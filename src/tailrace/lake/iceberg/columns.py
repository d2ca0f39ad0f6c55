"""The columns of an Iceberg table, as its metadata and as Arrow has them, both directions.

A column is known by its id, in the metadata as in each file, and its name may change. Columns that stay keep their ids; what gets another type than
one that Iceberg widens is a column with a new id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tailrace.errors import UnsupportedFile, UsageError
from tailrace.lake.files.comments import comment_of, with_comment

_FIELD_ID = b"PARQUET:field_id"
_MOST_DIGITS = 38
_TYPES: dict[pa.DataType, IcebergType] = {
    pa.bool_(): BooleanType(),
    pa.int8(): IntegerType(),
    pa.int16(): IntegerType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.large_string(): StringType(),
    pa.binary(): BinaryType(),
    pa.large_binary(): BinaryType(),
    pa.date32(): DateType(),
    pa.time64("us"): TimeType(),
    pa.timestamp("us"): TimestampType(),
    pa.timestamp("us", "UTC"): TimestamptzType(),
}
_ARROW: dict[IcebergType, pa.DataType] = {
    BooleanType(): pa.bool_(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    FloatType(): pa.float32(),
    DoubleType(): pa.float64(),
    StringType(): pa.string(),
    BinaryType(): pa.binary(),
    DateType(): pa.date32(),
    TimeType(): pa.time64("us"),
    TimestampType(): pa.timestamp("us"),
    TimestamptzType(): pa.timestamp("us", "UTC"),
    UUIDType(): pa.binary(16),
}
_WIDENED = {(IntegerType(), LongType()), (FloatType(), DoubleType())}


def iceberg_schema(columns: pa.Schema, before: Schema | None = None, last_id: int = 0) -> tuple[Schema, int]:
    """These columns as the table's next schema, and the greatest id that was ever given; `before` is the schema that it has, and `last_id` that id so
    far. Raises UsageError for a type that Iceberg does not have."""
    ids = count(last_id + 1)
    fields = _fields(list(columns), before.fields if before else (), ids)
    schema_id = 0
    if before is not None:
        schema_id = before.schema_id if fields == before.fields else before.schema_id + 1
    return Schema(*fields, schema_id=schema_id), next(ids) - 1


def described_schema(schema: Schema) -> pa.Schema:
    """The columns as Arrow, with what the table says of each as its comment (`lake/files/comments.py`)."""
    return pa.schema([_described(field) for field in schema.fields])


def arrow_schema(schema: Schema) -> pa.Schema:
    """The columns as Arrow, each with its id as files of Parquet have it. Raises UnsupportedFile for a type that we do not read."""
    return pa.schema([_arrow_field(field) for field in schema.fields])


# -- to Iceberg ------------------------------------------------------------------------------------------------------------------------


def _fields(fields: Sequence[pa.Field], before: Sequence[NestedField], ids: Iterator[int]) -> tuple[NestedField, ...]:
    """Ids are given to all fields of a level before those within, as Iceberg itself does."""
    known = {each.name: each for each in before}
    kept = [_kept(field, known.get(field.name)) for field in fields]
    numbers = [each.field_id if each else next(ids) for each in kept]
    return tuple(
        NestedField(
            number,
            field.name,
            _type(field, each.field_type if each else None, ids),
            required=False,
            doc=comment_of(field) or None,
        )
        for field, each, number in zip(fields, kept, numbers, strict=True)
    )


def _kept(field: pa.Field, before: NestedField | None) -> NestedField | None:
    """The column that was there, if this is the same."""
    if before is None:
        return None
    return before if _stays(field.type, before.field_type) else None


def _stays(kind: pa.DataType, before: IcebergType) -> bool:
    if isinstance(before, StructType):
        return pa.types.is_struct(kind)
    if isinstance(before, ListType):
        return _is_list(kind) and _stays(kind.value_type, before.element_type)
    if isinstance(before, MapType):
        return pa.types.is_map(kind) and _stays(kind.key_type, before.key_type) and _stays(kind.item_type, before.value_type)
    if pa.types.is_decimal(kind) and isinstance(before, DecimalType):
        return kind.scale == before.scale and kind.precision >= before.precision
    wanted = _TYPES.get(kind)
    return wanted == before or (before, wanted) in _WIDENED


def _type(field: pa.Field, before: IcebergType | None, ids: Iterator[int]) -> IcebergType:
    kind = field.type
    if kind in _TYPES:
        return _TYPES[kind]
    if pa.types.is_decimal(kind) and kind.precision <= _MOST_DIGITS and 0 <= kind.scale <= kind.precision:
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return FixedType(kind.byte_width)
    if pa.types.is_struct(kind):
        return StructType(*_fields(list(kind), before.fields if isinstance(before, StructType) else (), ids))
    if _is_list(kind):
        there = before if isinstance(before, ListType) else None
        number = there.element_id if there else next(ids)
        return ListType(number, _type(kind.value_field, there.element_type if there else None, ids), element_required=False)
    if pa.types.is_map(kind):
        own = before if isinstance(before, MapType) else None
        key, value = (own.key_id, own.value_id) if own else (next(ids), next(ids))
        return MapType(
            key, _type(kind.key_field, own.key_type if own else None, ids),
            value, _type(kind.item_field, own.value_type if own else None, ids), value_required=False,
        )  # fmt: skip
    raise UsageError(f'column "{field.name}" is of Arrow\'s type {kind}, which Iceberg does not have')


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


# -- to Arrow --------------------------------------------------------------------------------------------------------------------------


def _arrow_field(field: NestedField) -> pa.Field:
    return _numbered(field.name, _arrow(field.field_type), not field.required, field.field_id)


def _described(field: NestedField) -> pa.Field:
    made = with_comment(_arrow_field(field), field.doc or "")
    if isinstance(field.field_type, StructType):
        return made.with_type(pa.struct([_described(each) for each in field.field_type.fields]))
    return made


def _numbered(name: str, kind: pa.DataType, nullable: bool, number: int) -> pa.Field:
    return pa.field(name, kind, nullable, {_FIELD_ID: str(number).encode()})


def _arrow(kind: IcebergType) -> pa.DataType:
    if kind in _ARROW:
        return _ARROW[kind]
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, FixedType):
        return pa.binary(len(kind))
    if isinstance(kind, StructType):
        return pa.struct([_arrow_field(field) for field in kind.fields])
    if isinstance(kind, ListType):
        return pa.list_(_numbered("element", _arrow(kind.element_type), not kind.element_required, kind.element_id))
    if isinstance(kind, MapType):
        key = _numbered("key", _arrow(kind.key_type), nullable=False, number=kind.key_id)
        return pa.map_(key, _numbered("value", _arrow(kind.value_type), not kind.value_required, kind.value_id))
    raise UnsupportedFile(f'an Iceberg table has a column of type "{kind}", which is not supported')
