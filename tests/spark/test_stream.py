"""A structured stream of a slot, over a running server: stopped, crashed and begun again, it has every change once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from support.put_back import copied, put_back, written_beyond
from support.servers import Server
from support.slots import create_both, theirs
from tailrace.model import Lsn
from tailrace.replication.slot_location import SlotLocation

pytestmark = [pytest.mark.spark, pytest.mark.postgres]
_APP = "stream"


@pytest.mark.soak
def test_every_change_once(spark: SparkSession, tmp_path: Path) -> None:
    """All tables as maps of text, into Delta, in batches of any size; each third batch fails once it is written."""
    dice = random.Random(7)
    with Server(16) as server:
        server.say("CREATE TABLE t (id serial PRIMARY KEY, v text)", "CREATE TABLE u (a int, b numeric)")
        create_both(server, "mine", tmp_path / "state")
        sink = _Sink(tmp_path / "lake", dice)
        for turn in range(3):
            server.say(
                f"INSERT INTO t (v) SELECT 'turn {turn}' FROM generate_series(1, {dice.randrange(1, 2000)})",
                f"UPDATE t SET v = v || '!' WHERE id % {dice.randrange(2, 9)} = 0",
                f"INSERT INTO u VALUES ({turn}, 1.5)",
                f"ALTER TABLE u ADD c{turn} int DEFAULT {turn}",
                "DELETE FROM t WHERE id % 11 = 0",
            )
            stream = _stream(spark, tmp_path / "state").option("maxBytesPerTrigger", dice.choice(["1MB", "64MB"])).load()
            while not _ran(stream, sink, tmp_path / "checkpoint"):
                pass
        expected = [row.split("\t", 2)[2] for row in theirs(server).splitlines() if "\ttable " in row]
    rows = (
        DeltaTable(tmp_path / "lake")
        .to_pyarrow_table()
        .sort_by([("commit_lsn", "ascending"), ("lsn", "ascending"), ("sequence", "ascending")])
    )
    assert len(rows) == len(expected)
    told = [f"table {row['schema']}.{row['table']}: {row['kind'].upper()}" for row in rows.to_pylist()]
    assert told == [":".join(line.split(":")[:2]) for line in expected]
    assert sink.failed
    slot = SlotLocation.open(tmp_path / "state").slot("mine")
    assert slot.confirmed_flush_lsn > slot.two_phase_at


@pytest.mark.marathon
def test_a_change_of_columns_ends_a_typed_query(spark: SparkSession, tmp_path: Path) -> None:
    with Server(16) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)")
        create_both(server, "mine", tmp_path / "state")
        server.say("INSERT INTO t VALUES (1, 'one')")
        stream = _stream(spark, tmp_path / "state").option("table", "public.t").load()
        server.say("ALTER TABLE t ADD w int", "INSERT INTO t VALUES (2, 'two', 2)")
        sink = _Sink(tmp_path / "lake", None)
        with pytest.raises(StreamingQueryException, match=r"the columns of public\.t changed"):
            _run(stream, sink, tmp_path / "checkpoint")
        again = _stream(spark, tmp_path / "state").option("table", "public.t").load()
        _run(again, sink, tmp_path / "checkpoint")
    rows = DeltaTable(tmp_path / "lake").to_pyarrow_table().sort_by("lsn").column("new").to_pylist()
    assert rows == [{"id": 1, "v": "one", "w": None}, {"id": 2, "v": "two", "w": 2}]


@pytest.mark.parametrize("grows", [True, pytest.param(False, marks=pytest.mark.marathon)], ids=["longer", "shorter"])
def test_a_server_that_was_put_back(grows: bool, spark: SparkSession, tmp_path: Path) -> None:
    """The slot is a batch behind the checkpoint, and has read nothing of what is gone."""
    with Server(16) as server:
        server.say("CREATE TABLE t (id int, v text)")
        create_both(server, "mine", tmp_path / "state")
        copy = copied(server, tmp_path / "copy")
        server.say("INSERT INTO t SELECT g, 'of a history that is gone' FROM generate_series(1, 50) g")
        sink = _Sink(tmp_path / "lake", None)
        _run(_stream(spark, tmp_path / "state").load(), sink, tmp_path / "checkpoint")
        ahead = Lsn.parse(server.flush_lsn())
        put_back(server, copy)
        if grows:
            written_beyond(server, ahead)
        with pytest.raises(StreamingQueryException) as raised:
            _run(_stream(spark, tmp_path / "state").load(), sink, tmp_path / "checkpoint")
    said = str(raised.value)
    assert "the streaming query has been given all before 0/" in said
    assert "of a history that is gone" in said
    assert len(DeltaTable(tmp_path / "lake").to_pyarrow_table()) == 50


class _Sink:
    """Writes batches to a Delta table, each once; may fail behind that, as a driver that dies before Spark hears of it."""

    def __init__(self, path: Path, dice: random.Random | None) -> None:
        self.path, self._dice, self.failed = path, dice, 0

    def __call__(self, batch: DataFrame, number: int) -> None:
        rows = batch.toArrow()
        seen = DeltaTable(self.path).transaction_version(_APP) if self.path.exists() else None
        if seen is None or seen < number:
            properties = CommitProperties(app_transactions=[Transaction(_APP, number)])
            write_deltalake(self.path, rows, mode="append", commit_properties=properties)
        if self._dice is not None and self._dice.random() < 0.5:
            self.failed += 1
            raise RuntimeError("the sink failed")


def _stream(spark: SparkSession, state: Path) -> Any:
    return spark.readStream.format("tailrace").option("state", str(state)).option("slot", "mine")


def _ran(stream: DataFrame, sink: _Sink, checkpoint: Path) -> bool:
    try:
        _run(stream, sink, checkpoint)
    except StreamingQueryException as error:
        if "the sink failed" not in str(error):
            raise
        return False
    return True


def _run(stream: DataFrame, sink: _Sink, checkpoint: Path) -> None:
    writer = stream.writeStream.foreachBatch(sink).trigger(availableNow=True).option("checkpointLocation", str(checkpoint))
    query = writer.start()
    try:
        query.awaitTermination(300)
    finally:
        query.stop()
