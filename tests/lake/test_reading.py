"""A table is read without a way back into Python, which is no longer there when a process ends (`lake/reading.py`)."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyarrow import fs

from tailrace.lake.reading import dataset_of, read_table


def test_arrow_reads_by_itself(tmp_path):
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"a": [number]}), mode="append")
    found = dataset_of(DeltaTable(tmp_path), tmp_path).filesystem
    assert isinstance(found, fs.SubTreeFileSystem)
    assert isinstance(found.base_fs, fs.LocalFileSystem)
    assert sorted(read_table(tmp_path)["a"].to_pylist()) == [0, 1, 2]
    assert read_table(tmp_path, 0)["a"].to_pylist() == [0]
