"""A structured stream whose driver is killed at random moments, with all its processes: Delta has every change once."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from support.servers import Server
from support.slots import create_both, theirs
from support.spark_driver import Driver
from support.waiting import until
from tailrace.catalog.state.state_file import write_state
from tailrace.pipeline import LocalRunner, Source, capture
from tailrace.replication.slot_location import SlotLocation

pytestmark = [pytest.mark.spark, pytest.mark.postgres]
_APP = "stream"
_LOCAL = {"master": "local[2]", "app": "killed"}


@pytest.mark.marathon
@pytest.mark.parametrize("kills", [pytest.param(1, id="once"), pytest.param(30, id="many")])
@pytest.mark.parametrize("has_slot", [pytest.param(True, id="of a slot"), pytest.param(False, id="of the log alone")])
def test_every_change_once_whatever_is_killed(kills: int, has_slot: bool, tmp_path: Path) -> None:
    dice = random.Random(kills)
    log = tmp_path / "lake/_delta_log"
    with Server(16) as server:
        server.say("CREATE TABLE t (id serial PRIMARY KEY, v text)")
        create_both(server, "mine", tmp_path / "state")
        origin = {"state": str(tmp_path / "state"), "slot": "mine"}
        if not has_slot:
            server.sql("CHECKPOINT")
            (tmp_path / "app.state").write_bytes(write_state(capture(Source.open(server.data_dir), LocalRunner(), server.dbname)))
            origin = {"source": str(server.data_dir), "database": server.dbname, "catalog": str(tmp_path / "app.state")}
        for _ in range(kills):
            _write(server, dice)
            with Driver() as driver:
                driver.call(_LOCAL, _nothing)
                driver.ask(_LOCAL, _stream, str(tmp_path), origin)
                enough = _commits(log) + dice.randrange(4)
                until(lambda enough=enough: _commits(log) >= enough)
                time.sleep(dice.uniform(0, 0.5))
                driver.kill()
        _write(server, dice)
        with Driver() as driver:
            driver.call(_LOCAL, _stream, str(tmp_path), origin)
        expected = [row.split("\t", 2)[2] for row in theirs(server).splitlines() if "\ttable " in row]
    assert _commits(log) > kills, "rows were to come in many batches"
    lake = DeltaTable(tmp_path / "lake").to_pyarrow_table()
    rows = lake.sort_by([(name, "ascending") for name in ("commit_lsn", "lsn", "sequence")]).to_pylist()
    assert len(rows) == len(expected)
    told = [f"table public.t: {row['kind'].upper()}: id[integer]:{dict(row['new'] or row['old'])['id']}" for row in rows]
    assert told == [line.split(" v[")[0] for line in expected]
    slot = SlotLocation.open(tmp_path / "state").slot("mine")
    assert not has_slot or slot.confirmed_flush_lsn > slot.two_phase_at


def _write(server: Server, dice: random.Random) -> None:
    """A dozen transactions, and so many batches."""
    for _ in range(12):
        server.say(
            f"INSERT INTO t (v) SELECT repeat('x', 1000) FROM generate_series(1, {dice.randrange(500, 2000)})",
            f"UPDATE t SET v = 'y' WHERE id % {dice.randrange(20, 90)} = 0",
            f"DELETE FROM t WHERE id % {dice.randrange(20, 90)} = 1",
        )


def _commits(log: Path) -> int:
    return len(list(log.glob("*.json")))


def _nothing(spark: Any) -> None:
    """So that the session is there before the clock starts."""


def _stream(spark: Any, home: str, origin: dict[str, str]) -> None:
    """What is new, into Delta. Runs in the driver's process."""
    lake = Path(home) / "lake"

    def write(batch: Any, number: int) -> None:
        rows = batch.toArrow()
        seen = DeltaTable(lake).transaction_version(_APP) if lake.exists() else None
        if seen is None or seen < number:
            properties = CommitProperties(app_transactions=[Transaction(_APP, number)])
            write_deltalake(lake, rows, mode="append", commit_properties=properties)

    source = spark.readStream.format("tailrace").options(**origin)
    batches = source.option("maxBytesPerTrigger", "1MB").load().writeStream.foreachBatch(write)
    query = batches.trigger(availableNow=True).option("checkpointLocation", f"{home}/checkpoint").start()
    query.awaitTermination()
    if query.exception() is not None:
        raise query.exception()
