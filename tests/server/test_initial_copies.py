"""Real subscribers of tailrace serve on a live server's log, from the first copy on, beside subscribers of that server: their tables are equal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lake.test_mirror import TYPES
from support.command import ran
from support.served import Served
from support.servers import Server
from support.waiting import until
from tailrace.lake.reading import read_table

pytestmark = pytest.mark.postgres
MAJORS = (18, 14, 15, 16, 17)
PAIRS = [
    pytest.param(subscriber, source, marks=[] if source == 18 and subscriber in (16, 18) else pytest.mark.matrix)
    for subscriber in MAJORS
    for source in MAJORS
]
OF_SOURCE: dict[str, str | int] = {"wal_keep_size": "500MB", "max_prepared_transactions": 10}
OF_SUBSCRIBER: dict[str, str | int] = {
    "wal_retrieve_retry_interval": "200ms", "max_sync_workers_per_subscription": 3, "max_logical_replication_workers": 12,
    "max_worker_processes": 24, "max_prepared_transactions": 10,
}  # fmt: skip
OURS, THEIRS = "ours", "theirs"
DEFINITIONS = (
    *TYPES.replace("INSERT INTO kinds", "-- INSERT INTO kinds").split(";\n")[:4],
    'CREATE SCHEMA "S q"', "CREATE SCHEMA shop", "CREATE TABLE sentinel (n int PRIMARY KEY)",
    "CREATE TABLE t (id int PRIMARY KEY, v text, gone int, w int)", "ALTER TABLE t DROP COLUMN gone",
    'CREATE TABLE "S q"."T\'x" ("Id" int PRIMARY KEY, "a b" text)', "CREATE TABLE bag (v int, x text)", "ALTER TABLE bag REPLICA IDENTITY FULL",
    "CREATE TABLE filtered (id int PRIMARY KEY, v text)", "CREATE TABLE listed (id int PRIMARY KEY, v text, w int)",
    "CREATE TABLE part (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)", "CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE part2 PARTITION OF part FOR VALUES FROM (10) TO (99)",
    "CREATE TABLE leaf (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)", "CREATE TABLE leaf1 PARTITION OF leaf FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE leaf2 PARTITION OF leaf FOR VALUES FROM (10) TO (99)", "CREATE TABLE shop.item (id int PRIMARY KEY, v text)",
    "CREATE TABLE made (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)", "CREATE TABLE nothing (id int PRIMARY KEY)",
    "CREATE TABLE late (id int PRIMARY KEY, v text)", "CREATE TABLE later (id int PRIMARY KEY, v text)",
)  # fmt: skip
TABLES = (
    "kinds", "t", '"S q"."T\'x"', "bag", "filtered", "listed", "part", "leaf", "shop.item", "made", "nothing", "late", "later", "sentinel",
)  # fmt: skip
ROWS = (
    "INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 2000) g",
    "INSERT INTO \"S q\".\"T'x\" VALUES (1, E'tab\\tline\\nback\\\\slash'), (2, NULL)",
    "INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (2, NULL)", "INSERT INTO filtered SELECT g, 'f' FROM generate_series(1, 9) g",
    "INSERT INTO listed VALUES (1, 'a', 10), (2, 'b', 20)", "INSERT INTO part VALUES (1, 'a'), (11, 'b')",
    "INSERT INTO leaf VALUES (1, 'a'), (11, 'b')",
    "INSERT INTO shop.item VALUES (1, 'äöü €')", "INSERT INTO made VALUES (1), (2)", "INSERT INTO late VALUES (1, 'late')",
    "INSERT INTO later VALUES (1, 'later')",
)  # fmt: skip
STREAMED = (
    "INSERT INTO t VALUES (3001, 'new', 1)", "UPDATE t SET v = 'changed' WHERE id % 100 = 7", "DELETE FROM t WHERE id % 100 = 8",
    "UPDATE t SET id = id + 10000 WHERE id = 9", "INSERT INTO \"S q\".\"T'x\" VALUES (3, 'x')", "DELETE FROM bag WHERE v = 2",
    "INSERT INTO filtered VALUES (20, 'out'), (0, 'in')", "UPDATE filtered SET id = 30 WHERE id = 3", "UPDATE filtered SET id = -1 WHERE id = 20",
    "DELETE FROM filtered WHERE id = 4", "UPDATE listed SET w = 11, v = 'c' WHERE id = 1", "INSERT INTO part VALUES (5, 'c'), (25, 'd')",
    "UPDATE part SET id = 26 WHERE id = 5", "UPDATE leaf SET id = 27 WHERE id = 1", "TRUNCATE leaf2", "INSERT INTO shop.item VALUES (2, 'b')",
    "INSERT INTO made VALUES (3)",
    "INSERT INTO kinds (id, ia, tt) VALUES (3, '{3}', '2026-01-01 12:00+00')", "UPDATE kinds SET n = 1.50 WHERE id = 1",
)  # fmt: skip


def publications_of(source: int, subscriber: int) -> list[str]:
    """What both majors know of."""
    has_filters = source > 14 and subscriber > 14
    return [
        "CREATE PUBLICATION p FOR TABLE sentinel, kinds, t, \"S q\".\"T'x\", bag, made, nothing",
        f"CREATE PUBLICATION f FOR TABLE filtered{' WHERE (id < 5 OR id = 7)' if has_filters else ''}, listed{' (id, w)' if has_filters else ''}",
        "CREATE PUBLICATION roots FOR TABLE part WITH (publish_via_partition_root)", "CREATE PUBLICATION leaves FOR TABLE leaf",
        "CREATE PUBLICATION shops FOR " + ("TABLES IN SCHEMA shop" if source > 14 else "TABLE shop.item"), "CREATE PUBLICATION more FOR TABLE late",
    ]  # fmt: skip


class Both:
    """A server that subscribes to tailrace in one database, and to the source itself in another."""

    def __init__(self, source: Server, subscriber: Server, served: Served) -> None:
        self.source, self.subscriber = source, subscriber
        self._publishers = {OURS: served.dsn(), THEIRS: source.dsn()}
        self._count = 0
        for name in self._publishers:
            subscriber.say(f"CREATE DATABASE {name}")
            with self.connect(name) as connection:
                for statement in DEFINITIONS:
                    connection.execute(statement.encode())

    def connect(self, name: str) -> psycopg.Connection[Any]:
        return psycopg.connect(self.subscriber.dsn(), dbname=name, autocommit=True)

    def say(self, *statements: str) -> None:
        """In both; `{name}` is the subscription's, which differs as their slots must."""
        for name, publisher in self._publishers.items():
            with self.connect(name) as connection:
                for statement in statements:
                    connection.execute(statement.replace("{name}", name).replace("{publisher}", publisher).encode())

    def asked(self, query: str) -> dict[str, list[tuple[Any, ...]]]:
        found = {}
        for name in self._publishers:
            with self.connect(name) as connection:
                found[name] = connection.execute(query.encode()).fetchall()
        return found

    def synchronised(self) -> None:
        """All tables are ready."""
        states = "SELECT DISTINCT srsubstate::text FROM pg_subscription_rel JOIN pg_subscription ON srsubid = oid WHERE subname = current_database()"
        until(lambda: all(each == [("r",)] for each in self.asked(states).values()))

    def equal(self) -> None:
        """What has been said to the source is in both, and makes the same of their tables."""
        self._count += 1
        self.source.say(f"INSERT INTO sentinel VALUES ({self._count})")
        there = f"SELECT count(*) FROM sentinel WHERE n = {self._count}"
        until(lambda: all(each == [(1,)] for each in self.asked(there).values()))
        for table in TABLES:
            rows = self.asked(f"SELECT x::text FROM {table} AS x ORDER BY 1")
            assert rows[OURS] == rows[THEIRS], table


def test_a_publication_that_is_defined_beside_the_source(tmp_path: Path) -> None:
    """Its filter and its columns are those of the copy, too."""
    with Server(18, OF_SOURCE) as source, Server(18, OF_SUBSCRIBER) as there:
        for side in (source, there):
            side.say("CREATE TABLE t (id int PRIMARY KEY, v text, w int)")
        source.say("INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 9) g")
        words = ["publication", "create", "here FOR TABLE t (id, w) WHERE (id % 2 = 0)", source.dsn()]
        ran(*words, "--database", source.dbname, "--state", tmp_path / "state").check_returncode()
        with Served(source.dsn(), tmp_path / "state") as served:
            there.say(f"CREATE SUBSCRIPTION s CONNECTION '{served.dsn()}' PUBLICATION here")
            until(lambda: there.sql("SELECT * FROM t ORDER BY id") == [(each, None, each) for each in (2, 4, 6, 8)])
            source.say("INSERT INTO t VALUES (10, 'x', 10), (11, 'x', 11)", "UPDATE t SET w = 0 WHERE id = 4")
            until(lambda: there.sql("SELECT id, w FROM t ORDER BY id") == [(2, 2), (4, 0), (6, 6), (8, 8), (10, 10)])
            there.say("DROP SUBSCRIPTION s")


def test_one_that_is_defined_anew_while_it_is_streamed(tmp_path: Path) -> None:
    """What it has by then is streamed from then on, without a gap behind the copy of a table that was added."""
    with Server(18, OF_SOURCE) as source, Server(18, OF_SUBSCRIBER) as there:
        for side in (source, there):
            side.say("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)")
        source.say("INSERT INTO t VALUES (1), (200)", "INSERT INTO u VALUES (1)")

        def publication(verb: str, what: str) -> None:
            words = (
                "publication",
                verb,
                f"here {what}",
                source.dsn(),
                "--database",
                source.dbname,
                "--state",
                tmp_path / "state",
            )
            ran(*words).check_returncode()

        publication("create", "FOR TABLE t WHERE (id < 100)")
        with Served(source.dsn(), tmp_path / "state") as served:
            there.say(f"CREATE SUBSCRIPTION s CONNECTION '{served.dsn()}' PUBLICATION here")
            until(lambda: there.sql("TABLE t") == [(1,)])
            publication("alter", "ADD TABLE u")
            there.say("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
            until(lambda: there.sql("TABLE u") == [(1,)])
            source.say("INSERT INTO u VALUES (2)", "INSERT INTO t VALUES (2), (300)")
            until(lambda: there.sql("TABLE u ORDER BY id") == [(1,), (2,)] and there.sql("TABLE t ORDER BY id") == [(1,), (2,)])
            publication("alter", "SET TABLE t WHERE (id < 1000), u")
            source.say("INSERT INTO t VALUES (400)")
            until(lambda: there.sql("TABLE t ORDER BY id") == [(1,), (2,), (400,)])
            assert "due to a change of the publications that are defined here" in served.said()
            there.say("DROP SUBSCRIPTION s")


def test_constants_of_filters_where_backslashes_escape(tmp_path: Path) -> None:
    """They are read as they were written, whatever the source's own sessions do."""
    with Server(18, OF_SOURCE) as source, Server(18, OF_SUBSCRIBER) as there:
        source.say(
            "ALTER ROLE postgres SET standard_conforming_strings = off", "ALTER ROLE postgres SET escape_string_warning = off"
        )
        for side in (source, there):
            side.say("CREATE TABLE t (v text PRIMARY KEY)")
        with source.connect() as writer:
            writer.execute("SET standard_conforming_strings = on")
            writer.execute(r"INSERT INTO t VALUES ('a\b'), ('a'), ('ab')")
            writer.execute(r"CREATE PUBLICATION p FOR TABLE t WHERE (v <> 'a\b')")
        with Served(source.dsn(), tmp_path / "state") as served:
            there.say(f"CREATE SUBSCRIPTION s CONNECTION '{served.dsn()}' PUBLICATION p")
            until(lambda: there.sql("TABLE t ORDER BY v") == [("a",), ("ab",)])
            there.say("DROP SUBSCRIPTION s")
        ran(
            "mirror", source.dsn(), "--publication", "p", "--to", tmp_path / "lake", "--state", tmp_path / "of lake"
        ).check_returncode()
        assert sorted(read_table(tmp_path / "lake/public.t")["v"].to_pylist()) == ["a", "ab"]


def test_text_for_a_subscriber_in_sql_ascii(tmp_path: Path) -> None:
    """Of a source in LATIN1 copy and stream have the same bytes, so that rows are found again."""
    with Server(18, OF_SOURCE) as source, Server(18, OF_SUBSCRIBER) as there:
        source.say("CREATE DATABASE d ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
        there.say("CREATE DATABASE d ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE 'C'")
        source.dbname = there.dbname = "d"
        for side in (source, there):
            side.say("CREATE TABLE t (k text PRIMARY KEY, n int)")
        source.say("INSERT INTO t VALUES ('ä', 1), ('ö', 2)", "CREATE PUBLICATION p FOR TABLE t")
        with Served(source.dsn(), tmp_path / "state", dbname="d") as served:
            there.say(f"CREATE SUBSCRIPTION s CONNECTION '{served.dsn()}' PUBLICATION p")
            until(lambda: there.value("SELECT count(*) FROM t") == 2)
            source.say("DELETE FROM t WHERE k = 'ä'", "UPDATE t SET n = 3 WHERE k = 'ö'")
            until(lambda: there.sql("SELECT k::bytea, n FROM t") == [("ö".encode(), 3)])
            there.say("DROP SUBSCRIPTION s")


@contextmanager
def both_subscribed(of_subscriber: int, of_source: int, home: Path) -> Iterator[Both]:
    with Server(of_source, OF_SOURCE) as source, Server(of_subscriber, OF_SUBSCRIBER) as subscriber:
        source.say(*DEFINITIONS, TYPES[TYPES.index("INSERT") :], *ROWS, *publications_of(of_source, of_subscriber))
        with Served(source.dsn(), home / "state") as served:
            yield Both(source, subscriber, served)


SUBSCRIBE = "CREATE SUBSCRIPTION {name} CONNECTION '{publisher}' PUBLICATION p, f, roots, leaves, shops"


@pytest.mark.parametrize(
    ("of_subscriber", "of_source"),
    [pytest.param(*pair.values, marks=pytest.mark.soak) if pair.values == (16, 18) else pair for pair in PAIRS],
)
def test_a_subscription_from_its_first_row(of_subscriber: int, of_source: int, tmp_path: Path) -> None:
    """Copies, changes, publications that come and go, a pause, a transaction that is skipped, and the end."""
    with both_subscribed(of_subscriber, of_source, tmp_path) as both:
        source = both.source
        both.say(SUBSCRIBE)
        source.say(*STREAMED[::2])
        both.synchronised()
        both.equal()
        source.say(*STREAMED[1::2])
        both.equal()
        source.say("ALTER PUBLICATION p ADD TABLE later")
        both.say("ALTER SUBSCRIPTION {name} REFRESH PUBLICATION")
        both.say("ALTER SUBSCRIPTION {name} SET PUBLICATION p, f, roots, leaves, shops, more")
        source.say("INSERT INTO late VALUES (2, 'two')", "UPDATE later SET v = 'changed'")
        both.synchronised()
        both.equal()
        both.say("ALTER SUBSCRIPTION {name} DISABLE")
        source.say("INSERT INTO t VALUES (4000, 'paused', 1)", "TRUNCATE bag, nothing", "INSERT INTO bag VALUES (9, 'n')")
        both.say("ALTER SUBSCRIPTION {name} ENABLE")
        both.equal()
        if of_subscriber > 14:
            _skip(both)
            both.equal()
        source.say("ALTER PUBLICATION p DROP TABLE later")
        both.say("ALTER SUBSCRIPTION {name} REFRESH PUBLICATION")
        listed = (
            "SELECT count(*) FROM pg_subscription_rel JOIN pg_subscription ON srsubid = oid "
            "WHERE subname = current_database() AND srrelid = 'later'::regclass"
        )
        assert all(each == [(0,)] for each in both.asked(listed).values())
        both.say("DROP SUBSCRIPTION {name}")
        assert source.value("SELECT count(*) FROM pg_replication_slots") == 0


def _skip(both: Both) -> None:
    """A transaction that cannot be applied is named by the same LSN in the logs of both, and skipped by that."""
    both.say("INSERT INTO t VALUES (5000, 'in the way', 0)")
    both.source.say("INSERT INTO t VALUES (5000, 'x', 1)")
    log = both.subscriber.home / "server.log"

    def found() -> list[str]:
        return re.findall(r'replication target relation "public\.t" in transaction \d+, finished at (\S+)', log.read_text())

    until(lambda: len(found()) >= 4)
    (lsn,) = set(found())
    both.say(f"ALTER SUBSCRIPTION {{name}} SKIP (lsn = '{lsn}')")


def _options(of_subscriber: int) -> str:
    """All that a subscriber of this major can ask for."""
    since = {
        14: ["binary = true", "streaming = on"], 15: ["two_phase = true", "disable_on_error = true"],
        16: ["origin = none", "run_as_owner = true", "password_required = false"],
    }  # fmt: skip
    words = [word for first, words in since.items() if first <= of_subscriber for word in words]
    return ", ".join(words).replace("streaming = on", "streaming = parallel" if of_subscriber > 15 else "streaming = on")


@pytest.mark.parametrize(
    ("of_subscriber", "of_source"),
    [pytest.param(*pair.values, marks=pytest.mark.soak if pair.values == (18, 18) else pytest.mark.matrix) for pair in PAIRS],
)
def test_with_all_its_options(of_subscriber: int, of_source: int, tmp_path: Path) -> None:
    """Rows in binary form; transactions come at PREPARE once all tables are there, and large ones while they run."""
    with both_subscribed(of_subscriber, of_source, tmp_path) as both:
        source = both.source
        both.say(f"{SUBSCRIBE} WITH ({_options(of_subscriber)})")
        source.say(*STREAMED[::2])
        both.synchronised()
        source.say(*STREAMED[1::2])
        both.equal()
        if of_subscriber > 14 and of_source > 14:
            enabled = "SELECT subtwophasestate::text FROM pg_subscription WHERE subname = current_database()"
            until(lambda: all(each == [("e",)] for each in both.asked(enabled).values()))
            _prepared(both)
        source.say(
            "INSERT INTO t SELECT g, repeat('x', 1000), 1 FROM generate_series(100000, 100400) g",
            "UPDATE t SET w = 5 WHERE id > 100000",
        )
        both.equal()
        both.say("DROP SUBSCRIPTION {name}")


def _prepared(both: Both) -> None:
    source = both.source
    source.say("BEGIN", "INSERT INTO t VALUES (7000, 'prepared', 1)")
    with source.connect() as connection:
        for statement in ("BEGIN", "INSERT INTO t VALUES (7001, 'prepared', 1)", "PREPARE TRANSACTION 'one'"):
            connection.execute(statement.encode())
        prepared = "SELECT database::text FROM pg_prepared_xacts ORDER BY 1"
        until(lambda: both.asked(prepared)[OURS] == [(OURS,), (THEIRS,)])
        connection.execute(b"COMMIT PREPARED 'one'")
    both.equal()
    assert both.asked(prepared)[OURS] == []
