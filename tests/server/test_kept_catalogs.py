"""Catalogs that the clients of a server share: whatever was committed before a query is in its result, whoever asks and when."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from support.served import Served
from support.servers import Server

pytestmark = pytest.mark.postgres
_THREADS, _TABLES = 4, 12


@pytest.mark.soak
@pytest.mark.parametrize("source", ["files", "live"])
def test_what_is_committed_is_seen_by_the_next_query(source: str, tmp_path: Path) -> None:
    with Server(18) as server, Served(server.data_dir if source == "files" else server.dsn(), tmp_path / "state") as served:
        seen: list[str] = []

        def watch() -> None:
            with served.connect() as client, server.connect(autocommit=True) as writer:
                for _ in range(_TABLES):
                    name = f"t{threading.get_ident()}_{len(seen)}"
                    writer.execute(f"CREATE TABLE {name} (i int)".encode())
                    found = client.execute(f"SELECT count(*) FROM pg_class WHERE relname = '{name}'".encode()).fetchall()
                    seen.append(name if found == [(1,)] else f"{name} is not there")
                    writer.execute(f"DROP TABLE {name}".encode())
                    assert client.execute(b"SELECT to_regclass('" + name.encode() + b"')").fetchall() == [(None,)]

        threads = [threading.Thread(target=watch) for _ in range(_THREADS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert len(seen) == _THREADS * _TABLES
    assert [each for each in seen if each.endswith("not there")] == []


@pytest.mark.parametrize("crashes", [False, True])
def test_a_source_that_was_away(crashes: bool, tmp_path: Path) -> None:
    """Once it is back, what it commits is seen by the next query: the receiver would only try again some seconds later. While it is away, whoever
    asks is told, once; and nobody waits for it who only connects, or streams."""
    tables = b"SELECT tablename FROM pg_publication_tables WHERE pubname = 'p' ORDER BY 1"
    with Server(16) as server:
        server.say("CREATE TABLE t0 (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t0")
        with Served(server.dsn(), tmp_path / "state") as served, served.connect() as client:
            told: list[str] = []
            client.add_notice_handler(lambda each: told.append(each.message_primary or ""))
            for number in (1, 2):
                if crashes:
                    server.crash()
                else:
                    server.stop()
                with served.connect() as another:
                    another.execute(b"SELECT 1")
                for _ in range(2):
                    assert len(client.execute(tables).fetchall()) == number
                assert told == ["the source does not answer: what it has done since it was heard last is not known here"] * number
                time.sleep(2.5 * number)  # so that the receiver's next try lies seconds ahead
                server.start()
                server.say(f"CREATE TABLE t{number} (id int PRIMARY KEY)", f"ALTER PUBLICATION p ADD TABLE t{number}")
                assert client.execute(tables).fetchall() == [(f"t{each}",) for each in range(number + 1)]
                assert served.said().count("connected again, and receiving from ") == number


def test_sessions_differ_in_search_path_moment_and_time_zone(tmp_path: Path) -> None:
    with Server(18) as server:
        server.say("CREATE SCHEMA shop", "CREATE TABLE shop.items (i int)", "CREATE ROLE r VALID UNTIL '2030-01-01 12:00+00'")
        then = server.flush_lsn()
        server.say("CREATE TABLE later (i int)")
        with Served(server.data_dir, tmp_path / "state") as served, served.connect() as one, served.connect() as other:
            other.execute(b"SET search_path = shop")
            other.execute(b"SET TimeZone = 'Asia/Tokyo'")
            other.execute(f"SET tailrace.as_of = '{then}'".encode())
            name = b"SELECT oid::regclass::text FROM pg_class WHERE relname = 'items'"
            later = b"SELECT count(*) FROM pg_class WHERE relname = 'later'"
            for _ in range(2):
                assert one.execute(name).fetchall() == [("shop.items",)]
                assert other.execute(name).fetchall() == [("items",)]
                assert one.execute(later).fetchall() == [(1,)]
                assert other.execute(later).fetchall() == [(0,)]
                zones = [
                    client.execute(b"SELECT rolvaliduntil FROM pg_roles WHERE rolname = 'r'").fetchall()[0][0].utcoffset().seconds
                    for client in (one, other)
                ]
                assert zones == [0, 9 * 3600]
