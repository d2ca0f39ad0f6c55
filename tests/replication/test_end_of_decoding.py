"""Where a log stops to be decodable for a slot, whatever follows: its database was dropped, or wal_level was lowered. What comes before is given, and
then there is an error, every time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.command import Run
from support.servers import Server
from tailrace.errors import TailraceError, UsageError
from tailrace.lake.mirror import mirror
from tailrace.lake.reading import read_table
from tailrace.lake.target_tables import TroubleWarning
from tailrace.pipeline import open_feed
from tailrace.pipeline.log_feed import LogFeed
from tailrace.replication.slot_location import SlotLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.postgres

INSERT = "INSERT INTO t VALUES ({})"


MAJORS = [pytest.param(major, marks=[] if major == 18 else pytest.mark.matrix) for major in (14, 15, 16, 17, 18)]


@pytest.mark.parametrize("major", MAJORS)
def test_the_database_is_dropped(major: int, tmp_path: Path, tailrace: Run) -> None:
    """Not where it only moves to another tablespace, though a record says that its files in the first are dropped."""
    state = tmp_path / "state"
    with Server(major) as server:
        _with_two_databases(server)
        tailrace("slot", "create", "mine", server.data_dir, "--database", "app", "--state", state)
        (server.home / "space").mkdir()
        server._give_away()
        server.say(f"CREATE TABLESPACE space LOCATION '{server.home / 'space'}'", "ALTER DATABASE app SET TABLESPACE space")
        server.sql(INSERT.format(1), dbname="app")
        server.say("DROP DATABASE other")
        server.sql(INSERT.format(2), dbname="app")
        server.say("DROP DATABASE app", "CREATE DATABASE app")

        status, out, said = tailrace("slot", "get", "mine", "--state", state)
        assert (status, out.count("INSERT"), said) == (0, 2, "")
        confirmed = SlotLocation.open(state).slot("mine").confirmed_flush_lsn
        for verb in ("get", "peek", "receive"):
            status, out, said = tailrace("slot", verb, "mine", "--state", state, *(["-f", "-"] if verb == "receive" else []))
            assert (status != 0, out) == (True, "")
            assert 'database "app" was dropped' in said
            assert f"DROP DATABASE at {confirmed}" in said


def test_receiving_goes_up_to_the_drop(tmp_path: Path, tailrace: Run) -> None:
    """In windows of a segment, and with --upto behind it."""
    state = tmp_path / "state"
    with Server(16) as server:
        _with_two_databases(server)
        tailrace("slot", "create", "mine", server.data_dir, "--database", "app", "--state", state)
        server.sql("INSERT INTO t SELECT g FROM generate_series(1, 30000) g", dbname="app")
        server.say("DROP DATABASE app")
        for number in range(3):
            server.say(f"CREATE TABLE filler_{number} AS SELECT g, repeat('x', 500) FROM generate_series(1, 3000) g")
        file = tmp_path / "rows"
        end = server.flush_lsn()
        status, _, said = tailrace("slot", "receive", "mine", "--state", state, "-f", file, "--window", "1MB", "--endpos", end)
        assert status != 0
        assert 'database "app" was dropped' in said
        assert file.read_text().count("INSERT") == 30000


def test_a_log_with_the_drop_is_decoded_and_says_so(tmp_path: Path, tailrace: Run) -> None:
    """All of the database is there, by a state of its catalogs."""
    captured = tmp_path / "captured"
    with Server(16) as server:
        _with_two_databases(server)
        tailrace("catalog", "capture", server.data_dir, "--database", "app", "-o", captured)
        server.sql(INSERT.format(1), dbname="app")
        server.say("DROP DATABASE app")
        server.stop()
        status, out, said = tailrace("decode", server.wal_dir, "--database", "app", "--catalog", captured)
        assert (status, out.count("INSERT")) == (0, 1)
        assert 'database "app" was dropped at 0/' in said


def test_a_mirror_of_a_dropped_database(tmp_path: Path, tailrace: Run) -> None:
    """By a state of its catalogs it is brought up to the drop. Without one, there is no such database; and another of that name is another."""
    captured, lake = tmp_path / "captured", tmp_path / "lake"
    with Server(16) as server:
        _with_two_databases(server)
        tailrace("catalog", "capture", server.data_dir, "--database", "app", "-o", captured)
        server.sql(INSERT.format(1), dbname="app")
        assert _mirrored(open_feed(server.data_dir, "app"), lake) == [None]
        server.sql(INSERT.format(2), dbname="app")
        server.say("DROP DATABASE app")
        with pytest.raises(UsageError, match='database "app" does not exist'):
            mirror(open_feed(server.data_dir, "app"), lake)
        feed = open_feed(server.data_dir, "app", catalog=captured)
        assert _mirrored(feed, lake) == [None]
        assert 'database "app" was dropped at 0/' in feed.warning
        server.say("CREATE DATABASE app")
        server.sql("CREATE TABLE t (id int PRIMARY KEY)", dbname="app")
        server.sql(INSERT.format(3), dbname="app")
        with pytest.warns(TroubleWarning, match="holds something else than the changes of this database"):
            (trouble,) = _mirrored(open_feed(server.data_dir, "app"), lake)
        assert isinstance(trouble, UsageError)
        assert sorted(read_table(lake / "public.t").column("id").to_pylist()) == [1, 2]


def _mirrored(feed: LogFeed, lake: Path) -> list[TailraceError | None]:
    return [each.trouble for each in mirror(feed, lake)]


@pytest.mark.spark
@pytest.mark.marathon
def test_a_stream_of_a_dropped_database(spark: SparkSession, tmp_path: Path, tailrace: Run) -> None:
    """It gives what comes before the drop, and fails there."""
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 - tests that need no Spark import none

    state, given = tmp_path / "state", []
    with Server(16) as server:
        _with_two_databases(server)
        tailrace("slot", "create", "mine", server.data_dir, "--database", "app", "--state", state)

        def run() -> None:
            stream = spark.readStream.format("tailrace").option("state", str(state)).option("slot", "mine").load()
            writer = stream.writeStream.foreachBatch(lambda batch, _: given.extend(batch.toArrow().column("new").to_pylist()))
            query = writer.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
            try:
                query.awaitTermination(300)
            finally:
                query.stop()

        server.sql(INSERT.format(1), dbname="app")
        server.say("DROP DATABASE app")
        with pytest.raises(StreamingQueryException, match='database "app" was dropped'):
            run()
    assert [dict(new) for new in given] == [{"id": "1"}]


def test_wal_level_is_lowered(tmp_path: Path, tailrace: Run) -> None:
    """What is written from then on lacks what decoding needs, and commits name no database."""
    state = tmp_path / "state"
    with Server(16) as server:
        server.say("CREATE TABLE t (id int)")
        tailrace("slot", "create", "mine", server.data_dir, "--database", server.dbname, "--state", state)
        server.say(INSERT.format(1))
        _set_wal_level(server, "replica")
        server.say(INSERT.format(2))
        status, out, said = tailrace("slot", "get", "mine", "--state", state)
        assert (status, out.count("INSERT"), said) == (0, 1, "")
        for _ in range(2):
            _set_wal_level(server, "logical")
            server.say(INSERT.format(3))
            status, out, said = tailrace("slot", "get", "mine", "--state", state)
            assert (status != 0, out) == (True, "")
            assert "logical decoding requires wal_level >= logical" in said
        tailrace("slot", "create", "other", server.data_dir, "--database", server.dbname, "--state", state)
        server.say(INSERT.format(4))
        status, out, said = tailrace("slot", "get", "other", "--state", state)
        assert (status, out.count("INSERT"), said) == (0, 1, "")


def _with_two_databases(server: Server) -> None:
    server.say("CREATE DATABASE app", "CREATE DATABASE other")
    for name in ("app", "other"):
        server.sql("CREATE TABLE t (id int PRIMARY KEY)", dbname=name)


def _set_wal_level(server: Server, level: str) -> None:
    server.settings["wal_level"] = level
    server.restart()
