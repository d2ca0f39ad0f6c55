"""What the deltalake that is installed makes of our tables, for those who read and maintain them with it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import CommitFailedError

from support.delta_tables import SAID, written
from support.folder_store import FolderStore
from tailrace.delta_log.actions import AddFile
from tailrace.lake.delta.commit import commit, first_actions, new_metadata
from tailrace.lake.delta.snapshot import DeltaSnapshot
from tailrace.lake.files.data_files import DataFiles
from tailrace.lake.reading import read_table

ROWS = 50_000
"""Several batches, which delta-rs before 1.6.4 dealt out to several threads, and took a vector's positions for those of each."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table whose file has a deletion vector."""
    texts = [f"é {number}" if number % 7 else None for number in range(ROWS)]
    rows = pa.table({"id": pa.array(range(ROWS), pa.int64()), "text": texts})
    store = FolderStore(tmp_path / "t")
    metadata = new_metadata(rows.schema, "t", {"delta.enableDeletionVectors": "true"})
    file = written(store, rows)
    (vector,) = DataFiles(store, rows.schema, "0" * 32).write_vectors([np.arange(0, ROWS, 100)])
    commit(store, DeltaSnapshot(), [*first_actions(metadata, rows.schema), AddFile(file.without(vector))], SAID)
    return tmp_path / "t"


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("", lambda _, __: True),
        ("WHERE id BETWEEN 500 AND 30000", lambda each, _: 500 <= each <= 30_000),
        ("WHERE text IS NULL", lambda _, text: text is None),
    ],
    ids=["all", "a range", "nulls"],
)
def test_queries(folder: Path, where: str, holds: Callable[[int, str | None], bool]) -> None:
    rows = read_table(folder)
    assert len(rows) == ROWS - ROWS // 100
    expected = sorted(
        each for each, text in zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True) if holds(each, text)
    )
    for _ in range(8):
        found = pa.table(QueryBuilder().register("t", DeltaTable(folder)).execute(f"SELECT id FROM t {where}"))
        assert sorted(found["id"].to_pylist()) == expected


@pytest.mark.parametrize("what", ["compact", "z_order", "delete", "vacuum"])
def test_what_it_rewrites(folder: Path, tmp_path: Path, what: str) -> None:
    before = sorted(read_table(folder)["id"].to_pylist())
    for attempt in range(5):
        copy = tmp_path / str(attempt)
        shutil.copytree(folder, copy)
        table = DeltaTable(copy)
        if what == "compact":
            table.optimize.compact()
        elif what == "z_order":
            table.optimize.z_order(["id"])
        elif what == "delete":
            table.delete("id = 30001")
        else:
            table.vacuum(0, dry_run=False, enforce_retention_duration=False)
        expected = [each for each in before if what != "delete" or each != 30001]
        assert sorted(read_table(copy)["id"].to_pylist()) == expected


@pytest.mark.xfail(strict=True, reason="delta-rs 1.6.4 to 1.6.6 pass over files that a commit with dataChange = false removed")
def test_whose_compaction_comes_late(tmp_path: Path) -> None:
    """It would see that another has compacted the same files."""
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"a": [number] * 10}), mode="append")
    stale, other = DeltaTable(tmp_path), DeltaTable(tmp_path)
    other.optimize.compact()
    with pytest.raises(CommitFailedError):
        stale.optimize.compact()
    assert read_table(tmp_path).num_rows == 30
