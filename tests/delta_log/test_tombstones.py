"""Tombstones as columns: what a checkpoint leaves out nobody needs to know, and others' columns are ours."""

from __future__ import annotations

import random
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.delta_log.actions import DataFile, RemoveFile
from tailrace.delta_log.checkpoint import read_tombstones, tombstone_columns
from tailrace.delta_log.deletion_vector import DeletionVector, inline_vector, write_vectors
from tailrace.delta_log.tombstones import columns_of, conformed, kept_until, still_needed


def _drawn(count: int) -> tuple[list[RemoveFile], list[DataFile]]:
    """Files that get one deletion vector after the other, and go; some are still there."""
    stored = [vector for _ in range(6) for vector in write_vectors([np.arange(3), np.arange(5)], uuid.uuid4(), "_dv")[2]]
    vectors: list[DeletionVector | None] = [None, inline_vector(np.array([1])), inline_vector(np.array([2, 3])), *stored]
    removed = [
        RemoveFile(f"part-{random.randrange(12)}.parquet", random.choice([None, *range(0, 2000, 50)]), random.choice(vectors))
        for _ in range(count)
    ]
    there = [
        DataFile(f"part-{number}.parquet", 10, 0, deletion_vector=random.choice(vectors))
        for number in range(12)
        if random.random() < 0.3
    ]
    return removed, there


def test_what_is_left_out_is_not_missed() -> None:
    """Of every file that the table does not name, it is known until when it stays, if that is not over."""
    for seed in range(200):
        random.seed(seed)
        removed, there = _drawn(random.randrange(60))
        columns, oldest = columns_of(removed), random.choice([0, 500, 3000])
        left = still_needed(columns, there, oldest)
        named = {file.path for file in there} | {
            file.deletion_vector.file_name for file in there if file.deletion_vector and file.deletion_vector.file_name
        }
        before = {name: end for name, end in kept_until(columns, 10.0).items() if name not in named and end >= oldest / 1000 + 10}
        after = {name: end for name, end in kept_until(left, 10.0).items() if name in before}
        assert after == before
        assert len(left) <= 2 * len(before)
        assert still_needed(left, there, oldest).equals(left)


def test_they_come_back_as_they_were_written() -> None:
    random.seed(1)
    removed, _ = _drawn(40)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"remove": columns_of(removed)}), sink)
    data = sink.getvalue().to_pybytes()
    assert read_tombstones(data, "c.parquet") == removed
    assert tombstone_columns(data, "c.parquet").equals(columns_of(removed))
    assert len(columns_of([])) == 0


def test_columns_of_another_writer() -> None:
    """With fewer columns, with others, in another order, some in smaller types; and rows that are no tombstones."""
    removed = [{"size": 7, "deletionTimestamp": 5, "path": "a", "stats": "{}", "deletionVector": None}, None]
    kind = pa.struct(
        {
            "size": pa.int32(), "deletionTimestamp": pa.int64(), "path": pa.large_string(), "stats": pa.string(),
            "deletionVector": pa.struct({"cardinality": pa.int32(), "storageType": pa.string()}),
        }
    )  # fmt: skip
    ours = conformed(pa.array(removed, kind))
    assert ours.is_valid().to_pylist() == [True, False]
    assert {name: value for name, value in ours[0].as_py().items() if value is not None} == {
        "path": "a", "deletionTimestamp": 5, "size": 7,
    }  # fmt: skip
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"remove": pa.array(removed, kind)}), sink)
    assert [each["path"] for each in tombstone_columns(sink.getvalue().to_pybytes(), "c.parquet").to_pylist()] == ["a"]
    assert len(tombstone_columns(b'{"remove":{"path":"b","dataChange":true}}\n', "c.json")) == 1
