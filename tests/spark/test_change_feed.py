"""The change feed: a table's own columns and those of Spark's contract, as a read and as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from support.servers import Server
from support.slots import create_both

pytestmark = [pytest.mark.spark, pytest.mark.postgres]
_LONG = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 400) i)"  # out of line even when it is compressed
_CHANGES = (
    "INSERT INTO f SELECT i, i, {long} FROM generate_series(1, 2) i",
    "UPDATE f SET v = v + 10 WHERE id = 1",
    "UPDATE f SET id = 3 WHERE id = 2",
    "DELETE FROM f WHERE id = 3",
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A slot of a server in which the same befell a table with a whole identity, one with a key alone, and one that says `_lsn` itself."""
    state = tmp_path_factory.mktemp("feed") / "state"
    with Server(16) as server:
        for name in ("whole", "keyed"):
            server.say(
                f"CREATE TABLE {name} (id int PRIMARY KEY, v int, t text)", f"ALTER TABLE {name} ALTER t SET STORAGE EXTERNAL"
            )
        server.say("ALTER TABLE whole REPLICA IDENTITY FULL", "CREATE TABLE odd (_lsn int)")
        create_both(server, "mine", state)
        for name in ("whole", "keyed"):
            server.say(*(each.format(long=_LONG).replace(" f ", f" {name} ") for each in _CHANGES))
        server.say("INSERT INTO odd VALUES (1)", "CHECKPOINT")
        yield {"state": str(state), "source": str(server.data_dir), "database": server.dbname}


def feed(spark: SparkSession, source: dict[str, str], table: str, **options: str) -> DataFrame:
    wanted = {"source": source["source"], "database": source["database"], "table": table, "readChangeFeed": "true"}
    return spark.read.format("tailrace").options(**wanted, **options).load()


def told(rows: list[Any]) -> list[tuple[Any, ...]]:
    """In order: kinds, keys, values, and how long the text is."""
    rows = sorted(rows, key=lambda row: (row["_lsn"], row["_sequence"], row["_change_type"] == "update_postimage"))
    return [(row["_change_type"], row["id"], row["v"], row["t"] and len(row["t"])) for row in rows]


_ORDERED = "*, _change_type, _lsn, _sequence, _commit_version, _commit_timestamp"
WHOLE = [
    ("insert", 1, 1, 12800), ("insert", 2, 2, 12800),
    ("update_preimage", 1, 1, 12800), ("update_postimage", 1, 11, 12800),
    ("update_preimage", 2, 2, 12800), ("update_postimage", 3, 2, 12800),
    ("delete", 3, 2, 12800),
]  # fmt: skip
KEYED = [
    ("insert", 1, 1, 12800), ("insert", 2, 2, 12800),
    ("update_postimage", 1, 11, None),
    ("update_preimage", 2, None, None), ("update_postimage", 3, 2, None),
    ("delete", 3, None, None),
]  # fmt: skip


def test_a_whole_identity_gives_both_rows_whole(spark: SparkSession, source: dict[str, str]) -> None:
    """Also the text that the UPDATE does not repeat: it is that of the row before."""
    frame = feed(spark, source, "public.whole")
    assert frame.schema.simpleString() == (
        "struct<id:int,v:int,t:string,_change_type:string,_commit_version:bigint,_commit_timestamp:timestamp>"
    )
    assert frame.where("_change_type = 'update_postimage' AND length(t) = 12800").count() == 2
    rows = feed(spark, source, "public.whole", columns=_ORDERED).collect()
    assert told(rows) == WHOLE
    changes = (
        spark.read.format("tailrace").options(source=source["source"], database=source["database"], table="public.whole").load()
    )
    commits = {(row["commit_lsn"], row["commit_timestamp"]) for row in changes.collect()}
    assert {(row["_commit_version"], row["_commit_timestamp"]) for row in rows} == commits
    assert len(commits) == 4


def test_a_key_alone_gives_what_the_log_tells(spark: SparkSession, source: dict[str, str]) -> None:
    rows = feed(spark, source, "public.keyed", columns=f"{_ORDERED}, _unchanged").collect()
    assert told(rows) == KEYED
    assert [(row["id"], row["_unchanged"]) for row in rows if row["_unchanged"]] == [(1, ["t"]), (3, ["t"])]
    frame = feed(spark, source, "public.keyed")
    with pytest.raises(Exception, match=r'an update of table public\.keyed does not tell column "t"'):
        frame.collect()
    without = feed(spark, source, "public.keyed", columns="id, v, _change_type, _lsn, _sequence").collect()
    assert [row[:3] for row in told([{**row.asDict(), "t": None} for row in without])] == [row[:3] for row in KEYED]


@pytest.mark.marathon
def test_as_a_stream(spark: SparkSession, source: dict[str, str], tmp_path: Path) -> None:
    options = {"state": source["state"], "slot": "mine", "table": "public.whole", "readChangeFeed": "true", "columns": _ORDERED}
    stream = spark.readStream.format("tailrace").options(**options).load()
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "rows"))
    try:
        query.awaitTermination(300)
    finally:
        query.stop()
    assert told(spark.read.parquet(str(tmp_path / "rows")).collect()) == WHOLE


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ("public.odd", {}, 'column name "_lsn" conflicts with a column of the change feed'),
        ("public.keyed", {"columns": "*, id"}, 'column "id" does not exist or is named twice'),
        ("public.keyed", {"readChangeFeed": "perhaps"}, 'could not parse value "perhaps" for parameter "readChangeFeed"'),
    ],
)
def test_what_is_refused(spark: SparkSession, source: dict[str, str], table: str, options: dict[str, str], message: str) -> None:
    wanted = {"source": source["source"], "database": source["database"], "table": table, "readChangeFeed": "true"}
    with pytest.raises(Exception, match=r"(?s).*") as caught:
        spark.read.format("tailrace").options(**{**wanted, **options}).load()
    assert message in str(caught.value)


def test_several_tables_have_no_feed(spark: SparkSession, source: dict[str, str]) -> None:
    wanted = {"source": source["source"], "database": source["database"], "tables": "whole, keyed"}
    with pytest.raises(Exception, match='readChangeFeed needs option "table"'):
        spark.read.format("tailrace").options(**wanted, readChangeFeed="true").load()
