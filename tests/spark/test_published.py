"""What publications publish on Spark: rows of DataFrames and of a stream, a mirror, and pgoutput's own rows, against pgoutput of the same log."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from support.pgoutput import Sent, read_sent
from support.pgoutput_rows import Row, theirs
from support.servers import Server
from tailrace.cli.verbs.slot import create
from tailrace.errors import UsageError
from tailrace.lake.mirror import mirror
from tailrace.lake.reading import read_table
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, open_feed, open_pipeline
from tailrace.pipeline.open_snapshot import define, open_snapshot
from tailrace.plugins.pgoutput import PgOutput
from tailrace.publications.commands.statements import parse_statement
from tailrace.replication.slot_location import SlotLocation
from tailrace.spark.changed_table import ChangedTable
from tailrace.spark.jobs import SparkRunner
from tailrace.spark.pickling import pack

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, v int, secret text)",
    "CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (50)",
    "CREATE TABLE p2 (v text, id int NOT NULL)",
    "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (50) TO (200)",
    "CREATE TABLE other (id int PRIMARY KEY)",
    "CREATE PUBLICATION w1 FOR TABLE t (id, v) WHERE (id > 20) WITH (publish = 'insert, update')",
    "CREATE PUBLICATION w2 FOR TABLE t (id, v) WHERE (id < 5), p WHERE (id % 3 = 0) WITH (publish_via_partition_root = true)",
)
HERE = "CREATE PUBLICATION here FOR TABLE t (id, v) WHERE (id > 90)"
WORK = (
    "INSERT INTO t SELECT n, n, 'x' FROM generate_series(1, 99) n",
    "INSERT INTO p SELECT n, n::text FROM generate_series(1, 99) n",
    "INSERT INTO other VALUES (1)",
    "UPDATE t SET id = id + 100 WHERE id % 4 = 0",
    "UPDATE p SET v = '!' WHERE id BETWEEN 40 AND 60; UPDATE t SET secret = 'y' WHERE id = 1",
    "DELETE FROM t WHERE id < 50; DELETE FROM p WHERE id > 90",
)
PGOUTPUT = {"proto_version": "1", "publication_names": "w1, w2"}


def test_what_pgoutput_sends(spark: SparkSession, tmp_path: Path) -> None:
    with Server(18, test_decoding=False) as server:
        server.say(*TABLES, "CHECKPOINT")
        here = open_snapshot(server.data_dir, server.dbname, LocalRunner())
        location = SlotLocation.open_or_create(tmp_path / "state", here.system)
        define(location.publications, here, parse_statement(HERE), HERE)
        create("mine", server.data_dir, tmp_path / "state", server.dbname)
        start = str(server.value("SELECT lsn FROM pg_create_logical_replication_slot('s', 'pgoutput')"))
        server.say(*WORK)
        server.checkpoint()
        told = theirs(server, "s", PGOUTPUT)
        server.say("CREATE PUBLICATION here FOR TABLE t (id, v) WHERE (id > 90)")
        oids = dict(server.sql("SELECT relname, oid::int FROM pg_class WHERE relname IN ('t', 'p')"))
        source = {"source": str(server.data_dir), "database": server.dbname, "startLsn": start}
        published = source | {"publication": "w1, w2"}
        sent = read_sent(data for _, _, data in told)
        frame = _read(spark, published | {"table": "t"})
        assert frame.select("new.*").columns == ["id", "v"]
        assert _in_order(frame.collect(), _of_struct) == _changes(sent, oids["t"])
        assert len(_changes(sent, oids["t"])) > 100
        both = _read(spark, published | {"tables": "t, p", "columns": "table, kind, new, old, commit_lsn, lsn, sequence"})
        rows = both.collect()
        for name in ("t", "p"):
            assert _in_order([row for row in rows if row.table == name], _of_map) == _changes(sent, oids[name])
        options = {f"plugin.{name}": value for name, value in PGOUTPUT.items()}
        assert _printed(_read(spark, source | {"plugin": "pgoutput"} | options)) == told
        _check_stream(spark, server, tmp_path)
        _check_mirror(spark, server, start, tmp_path)


def _check_mirror(spark: SparkSession, server: Server, start: str, folder: Path) -> None:
    """Of the root of partitions, with executors at work."""
    feed = open_feed(server.data_dir, server.dbname, start_lsn=Lsn.parse(start), runner=SparkRunner(spark))
    (done,) = mirror(feed.publishing("w2"), folder / "lake", ["p"])
    assert done.trouble is None
    rows = sorted(tuple(row.values()) for row in read_table(folder / "lake" / "public.p").to_pylist())
    assert rows == sorted(server.sql("SELECT id, v FROM p WHERE id % 3 = 0"))


def _check_stream(spark: SparkSession, server: Server, folder: Path) -> None:
    """Of a slot of ours, with a publication that the server did not have when the log was written."""
    batches: list[list[Any]] = []
    stream = (
        spark.readStream.format("tailrace")
        .options(state=str(folder / "state"), slot="mine", table="t", publication="here")
        .load()
    )
    writer = stream.writeStream.foreachBatch(lambda batch, _: batches.append(batch.select("kind", "new.*").collect()))
    query = writer.trigger(availableNow=True).option("checkpointLocation", str(folder / "checkpoint")).start()
    query.awaitTermination(120)
    kinds = [tuple(row) for batch in batches for row in batch]
    moved = [n for n in range(1, 100) if n % 4 == 0]
    expected = [("insert", n, n) for n in range(91, 100)]
    expected += [("update" if n > 90 else "insert", n + 100, n) for n in moved]
    assert sorted(kinds, key=str) == sorted(expected, key=str)


def _read(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    return spark.read.format("tailrace").options(**options).load()


def _in_order(rows: list[Any], values_of: Callable[[Any], tuple[str | None, ...]]) -> list[tuple[Any, ...]]:
    rows = sorted(rows, key=lambda row: (row.commit_lsn, row.lsn, row.sequence))
    return [(row.commit_lsn, row.kind, values_of(row.new), values_of(row.old)) for row in rows]


def _of_struct(row: Any) -> tuple[str | None, ...]:
    return tuple(None if value is None else str(value) for value in row or ())


def _of_map(row: Any) -> tuple[str | None, ...]:
    assert row is None or set(row) == {"id", "v"}
    return () if row is None else (row["id"], row["v"])  # a map of Spark's has no order


def _changes(sent: list[Sent], oid: int) -> list[tuple[Any, ...]]:
    changes = ((each.commit_lsn, change) for each in sent for change in each.changes)
    return [(commit, change.kind, change.new, change.old) for commit, change in changes if change.relations == (oid,)]


def _printed(frame: DataFrame) -> list[Row]:
    return [(str(Lsn(row.lsn)), row.xid, bytes(row.data)) for row in frame.collect()]


def test_what_travels_is_small() -> None:
    """A window that pgoutput prints goes without the catalogs; a piece with what tells of its own relations."""
    with Server(18, test_decoding=False) as server:
        names = [f"t{number}" for number in range(200)]
        server.say(
            *(f"CREATE TABLE {name} (id int PRIMARY KEY, v text)" for name in names), "CREATE PUBLICATION w FOR ALL TABLES"
        )
        start = Lsn.parse(str(server.value("SELECT pg_current_wal_lsn()")))
        server.say("INSERT INTO t1 VALUES (1, 'one')", "CHECKPOINT")
        plugin = PgOutput()
        plugin.startup({"proto_version": "1", "publication_names": "w"}, 18)
        pipeline = open_pipeline(server.data_dir, server.dbname, start_lsn=start)
        window = pipeline.printed(plugin)
        assert len(pack(window)) < 20_000 < len(pack(pipeline.history))
        (piece,) = pipeline.publishing("w").pieces(frozenset({pipeline.relations[0].oid}))
        assert len(pickle.dumps(piece)) < 20_000
        server.say("CREATE PUBLICATION one FOR TABLE t2", "CHECKPOINT")
        with pytest.raises(UsageError, match=r'relation "public\.t1" is not part of the publication'):
            ChangedTable.named(open_pipeline(server.data_dir, server.dbname).publishing("one"), "public", "t1")
