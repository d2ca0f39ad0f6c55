"""Subscribers copy tables while others write to them, and subscriber, server and tailrace are killed: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.served import Served
from support.servers import Server
from support.waiting import until

pytestmark = pytest.mark.postgres
OF_SOURCE: dict[str, str | int] = {"wal_keep_size": "1GB", "max_prepared_transactions": 20}
OF_SUBSCRIBER: dict[str, str | int] = {
    "wal_retrieve_retry_interval": "200ms", "max_sync_workers_per_subscription": 3, "max_logical_replication_workers": 8,
}  # fmt: skip
TABLES, CLIENTS = 5, 5


class Storm:
    """Each client writes rows of its own, in savepoints of which some are rolled back, and in transactions of which some are prepared. `counts` says
    how many of each table are written in all: none that is doubled would be applied."""

    def __init__(self, server: Server, seed: int) -> None:
        self._server, self._seed = server, seed
        self._stops = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(client,), daemon=True) for client in range(1, CLIENTS + 1)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stops.set()
        for thread in self._threads:
            thread.join()

    def _write(self, client: int) -> None:
        dice, number = random.Random(self._seed * 100 + client), client * 10**8
        while not self._stops.is_set():
            with suppress(psycopg.Error), self._server.connect() as connection:  # the server is killed, too
                connection.execute(f"SET synchronous_commit = {'off' if client == 1 else 'on'}".encode())
                self._commit_prepared(connection, client)
                while not self._stops.is_set():
                    number += 10
                    for statement in self._transaction(client, number, dice):
                        connection.execute(statement.encode())
            time.sleep(0.05)

    def _commit_prepared(self, connection: psycopg.Connection[Any], client: int) -> None:
        """Those of this client that were left when the server was killed: its next transactions would wait for their rows, for ever."""
        for (name,) in connection.execute(
            "SELECT gid FROM pg_prepared_xacts WHERE gid LIKE %s", (f"p{client}________",)
        ).fetchall():
            connection.execute(f"COMMIT PREPARED '{name}'".encode())

    def _transaction(self, client: int, number: int, dice: random.Random) -> Iterator[str]:
        yield "BEGIN"
        for each in range(dice.randrange(1, 4)):
            table = f"t{dice.randrange(TABLES)}"
            is_sub = dice.random() < 0.3
            if is_sub:
                yield "SAVEPOINT a"
            yield f"INSERT INTO {table} VALUES ({number + each}, 'client {client}')"
            if dice.random() < 0.4:
                yield f"UPDATE {table} SET n = n + 1 WHERE id BETWEEN {number - 100} AND {number}"
            if dice.random() < 0.1:
                yield f"DELETE FROM {table} WHERE id BETWEEN {number - 200} AND {number - 150}"
            if is_sub:
                yield f"{dice.choice(('ROLLBACK TO', 'RELEASE', 'RELEASE'))} a"
        chance, name = dice.random(), f"p{number}"
        if chance < 0.1:
            yield f"PREPARE TRANSACTION '{name}'"
            yield f"{'COMMIT' if chance < 0.08 else 'ROLLBACK'} PREPARED '{name}'"
        else:
            yield "COMMIT" if chance < 0.9 else "ROLLBACK"


def _subscribe(there: Server, served: Served) -> None:
    """With synchronous_commit = on, since PostgreSQL itself may lose rows without it (`test_crashed_subscriber`)."""
    options = "binary = true, synchronous_commit = 'on'"
    there.say(f"CREATE SUBSCRIPTION s CONNECTION '{served.dsn()}' PUBLICATION p WITH ({options})")


def _is_ready(there: Server) -> bool:
    return bool(there.value("SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel"))


def _asks_for_a_dropped_slot(there: Server, served: Served) -> bool:
    """A table is begun anew from a slot that its worker has dropped, and had no time to say so: PostgreSQL's own gap (`test_crashed_subscriber`)."""
    stuck = there.sql(
        "SELECT format('pg_%s_sync_%s_%s', srsubid, srrelid, system_identifier) FROM pg_subscription_rel, pg_control_system() WHERE srsubstate = 'f'"
    )
    said = served.said()
    for (slot,) in stuck:
        commands = re.findall(rf'received replication command: (CREATE|DROP|START)_REPLICATION\w* (?:SLOT )?"?{slot}"?', said)
        if re.search("DROP(START)+$", "".join(commands)):
            return True
    return False


def _anew(there: Server, served: Served) -> None:
    """The same tables are copied once more."""
    there.say("DROP SUBSCRIPTION s", *(f"TRUNCATE t{number}" for number in range(TABLES)))
    _subscribe(there, served)


def _rows(server: Server) -> list[tuple[int, str]]:
    return [
        server.sql(f"SELECT count(*), md5(string_agg(x::text, ',' ORDER BY id)) FROM t{number} x")[0] for number in range(TABLES)
    ]


def _awaited(there: Server, source: Server, served: Served) -> None:
    """Until the subscriber has what the source has, which may be the load of a minute."""
    deadline = time.monotonic() + 150
    while not (_is_ready(there) and _rows(there) == _rows(source)):
        assert served.process is not None
        if _asks_for_a_dropped_slot(there, served):
            _anew(there, served)
        if served.process.poll() is not None or time.monotonic() > deadline:
            workers = (
                there.sql("SELECT srrelid::regclass::text, srsubstate FROM pg_subscription_rel"),
                there.sql("TABLE pg_stat_subscription"),
            )
            raise AssertionError((_differing(there, source), workers, served.process.poll(), served.said()[-4000:]))
        time.sleep(0.5)


def _differing(there: Server, source: Server) -> list[tuple[int, int, int, list[object]]]:
    """Of each table how many rows the subscriber lacks, and has beyond those of the source, and some of them."""
    found = []
    for number in range(TABLES):
        theirs, ours = ({row for (row,) in side.sql(f"SELECT x::text FROM t{number} x")} for side in (source, there))
        found.append((number, len(theirs - ours), len(ours - theirs), sorted(theirs ^ ours)[:5]))
    return found


@contextmanager
def _raging(of_subscriber: int, of_source: int, home: Path, seed: int) -> Iterator[tuple[Server, Server, Served]]:
    made = [f"CREATE TABLE t{number} (id bigint PRIMARY KEY, v text, n int DEFAULT 0)" for number in range(TABLES)]
    with Server(of_source, OF_SOURCE) as source, Server(of_subscriber, OF_SUBSCRIBER) as there:
        for side in (source, there):
            side.say(*made)
        for number in range(TABLES):
            source.say(f"INSERT INTO t{number} SELECT -g, 'first' FROM generate_series(1, 2000) g")
        source.say("CREATE PUBLICATION p FOR ALL TABLES")
        with Served(source.dsn(), home / "state", "--log-replication-commands") as served:
            storm = Storm(source, seed)
            storm.start()
            try:
                yield source, there, served
            finally:
                storm.stop()
            for (name,) in source.sql("SELECT gid FROM pg_prepared_xacts"):  # whose client was killed with the server
                source.sql(f"COMMIT PREPARED '{name}'")
            _awaited(there, source, served)


@pytest.mark.parametrize(
    ("of_subscriber", "of_source", "rounds"),
    [pytest.param(18, 18, 1, marks=pytest.mark.marathon), pytest.param(16, 18, 2, marks=pytest.mark.marathon)]
    + [
        pytest.param(subscriber, source, 2, marks=[pytest.mark.matrix, pytest.mark.marathon])
        for subscriber, source in ((14, 18), (18, 14), (15, 16), (17, 15), (16, 17))
    ],
)  # fmt: skip
def test_tables_are_copied_while_others_write(of_subscriber: int, of_source: int, rounds: int, tmp_path: Path) -> None:
    with _raging(of_subscriber, of_source, tmp_path, rounds) as (_, there, served):
        _subscribe(there, served)
        for _ in range(rounds):
            until(lambda: _is_ready(there))
            if rounds > 1:
                _anew(there, served)
        until(lambda: _is_ready(there))


@pytest.mark.parametrize(
    "kills", [pytest.param(6, id="a-few", marks=pytest.mark.soak), pytest.param(60, id="many", marks=pytest.mark.marathon)]
)  # fmt: skip
def test_each_of_them_is_killed(kills: int, tmp_path: Path) -> None:
    """At any moment, and begins again; whenever the tables are there they are copied anew."""
    dice = random.Random(kills)
    with _raging(18, 18, tmp_path, kills) as (source, there, served):
        _subscribe(there, served)
        for number in range(kills):
            time.sleep(dice.uniform(0.1, 4))
            [_kill_tailrace, _kill_subscriber, _kill_source][number % 3](source, there, served)
            with suppress(psycopg.Error):  # what is being started, or is gone
                if not there.value("SELECT count(*) FROM pg_subscription"):
                    _subscribe(there, served)
                elif _is_ready(there) or _asks_for_a_dropped_slot(there, served):
                    _anew(there, served)
        until(lambda: _is_subscribed(there, served))


def _is_subscribed(there: Server, served: Served) -> bool:
    """By now: what subscribed it anew may have been killed on its way."""
    if not there.value("SELECT count(*) FROM pg_subscription"):
        _subscribe(there, served)
    return True


def _kill_tailrace(source: Server, there: Server, served: Served) -> None:
    served.kill()
    served.start()


def _kill_subscriber(source: Server, there: Server, served: Served) -> None:
    there.crash()
    there.start()


def _kill_source(source: Server, there: Server, served: Served) -> None:
    source.crash()
    source.start()
