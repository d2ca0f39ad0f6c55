"""What loses or doubles rows without a word where delta-rs (1.6) writes Delta tables, and does not where we do."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tailrace.errors import Overtaken
from tailrace.lake.delta.table import DeltaVersion, OpenDeltaTable, find
from tailrace.lake.files.data_files import DataFiles
from tailrace.lake.files.file_changes import FileChanges
from tailrace.lake.files.table_edit import TableEdit
from tailrace.lake.reading import read_table
from tailrace.lake.table import CommitNote
from tailrace.storage.local_store import LocalStore

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.decimal128(38, 2))])
RUN, NEXT_RUN = "0" * 32, "1" * 32


def _rows(ids: list[int]) -> pa.Table:
    numbers = [Decimal("9" * 35 + f".{each % 100:02}") for each in ids]
    return pa.table([pa.array(ids, pa.int64()), pa.array(numbers, pa.decimal128(38, 2))], schema=SCHEMA)


def _made(folder: Path, *files: list[int]) -> None:
    data = DataFiles(LocalStore(folder), SCHEMA, RUN)
    added = FileChanges(added=tuple(data.write(_rows(ids)) for ids in files))
    DeltaVersion(LocalStore(folder)).make("t", "public.t", SCHEMA, CommitNote().with_vectors(), added)


def _without(folder: Path, ids: list[int]) -> tuple[OpenDeltaTable, FileChanges]:
    table = find(folder)
    edit = TableEdit(DataFiles(LocalStore(folder), SCHEMA, NEXT_RUN), table.files, ("id",), keeps_vectors=True)
    edit.delete(_rows(ids))
    return table, edit.changes()[0]


def _ids(folder: Path) -> list[int]:
    return sorted(read_table(folder)["id"].to_pylist())


def test_a_compaction_that_won_is_seen(tmp_path: Path) -> None:
    """1. A commit that was planned before it removes what is not there any more: its rows would be there twice."""
    _made(tmp_path, [1, 2], [3, 4], [5, 6])
    table, changes = _without(tmp_path, [1, 3])
    assert DeltaTable(tmp_path).optimize.compact()["numFilesRemoved"] == 3
    with pytest.raises(Overtaken):
        table.commit("t", changes, CommitNote())
    assert _ids(tmp_path) == [1, 2, 3, 4, 5, 6]
    table, changes = _without(tmp_path, [1, 3])
    table.commit("t", changes, CommitNote())
    assert _ids(tmp_path) == [2, 4, 5, 6]


def test_a_decimal_of_many_digits_is_found(tmp_path: Path) -> None:
    """2. Statistics of such go through floats elsewhere, and a file that has the value is passed over."""
    _made(tmp_path, [1, 2], [3, 4])
    table = find(tmp_path)
    edit = TableEdit(DataFiles(LocalStore(tmp_path), SCHEMA, RUN), table.files, ("n",), keeps_vectors=True)
    assert edit.delete(_rows([3])) == 1
    table.commit("t", edit.changes()[0], CommitNote())
    assert _ids(tmp_path) == [1, 2, 4]


def test_a_file_with_a_vector_is_removed(tmp_path: Path) -> None:
    """3. Its key in the log is the path and the vector: a removal that names the path alone does nothing."""
    _made(tmp_path, list(range(100)))
    for gone in ([1], [2, 3], [50]):
        table, changes = _without(tmp_path, gone)
        table.commit("t", changes, CommitNote())
    assert _ids(tmp_path) == [each for each in range(100) if each not in (1, 2, 3, 50)]
    table, changes = _without(tmp_path, list(range(100)))
    table.commit("t", changes, CommitNote())
    assert _ids(tmp_path) == []
    assert not find(tmp_path).files


def test_a_vacuum_of_all_leaves_vectors(tmp_path: Path) -> None:
    """4. delta-rs takes their files for what nobody knows, but where folders begin with an underscore."""
    _made(tmp_path, list(range(1000)))
    table, changes = _without(tmp_path, list(range(0, 400, 2)))
    table.commit("t", changes, CommitNote())
    assert list(tmp_path.glob("_dv/*.bin"))
    DeltaTable(tmp_path).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    assert len(_ids(tmp_path)) == 800


def test_two_runs_insert_a_key_once(tmp_path: Path) -> None:
    """5. Whoever is tried again by the library, without being planned again, inserts what is there by then."""
    _made(tmp_path, [1])
    both = []
    for _ in range(2):
        table = find(tmp_path)
        edit = TableEdit(DataFiles(LocalStore(tmp_path), SCHEMA, RUN), table.files, ("id",), keeps_vectors=True)
        edit.delete(_rows([7]))
        edit.insert(_rows([7]))
        both.append((table, edit.changes()[0]))
    both[0][0].commit("t", both[0][1], CommitNote())
    with pytest.raises(Overtaken):
        both[1][0].commit("t", both[1][1], CommitNote())
    assert _ids(tmp_path) == [1, 7]


def test_who_appends_meanwhile_is_not_lost(tmp_path: Path) -> None:
    """Another program's rows, between plan and commit."""
    schema = SCHEMA
    write_deltalake(tmp_path, _rows([1, 2]))
    table = find(tmp_path)
    edit = TableEdit(DataFiles(LocalStore(tmp_path), schema, RUN), table.files, ("id",), keeps_vectors=False)
    edit.delete(_rows([1]))
    write_deltalake(tmp_path, _rows([3]), mode="append")
    with pytest.raises(Overtaken, match="version 1"):
        table.commit("t", edit.changes()[0], CommitNote())
    assert _ids(tmp_path) == [1, 2, 3]
