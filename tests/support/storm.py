"""A storm on a running server, for as long as it is wanted: what clients do at once to tables that a lake follows.

In: a server. Out: inserts, updates with unchanged TOAST, keys that move, tables without a key, savepoints, rollbacks, transactions in two phases,
TRUNCATE, columns and tables that come, go and change their names. `KEYS` are the tables that are there at the end, and `compared` says which rows
of a lake are not the source's.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pyarrow as pa

from support.servers import Server
from tailrace.demo.compare import compare_rows
from tailrace.lake.catalog import StoredCatalog
from tailrace.lake.formats import format_named
from tailrace.lake.reading import rows_of
from tailrace.storage.store import Store

KEYS = {"plain": ("id",), "pair": ("x", "y"), "long": ("id",), "bag": ()}
_MADE = """
CREATE TABLE plain (id int PRIMARY KEY, v text, n numeric(10,2));
CREATE TABLE pair (x int, y int, at timestamptz, PRIMARY KEY (x, y));
CREATE TABLE long (id int PRIMARY KEY, v int, body text);
ALTER TABLE long ALTER body SET STORAGE EXTERNAL;
CREATE TABLE bag (v int, t text);
ALTER TABLE bag REPLICA IDENTITY FULL
"""
_CLIENTS = 3


def begin(server: Server) -> None:
    """Make the tables, with rows in all of them."""
    server.say(
        *_MADE.strip().split(";\n"), "INSERT INTO plain SELECT g, 'first', g FROM generate_series(1, 200) g",
        "INSERT INTO pair VALUES (1, 1, now())", "INSERT INTO long VALUES (1, 1, repeat(md5('1'), 100))", "INSERT INTO bag VALUES (1, 'one')",
    )  # fmt: skip


@contextmanager
def storm(server: Server, seed: int, pause: float = 0.01, dwell: float = 0.0) -> Iterator[None]:
    """It rages within the block, and has ended after it. Each client pauses for so many seconds at most between two transactions, and dwells as long
    before what ends one, so that a snapshot meets some that run."""
    ends, failures = threading.Event(), []

    def work(client: int) -> None:
        dice = random.Random(seed * 100 + client)
        with server.connect() as connection:
            while not ends.is_set() and not failures:
                try:
                    _deed(connection, dice, client, lambda: ends.wait(dice.random() * dwell))
                except (psycopg.errors.OperationalError, psycopg.errors.ProgrammingError, psycopg.errors.IntegrityError) as error:
                    if connection.closed:
                        failures.append(error)
                    with suppress(psycopg.Error):
                        connection.execute("ROLLBACK")
                ends.wait(dice.random() * pause)

    threads = [threading.Thread(target=work, args=(client,), daemon=True) for client in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ends.set()
        for thread in threads:
            thread.join()
    assert not failures, failures


def _deed(connection: psycopg.Connection[Any], dice: random.Random, client: int, dwell: Callable[[], object]) -> None:
    chance = dice.random()
    if client == 0 and chance < 0.1:
        _alter(connection, dice)
        return
    connection.execute("BEGIN")
    for _ in range(dice.randrange(1, 4)):
        if dice.random() < 0.2:
            connection.execute("SAVEPOINT s")
            _change(connection, dice)
            connection.execute("ROLLBACK TO s" if dice.random() < 0.5 else "RELEASE s")
        _change(connection, dice)
    dwell()
    if chance < 0.75:
        connection.execute("COMMIT")
    elif chance < 0.85:
        connection.execute("ROLLBACK")
    else:
        connection.execute(f"PREPARE TRANSACTION 'p{client}'".encode())
        dwell()
        connection.execute(f"{'COMMIT' if dice.random() < 0.7 else 'ROLLBACK'} PREPARED 'p{client}'".encode())


def _change(connection: psycopg.Connection[Any], dice: random.Random) -> None:
    a, b = dice.randrange(1000), dice.randrange(20)
    connection.execute(
        dice.choices(
            (
                f"INSERT INTO plain SELECT g, 'i{b}', {b}.25 FROM generate_series({a}, {a + b}) g ON CONFLICT (id) DO UPDATE SET v = 'again'",
                f"UPDATE plain SET v = 'u{b}' WHERE id % 23 = {b}",
                f"UPDATE plain SET id = id + 2000 WHERE id = {a}",  # a key that moves
                f"DELETE FROM plain WHERE id BETWEEN {a} AND {a + b}",
                f"INSERT INTO pair VALUES ({a % 40}, {b}, clock_timestamp()) ON CONFLICT DO NOTHING",
                f"UPDATE pair SET y = y + 100 WHERE x = {a % 40} AND y = {b}",
                f"INSERT INTO long VALUES ({a}, 0, repeat(md5('{a}'), {20 + 10 * b})) ON CONFLICT (id) DO UPDATE SET v = long.v + 1",
                f"UPDATE long SET v = v + 1 WHERE id % 17 = {b % 17}",  # the body is TOAST that stays
                f"INSERT INTO bag SELECT {b}, 'x' FROM generate_series(1, {1 + b // 4})",
                f"DELETE FROM bag WHERE ctid IN (SELECT ctid FROM bag WHERE v = {b} LIMIT 2)",
                f"TRUNCATE {dice.choice(('bag', 'pair'))}",
            ),
            (6, 4, 3, 3, 4, 2, 4, 3, 4, 2, 1),
        )[0].encode()
    )


def _alter(connection: psycopg.Connection[Any], dice: random.Random) -> None:
    """One client alone does so."""
    number = dice.randrange(10**6)
    for statement in dice.choice(
        (
            [f"ALTER TABLE plain ADD c{number} int DEFAULT {number % 100}"],
            [f"ALTER TABLE pair ADD d{number} text", f"ALTER TABLE pair DROP d{number}"],
            ["ALTER TABLE bag RENAME TO sack", "INSERT INTO sack VALUES (1, 'named')", "ALTER TABLE sack RENAME TO bag"],
            [f"CREATE TABLE gone{number} (id int PRIMARY KEY)", f"INSERT INTO gone{number} VALUES (1)", f"DROP TABLE gone{number}"],
            ["ALTER TABLE plain ALTER n TYPE numeric(12,2)"],
            ["ALTER TABLE plain ALTER n TYPE numeric(10,2)"],
        )
    ):  # fmt: skip
        connection.execute(statement.encode())


def different(server: Server, store: Store) -> list[str]:
    """What the lake does not have as the source has it; and whether it has another table."""
    catalog = StoredCatalog.read(store).catalog
    assert catalog is not None
    here = {each.name: each for each in catalog.tables.values() if each.dropped is None}
    wrong = sorted(here.keys() ^ KEYS.keys())
    with server.connect() as connection:
        for name in sorted(here.keys() & KEYS.keys()):
            version = format_named(catalog.format).none(store.below(here[name].folder)).refreshed()
            rows = pa.Table.from_batches(rows_of(version), version.open().schema)
            found = compare_rows(connection, name, rows, KEYS[name])
            wrong += [] if found.equal else [str(found)]
    return wrong
