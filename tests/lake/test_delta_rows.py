"""The rows of Delta tables by our own reader: less those that vectors name, in the table's types, and those of a range without the rest."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from support.delta_tables import SAID, begin_table, table_rows, written
from support.folder_store import FolderStore
from tailrace.delta_log.actions import Action, AddFile, DataFile, RemoveFile
from tailrace.delta_log.deletion_vector import DeletionVector, inline_vector, write_vectors
from tailrace.delta_log.table_schema import format_schema
from tailrace.delta_log.table_state import with_metadata
from tailrace.errors import CorruptFile, UnsupportedFile
from tailrace.lake.delta.commit import commit, first_actions, new_metadata, now
from tailrace.lake.delta.rows import files_within, read_rows
from tailrace.lake.delta.snapshot import DeltaSnapshot
from tailrace.lake.files.rows import deleted_rows, file_rows


def table_of(folder: Path, rows: pa.Table, **how: Any) -> tuple[FolderStore, DeltaSnapshot]:
    """A table of one file."""
    store = FolderStore(folder)
    metadata = new_metadata(rows.schema, "t", {"delta.enableDeletionVectors": "true"})
    actions = [*first_actions(metadata, rows.schema), AddFile(written(store, rows, **how))]
    return store, commit(store, DeltaSnapshot(), actions, SAID)


def with_vectors(store: FolderStore, snapshot: DeltaSnapshot, deleted: Mapping[str, np.ndarray]) -> DeltaSnapshot:
    """The table without these rows, by the paths of its files."""
    name, data, vectors = write_vectors(deleted.values(), uuid.uuid4(), "_dv")
    store.put_new(name, data)
    by_path = {file.path: file for file in snapshot.files.values()}
    actions: list[Action] = []
    for path, vector in zip(deleted, vectors, strict=True):
        actions += [RemoveFile.of(by_path[path], now()), AddFile(by_path[path].without(vector))]
    return commit(store, snapshot, actions, SAID)


def test_rows_between_any_two_keys(tmp_path: Path) -> None:
    """Drawn: row groups, deleted rows and ends; what is read is what a filter of all rows has."""
    for seed in range(12):
        random.seed(seed)
        count = random.choice([1, 100, 3000])
        keys = sorted(random.sample(range(10 * count), count)) if seed % 2 else random.sample(range(10 * count), count)
        rows = pa.table(
            {"id": pa.array(keys, pa.int64()), "text": pa.array([f"{key:05}" if key % 9 else None for key in keys], pa.string())}
        )
        store, snapshot = table_of(tmp_path / str(seed), rows, row_group_size=random.choice([7, 500, 5000]))
        deleted = np.array(sorted(random.sample(range(count), count // 3)), np.int64)
        path = next(iter(snapshot.files.values())).path
        snapshot = with_vectors(store, snapshot, {path: deleted})
        left = rows.filter(pa.array(~np.isin(np.arange(count), deleted)))
        assert table_rows(store, snapshot) == left
        for _ in range(5):
            low, high = sorted(random.choices(range(-5, 10 * count + 5), k=2))
            within = random.choice(
                [{"id": (low, high)}, {"id": (None, high)}, {"id": (low, None)}, {"text": (f"{low:05}", None)}]
            )
            (name, (least, greatest)) = next(iter(within.items()))
            expected = [
                row for row in left.to_pylist()
                if row[name] is not None and (least is None or row[name] >= least) and (greatest is None or row[name] <= greatest)
            ]  # fmt: skip
            assert table_rows(store, snapshot, within=within).to_pylist() == expected, (seed, within)
            assert table_rows(store, snapshot, columns=["text"], within=within)["text"].to_pylist() == [
                row["text"] for row in expected
            ]
        file = next(iter(snapshot.files.values()))
        for positions, batch in file_rows(store, file, snapshot.schema):
            assert batch.to_pylist() == rows.take(positions).to_pylist()


def test_files_without_the_keys_are_not_opened(tmp_path: Path) -> None:
    store, snapshot, _ = begin_table(tmp_path, files=4, rows_each=10)
    assert [len(files_within(snapshot, {"id": ends})) for ends in ((0, 39), (10, 19), (9, 10), (40, 50), (None, 0), (15, None))] == [
        4, 1, 2, 0, 1, 3
    ]  # fmt: skip
    for file in list(snapshot.files.values())[2:]:
        (tmp_path / file.path).unlink()
    assert table_rows(store, snapshot, within={"id": (5, 14)}).num_rows == 10
    with pytest.raises(CorruptFile, match="cannot be read") as caught:
        table_rows(store, snapshot)
    assert caught.value.detail == "It is not there."


def test_row_groups_without_the_keys_are_not_read(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(1000), pa.int64())})
    store, snapshot = table_of(tmp_path, rows, row_group_size=100, compression="none")
    path = tmp_path / next(iter(snapshot.files.values())).path
    data = bytearray(path.read_bytes())
    data[4:60] = b"\xff" * 56  # the head of the first row group
    path.write_bytes(data)
    assert table_rows(store, snapshot, within={"id": (350, 360)})["id"].to_pylist() == [*range(350, 361)]
    with pytest.raises(CorruptFile):
        table_rows(store, snapshot)


def test_batches_are_of_a_row_group_at_most(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(200_000), pa.int64())})
    store, snapshot = table_of(tmp_path, rows, row_group_size=90_000)
    sizes = [batch.num_rows for batch in read_rows(store, snapshot)]
    assert sum(sizes) == 200_000
    assert max(sizes) <= 65_536
    deleted = np.arange(0, 200_000, 7)
    snapshot = with_vectors(store, snapshot, {next(iter(snapshot.files.values())).path: deleted})
    found = table_rows(store, snapshot)["id"].to_numpy()
    assert np.array_equal(found, np.setdiff1d(np.arange(200_000), deleted))


def test_columns_that_came_later_are_null_and_types_are_the_tables(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    write_deltalake(tmp_path, pa.table({"id": pa.array([1, 2], pa.int64()), "s": pa.array([{"a": 1}, None])}))
    before = DeltaSnapshot.read(store)
    schema = pa.schema(
        [
            *before.schema, pa.field("new", pa.decimal128(10, 2)), pa.field("l", pa.list_(pa.field("element", pa.struct({"x": pa.string()})))),
            pa.field("m", pa.map_(pa.string(), pa.int64())),
        ]
    )  # fmt: skip
    after = commit(store, before, [with_metadata(before.state, schema_text=format_schema(schema))], SAID)
    found = table_rows(store, after)
    assert found.schema == after.schema
    assert found.to_pylist() == [
        {"id": 1, "s": {"a": 1}, "new": None, "l": None, "m": None}, {"id": 2, "s": None, "new": None, "l": None, "m": None}
    ]  # fmt: skip
    assert table_rows(store, after, columns=["new"])["new"].to_pylist() == [None, None]
    assert table_rows(store, after, columns=["new"], within={"id": (2, 2)}).num_rows == 1


def test_files_as_other_writers_have_them(tmp_path: Path) -> None:
    """Timestamps of 96 bits and of milliseconds, 32-bit decimals, names with dots, texts from a dictionary."""
    at = pa.array([0, 253402300799999000, -62135596800000000], pa.timestamp("us"))
    rows = pa.table({"a": [1, 2, 3], "a.b": ["x", "y", "z"], "at": at})
    metadata = new_metadata(rows.schema, "t", {})
    store = FolderStore(tmp_path)
    old = pa.table({"a": [4], "a.b": pa.array(["x"]).dictionary_encode(), "at": pa.array([5], pa.timestamp("ms"))})
    files = [written(store, rows, use_deprecated_int96_timestamps=True)]
    pq.write_table(old, tmp_path / "old.parquet")
    files.append(DataFile("old.parquet", 1, 1))
    snapshot = commit(store, DeltaSnapshot(), [*first_actions(metadata, rows.schema), *map(AddFile, files)], SAID)
    found = table_rows(store, snapshot)
    assert found["a.b"].to_pylist() == ["x", "y", "z", "x"]
    assert found["at"].cast(pa.int64()).to_pylist() == [*at.cast(pa.int64()).to_pylist(), 5000]
    assert table_rows(store, snapshot, columns=["a"])["a"].to_pylist() == [1, 2, 3, 4]


def test_rows_of_views_less_those_that_are_deleted(tmp_path: Path) -> None:
    """delta-rs writes strings as views where it rewrites a file; a deletion vector of such a file is of ours."""
    views = pa.table(
        {
            "id": pa.array(range(5), pa.int64()),
            "text": pa.array([None, "a", "b", "c", "much longer than a view holds"], pa.string_view()),
            "data": pa.array([b"0", None, b"2", b"3", b"4"], pa.binary_view()),
            "many": pa.array([["x"], [], None, ["y", None], ["z"]], pa.list_(pa.string_view())),
        }
    )
    rows = views.cast(
        pa.schema([("id", pa.int64()), ("text", pa.string()), ("data", pa.binary()), ("many", pa.list_(pa.string()))])
    )
    store, snapshot = table_of(tmp_path, rows)
    (path,) = (file.path for file in snapshot.files.values())
    pq.write_table(views, tmp_path / path)
    assert pq.read_schema(tmp_path / path).field("text").type == pa.string_view()
    snapshot = with_vectors(store, snapshot, {path: np.array([0, 3], np.int64)})
    assert table_rows(store, snapshot) == rows.take([1, 2, 4])
    assert table_rows(store, snapshot, within={"text": ("b", "c")}) == rows.take([2])


def test_vectors_that_do_not_fit_their_files(tmp_path: Path) -> None:
    store, snapshot, _ = begin_table(tmp_path, files=1, rows_each=10)
    file = next(iter(snapshot.files.values()))
    beyond = replace(file, deletion_vector=inline_vector(np.array([10])))
    with pytest.raises(CorruptFile, match="cannot be read") as caught:
        list(file_rows(store, beyond, snapshot.schema))
    assert caught.value.detail == "Its deletion vector has row 10 of 10."
    name, data, (first, second) = write_vectors([np.array([1, 2]), np.array([3])], uuid.uuid4())
    with pytest.raises(CorruptFile):
        deleted_rows(store, file.without(first))
    store.put(name, data)
    assert deleted_rows(store, file.without(second)).tolist() == [3]
    store.put(name, b"\x02" + data[1:])
    for vector in (first, second):
        with pytest.raises(UnsupportedFile, match="another version"):
            deleted_rows(store, file.without(vector))
    store.put(name, data[:-1])
    assert deleted_rows(store, file.without(first)).tolist() == [1, 2]
    with pytest.raises(CorruptFile, match="invalid deletion vector"):
        deleted_rows(store, file.without(second))


def test_files_that_are_none_of_ours_or_damaged(tmp_path: Path) -> None:
    store, snapshot, _ = begin_table(tmp_path, files=1)
    file = next(iter(snapshot.files.values()))
    (tmp_path / "..a").mkdir()
    (tmp_path / file.path).rename(tmp_path / "..a/b..c")
    file = replace(file, path="..a/b..c")
    assert len(list(file_rows(store, file, snapshot.schema))) == 1
    outside = DeletionVector("u", "../x" + "0" * 20, 34, 1, 1)
    with pytest.raises(UnsupportedFile, match="does not lie in the folder"):
        deleted_rows(store, file.without(outside))
    for path in ("/etc/passwd", "s3://bucket/file", "file:/etc/passwd", "../x", "a/../../x", "a/.."):
        with pytest.raises(UnsupportedFile, match="does not lie in the folder"):
            list(file_rows(store, replace(file, path=path), snapshot.schema))
    data = (tmp_path / file.path).read_bytes()
    nameless = data.replace(b"\x04text", b"\x04te\xcet")
    assert nameless != data
    for damaged in (b"", b"PAR1", data[:-20], data[:4] + bytes(len(data) - 200) + data[-196:], nameless):
        (tmp_path / file.path).write_bytes(damaged)
        with pytest.raises(CorruptFile, match="cannot be read"):
            list(file_rows(store, file, snapshot.schema))
