"""Delta tables as Arrow, read by Arrow's own file system.

What `DeltaTable.to_pyarrow_table()` reads with calls back into Python for every buffer, and a thread of Arrow's may still let go of one when the
interpreter is shutting down: before Python 3.14 that ends the process ("terminate called without an active exception").
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
from deltalake import DeltaTable
from pyarrow import fs


def dataset_of(table: DeltaTable, folder: Path) -> pa.dataset.Dataset:
    """The table, which lies in `folder`, as a dataset."""
    return table.to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem()))


def read_table(folder: str | Path, version: int | None = None) -> pa.Table:
    """All rows of the Delta table in `folder`, as they are now or were in a version."""
    return dataset_of(DeltaTable(folder, version=version), Path(folder)).to_table()
