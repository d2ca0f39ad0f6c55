"""The rows of a table of the lake as Arrow, wherever it lies, without its deleted rows, for who has no other reader at hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from tailrace.lake.delta.rows import read_rows
from tailrace.lake.delta.snapshot import DeltaSnapshot
from tailrace.storage.open_store import open_store


def read_table(folder: str | Path, version: int | None = None, options: Mapping[str, object] | None = None) -> pa.Table:
    """All rows of the Delta table in `folder`, a path or a URL, as they are now or were in a version. `options` are the store's."""
    store = open_store(folder, options)
    snapshot = DeltaSnapshot.read(store, version)
    return pa.Table.from_batches(read_rows(store, snapshot), snapshot.schema)
