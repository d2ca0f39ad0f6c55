"""Real subscribers of tailrace serve: CREATE SUBSCRIPTION without a copy, rows, ALTER, REFRESH, DROP; every major to every major."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.builds import find_build
from support.command import ran
from support.served import Served
from support.servers import Server

pytestmark = pytest.mark.postgres
PAIRS = [
    pytest.param(subscriber, source, marks=[] if subscriber == source == 18 else pytest.mark.matrix)
    for subscriber in (18, 16, 15)
    for source in (18, 15, 16)
]
SECONDS = 60
SOON: dict[str, str | int] = {"wal_retrieve_retry_interval": "100ms"}
"""So that a worker whose subscription was changed is back at once."""
DEFINITIONS = (
    'CREATE SCHEMA "S q"', "CREATE TABLE t (id int PRIMARY KEY, v text, gone int, w int)", "ALTER TABLE t DROP COLUMN gone",
    'CREATE TABLE "S q"."T\'x" ("Id" int PRIMARY KEY, "a b" text)', "CREATE TABLE filtered (id int PRIMARY KEY, v text)",
    "CREATE TABLE part (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)", "CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE part2 PARTITION OF part FOR VALUES FROM (10) TO (20)",
)  # fmt: skip
PUBLICATIONS = (
    "CREATE PUBLICATION p FOR TABLE t, \"S q\".\"T'x\"", "CREATE PUBLICATION \"P'Q x\" FOR TABLE filtered (id, v) WHERE (id < 5)",
    "CREATE PUBLICATION roots FOR TABLE part WITH (publish_via_partition_root)",
)  # fmt: skip
TABLES = ("t", '"S q"."T\'x"', "filtered", "part")


def _rows(server: Server, table: str) -> list[tuple[Any, ...]]:
    with server.connect() as connection:
        return sorted(connection.execute(f"SELECT * FROM {table}".encode()).fetchall())


def _arrived(subscriber: Server, expected: dict[str, list[tuple[Any, ...]]]) -> None:
    """Wait until the subscriber has these rows."""
    until = time.monotonic() + SECONDS
    while (found := {table: _rows(subscriber, table) for table in expected}) != expected:
        assert time.monotonic() < until, found
        time.sleep(0.05)


def _listed(subscriber: Server, name: str) -> list[tuple[str, str]]:
    """The tables of a subscription, and how far they are."""
    with subscriber.connect() as connection:
        query = "SELECT srrelid::regclass::text, srsubstate::text FROM pg_subscription_rel JOIN pg_subscription ON srsubid = oid WHERE subname = %s"
        return sorted(connection.execute(query, (name,)).fetchall())


@pytest.mark.parametrize(("of_subscriber", "of_source"), PAIRS)
def test_a_subscription(of_subscriber: int, of_source: int, tmp_path: Path) -> None:
    with Server(of_source) as source, Server(of_subscriber, SOON) as subscriber:
        source.say(*DEFINITIONS, *PUBLICATIONS)
        subscriber.say(*DEFINITIONS)
        with Served(source.data_dir, tmp_path / "state") as served, subscriber.connect(autocommit=True) as there:
            told: list[str] = []
            there.add_notice_handler(lambda notice: told.append(str(notice.message_primary)))
            where = served.dsn().replace("'", "''")
            there.execute(
                f"CREATE SUBSCRIPTION s CONNECTION '{where}' PUBLICATION p, \"P'Q x\", roots, nonesuch WITH (copy_data = false)".encode()
            )
            assert told == ['publication "nonesuch" does not exist on the publisher', 'created replication slot "s" on publisher']
            assert _listed(subscriber, "s") == sorted((table, "r") for table in TABLES)
            there.execute(b'ALTER SUBSCRIPTION s SET PUBLICATION p, "P\'Q x", roots WITH (copy_data = false)')
            source.say(
                "INSERT INTO t VALUES (1, 'one', 10), (2, 'two', 20)", "UPDATE t SET v = 'due' WHERE id = 2", "DELETE FROM t WHERE id = 1",
                "INSERT INTO \"S q\".\"T'x\" VALUES (1, 'x')", "INSERT INTO filtered VALUES (4, 'in'), (5, 'out')",
                "INSERT INTO part VALUES (3, 'a'), (13, 'b')",
            )  # fmt: skip
            _arrived(subscriber, {**{table: _rows(source, table) for table in TABLES}, "filtered": [(4, "in")]})
            assert _rows(subscriber, "t") == [(2, "due", 20)]
            for side in (source, subscriber):
                side.say("CREATE TABLE later (id int PRIMARY KEY)")
            source.say("ALTER PUBLICATION p ADD TABLE later")
            there.execute(b"ALTER SUBSCRIPTION s REFRESH PUBLICATION WITH (copy_data = false)")
            assert ("later", "r") in _listed(subscriber, "s")
            source.say("INSERT INTO later VALUES (7)", "TRUNCATE t")
            _arrived(subscriber, {"later": [(7,)], "t": []})
            with served.connect() as here:
                assert here.execute(b"SELECT slot_name, plugin, active FROM pg_replication_slots").fetchall() == [
                    ("s", "pgoutput", True)
                ]
                there.execute(b"DROP SUBSCRIPTION s")
                assert here.execute(b"SELECT slot_name FROM pg_replication_slots").fetchall() == []


def test_what_a_copy_needs_is_refused_and_said(tmp_path: Path) -> None:
    """SNAPSHOT 'use' is nothing that there is: the subscriber's log says so, and the table stays without rows. Nothing is copied by halves."""
    with Server(18) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)", "CREATE PUBLICATION p FOR TABLE t")
        with (
            Server(18) as subscriber,
            Served(server.data_dir, tmp_path / "state") as served,
            subscriber.connect(autocommit=True) as there,
        ):
            there.execute(b"CREATE TABLE t (id int PRIMARY KEY)")
            where = served.dsn()
            with pytest.raises(psycopg.Error, match="nonesuch"):
                there.execute(f"CREATE SUBSCRIPTION s CONNECTION '{where} dbname=nonesuch' PUBLICATION p".encode())
            there.execute(f"CREATE SUBSCRIPTION s CONNECTION '{where}' PUBLICATION p WITH (origin = none)".encode())
            until = time.monotonic() + SECONDS
            while "SNAPSHOT 'use') is not supported by this server" not in (subscriber.home / "server.log").read_text():
                assert time.monotonic() < until
                time.sleep(0.05)
            assert "The log is read from files, and no server is there that could hold a snapshot." in served.said()
            assert _listed(subscriber, "s") == [("t", "d")]
            assert _rows(subscriber, "t") == []
            for statement in ("DISABLE", "SET (slot_name = NONE)"):
                there.execute(f"ALTER SUBSCRIPTION s {statement}".encode())
            there.execute(b"DROP SUBSCRIPTION s")


def test_a_refresh_knows_what_was_committed_a_moment_ago(tmp_path: Path) -> None:
    """Flushed or not, with no walsender to spare, and where the source was away until then."""
    names = [f"t{number}" for number in range(8)]
    settings: dict[str, str | int] = {"wal_keep_size": "200MB", "max_wal_senders": 1}
    with Server(18, settings) as source, Server(18, SOON) as subscriber, Served(source.dsn(), tmp_path / "state") as served:
        for side in (source, subscriber):
            side.say(*(f"CREATE TABLE {name} (id int PRIMARY KEY)" for name in names))
        source.say("CREATE PUBLICATION p")
        subscriber.say(f"CREATE SUBSCRIPTION s CONNECTION '{served.dsn()}' PUBLICATION p")
        for number, name in enumerate(names):
            if number == 6:
                source.stop()
                with subscriber.connect() as there, contextlib.suppress(psycopg.Error):
                    there.execute(b"ALTER SUBSCRIPTION s REFRESH PUBLICATION")
                source.start()
            with source.connect() as writer, subscriber.connect() as there:
                writer.execute(b"SET synchronous_commit = off")
                writer.execute(f"ALTER PUBLICATION p ADD TABLE {name}".encode())
                there.execute(b"ALTER SUBSCRIPTION s REFRESH PUBLICATION WITH (copy_data = false)")
                assert there.execute(
                    f"SELECT count(*) FROM pg_subscription_rel WHERE srrelid = '{name}'::regclass".encode()
                ).fetchone() == (1,)
        subscriber.say("DROP SUBSCRIPTION s")


def test_a_publication_that_is_defined_here(tmp_path: Path) -> None:
    """The source knows nothing of it. psql shows it as the server shows one that says the same, and a subscriber gets its rows."""
    statement = "FOR TABLE t WHERE (id < 5), TABLES IN SCHEMA shop WITH (publish = 'insert, delete')"
    with Server(18) as source, Server(18, SOON) as subscriber:
        for side in (source, subscriber):
            side.say("CREATE SCHEMA shop", "CREATE TABLE t (id int PRIMARY KEY, v text, w int)", "CREATE TABLE shop.s (i int)")
        words = ["publication", "create", f"here {statement}", source.data_dir, "--database", source.dbname]
        ran(*words, "--state", tmp_path / "state").check_returncode()
        with Served(source.data_dir, tmp_path / "state") as served, subscriber.connect(autocommit=True) as there:
            where = served.dsn()
            there.execute(f"CREATE SUBSCRIPTION s CONNECTION '{where}' PUBLICATION here WITH (copy_data = false)".encode())
            assert _listed(subscriber, "s") == [("shop.s", "r"), ("t", "r")]
            source.say("INSERT INTO t VALUES (1, 'in', 1), (7, 'out', 7)", "INSERT INTO shop.s VALUES (2)")
            _arrived(subscriber, {"t": [(1, "in", 1)], "shop.s": [(2,)]})
            there.execute(b"DROP SUBSCRIPTION s")
            shown = [_shown(served, command) for command in COMMANDS]
            source.say(f"CREATE PUBLICATION here {statement}")
            assert shown == [_shown(source, command) for command in COMMANDS]


COMMANDS = (r"\dRp", r"\dRp+", r"\d t", r"\d shop.s")


def _shown(side: Server | Served, command: str) -> str:
    return subprocess.run(
        [find_build(18).bin("psql"), "-X", side.dsn(), "-c", command], check=True, capture_output=True, text=True
    ).stdout
