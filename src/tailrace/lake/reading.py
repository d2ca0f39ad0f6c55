"""The rows of a table of the lake as Arrow, wherever it lies, without its deleted rows, for who has no other reader at hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from tailrace.lake.delta.rows import read_rows
from tailrace.lake.delta.snapshot import DeltaSnapshot
from tailrace.lake.formats import DELTA, format_of
from tailrace.lake.table import TableVersion
from tailrace.storage.open_store import open_store


def read_table(folder: str | Path, version: int | None = None, options: Mapping[str, object] | None = None) -> pa.Table:
    """All rows of the table in `folder`, a path or a URL, as they are now; those of a Delta table also as they were in a version. `options` are the
    store's."""
    store = open_store(folder, options)
    if version is None and (format := format_of(store)).name != DELTA:
        found = format.none(store).refreshed()
        return pa.Table.from_batches(rows_of(found), found.open().schema)
    snapshot = DeltaSnapshot.read(store, version)
    return pa.Table.from_batches(read_rows(store, snapshot), snapshot.schema)


def rows_of(found: TableVersion) -> Iterator[pa.RecordBatch]:
    """The rows of a table at a version, in its types."""
    table = found.open()
    schema = table.schema
    data = found.data_files(schema, "")
    for file in table.files:
        for _, rows in data.rows(file, schema.names):
            yield rows
