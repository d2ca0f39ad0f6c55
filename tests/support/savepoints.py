"""Generated transactions of many subtransactions with messages among their rows: what only the merge of the server's queues can put in order.

In: a server and a seed. Out: its WAL. One connection works; another commits DDL now and then, which is known to every transaction that is open. What
lies directly behind what is decided by places in WAL, so the oracle is a slot that was there from the beginning.
"""

from __future__ import annotations

import random

import psycopg

from support.servers import Server

STEPS = 40
TABLE = "CREATE TABLE t (id int, v text); ALTER TABLE t ALTER v SET STORAGE EXTERNAL"
OWN = {
    "SELECT pg_logical_emit_message(true, 'p', 'message {n}')": 30,
    "INSERT INTO t VALUES ({n}, 'short')": 30,
    "INSERT INTO t SELECT {n} + g, 'several' FROM generate_series(1, 3) g": 4,
    "INSERT INTO t VALUES ({n}, repeat('toast', 1000))": 4,
    "UPDATE t SET v = v WHERE id % 50 = {n} % 50": 3,
    "DELETE FROM t WHERE id % 100 = {n} % 100": 3,
    "CREATE TABLE own{n} (id int)": 3,
    "COMMENT ON TABLE t IS 'number {n}'": 3,
    "TRUNCATE t": 2,
}
OTHERS = {"CREATE TABLE other{n} (id int)": 4, "CREATE ROLE role{n}_{seed}": 1, "COMMENT ON DATABASE {dbname} IS '{n}'": 1}


def run_savepoints(server: Server, seed: int, transactions: int) -> None:
    """Run so many transactions of up to STEPS steps; one in ten is rolled back."""
    draw = random.Random(f"savepoints {seed}")
    with server.connect() as own, server.connect() as other:
        own.execute(TABLE)
        for number in range(transactions):
            _transaction(own, other, draw, number * STEPS, seed=seed, dbname=server.dbname)


def _transaction(own: psycopg.Connection, other: psycopg.Connection, draw: random.Random, first: int, **words: object) -> None:
    open_savepoints = 0
    own.execute("BEGIN")
    for n in range(first, first + draw.randint(3, STEPS)):
        what = draw.random()
        if what < 0.24:
            own.execute("SAVEPOINT s")
            open_savepoints += 1
        elif what < 0.46 and open_savepoints:
            own.execute("RELEASE s" if what < 0.41 else "ROLLBACK TO s; RELEASE s")
            open_savepoints -= 1
        else:
            connection, statements = (other, OTHERS) if what > 0.95 else (own, OWN)
            (statement,) = draw.choices(list(statements), list(statements.values()))
            connection.execute(statement.format(n=n, **words))  # type: ignore[call-overload]
    own.execute("ROLLBACK" if draw.random() < 0.1 else "COMMIT")
