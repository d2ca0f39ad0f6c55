"""A file of rows as a manifest has it, and as a lake knows it, both directions.

What a lake knows of a file is what Delta's log would say: its statistics are a text of JSON (`delta_log/file_statistics.py`). A manifest has a bound
for each column in the form of its type, by the column's id. Bounds of others are believed but for floats, where NaN may be among the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile as ManifestedFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from tailrace.delta_log.actions import DataFile
from tailrace.delta_log.file_bounds import file_bounds, null_counts, row_count
from tailrace.delta_log.file_statistics import EXACT, ColumnStatistics, FileStatistics
from tailrace.errors import UnsupportedFile
from tailrace.lake.files.data_files import is_ours
from tailrace.lake.iceberg.store_io import location_of, name_in
from tailrace.storage.store import Store

_SPEC = 0
"""Of a table that is not partitioned."""


def to_manifest(file: DataFile, store: Store, schema: Schema, arrow: pa.Schema) -> ManifestedFile:
    """A file of ours, which says how many rows it has; `arrow` are the columns of `schema`."""
    rows = row_count(file)
    assert rows is not None, "files of ours say how many rows they have"
    columns = {field.name: field for field in schema.fields if isinstance(field.field_type, PrimitiveType)}
    known = {name: count for name, count in null_counts(file).items() if name in columns}
    lower, upper = _bounds(file, schema, arrow, known)
    made = ManifestedFile.from_args(
        content=DataFileContent.DATA, file_path=location_of(store, file.path), file_format=FileFormat.PARQUET, partition=Record(),
        record_count=rows, file_size_in_bytes=file.size, column_sizes={},
        value_counts={columns[name].field_id: rows for name in known},
        null_value_counts={columns[name].field_id: count for name, count in known.items()},
        nan_value_counts={}, lower_bounds=lower, upper_bounds=upper, key_metadata=None, split_offsets=None, equality_ids=None,
        sort_order_id=None,
    )  # fmt: skip
    made.spec_id = _SPEC
    return made


def _bounds(
    file: DataFile, schema: Schema, arrow: pa.Schema, names: Mapping[str, int]
) -> tuple[dict[int, bytes], dict[int, bytes]]:
    sides: tuple[dict[int, bytes], dict[int, bytes]] = ({}, {})
    bounds = file_bounds([file], arrow, names)
    for name in names:
        field = schema.find_field(name)
        for side, values in zip(sides, (bounds[name].lower, bounds[name].upper), strict=True):
            if (value := _plain(values)[0].as_py()) is not None:
                assert isinstance(field.field_type, PrimitiveType)
                side[field.field_id] = to_bytes(field.field_type, value)
    return sides


def _plain(values: pa.Array) -> pa.Array:
    """Times as the numbers that they are: Python has not all of them."""
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32())
    return values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values


def from_manifest(file: ManifestedFile, store: Store, schema: Schema, columns: pa.Schema) -> DataFile:
    """Raises UnsupportedFile for a file that is not Parquet, or lies elsewhere."""
    if file.file_format != FileFormat.PARQUET:
        raise UnsupportedFile(
            f"a file of an Iceberg table is of format {file.file_format.name}, which is not supported", file=file.file_path
        )
    name = name_in(store, file.file_path)
    ours = is_ours(name)
    said = {
        field.name: (kind, _statistics(file, field.field_id, field.field_type))
        for field, kind in zip(schema.fields, columns.types, strict=True)
        if isinstance(field.field_type, PrimitiveType) and (ours or not pa.types.is_floating(kind))
    }
    known = {column: (kind, each) for column, (kind, each) in said.items() if each is not None}
    text = FileStatistics(file.record_count, known).as_json()
    return DataFile(name, file.file_size_in_bytes, 0, text, tags=EXACT if ours else {})


def _statistics(file: ManifestedFile, number: int, kind: Any) -> ColumnStatistics | None:
    """None where the manifest does not say how many values there are."""
    nulls = (file.null_value_counts or {}).get(number)
    if nulls is None:
        return None
    lower, upper = ((side or {}).get(number) for side in (file.lower_bounds, file.upper_bounds))
    if lower is None or upper is None:
        return ColumnStatistics(nulls)
    return ColumnStatistics(nulls, from_bytes(kind, lower), from_bytes(kind, upper))
