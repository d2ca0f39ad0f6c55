"""Arrow schemas as Spark's, for the types that `tailrace.types` maps to. Spark's own conversion asks for pandas; this does not."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import types as spark

from tailrace.errors import UsageError

_ROWS = ("new", "old")
_PLAIN: dict[pa.DataType, spark.DataType] = {
    pa.bool_(): spark.BooleanType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.string(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.date32(): spark.DateType(),
    pa.timestamp("us"): spark.TimestampNTZType(),
    pa.timestamp("us", "UTC"): spark.TimestampType(),
}


def spark_type(arrow: pa.DataType) -> spark.DataType:
    """The Spark type whose Arrow form is exactly `arrow`."""
    if arrow in _PLAIN:
        return _PLAIN[arrow]
    if pa.types.is_decimal128(arrow):
        return spark.DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_map(arrow):
        return spark.MapType(spark_type(arrow.key_type), spark_type(arrow.item_type), arrow.item_field.nullable)
    if pa.types.is_list(arrow):
        return spark.ArrayType(spark_type(arrow.value_type), arrow.value_field.nullable)
    if pa.types.is_struct(arrow):
        return spark.StructType([_field(arrow.field(i)) for i in range(arrow.num_fields)])
    raise UsageError(f"Spark has no type for Arrow's {arrow}")


def spark_schema(schema: pa.Schema) -> spark.StructType:
    return spark.StructType([_field(field) for field in schema])


def with_comments(schema: spark.StructType, comments: Mapping[str, str], *, in_rows: bool) -> spark.StructType:
    """The schema with comments of the table's columns, by name; `in_rows`, these are the fields of `new` and `old`."""
    if in_rows:
        return spark.StructType(
            [
                spark.StructField(each.name, with_comments(each.dataType, comments, in_rows=False), each.nullable)
                if each.name in _ROWS and isinstance(each.dataType, spark.StructType)
                else each
                for each in schema
            ]
        )
    return spark.StructType(
        [
            spark.StructField(each.name, each.dataType, each.nullable, {"comment": comments[each.name]})
            if each.name in comments
            else each
            for each in schema
        ]
    )


def _field(field: pa.Field) -> spark.StructField:
    return spark.StructField(field.name, spark_type(field.type), field.nullable)
