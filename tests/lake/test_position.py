"""A table says which relation it follows, and how far it is, whoever compacts it, checkpoints it and cleans up its log."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from support.servers import Server
from tailrace.errors import MissingHistory
from tailrace.feed import FeedSpan
from tailrace.lake import position as positions
from tailrace.lake.changelog import append_changes
from tailrace.lake.delta.table import DeltaVersion, find
from tailrace.lake.formats import FORMATS, format_named
from tailrace.lake.lake import Lake
from tailrace.lake.mirror import mirror
from tailrace.lake.position import PRIMARY_KEY, REPLICA_IDENTITY, TableIdentity, TablePosition, position_of
from tailrace.lake.reading import read_table
from tailrace.model import Lsn, Relation
from tailrace.pipeline import open_pipeline
from tailrace.storage.local_store import LocalStore
from tailrace.wal.log_fingerprint import LogFingerprint

SPAN = FeedSpan(7_300_000_000_000_000_001, 1, Lsn(16), Lsn(4096), 5)
SAID = {
    "system": "7300000000000000001", "timeline": 1, "database": 5, "from": "0/10", "to": "0/1000", "oid": 16384, "schema": "public",
    "table": "t", "columns": [[1, "id", "int32"]], "unbounded": ["id"], "style": {"numeric": "text"}, "dropped": None, "publications": [],
}  # fmt: skip


def _made_before(folder):
    """A table as it was written before its configuration said what it is."""
    properties = CommitProperties(
        custom_metadata={"tailrace": json.dumps(SAID)}, app_transactions=[Transaction("tailrace/7300000000000000001/1", 4096)]
    )
    return DeltaTable.create(folder, pa.schema([("id", pa.int32())]), commit_properties=properties)


def test_a_table_that_was_made_before(tmp_path):
    table = _made_before(tmp_path)
    expected = TablePosition(
        Lsn(4096), 16384, "public", "t", ((1, "id", "int32"),), frozenset({"id"}), {"numeric": "text"}, timeline=1
    )
    assert position_of(find(tmp_path), SPAN) == expected
    table.alter.set_table_properties({"tailrace": json.dumps({**SAID, "oid": 1})}, raise_if_not_exists=False)
    assert position_of(find(tmp_path), SPAN) == expected  # no commit has said that this is what it is


@pytest.mark.parametrize("crcs", [(0, 1), (2**32 - 1, 2**32 - 1), (2**31, 2**31), (5, 2**31 - 1)])
@pytest.mark.parametrize(("since", "last"), [(0, 24), (2**40, 2**40 + 40), (2**50 - (1 << 33), 2**50 - (1 << 30))])
def test_what_stood_there_is_kept(tmp_path, crcs, since, last):
    """Also by a checkpoint."""
    upto = Lsn(2**50 if since > 2**49 else since + 70_000)
    fingerprint = LogFingerprint(upto, Lsn(last), crcs[0], Lsn(since), crcs[1])
    relation = Relation(16384, "public", "t", "r", "p", "d", 0, ())
    identity = TableIdentity(replace(SPAN, stop=upto), relation, fingerprint=fingerprint)
    DeltaVersion(LocalStore(tmp_path)).make("t", "public.t", pa.schema([("id", pa.int32())]), identity.note)
    assert position_of(find(tmp_path), SPAN).fingerprint == fingerprint
    DeltaTable(tmp_path).create_checkpoint()
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    table = find(tmp_path)
    app_id = f"tailrace/{SPAN.system}/{SPAN.timeline}"
    assert positions._fingerprint_of(table, app_id, upto) == fingerprint


def test_what_no_longer_says_what_it_is(tmp_path):
    """That is not somebody else's."""
    table = _made_before(tmp_path)
    _maintained(tmp_path)
    table = DeltaTable(tmp_path)
    assert table.transaction_version("tailrace/7300000000000000001/1") == 4096
    with pytest.raises(MissingHistory, match="nothing in it says any more which table it is"):
        position_of(find(tmp_path), SPAN)
    DeltaTable.create(tmp_path / "other", table.schema())
    assert position_of(find(tmp_path / "other"), SPAN) is None


def _maintained(folder):
    """Compacted, checkpointed, and with a log that was cleaned up, of all that is older than that."""
    table = DeltaTable(folder)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    table.delete("false")
    table = DeltaTable(folder)
    if table.version() == 0:
        table.alter.set_table_properties({"delta.appendOnly": "false"})
        table = DeltaTable(folder)
    table.create_checkpoint()
    long_ago = time.time() - 90 * 86_400
    for file in (folder / "_delta_log").iterdir():
        os.utime(file, (long_ago, long_ago))
    table.cleanup_metadata()
    assert not any("tailrace" in commit for commit in DeltaTable(folder).history())


@pytest.mark.postgres
@pytest.mark.parametrize("write", [mirror, append_changes])
def test_maintained_by_others(tmp_path, monkeypatch, write):
    """What the table is stands in the same commit as its rows, and outlives what others do."""
    folder = tmp_path / "public.t"
    with Server(18, test_decoding=False) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY, n numeric(20,2))", "INSERT INTO t VALUES (1, 1)")
        for number in range(3):
            if number == 1:
                server.say("ALTER TABLE t ADD COLUMN more text DEFAULT 'm'", "INSERT INTO t VALUES (77, 0)")
            assert [each.trouble for each in write(open_pipeline(server.data_dir, "postgres"), tmp_path)] == [None]
            _maintained(folder)
            server.say(f"INSERT INTO t VALUES ({number + 10}, {number})", f"UPDATE t SET n = n + 1 WHERE id = {number + 10}")
        (done,) = write(open_pipeline(server.data_dir, "postgres"), tmp_path)
        assert done.trouble is None
        monkeypatch.setattr(positions, "_said_of", _dies)  # not needed
        assert position_of(find(folder), open_pipeline(server.data_dir, "postgres").span).lsn > 0
    rows = read_table(folder)
    assert len(rows) == (5 if write is mirror else 8)


def _dies(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.postgres
@pytest.mark.parametrize("format", FORMATS)
def test_keys_are_properties_of_a_table(tmp_path, format):
    """As the source has them at the end of each window in which the table changed."""
    store = LocalStore(tmp_path)

    def keys(name):
        table = format_named(format).none(store.below(f"public.{name}")).refreshed().open()
        return json.loads(table.setting(PRIMARY_KEY)), json.loads(table.setting(REPLICA_IDENTITY))

    with Server(18, test_decoding=False) as server:
        server.say(
            'CREATE TABLE two (a int, "B \u00e9" text, c int NOT NULL UNIQUE, PRIMARY KEY ("B \u00e9", a))',
            "CREATE TABLE other (a int PRIMARY KEY, c int NOT NULL CONSTRAINT c UNIQUE)",
            "ALTER TABLE other REPLICA IDENTITY USING INDEX c",
            "CREATE TABLE bag (a int)", "ALTER TABLE bag REPLICA IDENTITY FULL",
            "CREATE TABLE appended (a int)",
            "INSERT INTO two VALUES (1, 'b', 2)", "INSERT INTO other VALUES (1, 2)", "INSERT INTO bag VALUES (1)",
            "INSERT INTO appended VALUES (1)",
        )  # fmt: skip
        lake = Lake.open(store, format=format)
        lake.apply(open_pipeline(server.data_dir, "postgres"))
        assert keys("two") == (["B é", "a"], ["B é", "a"])
        assert keys("other") == (["a"], ["c"])
        assert keys("bag") == (None, "FULL")
        assert keys("appended") == (None, "NOTHING")
        server.say(
            "ALTER TABLE two RENAME a TO z", "INSERT INTO two VALUES (2, 'b', 3)",
            "ALTER TABLE bag ADD PRIMARY KEY (a)", "INSERT INTO bag VALUES (2)",
            "ALTER TABLE other REPLICA IDENTITY DEFAULT", "ALTER TABLE other DROP CONSTRAINT other_pkey", "INSERT INTO other VALUES (3, 4)",
        )  # fmt: skip
        lake.apply(open_pipeline(server.data_dir, "postgres", start_lsn=lake.catalog.complete))
    assert keys("two") == (["B é", "z"], ["B é", "z"])
    assert keys("bag") == (["a"], "FULL")
    assert keys("other") == (None, "NOTHING")
