"""The rows of a Delta table, or some of it, as Arrow, less those that deletion vectors name.

In: a store, and a snapshot. Out: batches. Who asks for keys in a range is spared the files that cannot have any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.delta_log.actions import DataFile
from tailrace.delta_log.file_bounds import file_bounds
from tailrace.lake.delta.snapshot import DeltaSnapshot
from tailrace.lake.files.rows import KeyRange, file_rows
from tailrace.storage.store import Store


def read_rows(
    store: Store, snapshot: DeltaSnapshot, columns: Sequence[str] | None = None, within: KeyRange | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of the table, with these of its columns (all), in its types; a column that a file lacks is null there. With `within`, only those whose
    values lie between. Raises CorruptFile for a file that is damaged or not there."""
    schema = snapshot.schema if columns is None else pa.schema([snapshot.schema.field(name) for name in columns])
    partitions = {name: snapshot.schema.field(name) for name in snapshot.metadata.partition_columns}
    for file in files_within(snapshot, within or {}):
        for _, batch in file_rows(store, file, schema, within, partitions):
            yield batch


def files_within(snapshot: DeltaSnapshot, within: KeyRange) -> list[DataFile]:
    """The files that may have rows whose values lie between, by what the log says of them."""
    files = list(snapshot.files.values())
    may_have = np.ones(len(files), np.bool_)
    partitions = set(snapshot.metadata.partition_columns)
    for name, bounds in file_bounds(files, snapshot.schema, within.keys() - partitions).items():
        kind = bounds.lower.type
        low, high = (pa.scalar(value, kind) for value in within[name])
        beyond = pc.or_kleene(pc.greater(bounds.lower, high), pc.less(bounds.upper, low))
        may_have &= ~pc.fill_null(beyond, False).to_numpy(zero_copy_only=False)
    return [file for file, wanted in zip(files, may_have, strict=True) if wanted]
