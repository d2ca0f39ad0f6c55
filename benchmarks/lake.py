"""What an update of a large table of the lake costs, beside delta-rs's own MERGE on the same table.

    python benchmarks/lake.py --rows 50000000 --changes 1000000
    python benchmarks/lake.py --rows 50000000 --changes 1000 --no-merge
    python benchmarks/lake.py --tables 500 --changed 5

A table (id bigint, text, int, bigint, numeric(12,2), timestamptz, boolean, text) is written in the order of its key, as a copy would. Changes
for keys drawn at random (70 % updates, 10 % deletes, 20 % inserts) go into it as a window of `tailrace mirror` does, and into a copy of it by MERGE.
Of each: seconds, bytes written, and the most memory that a process of its own had.

With --tables: so many tables of a server, of which a few change from window to window, in a directory and on a server of S3's protocol (SeaweedFS).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "tests")]

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from support.s3_servers import SeaweedFS
from support.servers import Server
from tailrace.apply.net_change import NetChange
from tailrace.lake.delta.table import DeltaVersion, find
from tailrace.lake.files.data_files import DataFiles
from tailrace.lake.files.file_changes import FileChanges
from tailrace.lake.files.table_edit import TableEdit
from tailrace.lake.lake import Lake
from tailrace.lake.table import CommitNote
from tailrace.pipeline import open_pipeline
from tailrace.storage.local_store import LocalStore
from tailrace.storage.open_store import open_store

_EACH = 625_000
"""Rows of a file."""
SCHEMA = pa.schema(
    [
        ("id", pa.int64()), ("name", pa.string()), ("kind", pa.int32()), ("amount", pa.int64()), ("price", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us", "UTC")), ("done", pa.bool_()), ("note", pa.string()),
    ]
)  # fmt: skip


def rows_of(ids: np.ndarray, salt: int) -> pa.Table:
    """Rows with these keys; another `salt`, other values."""
    mixed = (ids * 2654435761 + salt) & 0xFFFFFFFF
    text = pc.cast(pa.array(mixed), pa.string())
    cents = pa.array(mixed % 10_000_000).cast(pa.decimal128(19, 0))
    return pa.table(
        [
            pa.array(ids), pc.binary_join_element_wise("name", text, " "), pa.array((mixed % 1000).astype(np.int32)), pa.array(mixed),
            pc.divide(cents, pa.scalar(100, pa.decimal128(3, 0))).cast(pa.decimal128(12, 2), safe=False),
            pa.array(1_700_000_000_000_000 + mixed * 1000).cast(pa.timestamp("us", "UTC")), pa.array(mixed % 2 == 0),
            pc.binary_join_element_wise("a note of some length about", text, text, text, " "),
        ],
        schema=SCHEMA,
    )  # fmt: skip


def make(folder: Path, rows: int) -> None:
    """The table, in the order of its key; keys are the even numbers."""
    store = LocalStore(folder)
    data = DataFiles(store, SCHEMA, "copy")
    files = [data.write(rows_of(np.arange(start, min(rows, start + _EACH)) * 2, 0)) for start in range(0, rows, _EACH)]
    DeltaVersion(store).make("t", "public.t", SCHEMA, CommitNote().with_vectors(), FileChanges(added=tuple(files)))


def changes(rows: int, count: int) -> NetChange:
    """For keys drawn at random: 70 % updates, 10 % deletes, 20 % new."""
    dice = np.random.default_rng(1)
    there = dice.choice(rows, int(count * 0.8), replace=False) * 2
    new = dice.choice(rows, count - len(there), replace=False) * 2 + 1
    deleted = int(count * 0.1)
    return NetChange(
        ("id",), rows_of(np.concatenate([there[deleted:], new]), 7), pa.table({"id": there[:deleted]}), truncated=False
    )


def by_us(folder: Path, net: NetChange) -> int:
    """Bytes written."""
    table = find(folder)
    edit = TableEdit(DataFiles(table.found.store, SCHEMA, "window"), table.files, ("id",), keeps_vectors=True)
    edit.delete(pa.concat_tables([net.deletes.select(["id"]), net.upserts.select(["id"])]))
    edit.insert(net.upserts)
    edited, written = edit.changes()
    table.commit("t", edited, CommitNote())
    return written.bytes


def by_merge(folder: Path, net: NetChange) -> int:
    """The same with delta-rs."""
    from deltalake import DeltaTable  # noqa: PLC0415 - a process that does not merge does not need it

    before = {path: path.stat().st_size for path in folder.glob("*.parquet")}
    gone = pa.table([net.deletes["id"], *(pa.nulls(len(net.deletes), field.type) for field in list(SCHEMA)[1:])], schema=SCHEMA)
    source = pa.concat_tables(
        [
            net.upserts.append_column("gone", pa.array([False] * len(net.upserts))),
            gone.append_column("gone", pa.array([True] * len(gone))),
        ]
    )
    (
        DeltaTable(folder)
        .merge(source, "t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_delete("s.gone")
        .when_matched_update_all(predicate="NOT s.gone", except_cols=["gone"])
        .when_not_matched_insert_all(predicate="NOT s.gone", except_cols=["gone"])
        .execute()
    )
    return sum(path.stat().st_size for path in folder.glob("*.parquet") if path not in before)


def _measured(how: Callable[[Path, NetChange], int], folder: Path, rows: int, count: int, results: Any) -> None:
    net = changes(rows, count)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cpu, began = time.process_time(), time.monotonic()
    written = how(folder, net)
    results.put(
        (time.monotonic() - began, time.process_time() - cpu, written, before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    )


def _apart(how: Callable[[Path, NetChange], int], folder: Path, rows: int, count: int) -> tuple[float, float, int, int, int]:
    """In a process of its own, whose memory is nothing else's."""
    spawn = multiprocessing.get_context("spawn")
    results = spawn.SimpleQueue()
    process = spawn.Process(target=_measured, args=(how, folder, rows, count, results))
    process.start()
    found: tuple[float, float, int, int, int] = results.get()
    process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--changes", default="100000,1000")
    parser.add_argument("--no-merge", action="store_true")
    parser.add_argument("--tables", type=int, default=0)
    parser.add_argument("--changed", type=int, default=5)
    options = parser.parse_args()
    if options.tables:
        _many_tables(options.tables, options.changed)
        return
    with tempfile.TemporaryDirectory(prefix="tailrace-lake-") as home:
        base = Path(home) / "base"
        began = time.monotonic()
        make(base, options.rows)
        size = sum(path.stat().st_size for path in base.glob("*.parquet"))
        table = Table(
            "changes",
            "way",
            "s",
            "CPU s",
            "MiB written",
            "peak MiB (before)",
            title=f"{options.rows:,} rows, {size / 2**20:,.0f} MiB, made in {time.monotonic() - began:.0f} s",
        )
        for count in map(int, options.changes.split(",")):
            ways = {"tailrace": by_us} | ({} if options.no_merge else {"delta-rs merge": by_merge})
            for name, how in ways.items():
                work = Path(home) / "work"
                shutil.copytree(base, work, copy_function=os.link)
                if how is by_merge:
                    _without_vectors(work)
                seconds, cpu, written, before, peak = _apart(how, work, options.rows, count)
                table.add_row(
                    f"{count:,}",
                    name,
                    f"{seconds:.2f}",
                    f"{cpu:.2f}",
                    f"{written / 2**20:,.1f}",
                    f"{peak / 1024:,.0f} ({before / 1024:,.0f})",
                )
                shutil.rmtree(work)
        Console(width=120).print(table)


def _many_tables(count: int, changed: int) -> None:
    table = Table("tables", "where", "first window s", "a window s", "of its tables", title=f"{changed} of {count} tables change")
    settings = {"fsync": "off", "autovacuum": "off", "max_wal_size": "4GB"}
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-lake-") as home,
        SeaweedFS() as seaweedfs,
        Server(18, settings, dbname="app", wal_segment_mb=16, test_decoding=False) as server,
    ):
        for number in range(count):
            server.say(f"CREATE TABLE t{number} (id bigint PRIMARY KEY, v text)")
            server.say(f"INSERT INTO t{number} SELECT g, 'v' FROM generate_series(1, 100) g")
        stores = {"a directory": open_store(Path(home) / "lake"), "S3": open_store(seaweedfs.url, seaweedfs.options)}
        lakes = {where: Lake.open(store) for where, store in stores.items()}
        first = {where: _window(server, lake)[0] for where, lake in lakes.items()}
        taken: dict[str, list[float]] = {where: [] for where in lakes}
        for _ in range(5):
            server.say(*(f"UPDATE t{number} SET v = v || 'w' WHERE id < 50" for number in range(changed)))
            for where, lake in lakes.items():
                seconds, tables = _window(server, lake)
                taken[where].append(seconds)
                assert tables == changed
        for where, seconds in taken.items():
            table.add_row(str(count), where, f"{first[where]:.2f}", f"{statistics.median(seconds):.2f}", str(changed))
    Console(width=100).print(table)


def _window(server: Server, lake: Lake) -> tuple[float, int]:
    """Seconds to plan what is new, decode it and bring the lake along, and how many tables had changes."""
    began = time.monotonic()
    applied = lake.apply(open_pipeline(server.data_dir, "app", start_lsn=lake.catalog.complete if lake.catalog else None))
    return time.monotonic() - began, len(applied)


def _without_vectors(folder: Path) -> None:
    """As a table that no deletion vector was written to."""
    log = folder / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            line["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 2}
        if "metaData" in line:
            line["metaData"]["configuration"].pop("delta.enableDeletionVectors", None)
    log.unlink()
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
