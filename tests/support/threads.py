"""Generated workloads as they come in life: several connections at once, that wait for and overtake each other.

In: a server and a seed. Out: the server's WAL, and a tally of what went well and what did not. The seed fixes what each worker
draws, not what meets what: nothing here is repeatable to the byte, so the oracle is a slot that was there from the beginning.
Errors that come of the others (deadlocks, tables that are gone) are part of it; any other error is raised.

What only this has, and no schedule (:mod:`support.schedule`): statements that wait for each other's locks, deadlocks, speculative inserts that lose,
rows that several have locked, records of all workers close together; and `ALTER` in the midst of it. What it cannot: be told twice.
"""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
from psycopg import errors

from support.servers import Server
from support.values import TYPES, default_of, draw, large

SHARED = 4
OWN = 3
KEYS = 400
COLUMNS = (("v", "text"), ("n", "numeric"), ("a", "int[]"), ("j", "jsonb"), ("z", "timestamptz"))
CATALOGS = ("pg_class", "pg_attribute", "pg_type", "pg_index", "pg_namespace", "pg_enum")
SETTINGS = "SET lock_timeout = '300ms'; SET deadlock_timeout = '50ms'"
EXPECTED = (
    errors.LockNotAvailable,
    errors.DeadlockDetected,
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.UndefinedObject,
    errors.DuplicateTable,
    errors.DuplicateColumn,
    errors.DuplicateObject,
    errors.UniqueViolation,
    errors.DatatypeMismatch,
    errors.CannotCoerce,
    errors.InvalidTextRepresentation,
    errors.ObjectNotInPrerequisiteState,
    errors.DataCorrupted,  # "could not read blocks": PostgreSQL's own race of a scan with TRUNCATE or VACUUM FULL; it rolls back
    errors.FeatureNotSupported,
    errors.InvalidTableDefinition,
    errors.InFailedSqlTransaction,
    errors.DivisionByZero,
    errors.InternalError_,  # "tuple concurrently updated", and the like: two ALTERs at once
)


def run_threads(server: Server, seed: int, transactions: int = 2000, workers: int = 6, *, ddl: bool = True) -> Counter[str]:
    """Run about so many transactions on `workers` connections; the tally has `committed`, `rolled back`, and errors by name."""
    print(f"workload: seed {seed}, {transactions} transactions, {workers} workers")
    _set_up(server)
    share = -(-transactions // workers)
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(_work, server, f"{seed}/{at}", at, share, ddl=ddl) for at in range(workers)]
        return sum((future.result() for future in futures), Counter())


def _set_up(server: Server) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS)
    with server.connect() as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
        for at in range(SHARED):
            connection.execute(f"CREATE TABLE shared{at} (id int PRIMARY KEY, m mood, {columns}) WITH (fillfactor = 80)".encode())
        connection.execute("ALTER TABLE shared1 REPLICA IDENTITY FULL")
        connection.execute("CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY HASH (id)")
        for at in range(2):
            connection.execute(f"CREATE TABLE parts{at} PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER {at})".encode())


def _work(server: Server, seed: str, at: int, transactions: int, *, ddl: bool) -> Counter[str]:
    with server.connect(prepare_threshold=None) as connection:
        connection.execute(SETTINGS)
        worker = _Worker(connection, random.Random(seed), at, ddl=ddl)
        for _ in range(transactions):
            worker.transact()
        return worker.tally


class _Worker:
    """One connection and its dice. Outside of `transact` it has no transaction open."""

    def __init__(self, connection: psycopg.Connection[Any], dice: random.Random, at: int, *, ddl: bool) -> None:
        self.connection, self.dice, self.at, self.ddl = connection, dice, at, ddl
        self.tally: Counter[str] = Counter()

    def transact(self) -> None:
        try:
            if self.ddl and self.dice.random() < 0.03:
                self._maintain()
            elif self.dice.random() < 0.3:
                self._step()
            else:
                self._say("BEGIN")
                for _ in range(self.dice.randint(1, 6)):
                    self._step()
                self._say(end := self.dice.choices(("COMMIT", "ROLLBACK"), (85, 15))[0])
                self.tally[{"COMMIT": "committed", "ROLLBACK": "rolled back"}[end]] += 1
                return
            self.tally["committed"] += 1
        except EXPECTED as error:
            self.tally[type(error).__name__] += 1
            self._say("ROLLBACK")

    def _step(self) -> None:
        kinds = [
            self._insert,
            self._update,
            self._move_key,
            self._delete,
            self._upsert,
            self._copy,
            self._savepoint,
            self._message,
        ]
        weights = [25, 25, 8, 8, 12, 6, 10, 3]
        if self.ddl:
            kinds += [self._alter, self._create, self._temporary, self._truncate]
            weights += [10, 3, 2, 1]
        self.dice.choices(kinds, weights)[0]()

    # -- rows: of shared tables, whose columns are known, and of one's own, of which only `id` and `v` are ----------------------

    def _insert(self) -> None:
        rows = ", ".join(self._row() for _ in range(self.dice.choice((1, 1, 3))))
        self._say(f"INSERT INTO {self._shared()} (id, m, {', '.join(name for name, _ in COLUMNS)}) VALUES {rows}")

    def _upsert(self) -> None:
        action = self.dice.choice(
            ("NOTHING", "UPDATE SET v = excluded.v, n = excluded.n", "UPDATE SET j = excluded.j WHERE false")
        )
        names = ", ".join(name for name, _ in COLUMNS)
        self._say(f"INSERT INTO {self._shared()} (id, m, {names}) VALUES {self._row()} ON CONFLICT (id) DO {action}")

    def _update(self) -> None:
        name, kind = self.dice.choice(COLUMNS)
        change = f"v = {large(self.dice)}" if self.dice.random() < 0.04 else f"{name} = {draw(kind, self.dice)}"
        self._say(f"UPDATE {self._shared()} SET {change} WHERE id BETWEEN {self._key()} AND {self._key()} + 3")

    def _move_key(self) -> None:
        self._say(f"UPDATE {self.dice.choice((self._shared(), 'parts'))} SET id = {self._key()} WHERE id = {self._key()}")

    def _delete(self) -> None:
        self._say(f"DELETE FROM {self.dice.choice((self._shared(), 'parts'))} WHERE id IN ({self._key()}, {self._key()})")

    def _copy(self) -> None:
        first, rows = self.dice.randint(KEYS, 10**9), self.dice.choice((2, 30, 200))
        table = self.dice.choice((self._shared(), "parts", self._own()))
        data = "".join(f"{first + row}\t{'c' * self.dice.choice((1, 20, 3000 if row < 3 else 1))}\n" for row in range(rows))
        with self.connection.cursor().copy(f"COPY {table} (id, v) FROM STDIN".encode()) as copy:
            copy.write(data)

    def _message(self) -> None:
        self._say(f"SELECT pg_logical_emit_message({self.dice.choice(('true', 'false'))}, 'p', 'from worker {self.at}')")

    def _savepoint(self) -> None:
        """Some steps in a savepoint that is kept, undone or, if one of them fails, has to be undone."""
        if not self._is_open():
            return
        self._say("SAVEPOINT s")
        try:
            for _ in range(self.dice.randint(1, 3)):
                self._step()
        except EXPECTED:
            self._say("ROLLBACK TO s")
            return
        self._say(self.dice.choice(("RELEASE s", "ROLLBACK TO s")))

    # -- tables ------------------------------------------------------------------------------------------------------------------

    def _create(self) -> None:
        kind = self.dice.choice(TYPES)
        self._say(f"CREATE TABLE IF NOT EXISTS {self._own()} (id int, v text, c0 {kind}, c1 mood)")

    def _alter(self) -> None:
        column, other, kind = f"c{self.dice.randint(0, 4)}", f"c{self.dice.randint(0, 4)}", self.dice.choice(TYPES)
        change = self.dice.choice(
            (
                f"ADD COLUMN {column} {kind}",
                f"ADD COLUMN {column} {kind} DEFAULT {default_of(kind, self.dice)}",
                f"DROP COLUMN {column}",
                f"RENAME COLUMN {column} TO {other}",
                f"ALTER COLUMN {column} TYPE text",
                "REPLICA IDENTITY FULL",
                "REPLICA IDENTITY DEFAULT",
            )
        )
        table = self._own() if self.dice.random() < 0.8 else self._shared()
        self._say(f"ALTER TABLE {table} {change}")
        self._say(f"INSERT INTO {table} (id, v) VALUES ({self.dice.randint(KEYS, 10**9)}, 'after an alter')")

    def _temporary(self) -> None:
        self._say("CREATE TEMP TABLE scratch AS SELECT g AS id, 'x' AS v FROM generate_series(1, 9) g")
        self._say("DROP TABLE scratch")

    def _truncate(self) -> None:
        self._say(self.dice.choice((f"TRUNCATE {self._own()}", "TRUNCATE parts", f"DROP TABLE {self._own()}")))

    def _maintain(self) -> None:
        kind, catalog, label = self.dice.random(), self.dice.choice(CATALOGS), f"mood{self.at}x{self.dice.randint(0, 10**6)}"
        if kind < 0.4:
            self._say(f"VACUUM FULL {catalog}")
        elif kind < 0.6:
            self._say(self.dice.choice((f"VACUUM {catalog}", f"ANALYZE {self._shared()}", "CHECKPOINT")))
        elif kind < 0.8:
            self._say(f"VACUUM FULL {self.dice.choice((self._shared(), self._own()))}")
        else:
            self._say(f"ALTER TYPE mood ADD VALUE '{label}'")

    # -- small draws -------------------------------------------------------------------------------------------------------------

    def _say(self, sql: str) -> None:
        self.connection.execute(sql.encode())

    def _is_open(self) -> bool:
        return bool(self.connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS)

    def _shared(self) -> str:
        return f"shared{self.dice.randrange(SHARED)}"

    def _own(self) -> str:
        """Mostly one's own, now and then another's."""
        owner = self.at if self.dice.random() < 0.9 else 0
        return f"own{owner}_{self.dice.randrange(OWN)}"

    def _key(self) -> int:
        return self.dice.randint(1, KEYS)

    def _row(self) -> str:
        key = self._key() if self.dice.random() < 0.5 else self.dice.randint(KEYS, 10**9)
        mood = self.dice.choice(("sad", "ok", "happy"))
        return f"({', '.join([str(key), repr(mood), *(draw(kind, self.dice) for _, kind in COLUMNS)])})"
