"""Delta tables as Arrow, read by Arrow's own file system.

What `DeltaTable.to_pyarrow_table()` reads with calls back into Python for every buffer, and a thread of Arrow's may still let go
of one when the interpreter is shutting down: before Python 3.14 that ends the process ("terminate called without an active
exception").
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
from deltalake import DeltaTable
from pyarrow import fs


def dataset_of(table: DeltaTable, folder: Path) -> pa.dataset.Dataset:
    """The table, which lies in `folder`, as a dataset. Filters go by what the files say of themselves: of a column that has no
    statistics in the table's log, delta-rs (1.6) tells Arrow that no row is equal to anything."""
    there = table.to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem()))
    if table.metadata().partition_columns:
        return there
    fragments = [there.format.make_fragment(each.path, each.filesystem) for each in there.get_fragments()]
    return pa.dataset.FileSystemDataset(fragments, there.schema, there.format, there.filesystem)


def rows_of(table: DeltaTable, folder: Path) -> pa.Table:
    """All rows of the table, which lies in `folder`, in the version that it was opened at."""
    return dataset_of(table, folder).to_table()


def read_table(folder: str | Path, version: int | None = None) -> pa.Table:
    """All rows of the Delta table in `folder`, as they are now or were in a version."""
    return rows_of(DeltaTable(folder, version=version), Path(folder))
