"""A lake comes to the same by WAL, by messages of pgoutput read back, and by rows as they were copied."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lake.test_mirror import FIRST, SECOND
from support.pgoutput_rows import PLAIN, PUBLICATION, ours
from support.servers import Server
from tailrace.copy_feed import CopiedTable, CopyFeed
from tailrace.feed import Feed, FeedSpan
from tailrace.lake.delta.rows import read_rows
from tailrace.lake.delta.snapshot import DeltaSnapshot
from tailrace.lake.lake import Lake
from tailrace.logicalproto.message_feed import MessageFeed
from tailrace.model import Lsn
from tailrace.pipeline import open_pipeline
from tailrace.storage.local_store import LocalStore

pytestmark = pytest.mark.postgres
LATER = """
INSERT INTO t VALUES (3000, 'x', 'y', 1, '2026-01-01', 1, true);
TRUNCATE pair;
INSERT INTO pair VALUES (1, 'only');
ALTER TABLE bag ADD COLUMN c int;
INSERT INTO bag VALUES (9, 'nine', 9)
"""


def _tables(lake: Lake) -> dict[str, list[str]]:
    assert lake.catalog is not None
    found = {}
    for table in lake.catalog.tables.values():
        if table.version < 0:
            found[table.name] = []
            continue
        store = lake.store.below(table.folder)
        snapshot = DeltaSnapshot.read(store)
        rows = pa.Table.from_batches(read_rows(store, snapshot), snapshot.schema)
        found[table.name] = sorted(repr(row) for row in rows.to_pylist())
    return found


def _apply(folder: Path, feed: Feed) -> Lake:
    lake = Lake.open(LocalStore(folder))
    lake.apply(feed)
    return lake


def test_three_feeds(tmp_path: Path) -> None:
    with Server(18, test_decoding=False, dbname="app") as server:
        server.say(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES")
        begin = Lsn.parse(server.flush_lsn())
        for script in (FIRST, SECOND, LATER):
            server.say(*(statement for statement in script.split(";\n") if statement.strip()))
            span_start = begin
            end = Lsn.parse(server.flush_lsn())
            pipeline = open_pipeline(server.data_dir, "app", start_lsn=span_start, upto_lsn=end)
            of_wal = pipeline.publishing(PUBLICATION)
            lake = _apply(tmp_path / "wal", of_wal)
            messages = [
                (int(Lsn.parse(lsn)), data)
                for lsn, _, data in ours(_stopped(server), PLAIN, start_lsn=str(span_start), upto_lsn=end, major=18)
            ]
            server.start()
            span = FeedSpan(of_wal.span.system, 1, span_start, of_wal.span.stop, of_wal.span.database, of_wal.span.publications)
            assert _tables(_apply(tmp_path / "messages", MessageFeed.of(span, messages))) == _tables(lake)
            begin = of_wal.span.stop
    expected = _tables(lake)
    assert {name: len(rows) > 0 for name, rows in expected.items()} == {"t": True, "bag": True, "pair": True, "gone": True}
    copied = _apply(tmp_path / "copied", _copy_of(lake, of_wal))
    assert _tables(copied) == expected


def _stopped(server: Server) -> Path:
    server.stop()
    return server.data_dir


def _copy_of(lake: Lake, feed: Feed) -> CopyFeed:
    """All tables, each in two parts."""
    assert lake.catalog is not None
    parts = []
    for table in lake.catalog.tables.values():
        store, known = lake.store.below(table.folder), feed.table(table.oid)
        assert known is not None
        snapshot = DeltaSnapshot.read(store)
        rows = pa.Table.from_batches(read_rows(store, snapshot), snapshot.schema)
        halves = [rows.slice(0, len(rows) // 2), rows.slice(len(rows) // 2)]
        parts.append(CopiedTable(known.relation, [half.to_batches for half in halves]))
    return CopyFeed(feed.span, parts)
