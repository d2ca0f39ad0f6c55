"""The rows of a table's files, as Arrow, less those that deletion vectors name.

In: a store, and a file as the table's log has it. Out: batches of a row group at a time, so that what is held is bounded by a batch, not by the
table. Who asks for keys in a range is spared the row groups that cannot have any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.delta_log.actions import DataFile, check_in_folder
from tailrace.delta_log.deletion_vector import Positions, check_file_version, kept_rows
from tailrace.errors import CorruptFile
from tailrace.storage.store import Store

BATCH_ROWS = 65_536
KeyRange = Mapping[str, tuple[Any, Any]]
"""By column, the least and the greatest value that is asked for, both included."""


def file_rows(
    store: Store, file: DataFile, schema: pa.Schema, within: KeyRange | None = None,
    partitions: Mapping[str, pa.Field] | None = None,
) -> Iterator[tuple[Positions, pa.RecordBatch]]:  # fmt: skip
    """The rows of one file that are in the table, with these columns, and the position of each in the file. The columns of `within` need not be among
    them. `partitions` are columns whose values the log has, one for the file. Raises CorruptFile, which says where the table is."""
    try:
        yield from _rows(store, file, schema, within or {}, partitions or {})
    except CorruptFile as error:
        error.context = error.context or f"table in {store.url}"
        raise


def _rows(
    store: Store, file: DataFile, schema: pa.Schema, within: KeyRange, partitions: Mapping[str, pa.Field]
) -> Iterator[tuple[Positions, pa.RecordBatch]]:
    deleted = deleted_rows(store, file)
    with _opened(store, file) as parquet:
        try:
            if len(deleted) and deleted[-1] >= parquet.metadata.num_rows:
                raise _damaged(file, f"Its deletion vector has row {deleted[-1]} of {parquet.metadata.num_rows}.")
            fields = {field.name: field for field in schema} | {
                name: field for name, field in partitions.items() if name in within
            }
            asked = [name for name in dict.fromkeys([*schema.names, *within]) if name not in partitions]
            stored = [name for name in asked if name in parquet.schema_arrow.names]
            for first, batch in _batches(parquet, stored, within):
                kept = kept_rows(first, batch.num_rows, deleted)
                for name, ends in within.items():
                    kept &= _between(_column(batch, file, fields.get(name), name, partitions), ends)
                positions = np.flatnonzero(kept) + first
                if len(positions) == batch.num_rows:
                    chosen = batch
                elif len(positions):
                    chosen = _typed(batch, file, fields).filter(pa.array(kept))
                else:
                    continue
                columns = [_column(chosen, file, field, field.name, partitions) for field in schema]
                yield positions, pa.RecordBatch.from_arrays(columns, schema=schema)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(file, f"{str(error).rstrip('.')}.") from error


def deleted_rows(store: Store, file: DataFile) -> Positions:
    """The positions that the deletion vector of a file names. Raises CorruptFile."""
    vector = file.deletion_vector
    if vector is None:
        return np.empty(0, np.int64)
    name = vector.file_name
    if name is None:
        return vector.positions()
    check_in_folder(name)
    start, length = vector.place
    try:
        if start == 1:
            data = store.read_range(name, 0, 1 + length)
            check_file_version(data[:1], name)
            return vector.positions(data[1:])
        check_file_version(store.read_range(name, 0, 1), name)
        return vector.positions(store.read_range(name, start, length))
    except FileNotFoundError:
        raise _damaged(file, f'Its deletion vector\'s file "{name}" is not there.') from None


def stored_row_count(store: Store, file: DataFile) -> int:
    """Of a file, with those that are deleted. Raises CorruptFile."""
    with _opened(store, file) as parquet:
        return int(parquet.metadata.num_rows)


def _opened(store: Store, file: DataFile) -> pq.ParquetFile:
    check_in_folder(file.path)
    try:
        return pq.ParquetFile(
            store.open(file.path), coerce_int96_timestamp_unit="us", pre_buffer=False, page_checksum_verification=True
        )
    except FileNotFoundError:
        raise _damaged(file, "It is not there.") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the names of columns are decoded, too
        raise _damaged(file, f"{str(error).rstrip('.')}.") from error


def _batches(parquet: pq.ParquetFile, columns: Sequence[str], within: KeyRange) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of those row groups that may have rows within, each with the position of its first row."""
    end_of_group = 0
    for group in range(parquet.metadata.num_row_groups):
        first = end_of_group
        end_of_group += parquet.metadata.row_group(group).num_rows
        if _is_beyond(parquet, group, within):
            continue
        if not columns:
            yield first, pa.record_batch({"": pa.nulls(end_of_group - first)})
            continue
        for batch in parquet.iter_batches(BATCH_ROWS, [group], columns):
            yield first, batch
            first += batch.num_rows


def _is_beyond(parquet: pq.ParquetFile, group: int, within: KeyRange) -> bool:
    """Whether the row group says that it has none of these values. Only whole numbers are asked: about others writers of Parquet differ."""
    columns = parquet.metadata.row_group(group)
    for name, (low, high) in within.items():
        place = parquet.schema_arrow.get_field_index(name)
        if place < 0 or not pa.types.is_integer(parquet.schema_arrow.field(place).type):
            continue
        for each in range(columns.num_columns):
            column = columns.column(each)
            if column.path_in_schema == name and column.is_stats_set and column.statistics.has_min_max:
                lower, upper = column.statistics.min, column.statistics.max
                if (low is not None and upper < low) or (high is not None and lower > high):
                    return True
    return False


def _typed(batch: pa.RecordBatch, file: DataFile, fields: Mapping[str, pa.Field]) -> pa.RecordBatch:
    """With the table's types: Arrow chooses no rows of views of strings, as which delta-rs writes what it has rewritten."""
    names = batch.schema.names
    return pa.RecordBatch.from_arrays([_column(batch, file, fields.get(name), name, {}) for name in names], names=names)


def _column(
    batch: pa.RecordBatch, file: DataFile, field: pa.Field | None, name: str, partitions: Mapping[str, pa.Field]
) -> pa.Array:
    """A column in the table's type; as it is stored if that is not known."""
    if name in partitions:
        kind = partitions[name].type
        return pa.repeat(_partition_value(file, name, kind), batch.num_rows)
    place = batch.schema.get_field_index(name)
    if place < 0:
        return pa.nulls(batch.num_rows, field.type if field else pa.null())
    values = batch.column(place)
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    return values if field is None or values.type == field.type else values.cast(field.type)


def _partition_value(file: DataFile, name: str, kind: pa.DataType) -> pa.Scalar:
    """Raises CorruptFile for a text that is no value of the type."""
    text = file.partition_values.get(name)
    if text is None or (text == "" and not pa.types.is_binary(kind)):
        return pa.scalar(None, kind)
    try:
        if pa.types.is_timestamp(kind) and kind.tz and not text.endswith("Z"):
            return pa.scalar(text).cast(pa.timestamp("us")).cast(pa.int64()).cast(kind)
        return pa.scalar(text).cast(kind)
    except pa.ArrowException as error:
        raise _damaged(file, f'Its value of column "{name}" is "{text}": {error}.') from error


def is_within(batch: pa.RecordBatch, within: KeyRange) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which rows have values within, in columns of the table's types."""
    inside = np.ones(len(batch), np.bool_)
    for name, ends in within.items():
        inside &= _between(batch[name], ends)
    return inside


def _between(values: pa.Array, ends: tuple[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    low, high = (None if end is None else pa.scalar(end, values.type) for end in ends)
    inside = np.ones(len(values), np.bool_)
    for bound, compare in ((low, pc.greater_equal), (high, pc.less_equal)):
        if bound is not None:
            inside &= pc.fill_null(compare(values, bound), False).to_numpy(zero_copy_only=False)
    return inside


def _damaged(file: DataFile, detail: str) -> CorruptFile:
    return CorruptFile(
        f'file "{file.path}" of a table cannot be read', detail=detail, file=file.path,
        hint="Put it back from a copy of the lake; or make the lake anew in another place, with a new slot.",
    )  # fmt: skip
