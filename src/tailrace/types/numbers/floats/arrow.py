"""float4 and float8 in Arrow: the same numbers, not copied."""

from __future__ import annotations

import pyarrow as pa

from tailrace.model import PgType
from tailrace.types import oids
from tailrace.types.codec import ArrowStyle, primitive_array
from tailrace.types.values import Values


def arrow_floats(pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.DataType:
    return pa.float32() if pg_type.oid == oids.FLOAT4 else pa.float64()


def floats_to_arrow(values: Values, pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.Array:
    single = pg_type.oid == oids.FLOAT4
    return primitive_array(values.as_dtype("<f4" if single else "<f8"), values.valid, arrow_floats(pg_type, typmod, style))
