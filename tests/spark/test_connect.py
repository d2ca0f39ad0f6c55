"""Spark Connect: a client that has neither the log nor the state location gets what a session on its server would, and slots move exactly once.

The server is a process of its own, and so is the client, in which whoever opens a file below the server's paths is refused. What the client is asked
to do is below, in functions that take a session: they travel by value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle

from sql.places import Said
from sql.places import theirs as asked
from support.pgoutput_rows import theirs as sent
from support.servers import Server
from support.slots import create_both, theirs
from support.spark_connect import ConnectServer
from support.spark_driver import Driver
from tailrace.model import Lsn
from tailrace.replication.slot_location import SlotLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = [pytest.mark.spark, pytest.mark.postgres]
EXAMPLE = Path(__file__).parents[2] / "examples/kafka"
GET, PEEK = "pg_logical_slot_get_changes", "pg_logical_slot_peek_changes"
WORK = (
    "INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 30) i",
    "UPDATE t SET id = 99 WHERE id = 3",
    "ALTER TABLE t ADD w int DEFAULT 7",
    "DELETE FROM t WHERE id % 10 = 0",
)


@dataclass
class Both:
    """A server, a client, and a slot on the same log: `theirs` of PostgreSQL's, `mine` of ours."""

    server: Server
    driver: Driver
    state: Path
    work: Path

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.driver.call({}, function, self.paths, *arguments).value

    @property
    def paths(self) -> dict[str, str]:
        return {"source": str(self.server.data_dir), "database": self.server.dbname, "state": str(self.state)}

    def confirmed(self) -> Lsn:
        return SlotLocation.open(self.state).slot("mine").confirmed_flush_lsn


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with ConnectServer() as there, Driver(there.url) as client:
        yield client


@pytest.fixture
def both(driver: Driver, tmp_path: Path) -> Iterator[Both]:
    with Server(18) as server:
        server.say(
            "CREATE TABLE t (id int PRIMARY KEY, v text)",
            "CREATE PUBLICATION p FOR TABLE t (id, v) WHERE (id % 2 = 0)",
        )
        create_both(server, "mine", tmp_path / "state")
        server.sql("SELECT pg_create_logical_replication_slot('published', 'pgoutput')")
        server.say(*WORK, "CHECKPOINT")
        made = Both(server, driver, tmp_path / "state", tmp_path / "work")
        made.call(_stay_out)
        yield made


def _stay_out(spark: SparkSession, paths: dict[str, str]) -> None:
    """From now on this process cannot open what is the server's."""
    assert type(spark).__module__ == "pyspark.sql.connect.session"
    forbidden = (paths["source"], paths["state"])

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir", "os.mkdir") and str(arguments[0]).startswith(forbidden):
            raise PermissionError(f"the client opens {arguments[0]}")

    sys.addaudithook(refuse)


@pytest.mark.marathon
def test_reads(both: Both) -> None:
    """Batches: a typed table, its change feed, what is published, what plugins print; positions as functions and in SQL; what became of tables."""
    start = str(both.confirmed())
    rows = [row.split("\t", 2) for row in theirs(both.server).splitlines()]
    kinds = [line[2].split(": ")[1].lower() for line in rows if line[2].startswith("table ")]
    read = both.call(_reads, start)
    assert sorted(read["kinds"]) == sorted(kinds)
    assert read["printed"] == [tuple(line) for line in rows]
    feed = sorted(("update_postimage" if kind == "update" else kind) for kind in kinds)
    assert sorted(kind for kind in read["feed"] if kind != "update_preimage") == feed
    assert read["feed"].count("update_preimage") == 1
    options = {"proto_version": "1", "publication_names": "p"}
    told = sent(both.server, "published", options)
    inserts = sum(data[:1] == b"I" for _, _, data in told)
    assert inserts == 15
    assert sum(kind == "insert" for kind in read["published"]) == inserts
    assert len(read["published"]) == sum(data[:1] in b"IUD" for _, _, data in told)
    assert read["at"] == (start,) * 2
    assert read["counted"] == read["indexed"] == len(kinds)
    assert [each for each in read["events"] if each[0] != "known"] == [("created", None), ("column added", "w")]


def _reads(spark: SparkSession, paths: dict[str, str], lsn: str) -> dict[str, Any]:
    from tailrace.spark import changes, lsn_text, lsn_value, register, schema_events  # noqa: PLC0415

    source, database, state = paths["source"], paths["database"], paths["state"]
    start = spark.read.format("tailrace").option("database", database)
    typed = start.option("table", "public.t").load(source)
    feed = start.option("readChangeFeed", "true").option("table", "public.t").load(source)
    published = spark.read.format("tailrace").options(database=database, tables="public.t", publication="p").load(source)
    printed = spark.read.format("tailrace").options(source=source, database=database, plugin="test_decoding", startLsn=lsn).load()
    register(spark)
    at = (
        spark.range(1).select(lsn_text(lsn_value(lsn))).collect()[0][0],
        spark.sql(f"SELECT lsn_text(lsn_value('{lsn}'))").collect()[0][0],
    )
    events = schema_events(spark, source, database=database, table="t")
    return {
        "kinds": [row.kind for row in typed.where(typed.commit_lsn < lsn_value("FFFF/0")).select("kind").collect()],
        "feed": [row._change_type for row in feed.select("_change_type").collect()],
        "published": [row.kind for row in published.collect()],
        "printed": [(row.lsn, str(row.xid), row.data) for row in printed.select(lsn_text("lsn").alias("lsn"), "xid", "data").collect()],
        "at": at, "counted": typed.count(),
        "indexed": changes(spark, source, database=database, table="public.t", index=state + "/../indexes").count(),
        "events": [(row.event, row.column) for row in events.orderBy("commit_lsn").collect()],
    }  # fmt: skip


@pytest.mark.marathon
def test_a_stream(both: Both) -> None:
    """Of the slot, begun again where its checkpoint says; and the example for Kafka, with a sink that a server has without it."""
    both.work.mkdir()
    first = both.call(_stream, str(both.work))
    both.server.say("INSERT INTO t VALUES (1000, 'later')")
    second = both.call(_stream, str(both.work))
    expected = theirs(both.server).splitlines()
    assert len(first) == sum("\ttable" in row for row in expected) - 1
    assert sorted(second) == sorted([*first, "insert"])
    assert both.confirmed() > Lsn(0)


def _stream(spark: SparkSession, paths: dict[str, str], work: str) -> list[str]:
    stream = spark.readStream.format("tailrace").options(state=paths["state"], slot="mine", tables="public.t").load()
    writer = stream.select("kind").writeStream.format("parquet").option("checkpointLocation", work + "/checkpoint")
    query = writer.option("path", work + "/rows").trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return [row.kind for row in spark.read.parquet(work + "/rows").collect()]


@pytest.mark.marathon
def test_functions_of_the_interface(both: Both) -> None:
    """Peeks are table functions; what moves a slot is refused there, and carried out once by a session, whose rows are the server's."""
    peek = f"SELECT lsn, xid, data FROM {PEEK}('theirs', NULL, NULL)"
    expected = _texts(asked(both.server, peek))
    before = both.confirmed()
    told = both.call(_peeks)
    assert told["rows"] == expected
    assert "cannot be called by Spark" in told["refused"]
    assert told["relative"] == '"state" is not an absolute path'
    assert "on the server of Spark Connect" in told["nowhere"]
    assert both.confirmed() == before
    limited = _texts(asked(both.server, f"SELECT lsn, xid, data FROM {GET}('theirs', NULL, 2)"))
    assert both.call(_sql, f"SELECT lsn_text(lsn), xid, data FROM {GET}('mine', NULL, 2)") == limited
    assert both.confirmed() > before
    failing = f"SELECT raise_error(data) FROM {GET}('mine', NULL, NULL)"
    with pytest.raises(RuntimeError, match="USER_RAISED_EXCEPTION"):
        both.call(_sql, failing)
    rest = _texts(asked(both.server, f"SELECT lsn, xid, data FROM {GET}('theirs', NULL, NULL)"))
    assert both.call(_sql, f"SELECT lsn_text(lsn), xid, data FROM {GET}('mine', NULL, NULL)") == rest
    assert both.call(_sql, f"SELECT * FROM {GET}('mine', NULL, NULL)") == []


def _texts(rows: Any) -> list[tuple[str, ...]]:
    assert not isinstance(rows, Said)
    return [tuple(map(str, row)) for row in rows]


def _peeks(spark: SparkSession, paths: dict[str, str]) -> dict[str, Any]:
    from tailrace.errors import UsageError  # noqa: PLC0415
    from tailrace.spark import register, sql_session  # noqa: PLC0415

    def message(kind: type[Exception], function: Callable[[], Any]) -> str:
        try:
            function()
        except kind as error:
            return str(error)
        raise AssertionError

    register(spark, **paths)
    rows = spark.sql(f"SELECT lsn_text(lsn), xid, data FROM {PEEK}('mine', NULL, NULL)").collect()
    return {
        "rows": [tuple(map(str, row)) for row in rows],
        "refused": message(Exception, lambda: spark.sql(f"SELECT * FROM {GET}('mine', NULL, NULL)").collect()),
        "relative": message(UsageError, lambda: sql_session(spark, paths["source"], paths["database"], "state")).split("\n")[0],
        "nowhere": message(UsageError, lambda: sql_session(spark, "/nonesuch", paths["database"], paths["state"])),
    }


def _sql(spark: SparkSession, paths: dict[str, str], text: str) -> list[tuple[str, ...]]:
    import tailrace.spark  # noqa: PLC0415

    return [tuple(map(str, row)) for row in tailrace.spark.sql(spark, text, **paths).collect()]


@pytest.mark.marathon
def test_slots_on_the_server(both: Both) -> None:
    """Made, copied, moved, dropped; views and catalogs; a slot that somebody else moves between look and move."""
    told = both.call(_slots)
    assert told["made"] == [("b", "test_decoding"), ("c", "test_decoding"), ("mine", "test_decoding")]
    assert told["advanced"]
    assert told["left"] == [("mine",)]
    assert told["origin"] == [(1,)]
    assert told["tables"] == [("t",)]
    assert told["temporary"] == "0A000"
    assert told["moved"] == "55000"


def _slots(spark: SparkSession, paths: dict[str, str]) -> dict[str, Any]:
    import tailrace.spark  # noqa: PLC0415
    from tailrace.errors import UsageError  # noqa: PLC0415

    def rows(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in session.sql(text).collect()]

    def state(text: str) -> str:
        try:
            session.sql(text)
        except UsageError as error:
            return error.sqlstate
        return ""

    told: dict[str, Any] = {}
    with tailrace.spark.sql_session(spark, **paths) as session:
        rows("SELECT pg_create_logical_replication_slot('b', 'test_decoding')")
        rows("SELECT pg_copy_logical_replication_slot('b', 'c')")
        told["made"] = rows("SELECT slot_name, plugin FROM pg_replication_slots ORDER BY 1")
        ((_, end),) = rows("SELECT * FROM pg_replication_slot_advance('c', pg_current_wal_lsn())")
        told["advanced"] = rows("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'c'") == [(end,)]
        told["temporary"] = state("SELECT pg_create_logical_replication_slot('d', 'test_decoding', true)")
        moving, session._at_hand = session._at_hand, lambda text: _meanwhile(spark, paths, moving, text)
        told["moved"] = state("SELECT * FROM pg_logical_slot_get_changes('mine', NULL, NULL)")
        session._at_hand = moving
        for name in ("b", "c"):
            rows(f"SELECT pg_drop_replication_slot('{name}')")
        told["left"] = rows("SELECT slot_name FROM pg_replication_slots")
        rows("SELECT pg_replication_origin_create('o')")
        told["origin"] = rows("SELECT pg_replication_origin_oid('o')")
        told["tables"] = rows("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 2200")
    return told


def _meanwhile(spark: SparkSession, paths: dict[str, str], moving: Callable[[str], Any], text: str) -> Any:
    """Somebody else takes what the slot has while a statement runs."""
    import tailrace.spark  # noqa: PLC0415

    tailrace.spark.sql(spark, f"SELECT * FROM {GET}('mine', NULL, 2)", **paths)
    return moving(text)


@pytest.mark.marathon
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
