"""Workloads on a real server: each leaves WAL of one shape behind.

A workload is a set-up and a fill; between them the slots of PostgreSQL's own walsender are made, so that both sides read the same WAL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from support.servers import Server

Connection = psycopg.Connection[Any]
Fill = Callable[[Server, Connection, int], None]

_NARROW = "CREATE TABLE narrow (id bigint PRIMARY KEY, a int, b int, price numeric(10,2), at timestamptz, note text)"
_ROW = (
    "SELECT {first} + g, g, g * 7, (g * 1.37)::numeric(10,2), timestamptz '2026-01-01' + g * interval '1 second', 'note number ' || g "
    "FROM generate_series(0, {last}) g"
)
EVERYTHING = "everything"
"""The publication of all tables."""
ON_NUMBER, ON_TEXT = "on_number", "on_text"
_FILTERS = ((ON_NUMBER, "id % 2 = 0"), (ON_TEXT, "note LIKE '%7'"))
_IN_THOUSANDS = (
    "CREATE PROCEDURE fill(n bigint) LANGUAGE plpgsql AS $$ BEGIN FOR i IN 0 .. n / 1000 - 1 LOOP "
    f"INSERT INTO narrow {_ROW.format(first='i * 1000', last=999)}; COMMIT; END LOOP; END $$"
)


@dataclass(frozen=True, slots=True)
class Workload:
    """`scale` is how many of its things (rows, trades, documents, steps) the full size has, about 2 GB of WAL. `filters` are row filters of the main
    table, by the publication that has it."""

    name: str
    tells: str
    main_table: str
    setup: tuple[str, ...]
    fill: Fill
    scale: int
    filters: tuple[tuple[str, str], ...] = ()


def _inserts(_: Server, connection: Connection, rows: int) -> None:
    connection.execute(_IN_THOUSANDS.encode())
    connection.execute(f"CALL fill({rows})".encode())


def _huge(_: Server, connection: Connection, rows: int) -> None:
    connection.execute(("INSERT INTO narrow " + _ROW.format(first=0, last=rows - 1)).encode())


def _singles(_: Server, connection: Connection, rows: int) -> None:
    """As short as transactions get."""
    connection.execute(b"""CREATE PROCEDURE fill(n bigint) LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1 .. n LOOP
        INSERT INTO narrow (id, a) VALUES (i, i); COMMIT; END LOOP; END $$""")
    connection.execute(f"CALL fill({rows})".encode())


def _long(server: Server, connection: Connection, rows: int) -> None:
    """One transaction is open all the while, with rows at its beginning and at its end."""
    with server.connect("app", autocommit=False) as slow:
        slow.execute(("INSERT INTO narrow " + _ROW.format(first=-20_000, last=9_999)).encode())
        _inserts(server, connection, rows)
        slow.execute(("INSERT INTO narrow " + _ROW.format(first=-10_000, last=9_999)).encode())
        slow.commit()


def _mixed(_: Server, connection: Connection, trades: int) -> None:
    """Transactions like pgbench's (two updates and an insert each), and one large update."""
    connection.execute("INSERT INTO accounts SELECT g, g % 10, 0, repeat(' ', 84) FROM generate_series(1, 100000) g")
    connection.execute("INSERT INTO branches SELECT g, 0, repeat(' ', 88) FROM generate_series(1, 10) g")
    connection.execute("""CREATE PROCEDURE trade(n bigint) LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1 .. n LOOP
        UPDATE accounts SET abalance = abalance + i % 100 WHERE aid = 1 + (i::bigint * 7919) % 100000;
        UPDATE branches SET bbalance = bbalance + i % 100 WHERE bid = 1 + i % 10;
        INSERT INTO history VALUES (1 + (i::bigint * 7919) % 100000, 1 + i % 10, i % 100, clock_timestamp(), '');
        COMMIT; END LOOP; END $$""")
    connection.execute(f"CALL trade({trades})".encode())
    connection.execute("UPDATE accounts SET abalance = abalance + 1")


def _wide(_: Server, connection: Connection, documents: int) -> None:
    """Documents that are stored out of line, compressed and not."""
    connection.execute("""CREATE PROCEDURE fill(n bigint) LANGUAGE plpgsql AS $$ BEGIN FOR i IN 0 .. n / 100 - 1 LOOP
        INSERT INTO documents SELECT i * 100 + g, repeat(md5((i * 100 + g)::text), 40),
          (SELECT string_agg(md5((i * 1000 + g * 10 + k)::text), '') FROM generate_series(1, 130) k) FROM generate_series(0, 99) g;
        COMMIT; END LOOP; END $$""")
    connection.execute(f"CALL fill({documents})".encode())
    connection.execute("UPDATE documents SET title = title || '!' WHERE id % 3 = 0")


def _churn(_: Server, connection: Connection, steps: int) -> None:
    """What makes catalogs move: temporary tables, ANALYZE, subtransactions, partitions."""
    connection.execute(
        f"""DO $$ BEGIN FOR i IN 1 .. {steps} LOOP
        CREATE TEMP TABLE scratch (a int, b text, c numeric, d timestamptz); INSERT INTO scratch VALUES (i, 'x', 1, now()); DROP TABLE scratch;
        ANALYZE measures_0; INSERT INTO measures VALUES (i % 2000, i, 'churn'); COMMIT; END LOOP; END $$""".encode()
    )
    connection.execute("""DO $$ BEGIN FOR i IN 1 .. 10000 LOOP
        BEGIN INSERT INTO measures VALUES (i % 2000, i, 'sub'); EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END $$""")


_PARTITIONS = (
    "DO $$ BEGIN FOR i IN 0 .. 1999 LOOP EXECUTE format('CREATE TABLE measures_%s PARTITION OF measures FOR VALUES IN (%s)', i, i); "
    "IF i % 100 = 0 THEN COMMIT; END IF; END LOOP; END $$"
)

WORKLOADS = {
    work.name: work
    for work in (
        Workload("inserts", "narrow rows, 1000 a transaction", "narrow", (_NARROW,), _inserts, 10_000_000, _FILTERS),
        Workload(
            "mixed", "pgbench-like transactions and one large update", "accounts",
            (
                "CREATE TABLE accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84))",
                "CREATE TABLE branches (bid int PRIMARY KEY, bbalance int, filler char(88))",
                "CREATE TABLE history (aid int, bid int, delta int, mtime timestamp, filler char(22))",
            ),
            _mixed, 2_000_000,
        ),
        Workload(
            "wide", "documents stored out of line", "documents", ("CREATE TABLE documents (id bigint PRIMARY KEY, title text, body text)",),
            _wide, 300_000,
        ),
        Workload("huge", "one transaction", "narrow", (_NARROW,), _huge, 10_000_000),
        Workload("singles", "transactions of one narrow row", "narrow", (_NARROW,), _singles, 3_000_000),
        Workload("long", "one transaction open all the while", "narrow", (_NARROW,), _long, 10_000_000),
        Workload(
            "churn", "temporary tables, ANALYZE, subtransactions, 2,000 partitions", "measures_0",
            ("CREATE TABLE measures (part int, n int, note text) PARTITION BY LIST (part)", _PARTITIONS), _churn, 20_000,
        ),
    )
}  # fmt: skip
