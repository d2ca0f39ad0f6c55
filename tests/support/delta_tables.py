"""Delta tables that are made by our own commits, for tests."""

from __future__ import annotations

import random
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.folder_store import FolderStore
from tailrace.delta_log.actions import Action, AddFile, AppTransaction, DataFile
from tailrace.delta_log.file_statistics import EXACT, FileStatistics
from tailrace.errors import Overtaken
from tailrace.lake.delta.commit import commit, first_actions, new_metadata, now
from tailrace.lake.delta.rows import read_rows
from tailrace.lake.delta.snapshot import DeltaSnapshot

SAID = {"operation": "WRITE", "operationParameters": {"mode": "Append"}}


def begin_table(
    folder: Path, *, files: int = 2, rows_each: int = 20, vectors: bool = True, local_times: bool = True
) -> tuple[FolderStore, DeltaSnapshot, pa.Table]:
    """Version 0, which makes the table, and version 1, which adds so many files; `id` counts through them."""
    count = files * rows_each
    columns: dict[str, Any] = {
        "id": pa.array(range(count), pa.int64()),
        "text": [f"é {number}" if number % 7 else None for number in range(count)],
        "wide": pa.array([Decimal("1234567890123456789.12") + number for number in range(count)], pa.decimal128(38, 2)),
        "at": pa.array([1_700_000_000_000_123 + number * 1_000_003 for number in range(count)], pa.timestamp("us", "UTC")),
    }
    if local_times:
        columns["local"] = columns["at"].cast(pa.int64()).cast(pa.timestamp("us"))
    rows = pa.table(columns)
    store = FolderStore(folder)
    metadata = new_metadata(rows.schema, "t", {"delta.enableDeletionVectors": "true"} if vectors else {})
    snapshot = commit(store, DeltaSnapshot(), first_actions(metadata, rows.schema), {"operation": "CREATE TABLE"})
    parts = [rows.slice(number * rows_each, rows_each) for number in range(files)]
    actions: list[Action] = [AddFile(written(store, part)) for part in parts]
    return store, commit(store, snapshot, [*actions, AppTransaction("tailrace", 7)], SAID), rows


def written(store: FolderStore, rows: pa.Table, **how: Any) -> DataFile:
    """A file with these rows, which is not in the table yet."""
    name = f"part-{uuid.uuid4()}.parquet"
    store.folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, store.folder / name, **how)
    statistics = FileStatistics.of(rows, rows.schema.names)
    return DataFile(name, (store.folder / name).stat().st_size, now(), statistics.as_json(), tags=EXACT)


def data_file(store: FolderStore, schema: pa.Schema, rows: int) -> DataFile:
    """A file with so many rows, of which only `id` is not null."""
    ids = pa.array([random.randrange(10**6, 10**9) for _ in range(rows)], pa.int64())
    return written(store, pa.table([ids, *(pa.nulls(rows, field.type) for field in list(schema)[1:])], schema=schema))


def table_rows(store: FolderStore, snapshot: DeltaSnapshot, **how: Any) -> pa.Table:
    """All rows of a snapshot."""
    names = how.get("columns")
    schema = snapshot.schema if names is None else pa.schema([snapshot.schema.field(name) for name in names])
    return pa.Table.from_batches(read_rows(store, snapshot, **how), schema)


def commit_until(folder: Path, version: int, start: Any, results: Any, name: str) -> None:
    """Commit as often as one can, beside others, until there is this version; `results` gets the versions that were ours."""
    store, won = FolderStore(folder), []
    snapshot = DeltaSnapshot.read(store)
    start.wait()
    while snapshot.version < version:
        try:
            snapshot = commit(store, snapshot, [AppTransaction(name, snapshot.version)], SAID)
            won.append(snapshot.version)
        except Overtaken:
            snapshot = snapshot.refreshed(store)
    results.put(won)
