"""Files of changes on their way are read as they were written, whichever form they have."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tailrace.lake.files.changes_file import ARROW, PARQUET, open_changes_file, read_changes_file
from tailrace.storage.local_store import LocalStore

SCHEMA = pa.schema(
    [
        ("commit_lsn", pa.int64()),
        ("kind", pa.string()),
        ("unchanged", pa.list_(pa.string())),
        ("new", pa.struct([("id", pa.int32())])),
    ]
)


def _batch(first: int) -> pa.RecordBatch:
    rows = [
        {"commit_lsn": first, "kind": "insert", "unchanged": [], "new": {"id": 1}},
        {"commit_lsn": first + 1, "kind": "update", "unchanged": ["a", "b"], "new": {"id": None}},
        {"commit_lsn": first + 2, "kind": "delete", "unchanged": [], "new": None},
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


@pytest.mark.parametrize("form", [ARROW, PARQUET])
def test_read_as_written(tmp_path: Path, form: str) -> None:
    name = f"16384/part{form}"
    path = tmp_path / name
    path.parent.mkdir()
    batches = [_batch(10), _batch(20)]
    with open_changes_file(path, name, SCHEMA) as writer:
        for batch in batches:
            writer.write_batch(batch)
    whole, store = pa.Table.from_batches(batches), LocalStore(tmp_path)
    assert read_changes_file(store, name, SCHEMA) == whole
    for columns in (["commit_lsn"], ["new", "commit_lsn"], SCHEMA.names):
        assert read_changes_file(store, name, SCHEMA, columns) == whole.select(columns)
    with pytest.raises(FileNotFoundError):
        read_changes_file(store, f"another{form}", SCHEMA)
