"""Which columns of a data file are packed, and that what is packed is read as it was written, by Arrow, DuckDB and Spark; others are asked
by marathons (`test_every_type.py`, `test_one_spark_session.py`)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.folder_store import FolderStore
from tailrace.lake.files.data_files import DataFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 5000
_ANY = np.random.default_rng(7)


def _with_nulls(values: Any, kind: pa.DataType) -> pa.Array:
    return pa.array([None if at % 11 == 3 else value for at, value in enumerate(values)], kind)


COUNTED = np.arange(ROWS)
TABLE = pa.table(
    {
        "id": pa.array(COUNTED + (1 << 40)),
        "down": _with_nulls((-COUNTED * 3).tolist(), pa.int32()),
        "ends": pa.array([(-1) ** at * (2**63 - 1) - (at % 2) for at in range(ROWS)], pa.int64()),
        "day": pa.array(COUNTED.astype(np.int32), pa.date32()),
        "at": _with_nulls((COUNTED * 1_000_003).tolist(), pa.timestamp("us", "UTC")),
        "local": pa.array(COUNTED * 60_000_000, pa.timestamp("us")),
        "small": pa.array((COUNTED % 30_000).astype(np.int16)),
        "random": pa.array(_ANY.integers(-(2**62), 2**62, ROWS)),
        "cents": _with_nulls([Decimal(at) / 100 for at in range(-2000, ROWS - 2000)], pa.decimal128(9, 2)),
        "amount": pa.array([Decimal(at) * 10**10 for at in range(ROWS)], pa.decimal128(18, 3)),
        "any_amount": pa.array([Decimal(each) for each in _ANY.integers(-(10**15), 10**15, ROWS).tolist()], pa.decimal128(18, 1)),
        "wide": _with_nulls([Decimal(at) * 10**20 for at in range(ROWS)], pa.decimal128(38, 2)),
        "nothing": pa.nulls(ROWS, pa.int64()),
        "few": pa.array(COUNTED % 7),
        "price": pa.array(COUNTED * 0.01),
        "note": pa.array([f"a note about {at}" for at in range(ROWS)]),
    }
)
PACKED = {"id", "down", "day", "at", "local", "cents", "amount"}


def written(folder: Path, table: pa.Table = TABLE, *, packs_integers: bool = True) -> tuple[Path, dict[str, str]]:
    """Where the file lies, and the encoding of each column's values."""
    files = DataFiles(FolderStore(folder), table.schema, "0" * 32, packs_integers=packs_integers)
    path = folder / files.write(table).path
    footer = pq.read_metadata(path)
    chunks = [footer.row_group(0).column(at) for at in range(footer.num_columns)]
    return path, {
        chunk.path_in_schema: next((each for each in chunk.encodings if each not in ("RLE", "PLAIN")), "PLAIN")
        for chunk in chunks
    }


def test_integers_that_follow_one_another_are_packed(tmp_path: Path) -> None:
    path, encodings = written(tmp_path / "packed")
    assert {name for name, encoding in encodings.items() if encoding == "DELTA_BINARY_PACKED"} == PACKED
    other, encodings = written(tmp_path / "plain", packs_integers=False)
    assert "DELTA_BINARY_PACKED" not in encodings.values()
    assert path.stat().st_size < other.stat().st_size * 0.8
    assert pq.read_table(path) == pq.read_table(other) == TABLE


def test_few_rows_are_not_looked_at(tmp_path: Path) -> None:
    _, encodings = written(tmp_path, TABLE.slice(0, 100))
    assert "DELTA_BINARY_PACKED" not in encodings.values()


@pytest.mark.parametrize("start", [0, 100, ROWS - 1])
def test_rows_are_read_as_they_were_written(tmp_path: Path, start: int) -> None:
    table = pa.concat_tables([TABLE.slice(start), TABLE, TABLE.slice(0, start)])
    path, _ = written(tmp_path, table)
    assert pq.read_table(path) == table
    found = duckdb.sql(f"SET TimeZone = 'UTC'; SELECT * FROM '{path}'").to_arrow_table()
    assert found.cast(table.schema) == table


@pytest.mark.spark
def test_spark_reads_them_as_they_were_written(spark: SparkSession, tmp_path: Path) -> None:
    path, _ = written(tmp_path)
    assert spark.conf.get("spark.sql.parquet.enableVectorizedReader") == "true"
    found = spark.read.parquet(str(path)).toArrow()
    assert found.cast(TABLE.schema) == TABLE
