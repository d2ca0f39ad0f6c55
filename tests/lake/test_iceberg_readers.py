"""Our tables of Iceberg are what we say to everybody else who reads Iceberg, and what Iceberg's own library writes is gone on from by us."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lake.test_iceberg import SCHEMA, _edited, _ids, _made, _rows
from support.iceberg_readers import ids_by_others, spark_sql
from tailrace.lake.iceberg.table import IcebergVersion
from tailrace.lake.maintenance import maintain
from tailrace.lake.reading import rows_of
from tailrace.lake.table import FileLayout

pytestmark = pytest.mark.marathon


def _read(found: IcebergVersion) -> list[int]:
    return _ids(pa.Table.from_batches(rows_of(found), SCHEMA))


def test_others_read_ours(tmp_path: Path) -> None:
    found = _made(tmp_path)
    for step in range(1, 15):
        found = _edited(found, _rows(step * 100, 50), [step * 100 - 60, step * 3])
    found = maintain(found, "t", FileLayout(("id",))).version
    every = _read(found)
    expected = every, [each for each in every if 450 <= each <= 1020]
    assert ids_by_others(tmp_path, 450, 1020) == dict.fromkeys(("DuckDB", "polars", "pyiceberg"), expected)


def test_icebergs_own_library_and_ours_by_turns(tmp_path: Path) -> None:
    """It reads ours in a catalog of a directory, writes, and cleans up; we go on from what it has written, and it reads that."""
    folder = tmp_path / "ours/public.t"
    found = _edited(_made(folder), _rows(100, 50), [1, 2])
    every = "SELECT id FROM lake.ours.`public.t` ORDER BY id"
    said = spark_sql(
        [
            every, "SELECT count(*), min(at), max(n) FROM lake.ours.`public.t` WHERE id BETWEEN 10 AND 120 AND text > 'x2'",
            "INSERT INTO lake.ours.`public.t` SELECT id + 1000, 'theirs', at, n FROM lake.ours.`public.t` WHERE id < 10",
            "DELETE FROM lake.ours.`public.t` WHERE id IN (5, 6)", "ALTER TABLE lake.ours.`public.t` ADD COLUMN more int",
            "UPDATE lake.ours.`public.t` SET text = 'updated' WHERE id = 7", every,
        ],
        tmp_path,
    )  # fmt: skip
    assert [int(row[0] or 0) for row in said[0]] == _read(found)
    rows = pa.Table.from_batches(rows_of(found), SCHEMA).to_pylist()
    some = [row for row in rows if 10 <= row["id"] <= 120 and row["text"] > "x2"]
    assert said[1] == [
        [str(len(some)), f"{min(row['at'] for row in some):%Y-%m-%d %H:%M:%S.%f}", f"{max(row['n'] for row in some)}"]
    ]
    theirs = found.refreshed()
    assert theirs.version == found.version + 4
    assert [int(row[0] or 0) for row in said[6]] == _ids(pa.Table.from_batches(rows_of(theirs), theirs.open().schema))
    found = _edited(theirs, _rows(5000, 10), [7, 1003])
    found = maintain(found, "t", FileLayout(("id",))).version
    said = spark_sql(
        [every, "SELECT more FROM lake.ours.`public.t` WHERE id = 5001", "CALL lake.system.rewrite_data_files('ours.`public.t`')",
         "CALL lake.system.expire_snapshots('ours.`public.t`')", every],
        tmp_path,
    )  # fmt: skip
    expected = _ids(pa.Table.from_batches(rows_of(found), found.open().schema))
    assert [int(row[0] or 0) for row in said[0]] == [int(row[0] or 0) for row in said[4]] == expected
    assert said[1] == [[None]]
    assert _ids(pa.Table.from_batches(rows_of(found.refreshed()), found.refreshed().open().schema)) == expected
