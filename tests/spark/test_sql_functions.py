"""The manual's SQL functions in Spark SQL: rows are the server's, calls are carried out once, and what is refused or fails has moved nothing."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import tailrace.spark
from sql.places import Said, ours, session_on, theirs
from support.servers import Server
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.replication.slot_location import SlotLocation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tailrace.spark.statement_session import SqlSession

pytestmark = [pytest.mark.spark, pytest.mark.postgres]
GET, PEEK = "pg_logical_slot_get_changes", "pg_logical_slot_peek_changes"
STORY = ("CREATE TABLE t (i int primary key, v text)", "INSERT INTO t VALUES (1,'x'),(2,'y')", "UPDATE t SET v='z' WHERE i=2")
REFUSED = (
    f"EXPLAIN SELECT * FROM {GET}('a', NULL, NULL)",
    f"CREATE TEMPORARY VIEW w AS SELECT * FROM {GET}('a', NULL, NULL)",
    f"CACHE TABLE w AS SELECT * FROM {GET}('a', NULL, NULL)",
    f"SELECT s.id, (SELECT count(*) FROM {GET}('a', NULL, NULL)) FROM range(2) AS s",
    f"SELECT * FROM range(2) AS s, LATERAL {GET}('a', NULL, NULL)",
    f"SELECT * FROM range(2) AS s, LATERAL (SELECT * FROM {GET}('a', NULL, NULL))",
    f"SELECT * FROM VALUES ('a') AS s(n), LATERAL {GET}(s.n, NULL, NULL)",
    f"SELECT * FROM {GET}('a' || '', NULL, NULL)",
    f"SELECT {GET}('a', NULL, NULL)",
    f"SELECT * FROM {GET}('a', NULL, NULL) LIMIT 0",
    f"SELECT * FROM {GET}('a', NULL, NULL) WHERE 1 = 0",
    f"WITH q AS (SELECT * FROM {GET}('a', NULL, NULL)) SELECT 1",
    f"SELECT * FROM range(1) |> JOIN {GET}('a', NULL, NULL)",
    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots",
    "SELECT upper(pg_drop_replication_slot('a'))",
    "SELECT 1 WHERE pg_drop_replication_slot('a') = ''",
    f"SELECT * FROM {GET}('a', NULL, NULL) AS one JOIN {PEEK}('a', NULL, NULL) AS two",
    f"SELECT 1; SELECT * FROM {GET}('a', NULL, NULL)",
    "SELECT pg_switch_wal()",
)
PLAIN = (
    f"SELECT * FROM {GET}('a', NULL, NULL)",
    f"EXPLAIN SELECT * FROM {GET}('a', NULL, NULL)",
    f"CREATE OR REPLACE TEMPORARY VIEW w AS SELECT * FROM {GET}('a', NULL, NULL)",
    "SELECT pg_drop_replication_slot('a')",
    "SELECT * FROM pg_replication_slot_advance('a', 'F/0')",
    "SELECT pg_switch_wal()",
)


@dataclass
class Both:
    """A slot `a` of the server's, and one of ours; the same has happened since both."""

    server: Server
    spark: SparkSession
    session: SqlSession
    state: Path

    def confirmed(self) -> Lsn:
        return SlotLocation.open(self.state).slot("a").confirmed_flush_lsn

    def texts(self, text: str) -> list[tuple[str, ...]]:
        rows = theirs(self.server, text)
        assert not isinstance(rows, Said)
        return [tuple(str(each) for each in row) for row in rows]


@pytest.fixture
def both(spark: SparkSession, tmp_path: Path) -> Iterator[Both]:
    state = tmp_path / "state"
    with Server(16) as server, session_on(server, state) as made:
        create = "SELECT pg_create_logical_replication_slot('a', 'test_decoding')"
        assert not isinstance(ours(made, create), Said)
        assert not isinstance(theirs(server, create), Said)
        server.say(*STORY)
        with tailrace.spark.sql_session(spark, str(server.data_dir), server.dbname, str(state)) as session:
            yield Both(server, spark, session, state)


def printed(frame: DataFrame) -> list[tuple[str, ...]]:
    """As psql prints them."""
    return [(str(Lsn(row["lsn"])), str(row["xid"]), row["data"]) for row in frame.collect()]


def message(statement: Any) -> str:
    """What Spark says while it carries out what is refused; its executors print the same."""
    with pytest.raises(Exception, match="cannot be called") as raised, redirect_stderr(io.StringIO()):
        statement()
    return str(raised.value)


def test_peeks_are_table_functions(both: Both) -> None:
    spark, expected = both.spark, both.texts(f"SELECT * FROM {PEEK}('a', NULL, NULL)")
    assert printed(spark.sql(f"SELECT * FROM {PEEK}('a', NULL, NULL)")) == expected
    options = "'include-xids', '0', 'skip-empty-xacts', '1'"
    told = both.texts(f"SELECT * FROM {PEEK}('a', NULL, 2, {options})")
    assert printed(spark.sql(f"SELECT * FROM {PEEK}('a', NULL, 2, {options})")) == told
    named = f"SELECT * FROM {PEEK}(slot_name => 'a', upto_lsn => NULL, upto_nchanges => 2, options => array({options}))"
    assert printed(spark.sql(named)) == told
    binary = spark.sql("SELECT data FROM pg_logical_slot_peek_binary_changes('a', NULL, NULL)").collect()
    assert [bytes(row.data).decode() for row in binary] == [row[2] for row in expected]
    spark.createDataFrame([("a",), ("a",)], "slot string").createOrReplaceTempView("named")
    lateral = spark.sql(f"SELECT lsn, xid, data FROM named, LATERAL {PEEK}(slot, NULL, NULL)")
    assert sorted(printed(lateral)) == sorted(expected * 2)
    upto = f"SELECT p.* FROM (SELECT lsn_value('{expected[0][0]}') AS lsn) AS w, LATERAL {PEEK}('a', w.lsn, NULL) AS p"
    assert printed(spark.sql(upto)) == both.texts(f"SELECT * FROM {PEEK}('a', '{expected[0][0]}', NULL)")
    assert [row[0] for row in spark.sql(f"SELECT lsn_text(lsn) FROM {PEEK}('a', NULL, NULL)").collect()] == [
        row[0] for row in expected
    ]
    with pytest.raises(Exception, match="slot name must not be null"), redirect_stderr(io.StringIO()):
        spark.sql(f"SELECT * FROM {PEEK}(NULL, NULL, NULL)").collect()
    spark.catalog.dropTempView("named")


@pytest.mark.marathon
def test_plain_spark_moves_nothing(both: Both) -> None:
    before = both.confirmed()
    for text in PLAIN:
        if text.startswith("EXPLAIN"):
            assert "cannot be called by Spark" in "".join(row[0] for row in both.spark.sql(text).collect())
            continue
        said = message(lambda text=text: both.spark.sql(text).collect())
        assert "cannot be called by Spark" in said
        assert ("It needs a server" if "switch" in text else "tailrace.spark.sql(spark, …)") in said
    assert both.confirmed() == before


def test_get_gives_what_the_server_gives_and_moves(both: Both) -> None:
    session, get = both.session, f"SELECT * FROM {GET}('a', NULL, NULL)"
    first = session.sql(f"select * from /* ( */ pg_catalog.`{GET}`('a', NULL, 2) -- once '")
    expected = both.texts(f"SELECT * FROM {GET}('a', NULL, 2)")
    assert printed(first) == expected
    counted = session.sql(
        f"SELECT g.xid, count(*) AS n, max({PEEK}.xid) AS x FROM {PEEK}('a', NULL, NULL), range(1) AS g(xid) GROUP BY g.xid"
    )
    assert [row.n for row in counted.collect()] == [len(both.texts(f"SELECT * FROM {PEEK}('a', NULL, NULL)"))]
    rest = session.sql(f"WITH got AS ({get}) SELECT a.* FROM got AS a JOIN got AS b USING (lsn, xid, data) ORDER BY lsn, data")
    assert sorted(printed(rest)) == sorted(both.texts(get))
    assert printed(first) == expected  # the rows are kept
    assert session.sql(get).collect() == []
    assert both.texts(get) == []
    assert not [view for view in both.spark.catalog.listTables() if view.name.startswith("_tailrace")]


def test_what_is_refused_moves_nothing(both: Both) -> None:
    before = both.confirmed()
    for text in REFUSED:
        with pytest.raises(UsageError) as raised:
            both.session.sql(text)
        assert raised.value.sqlstate == "0A000", text
        assert raised.value.hint or "needs a server" in str(raised.value), text
    with pytest.raises(Exception, match=r"table public\.t"), redirect_stderr(io.StringIO()):
        both.session.sql(f"SELECT raise_error(data) FROM {GET}('a', NULL, NULL) WHERE data LIKE 'table%'")
    with pytest.raises(Exception, match="no_such_column"):
        both.session.sql(f"SELECT no_such_column FROM {GET}('a', NULL, NULL)")
    assert both.confirmed() == before
    assert printed(both.session.sql(f"SELECT * FROM {GET}('a', NULL, NULL)")) == both.texts(
        f"SELECT * FROM {GET}('a', NULL, NULL)"
    )


FAILS = (
    "SELECT no_such_column", "SELECT raise_error(slot_name) FROM pg_replication_slots", f"SELECT * FROM {PEEK}('none', NULL, NULL)",
    "SELECT pg_switch_wal()",
)  # fmt: skip


@pytest.mark.parametrize("fails", FAILS)
def test_an_error_ends_temporary_slots(both: Both, fails: str) -> None:
    """As on the server, whoever raises it; the others stay, and the session goes on."""
    create = "SELECT * FROM pg_create_logical_replication_slot('brief', 'test_decoding', true)"
    names = "SELECT slot_name FROM pg_replication_slots ORDER BY 1"
    both.session.sql(create)
    both.session.sql("SELECT 1")
    assert [row[0] for row in both.session.sql(names).collect()] == ["a", "brief"]
    with pytest.raises(Exception, match=r"."), redirect_stderr(io.StringIO()):
        both.session.sql(fails)
    assert [row[0] for row in both.session.sql(names).collect()] == ["a"]
    both.session.sql(create)
    with both.server.connect() as connection:
        connection.execute("SELECT pg_create_logical_replication_slot('brief', 'test_decoding', true)")
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT no_such_column")
        assert connection.execute(names).fetchall() == [("a",)]


def test_slots_and_views(both: Both) -> None:
    session = both.session
    made = session.sql("SELECT (pg_create_logical_replication_slot('b', 'test_decoding')).slot_name AS name").collect()
    assert [row.name for row in made] == ["b"]
    session.sql("SELECT pg_replication_slot_advance('b', pg_current_wal_lsn())")
    slots = session.sql(
        "SELECT s.slot_name, s.confirmed_flush_lsn FROM pg_replication_slots s JOIN pg_catalog.pg_replication_slots USING (slot_name)"
    )
    assert dict(map(tuple, slots.collect())).keys() == {"a", "b"}
    assert session.sql("SELECT * FROM pg_drop_replication_slot('b')").columns == ["pg_drop_replication_slot"]
    assert session.sql("SELECT pg_replication_origin_oid('none')").collect() == [(None,)]
    assert [row[0] for row in session.sql("SELECT slot_name FROM pg_replication_slots").collect()] == ["a"]
    before = both.texts("SELECT pg_current_wal_lsn()")[0][0]
    both.server.say("CREATE TABLE later (i int)")
    named = "SELECT relname FROM pg_class WHERE relname IN ('t', 'later') ORDER BY 1"
    assert [row[0] for row in session.sql(named).collect()] == ["later", "t"]
    session.sql(f"SET tailrace.as_of = '{before}'")
    assert [row[0] for row in session.sql(named).collect()] == ["t"]
    got = tailrace.spark.sql(
        both.spark, f"SELECT * FROM {PEEK}('a', NULL, 1)", source=str(both.server.data_dir), database=both.server.dbname,
        state=str(both.state),
    )  # fmt: skip
    assert printed(got) == both.texts(f"SELECT * FROM {PEEK}('a', NULL, 1)")


def test_a_task_that_is_tried_again(both: Both, tmp_path: Path) -> None:
    """Spark runs a task again that failed: the rows are there once, and so is the slot's move."""
    marker = tmp_path / "failed"
    both.spark.udf.register("fails_once", _failing_once(str(marker)), "string")
    expected = both.texts(f"SELECT * FROM {GET}('a', NULL, NULL)")
    got = both.session.sql(f"SELECT lsn, xid, fails_once(data) AS data FROM {GET}('a', NULL, NULL)")
    assert marker.exists()
    assert printed(got) == expected
    assert both.session.sql(f"SELECT * FROM {GET}('a', NULL, NULL)").collect() == []


def _failing_once(marker: str) -> Callable[[str], str]:
    def fails_once(text: str) -> str:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return text
        raise RuntimeError("the first time")

    return fails_once


@pytest.mark.marathon
def test_a_query_that_is_cancelled(both: Both, tmp_path: Path) -> None:
    """By Ctrl-C, and from another thread, while its rows are computed."""
    before = both.confirmed()
    both.spark.udf.register("waits", _waiting(str(tmp_path / "began")), "string")
    for cancel in (lambda: os.kill(os.getpid(), signal.SIGINT), both.spark.sparkContext.cancelAllJobs):
        (tmp_path / "began").unlink(missing_ok=True)
        canceller = threading.Thread(target=_once_it_exists, args=(tmp_path / "began", cancel))
        canceller.start()
        with pytest.raises((KeyboardInterrupt, Exception), match=r"(?i)cancel|^$"), redirect_stderr(io.StringIO()):
            both.session.sql(f"SELECT waits(data) FROM {GET}('a', NULL, NULL)")
        canceller.join()
        assert both.confirmed() == before
    expected = both.texts(f"SELECT * FROM {GET}('a', NULL, NULL)")
    assert printed(both.session.sql(f"SELECT * FROM {GET}('a', NULL, NULL)")) == expected


def _waiting(marker: str) -> Callable[[str], str]:
    def waits(text: str) -> str:
        Path(marker).touch()
        time.sleep(600)
        return text

    return waits


def _once_it_exists(marker: Path, cancel: Callable[[], None]) -> None:
    while not marker.exists():
        time.sleep(0.05)
    cancel()


def test_an_insert(both: Both, tmp_path: Path) -> None:
    """INSERT INTO … SELECT: one that fails leaves the slot, one that does not moves it once."""
    spark, session, before = both.spark, both.session, both.confirmed()
    spark.sql(f"CREATE TABLE kept (lsn STRING, data STRING) USING parquet LOCATION '{tmp_path / 'kept'}'")
    try:
        failing = f"INSERT INTO kept SELECT lsn_text(lsn), raise_error(data) FROM {GET}('a', NULL, NULL)"
        with pytest.raises(Exception, match="BEGIN"), redirect_stderr(io.StringIO()):
            session.sql(failing)
        assert both.confirmed() == before
        for _ in range(2):
            session.sql(f"INSERT INTO kept SELECT lsn_text(lsn), data FROM {GET}('a', NULL, NULL)")
        assert both.confirmed() > before
        expected = both.texts(f"SELECT lsn, data FROM {GET}('a', NULL, NULL)")
        assert sorted(map(tuple, spark.table("kept").collect())) == sorted(expected)
    finally:
        spark.sql("DROP TABLE kept")
