"""The workloads of design.md section 8, made on a real server: each leaves WAL of one shape behind.

A workload is a set-up and a fill; between them the slots of PostgreSQL's own walsender are made, so that both sides read the same WAL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import psycopg

Fill = Callable[[psycopg.Connection, int], None]

_NARROW = "CREATE TABLE narrow (id bigint PRIMARY KEY, a int, b int, price numeric(10,2), at timestamptz, note text)"
_ROW = (
    "SELECT {first} + g, g, g * 7, (g * 1.37)::numeric(10,2), timestamptz '2026-01-01' + g * interval '1 second', 'note number ' || g "
    "FROM generate_series(0, {last}) g"
)


@dataclass(frozen=True, slots=True)
class Workload:
    """`scale` is the number of rows of the full size; the small size is a tenth."""

    name: str
    tells: str
    setup: tuple[str, ...]
    fill: Fill
    scale: int


def _inserts(connection: psycopg.Connection, rows: int) -> None:
    row = _ROW.format(first="i * 1000", last=999)
    connection.execute(
        f"CREATE PROCEDURE fill(n bigint) LANGUAGE plpgsql AS $$ BEGIN FOR i IN 0 .. n / 1000 - 1 LOOP INSERT INTO narrow {row}; COMMIT; END LOOP; END $$"  # noqa: E501
    )
    connection.execute(f"CALL fill({rows})")


def _huge(connection: psycopg.Connection, rows: int) -> None:
    connection.execute("INSERT INTO narrow " + _ROW.format(first=0, last=rows - 1))


def _mixed(connection: psycopg.Connection, rows: int) -> None:
    """Transactions like pgbench's (three updates and an insert each), and one large update."""
    connection.execute("INSERT INTO accounts SELECT g, g % 10, 0, repeat(' ', 84) FROM generate_series(1, 100000) g")
    connection.execute("INSERT INTO branches SELECT g, 0, repeat(' ', 88) FROM generate_series(1, 10) g")
    connection.execute("""CREATE PROCEDURE trade(n bigint) LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1 .. n LOOP
        UPDATE accounts SET abalance = abalance + i % 100 WHERE aid = 1 + (i * 7919) % 100000;
        UPDATE branches SET bbalance = bbalance + i % 100 WHERE bid = 1 + i % 10;
        INSERT INTO history VALUES (1 + (i * 7919) % 100000, 1 + i % 10, i % 100, clock_timestamp(), '');
        COMMIT; END LOOP; END $$""")
    connection.execute(f"CALL trade({rows // 10})")
    connection.execute("UPDATE accounts SET abalance = abalance + 1")


def _wide(connection: psycopg.Connection, rows: int) -> None:
    """Documents that are stored out of line, compressed and not."""
    connection.execute("""CREATE PROCEDURE fill(n bigint) LANGUAGE plpgsql AS $$ BEGIN FOR i IN 0 .. n / 100 - 1 LOOP
        INSERT INTO documents SELECT i * 100 + g, repeat(md5((i * 100 + g)::text), 40),
          (SELECT string_agg(md5((i * 1000 + g * 10 + k)::text), '') FROM generate_series(1, 130) k) FROM generate_series(0, 99) g;
        COMMIT; END LOOP; END $$""")
    connection.execute(f"CALL fill({rows // 100})")
    connection.execute("UPDATE documents SET title = title || '!' WHERE id % 3 = 0")


def _churn(connection: psycopg.Connection, rows: int) -> None:
    """What makes catalogs move: temporary tables, ANALYZE, subtransactions, partitions."""
    steps = max(1, rows // 10_000)
    connection.execute(f"""DO $$ BEGIN FOR i IN 1 .. {steps} LOOP
        CREATE TEMP TABLE scratch (a int, b text, c numeric, d timestamptz); INSERT INTO scratch VALUES (i, 'x', 1, now()); DROP TABLE scratch;
        ANALYZE measures_0; INSERT INTO measures VALUES (i % 2000, i, 'churn'); COMMIT; END LOOP; END $$""")
    connection.execute(f"""DO $$ BEGIN FOR i IN 1 .. {10 * steps} LOOP
        BEGIN INSERT INTO measures VALUES (i % 2000, i, 'sub'); EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END $$""")


WORKLOADS = {
    work.name: work
    for work in (
        Workload("inserts", "narrow rows, 1000 a transaction", (_NARROW,), _inserts, 10_000_000),
        Workload(
            "mixed", "pgbench-like transactions and one large update",
            (
                "CREATE TABLE accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84))",
                "CREATE TABLE branches (bid int PRIMARY KEY, bbalance int, filler char(88))",
                "CREATE TABLE history (aid int, bid int, delta int, mtime timestamp, filler char(22))",
            ),
            _mixed, 10_000_000,
        ),
        Workload("wide", "documents stored out of line", ("CREATE TABLE documents (id bigint PRIMARY KEY, title text, body text)",), _wide, 10_000_000),  # noqa: E501
        Workload("huge", "one transaction", (_NARROW,), _huge, 10_000_000),
        Workload(
            "churn", "temporary tables, ANALYZE, subtransactions, 2,000 partitions",
            (
                "CREATE TABLE measures (part int, n int, note text) PARTITION BY LIST (part)",
                "DO $$ BEGIN FOR i IN 0 .. 1999 LOOP EXECUTE format('CREATE TABLE measures_%s PARTITION OF measures FOR VALUES IN (%s)', i, i); "
                "IF i % 100 = 0 THEN COMMIT; END IF; END LOOP; END $$",
            ),
            _churn, 10_000_000,
        ),
    )
}  # fmt: skip
