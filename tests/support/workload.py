"""A made-up day of a database: many sessions, one statement at a time, the same for the same seed.

`make_schedule` gives a list of (session, statement); `run_schedule` runs it on a server, in that order, from one thread. What
a statement meets depends on nothing but the statements before it: a lock that another session holds is one that stays, so
waiting for it always ends in `lock_timeout`, and an error is as much part of the schedule as a row. So two clones of a
cluster, one with a slot and one without, write the same rows in the same order.

The maker keeps a model of the tables, so that nearly all statements make sense: who has a transaction open, which tables it
has written to (nobody else alters those) and which it has altered (nobody else uses those), and what they were like before,
should it be rolled back.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import psycopg

from support.servers import Server

CATALOGS = ("pg_class", "pg_attribute", "pg_type", "pg_index", "pg_namespace")
LOCK_TIMEOUT = "20ms"
TYPES = ("int", "bigint", "text", "numeric", "bool", "float8", "timestamp", "date", "bytea", "int[]")
WIDER = {
    "int": "bigint",
    "bigint": "numeric",
    "numeric": "text",
    "bool": "text",
    "date": "timestamp",
    "timestamp": "text",
    "float8": "numeric",
}
MOST_TABLES = 9


@dataclass
class _Table:
    """`columns` beside the key `id`; `last` is the greatest id given out."""

    name: str
    columns: dict[str, str]
    last: int = 0


@dataclass
class _Session:
    name: int
    steps: int = 0
    """How many statements its transaction will still have; 0: it has none open."""
    before: dict[str, _Table | None] = field(default_factory=dict)
    """Tables it has altered, as they were; None if it has made them."""
    touched: set[str] = field(default_factory=set)
    savepoints: list[dict[str, _Table | None]] = field(default_factory=list)
    temps: int = 0


def make_schedule(seed: int, transactions: int = 2000, sessions: int = 6) -> list[tuple[int, str]]:
    """Statements of about that many transactions; at the end, all are closed."""
    return _Maker(seed, sessions).make(transactions)


def run_schedule(server: Server, schedule: Iterable[tuple[int, str]], dbname: str) -> list[str]:
    """Run it; what went wrong, as `number: SQLSTATE`, so that two runs can be compared."""
    connections: dict[int, psycopg.Connection] = {}
    errors = []
    try:
        for number, (session, sql) in enumerate(schedule):
            if session not in connections:
                connections[session] = server.connect(dbname, prepare_threshold=None)
                connections[session].execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'; SET synchronous_commit = off".encode())
            try:
                connections[session].execute(sql.encode())
            except psycopg.Error as error:
                errors.append(f"{number}: {error.sqlstate}")
        for _, connection in sorted(connections.items()):
            connection.execute("DISCARD TEMP")  # else each session would do so at its end, whenever that is
    finally:
        for connection in connections.values():
            connection.close()
    return errors


class _Maker:
    def __init__(self, seed: int, sessions: int) -> None:
        self._random = random.Random(seed)
        self._sessions = [_Session(i) for i in range(sessions)]
        self._tables: dict[str, _Table] = {}
        self._made = 0
        self._schedule: list[tuple[int, str]] = []
        self._transactions = 0

    def make(self, transactions: int) -> list[tuple[int, str]]:
        while self._transactions < transactions:
            self._step(self._random.choice(self._sessions))
        for session in self._sessions:
            if session.steps:
                self._end(session)
        return self._schedule

    def _say(self, session: _Session, sql: str) -> None:
        self._schedule.append((session.name, sql))

    def _chance(self, percent: float) -> bool:
        return self._random.random() * 100 < percent

    # -- transactions ----------------------------------------------------------------------------------------------------------

    def _step(self, session: _Session) -> None:
        if session.steps == 1:
            self._end(session)
        elif session.steps:
            session.steps -= 1
            if not (self._chance(15) and self._savepoint(session)):
                self._statement(session)
        elif self._chance(45):
            self._say(session, "BEGIN")
            session.steps = self._random.randint(2, 12)
        else:
            if not (self._chance(4) and self._maintenance(session)):
                self._statement(session)
            self._forget(session)

    def _end(self, session: _Session) -> None:
        if self._chance(20):
            self._say(session, "ROLLBACK")
            for name, table in session.before.items():
                self._put(name, table)
        else:
            self._say(session, "COMMIT")
        session.steps = 0
        self._forget(session)

    def _forget(self, session: _Session) -> None:
        self._transactions += 1
        session.before.clear()
        session.touched.clear()
        session.savepoints.clear()

    def _savepoint(self, session: _Session) -> bool:
        depth = len(session.savepoints)
        if not depth or (depth < 4 and self._chance(50)):
            self._say(session, f"SAVEPOINT s{depth}")
            session.savepoints.append({name: copy.deepcopy(self._tables.get(name)) for name in session.before})
        elif self._chance(50):
            session.savepoints.pop()
            self._say(session, f"RELEASE s{depth - 1}")
        else:
            self._say(session, f"ROLLBACK TO s{depth - 1}")
            for name, first in session.before.items():
                # what was altered only since goes back to what it was before the transaction
                self._put(name, copy.deepcopy(session.savepoints[-1].get(name, first)))
        return True

    def _put(self, name: str, table: _Table | None) -> None:
        if table is None:
            self._tables.pop(name, None)
        else:
            last = self._tables[name].last if name in self._tables else 0
            self._tables[name] = copy.deepcopy(table)
            self._tables[name].last = max(last, table.last)

    # -- statements ------------------------------------------------------------------------------------------------------------

    def _statement(self, session: _Session) -> None:
        others = [other for other in self._sessions if other is not session]
        usable = [table for name, table in self._tables.items() if not any(name in other.before for other in others)]
        free = [table for table in usable if not any(table.name in other.touched for other in others)]
        if not usable or (self._chance(6) and len(self._tables) < MOST_TABLES):
            self._create(session)
        elif free and self._chance(14):
            self._alter(session, self._random.choice(free))
        elif self._chance(3):
            self._temporary(session)
        else:
            table = self._random.choice(usable)
            session.touched.add(table.name)
            self._say(session, self._change(session, table, alone=table in free))

    def _create(self, session: _Session) -> None:
        self._made += 1
        table = _Table(f"t{self._made}", {})
        for i in range(self._random.randint(1, 5)):
            table.columns[f"c{i}"] = self._random.choice(TYPES)
        session.before[table.name] = None
        self._tables[table.name] = table
        columns = "".join(f", {name} {kind}" for name, kind in table.columns.items())
        self._say(session, f"CREATE TABLE {table.name} (id int PRIMARY KEY{columns})")
        if self._chance(25):
            self._say(session, f"ALTER TABLE {table.name} REPLICA IDENTITY FULL")

    def _alter(self, session: _Session, table: _Table) -> None:
        session.before.setdefault(table.name, copy.deepcopy(table))
        session.touched.add(table.name)
        column = self._random.choice(list(table.columns)) if table.columns else None
        self._made += 1
        what = self._random.choice(
            ["add", "add", "default", "drop", "rename", "type", "type", "drop table", "identity", "index", "storage"]
        )
        if what in ("add", "default") or column is None:
            kind = self._random.choice(TYPES)
            default = f" DEFAULT {self._value(kind)}" if what == "default" and kind != "int[]" else ""
            table.columns[f"c{self._made}"] = kind
            said = f"ADD COLUMN c{self._made} {kind}{default}"
        elif what == "drop":
            del table.columns[column]
            said = f"DROP COLUMN {column}"
        elif what == "rename":
            table.columns = {f"r{self._made}" if name == column else name: kind for name, kind in table.columns.items()}
            said = f"RENAME COLUMN {column} TO r{self._made}"
        elif what == "type" and table.columns[column] in WIDER:
            table.columns[column] = WIDER[table.columns[column]]
            said = f"ALTER COLUMN {column} DROP DEFAULT, ALTER COLUMN {column} TYPE {table.columns[column]} USING NULL"
        elif what == "drop table" and len(self._tables) > 3:
            del self._tables[table.name]
            self._say(session, f"DROP TABLE {table.name}")
            return
        elif what == "index":
            self._say(session, f"CREATE INDEX ON {table.name} USING hash ({column})")
            return
        elif what == "storage" and table.columns[column] in ("text", "bytea"):
            said = f"ALTER COLUMN {column} SET STORAGE {self._random.choice(['EXTERNAL', 'MAIN', 'EXTENDED'])}"
        else:
            said = f"REPLICA IDENTITY {self._random.choice(['FULL', 'DEFAULT', 'NOTHING'])}"
        self._say(session, f"ALTER TABLE {table.name} {said}")

    def _temporary(self, session: _Session) -> None:
        session.temps += 1
        self._say(session, f"CREATE TEMP TABLE tmp{session.temps} AS SELECT i, repeat('x', i) AS v FROM generate_series(1, 20) i")
        self._say(session, f"UPDATE tmp{session.temps} SET v = 'y' WHERE i < 5")

    def _maintenance(self, session: _Session) -> bool:
        """VACUUM FULL, of a catalog if nobody is about to change one, or of a table that nobody uses; or a checkpoint."""
        busy = set().union(*(other.touched | set(other.before) for other in self._sessions))
        idle = [name for name in self._tables if name not in busy]
        if not any(other.before for other in self._sessions) and self._chance(50):
            self._say(session, f"VACUUM FULL {self._random.choice(CATALOGS)}")
        elif idle and self._chance(60):
            self._say(session, f"VACUUM FULL {self._random.choice(idle)}")
        else:
            self._say(session, "CHECKPOINT")
        return True

    # -- rows ------------------------------------------------------------------------------------------------------------------

    def _change(self, session: _Session, table: _Table, *, alone: bool) -> str:
        """Sessions mostly keep to rows of their own: ids that leave the same rest."""
        what = self._random.choices(
            ["insert", "many", "upsert", "update", "key", "delete", "truncate"], [25, 8, 12, 30, 6, 12, 1]
        )[0]
        if what == "truncate" and alone:
            session.before.setdefault(table.name, copy.deepcopy(table))
            return f"TRUNCATE {table.name}"
        names = list(table.columns)
        into = f"INSERT INTO {table.name} ({', '.join(['id', *names])})"
        if what in ("insert", "many"):
            rows = (
                self._row(self._new_id(session, table), table)
                for _ in range(1 if what == "insert" else self._random.randint(2, 30))
            )
            return f"{into} VALUES {', '.join(rows)}"
        if what == "upsert":
            sets = ", ".join(f"{name} = excluded.{name}" for name in names)
            action = f"DO UPDATE SET {sets}" if sets and self._chance(70) else "DO NOTHING"
            return f"{into} VALUES {self._row(self._old_id(session, table), table)} ON CONFLICT (id) {action}"
        where = f"WHERE id = {self._old_id(session, table)}"
        if what == "delete":
            return f"DELETE FROM {table.name} {where}"
        if what == "key" or not names:
            return f"UPDATE {table.name} SET id = {self._new_id(session, table)} {where}"
        chosen = self._random.sample(names, self._random.randint(1, len(names)))
        return f"UPDATE {table.name} SET {', '.join(f'{name} = {self._value(table.columns[name])}' for name in chosen)} {where}"

    def _row(self, key: int, table: _Table) -> str:
        return f"({', '.join([str(key), *map(self._value, table.columns.values())])})"

    def _new_id(self, session: _Session, table: _Table) -> int:
        table.last += 1
        return table.last * len(self._sessions) + session.name

    def _old_id(self, session: _Session, table: _Table) -> int:
        """Of somebody else's rows only outside of a transaction: it may be locked, and then nothing but this statement is lost."""
        owner = self._random.choice(self._sessions) if not session.steps and self._chance(10) else session
        return self._random.randint(max(0, table.last - 60), table.last) * len(self._sessions) + owner.name

    def _value(self, kind: str) -> str:
        if self._chance(10):
            return "NULL"
        number = self._random.randint(-100000, 100000)
        if kind == "text":
            return f"'{number} é'" if self._chance(92) else f"repeat('{number}', {self._random.randint(300, 3000)})"
        if kind == "bytea":
            long = f"decode(repeat(md5('{number}'), {self._random.randint(100, 400)}), 'hex')"
            return f"'\\x{abs(number):06x}'" if self._chance(92) else long
        return {
            "bool": f"{number % 2 == 0}",
            "numeric": f"{number}.{abs(number) % 97:02d}",
            "float8": f"{number / 64}",
            "timestamp": f"timestamp '2020-01-01' + interval '{number} s'",
            "date": f"date '2020-01-01' + {number}",
            "int[]": f"'{{{number},NULL,{number // 3}}}'",
        }.get(kind, str(number))
