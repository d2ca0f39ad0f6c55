"""`tailrace.spark.changes`: executors scan a log, and a read is planned from what they found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tailrace.spark
from support.cases import open_case
from support.servers import Server
from tailrace.model import STRETCH_BYTES, Lsn

pytestmark = pytest.mark.spark


def test_a_relative_path_is_one_folder(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether this process has gone elsewhere since, or not. Of a read it lies where Spark was started, as with Spark's own sources;
    of `changes`, where this process is when it is called."""
    case = open_case("xact", 16, "with_slot", tmp_path)
    wanted = {"database": case.meta["dbname"], "table": "public.a"}
    count = spark.read.format("tailrace").options(**wanted).load(str(case.data_dir)).count()
    assert count
    started_in = spark._jvm.System.getProperty("user.dir")
    read = spark.read.format("tailrace").options(**wanted).load(os.path.relpath(case.data_dir, started_in))
    monkeypatch.chdir(tmp_path)
    called = tailrace.spark.changes(spark, case.data_dir.name, **wanted)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert (read.count(), called.count()) == (count, count)


@pytest.mark.postgres
@pytest.mark.marathon
def test_executors_scan(spark: SparkSession, tmp_path: Path) -> None:
    with Server(16, {"max_wal_size": "2GB"}, wal_segment_mb=16) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)")
        rows = 0
        while Lsn.parse(server.flush_lsn()) < 2 * STRETCH_BYTES + (16 << 20):
            server.say(
                f"INSERT INTO t SELECT {rows} + g, repeat('x', 100) FROM generate_series(1, 5000) g",
                "SELECT pg_logical_emit_message(false, 'filler', repeat('z', 8000000))",
            )
            rows += 5000
        server.stop()
        wanted = {"database": server.dbname, "table": "public.t", "columns": "kind,new"}
        jobs = spark.sparkContext.statusTracker().getJobIdsForGroup
        before = len(jobs())
        frame = tailrace.spark.changes(spark, str(server.data_dir), index=str(tmp_path), **wanted)
        assert len(jobs()) > before
        assert len(list(tmp_path.rglob("*.index"))) == 2
        ids = {row["id"] for row in frame.selectExpr("new.id").collect()}
        assert len(ids) == rows
        plain = spark.read.format("tailrace").options(source=str(server.data_dir), **wanted).load()
        assert frame.count() == plain.count()
