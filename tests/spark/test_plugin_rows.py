"""What a plugin prints, as a DataFrame and as a structured stream: the rows of the text outlet, and of PostgreSQL's own slot, in their order."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from support.cases import open_case
from support.servers import Server
from support.slots import create_both, theirs
from tailrace.catalog.state.state_file import write_state
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, Source, capture

pytestmark = pytest.mark.spark
_APP = "printed"


@pytest.mark.parametrize("window", ["1TB", "16kB"])
def test_rows_are_those_of_the_server(spark: SparkSession, window: str, tmp_path: Path) -> None:
    case = open_case("subxact", 18, "with_slot", tmp_path)
    wanted = {"source": str(case.data_dir), "database": "app", "startLsn": case.meta["start_lsn"], "window": window}
    frame = spark.read.format("tailrace").options(**wanted, plugin="test_decoding").load()
    assert frame.schema.simpleString() == "struct<lsn:bigint,xid:bigint,data:string>"
    printed = [f"{Lsn(row.lsn)}\t{row.xid}\t{row.data}" for row in frame.collect()]
    assert len(printed) > 10
    without = [row.data for row in frame_with(spark, wanted, {"plugin.include-xids": "off", "plugin.skip-empty-xacts": "on"})]
    assert "BEGIN" in without
    assert not any(data.startswith("BEGIN ") for data in without)
    binary = spark.read.format("tailrace").options(**wanted, plugin="test_decoding").option("plugin.force-binary", "on").load()
    assert binary.schema.simpleString() == "struct<lsn:bigint,xid:bigint,data:binary>"
    assert [f"{Lsn(row.lsn)}\t{row.xid}\t{bytes(row.data).decode()}" for row in binary.collect()] == printed
    assert printed == case.expected.splitlines()


def frame_with(spark: SparkSession, wanted: dict[str, str], more: dict[str, str]) -> list[Any]:
    return spark.read.format("tailrace").options(**wanted, **more, plugin="test_decoding").load().collect()


def test_options(spark: SparkSession, tmp_path: Path) -> None:
    case = open_case("hot", 18, "with_slot", tmp_path)
    wanted = {"source": str(case.data_dir), "database": "app"}
    with pytest.raises(Exception, match='option "nonsense" = "1" is unknown'):
        frame_with(spark, wanted, {"plugin.nonsense": "1"})
    with pytest.raises(Exception, match="Give one of table, tables and plugin"):
        frame_with(spark, wanted, {"table": "public.h"})
    with pytest.raises(Exception, match=r'unrecognized option "plugin\.include-xids"'):
        spark.read.format("tailrace").options(**wanted, table="public.h").option("plugin.include-xids", "off").load()


@pytest.mark.postgres
@pytest.mark.marathon
@pytest.mark.parametrize("has_slot", [True, False])
def test_a_stream_has_every_row_once_in_order(spark: SparkSession, has_slot: bool, tmp_path: Path) -> None:
    """Of a slot, or of the log alone: into Delta, in batches of any size; about each second batch fails once it is written."""
    dice = random.Random(11)
    sink = _Sink(tmp_path / "lake", dice)
    with Server(16) as server:
        server.say("CREATE TABLE t (id serial PRIMARY KEY, v text)")
        create_both(server, "mine", tmp_path / "state")
        server.sql("CHECKPOINT")
        source = Source.open(server.data_dir)
        (tmp_path / "app.state").write_bytes(write_state(capture(source, LocalRunner(), server.dbname)))
        alone = {"source": str(server.data_dir), "database": server.dbname, "catalog": str(tmp_path / "app.state")}
        origin = {"state": str(tmp_path / "state"), "slot": "mine"} if has_slot else alone
        for turn in range(2):
            for _ in range(3):
                server.say(
                    f"INSERT INTO t (v) SELECT repeat('x', 500) FROM generate_series(1, {dice.randrange(1, 2000)})",
                    f"UPDATE t SET v = '{turn}' WHERE id % {dice.randrange(2, 9)} = 0",
                    f"SELECT pg_logical_emit_message(false, 'p', 'turn {turn}')",
                )
            stream = spark.readStream.format("tailrace").options(**origin)
            stream = stream.option("plugin", "test_decoding").option("maxBytesPerTrigger", "1MB")
            while not _ran(stream.load(), sink, tmp_path / "checkpoint"):
                pass
        expected = theirs(server).splitlines()
    table = DeltaTable(tmp_path / "lake").to_pyarrow_table()
    rows = table.sort_by([("batch", "ascending"), ("row", "ascending")]).to_pylist()
    assert [f"{Lsn(row['lsn'])}\t{row['xid']}\t{row['data']}" for row in rows] == expected
    assert sink.failed
    assert len(set(table.column("batch").to_pylist())) > 3


class _Sink:
    """Writes batches to a Delta table, each once, with their rows numbered; may fail behind that, as a driver that dies before Spark hears of it."""

    def __init__(self, path: Path, dice: random.Random) -> None:
        self.path, self._dice, self.failed = path, dice, 0

    def __call__(self, batch: DataFrame, number: int) -> None:
        rows = batch.toArrow()
        rows = rows.append_column("batch", [[number] * len(rows)]).append_column("row", [list(range(len(rows)))])
        seen = DeltaTable(self.path).transaction_version(_APP) if self.path.exists() else None
        if seen is None or seen < number:
            properties = CommitProperties(app_transactions=[Transaction(_APP, number)])
            write_deltalake(self.path, rows, mode="append", commit_properties=properties)
        if self._dice.random() < 0.5:
            self.failed += 1
            raise RuntimeError("the sink failed")


def _ran(stream: DataFrame, sink: _Sink, checkpoint: Path) -> bool:
    writer = stream.writeStream.foreachBatch(sink).trigger(availableNow=True).option("checkpointLocation", str(checkpoint))
    query = writer.start()
    try:
        query.awaitTermination(300)
    except StreamingQueryException as error:
        if "the sink failed" not in str(error):
            raise
        return False
    finally:
        query.stop()
    return True
