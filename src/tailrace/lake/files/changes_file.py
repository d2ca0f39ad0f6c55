"""A file of one table's changes on their way: written batch by batch, and read.

In: batches in the columns of `tailrace.changes`. Out: a file, and its rows, whole or in some columns. What becomes a table's own is Parquet. What is
read once and then removed is in Arrow's own format (`.arrow`), as it lies in memory: it takes a tenth of the time of Parquet's. Which of both a file
is, its name says.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.storage.store import Store

ARROW, PARQUET = ".arrow", ".parquet"

ChangesWriter: TypeAlias = pq.ParquetWriter | pa.RecordBatchFileWriter
"""Of either a context manager, which completes the file, that takes batches (`write_batch`)."""


def open_changes_file(path: Path, name: str, schema: pa.Schema) -> ChangesWriter:
    """To write to `path` what is to be read as `name`."""
    if name.endswith(ARROW):
        return pa.ipc.new_file(str(path), schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
    return pq.ParquetWriter(path, schema, compression="lz4", write_statistics=False, use_dictionary=["kind"])


def read_changes_file(store: Store, name: str, schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows, in these columns of the `schema` (None: in all that the file has)."""
    with store.open(name) as source:
        if not name.endswith(ARROW):
            return pq.read_table(source, schema=schema, columns=None if columns is None else list(columns))
        there = pa.ipc.open_file(source).schema.names
        wanted = [there.index(each) for each in columns] if columns is not None else None
        rows = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=wanted)).read_all()
    return rows if columns is None else rows.select(columns)
