"""Whoever reads a table with a filter finds every row, whatever its values are."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from support.servers import Server
from tailrace.lake.mirror import mirror
from tailrace.pipeline import open_pipeline

pytestmark = pytest.mark.postgres

VALUES = {
    "float8": ("1.5", "Infinity", "-Infinity", "NaN"),
    "float4": ("1.5", "NaN"),
    "timestamptz": ("2020-01-01", "12000-01-01", "4714-11-24 BC", "infinity"),
    "timestamp": ("9999-12-31 23:59:59.999999", "10000-01-01", "0001-12-31 BC"),
    "date": ("9999-12-31", "10000-01-01", "0001-01-01", "0001-12-31 BC"),
    "numeric(38,2)": ("1234567890123456.78", "9" * 36 + ".99"),
}


def test_filters_find_every_value(tmp_path):
    with Server(18, test_decoding=False) as server:
        for number, (kind, values) in enumerate(VALUES.items()):
            server.say(f"CREATE TABLE t{number} (id int PRIMARY KEY, v {kind})")
            server.say(*(f"INSERT INTO t{number} VALUES ({n}, '{value}')" for n, value in enumerate(values)))
        assert [
            each.trouble for each in mirror(open_pipeline(server.data_dir, "postgres"), tmp_path, deletion_vectors=False)
        ] == [None] * len(VALUES)
        server.say(*(f"UPDATE t{number} SET id = id + 10 WHERE id = 0" for number in range(len(VALUES))))
        mirror(open_pipeline(server.data_dir, "postgres"), tmp_path)
    for number, values in enumerate(VALUES.values()):
        table = DeltaTable(tmp_path / f"public.t{number}")
        dataset = table.to_pyarrow_dataset()
        column = dataset.to_table()["v"]
        assert len(column) == len(values)
        for value in column:
            wanted = (
                pc.is_nan(pc.field("v"))
                if pa.types.is_floating(column.type) and value.as_py() != value.as_py()
                else pc.field("v") == value
            )
            assert dataset.to_table(filter=wanted).num_rows == 1, value
