"""Tables with our deletion vectors are what we say to everybody else who reads Delta, and what Delta's own library writes is read by us."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.delta_readers import ids_by_others, spark_sql
from support.delta_tables import SAID, begin_table, data_file, table_rows
from support.folder_store import FolderStore
from tailrace.delta_log.actions import Action, AddFile, RemoveFile
from tailrace.delta_log.deletion_vector import inline_vector, write_vectors
from tailrace.delta_log.file_bounds import file_bounds
from tailrace.lake.delta.commit import commit, now
from tailrace.lake.delta.snapshot import DeltaSnapshot
from tailrace.lake.files.rows import deleted_rows

pytestmark = pytest.mark.marathon


def begin_with_vectors(folder: Path) -> tuple[FolderStore, DeltaSnapshot]:
    """Three of four files have rows deleted, by two vectors in a file, and by one in the log."""
    store, snapshot, _ = begin_table(folder, files=4, rows_each=1000)
    files = list(snapshot.files.values())
    name, data, vectors = write_vectors([np.arange(0, 1000, 3), np.array([0, 5, 999])], uuid.uuid4(), "_dv")
    store.put_new(name, data)
    actions: list[Action] = []
    for file, vector in zip(files, [*vectors, inline_vector(np.array([7]))], strict=False):
        actions += [RemoveFile.of(file, now()), AddFile(file.without(vector))]
    return store, commit(store, snapshot, actions, SAID)


def our_ids(store: FolderStore, snapshot: DeltaSnapshot, **how: Any) -> list[int]:
    return sorted(table_rows(store, snapshot, columns=["id"], **how)["id"].to_pylist())


def test_others_read_our_vectors(tmp_path: Path) -> None:
    store, snapshot = begin_with_vectors(tmp_path / "t")
    expected = our_ids(store, snapshot), our_ids(store, snapshot, within={"id": (500, 2500)})
    assert ids_by_others(tmp_path / "t", 500, 2500) == dict.fromkeys(("polars", "DuckDB", "delta-rs"), expected)


def test_deltas_own_library_and_ours_by_turns(tmp_path: Path) -> None:
    """It reads ours, deletes on, and makes checkpoints of both specifications, with statistics as text and as structs; we read all, and go on."""
    folder = tmp_path / "t"
    store, snapshot = begin_with_vectors(folder)
    table = f"delta.`{folder}`"
    every, between = f"SELECT id FROM {table} ORDER BY id", f"SELECT count(*) FROM {table} WHERE id BETWEEN 500 AND 2500"
    first = our_ids(store, snapshot)
    wide = f"SELECT id FROM {table} WHERE wide = 1234567890123457000.12"
    struct = "'delta.checkpoint.writeStatsAsStruct' = 'true', 'delta.checkpoint.writeStatsAsJson' = 'false'"
    said = spark_sql(
        [
            every, between, wide,
            f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointInterval' = '2', {struct})",
            f"DELETE FROM {table} WHERE id % 7 = 3", every,
            f"DELETE FROM {table} WHERE id BETWEEN 1500 AND 1600", f"DELETE FROM {table} WHERE id = 3999", every,
        ],
        tmp_path / "warehouse",
    )  # fmt: skip
    assert [int(row[0]) for row in said[0]] == first
    assert said[1] == [[str(len([each for each in first if 500 <= each <= 2500]))]]
    assert said[2] == [["211"]]
    deleted = [each for each in first if each % 7 != 3]
    assert [int(row[0]) for row in said[5]] == deleted
    left = [each for each in deleted if not 1500 <= each <= 1600 and each != 3999]
    assert [int(row[0]) for row in said[8]] == left
    snapshot = DeltaSnapshot.read(store)
    assert list((folder / "_delta_log").glob("*.checkpoint.parquet"))
    assert our_ids(store, snapshot) == left
    assert our_ids(store, snapshot, within={"id": (1490, 1610)}) == [each for each in left if 1490 <= each <= 1610]
    assert sum(len(deleted_rows(store, file)) for file in snapshot.files.values()) == 4000 - len(left)
    snapshot = commit(store, snapshot, [AddFile(data_file(store, snapshot.schema, 5))], SAID)
    ours = our_ids(store, snapshot)
    said = spark_sql(
        [
            every,
            f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2', 'delta.feature.v2Checkpoint' = 'supported')",
            f"DELETE FROM {table} WHERE id = 0", f"DELETE FROM {table} WHERE id = 1", f"DELETE FROM {table} WHERE id = 2", every,
        ],
        tmp_path / "warehouse",
    )  # fmt: skip
    assert [int(row[0]) for row in said[0]] == ours
    assert list((folder / "_delta_log/_sidecars").iterdir())
    newest = DeltaSnapshot.read(store)
    assert our_ids(store, newest) == [int(row[0]) for row in said[5]] == [each for each in ours if each > 2]
    followed = snapshot.refreshed(store)
    assert followed.files.keys() == newest.files.keys()
    assert (followed.metadata, followed.protocol) == (newest.metadata, newest.protocol)
    columns = newest.schema.names  # a timestamp has another text in statistics that come from structs
    assert file_bounds([*followed.files.values()], newest.schema, columns) == file_bounds(
        [newest.files[key] for key in followed.files], newest.schema, columns
    )
