"""A partitioned table has the rows that its transactions saw below it, whatever windows they are read in."""

from __future__ import annotations

from typing import Any

import pytest

from support.servers import Server
from tailrace.feed import Feed
from tailrace.pipeline import Scanning, open_feed, open_pipeline
from tailrace.spark.changed_table import ChangedTable
from tailrace.spark.rows import RowShape, oids_of, rows_of
from tailrace.window import WindowSize

pytestmark = pytest.mark.postgres

ATTACHED = """
BEGIN; CREATE TABLE p_{0} (v text, id int NOT NULL); INSERT INTO p_{0} VALUES ('alone', {0}1);
ALTER TABLE p ATTACH PARTITION p_{0} FOR VALUES FROM ({0}0) TO ({0}9); INSERT INTO p VALUES ({0}2, 'below');
INSERT INTO p SELECT {0}0 + n % 9, repeat('x', 100) FROM generate_series(1, 200) n;
ALTER TABLE p DETACH PARTITION p_{0}; INSERT INTO p_{0} VALUES ('alone', {0}3); COMMIT
"""


def test_as_the_transaction_saw_it() -> None:
    with Server(18, test_decoding=False) as server:
        server.say("CREATE TABLE p (id int NOT NULL, v text) PARTITION BY RANGE (id)", *(ATTACHED.format(n) for n in range(1, 4)))
        whole = open_pipeline(server.data_dir, "postgres")
        feed = open_feed(server.data_dir, "postgres", scanning=Scanning(window=WindowSize(wal_bytes=1 << 15)))
        windows = list(feed.windows())
        assert len(windows) > 3
        expected = _rows(whole, ChangedTable.named(whole, "public", "p"))
        assert [(row["id"], row["v"]) for row in expected if len(row["v"]) < 9] == [(n * 10 + 2, "below") for n in range(1, 4)]
        assert len(expected) == 3 * 201
        table = ChangedTable.named(feed, "public", "p")
        assert [row for window in windows for row in _rows(window, table.within(window))] == expected


def _rows(feed: Feed, table: ChangedTable) -> list[dict[str, Any]]:
    shape = RowShape.of({"table": "public.p"})
    batches = (
        batch
        for part in feed.parts(oids_of([table]))
        for piece in part.pieces
        for batch in rows_of(feed.decoder, piece, [table], shape)
    )
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [row["new"] for row in sorted(rows, key=lambda row: (row["commit_lsn"], row["lsn"], row["sequence"]))]
