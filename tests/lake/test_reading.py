"""A table is read as it is now, or was in a version, with the deleted rows left out."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tailrace.lake.reading import read_table


def test_what_others_write(tmp_path):
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"a": [number]}), mode="append")
    DeltaTable(tmp_path).delete("a = 1")
    assert sorted(read_table(tmp_path)["a"].to_pylist()) == [0, 2]
    assert read_table(tmp_path, 0)["a"].to_pylist() == [0]
