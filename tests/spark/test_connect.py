"""Spark Connect, and the example for Kafka. A Connect session is its process's, so it has one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.servers import Server
from support.slots import create_both, theirs

pytestmark = [pytest.mark.spark, pytest.mark.postgres]
EXAMPLE = Path(__file__).parents[2] / "examples/kafka"
_CONNECTED = """
import sys
from pyspark.sql import SparkSession
from tailrace.spark import lsn_text, lsn_value, register
source, database, state, work, start = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
assert "connect" in type(spark).__module__
register(spark)
frame = spark.read.format("tailrace").options(source=source, database=database, table="public.t", readChangeFeed="true").load()
frame.createOrReplaceTempView("feed")
by_column = frame.where(frame._commit_version >= lsn_value(start)).select("id", "_change_type", lsn_text("_commit_version").alias("at"))
by_sql = spark.sql(f"SELECT id, _change_type, lsn_text(_commit_version) AS at FROM feed WHERE _commit_version >= lsn_value('{start}')")
rows = sorted(map(tuple, by_column.collect()))
assert rows == sorted(map(tuple, by_sql.collect()))
from to_kafka import start as send
query = send(spark, state, "mine", work + "/checkpoint", "parquet", {"path": work + "/messages"})
query.awaitTermination(300)
for row in rows:
    print(*row, sep="\\t")
"""


@pytest.mark.skipif(find_spec("grpc") is None or find_spec("pandas") is None, reason="needs pyspark[connect]")
def test_connect(tmp_path: Path) -> None:
    with Server(16) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)")
        create_both(server, "mine", tmp_path / "state")
        start = server.flush_lsn()
        server.say("INSERT INTO t SELECT i, 'v' FROM generate_series(1, 3) i", "UPDATE t SET id = 9 WHERE id = 3", "CHECKPOINT")
        path = os.pathsep.join([str(EXAMPLE), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
        words = [server.data_dir, server.dbname, tmp_path / "state", tmp_path, start]
        done = subprocess.run(
            [sys.executable, "-c", _CONNECTED, *map(str, words)], env=environment, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, "".join(
            line for line in done.stderr.splitlines(keepends=True) if not line.startswith("\tat ")
        )[-4000:]
        commits = [row.split("\t")[0] for row in theirs(server).splitlines() if "\tCOMMIT" in row]
    told = [("1", "insert", commits[0]), ("2", "insert", commits[0]), ("3", "insert", commits[0])]
    told += [("3", "update_preimage", commits[1]), ("9", "update_postimage", commits[1])]
    assert sorted(tuple(row.split("\t")) for row in done.stdout.splitlines()) == sorted(told)
    assert list((tmp_path / "messages").glob("*.parquet"))


def test_the_example_for_kafka_with_another_sink(spark: SparkSession, tmp_path: Path) -> None:
    """What Kafka's sink would be given; there is no Kafka here. Parquet takes it in the same columns."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        from to_kafka import start  # noqa: PLC0415
    finally:
        sys.path.remove(str(EXAMPLE))
    with Server(16) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)")
        create_both(server, "mine", tmp_path / "state")
        server.say("INSERT INTO t SELECT i, 'v' FROM generate_series(1, 3) i", "UPDATE t SET id = 9 WHERE id = 3")
        path, checkpoint = str(tmp_path / "messages"), str(tmp_path / "checkpoint")
        query = start(spark, str(tmp_path / "state"), "mine", checkpoint, "parquet", {"path": path})
        query.awaitTermination(300)
        expected = sorted(tuple(row.split("\t", 2)) for row in theirs(server).splitlines())
    sent = spark.read.parquet(path)
    assert dict(sent.dtypes) == {"key": "string", "value": "string", "headers": "array<struct<key:string,value:binary>>"}
    assert sorted((bytes(row.headers[0].value).decode(), row.key, row.value) for row in sent.collect()) == expected
