"""Generated workloads that come out the same wherever they are run.

In: a seed. Out: a schedule, a list of statements each with the session that runs it, drawn in full before any is run; and the
running of it, one statement at a time. Many sessions are open at once and interleave as threads would, but nothing depends on the
clock, and no statement ever waits for another session:

- rows: a session writes only keys of its own (its number modulo the number of sessions), in tables that all share;
- tables: what needs a table for itself (ALTER, TRUNCATE, VACUUM FULL ...) is drawn only if no other open transaction has touched
  it, and then nobody else is given the table until that transaction ends;
- catalogs: are rewritten at any time; should a lock be in the way, the statement fails, and fails in every run;
- names that no lock guards (of schemas and enum labels) change only while no transaction is open: for rows written before, but committed after,
  the server prints whichever name its caches happen to hold, the new one if a transaction in between has used it.

So two clusters, one with a slot and one without, can be put through the same, and the output of the one is the oracle for the WAL of the
other. That is what this is for; where sessions are to wait for each other, there are threads (:mod:`support.threads`). To know what to draw,
the drawing keeps a model of the tables, with an undo list for each open transaction.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg

from support.servers import Server
from support.values import OWN_TYPES, RARE, TYPES, default_of, draw

CATALOGS = ("pg_class", "pg_attribute", "pg_type", "pg_index", "pg_namespace", "pg_enum", "pg_attrdef")
WIDENED = {"int": "bigint", "bigint": "numeric", "numeric": "text", "date": "timestamptz", "bool": "text", "varchar(200)": "text"}
IDENTITIES = ("FULL", "DEFAULT", "NOTHING")
SESSION_SETTINGS = "SET lock_timeout = '250ms'; SET enable_seqscan = off; SET enable_bitmapscan = off"
"""Scans by index give rows in the order of their keys, wherever they lie."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of one session. `outcome` is what must come of it: `ok`, `fails`, or `either`, the same in every run."""

    session: int
    sql: str
    data: str | None = None
    outcome: str = "ok"


@dataclass(frozen=True, slots=True)
class Table:
    """What the drawing believes of a table. Every table has a column `id`, its key; `columns` are the others."""

    name: str
    columns: tuple[tuple[str, str], ...]
    can_change: bool = True


@dataclass
class Session:
    number: int
    is_open: bool = False
    steps_left: int = 0
    savepoints: list[tuple[str, int]] = field(default_factory=list)
    undo: list[tuple[str, Table | None]] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)


def make_schedule(seed: int, transactions: int, sessions: int = 6, *, published: bool = False) -> list[Statement]:
    """Draw the statements of about so many transactions; `sessions` of them can be open at once. In a `published` database
    every table keeps a replica identity, without which the server refuses to change its rows."""
    return Drawing(seed, sessions, published=published).draw(transactions)


def run_schedule(server: Server, schedule: Iterable[Statement]) -> list[bool]:
    """Run it, one statement after another; which of them succeeded. A statement that should have, and did not, is an error."""
    outcomes = []
    connections: dict[int, psycopg.Connection[Any]] = {}
    with ExitStack() as stack:
        for number, statement in enumerate(schedule):
            if statement.session not in connections:
                connection = stack.enter_context(server.connect(prepare_threshold=None))
                connection.execute(SESSION_SETTINGS)
                connections[statement.session] = connection
            error = _run(connections[statement.session], statement)
            if statement.outcome != "either" and (error is not None) != (statement.outcome == "fails"):
                raise AssertionError(f"statement {number}, {statement}: {error or 'did not fail'}")
            outcomes.append(error is None)
    return outcomes


def _run(connection: psycopg.Connection[Any], statement: Statement) -> psycopg.Error | None:
    try:
        if statement.data is None:
            connection.execute(statement.sql.encode())
        else:
            with connection.cursor().copy(statement.sql.encode()) as copy:
                copy.write(statement.data)
    except psycopg.Error as error:
        return error
    return None


class Drawing:
    """The model, and the dice. `held[t]` is the one session that may use `t`; `touched[t]` are all that did and are open."""

    def __init__(self, seed: int, sessions: int, *, published: bool) -> None:
        self.dice = random.Random(seed)
        self.identities = IDENTITIES[:2] if published else IDENTITIES
        self.sessions = [Session(number) for number in range(sessions)]
        self.tables: dict[str, Table] = {}
        self.held: dict[str, int] = {}
        self.touched: dict[str, set[int]] = {}
        self.labels = ["sad", "ok", "happy"]
        self.schema = "w"
        self.counter = 0
        self.drawn: list[Statement] = []

    def draw(self, transactions: int) -> list[Statement]:
        self._set_up()
        ended = 0
        while ended < transactions:
            ended += self._tick(self.dice.choice(self.sessions))
            if self.dice.random() < 0.005:
                self._rename_shared()
        for session in self.sessions:
            if session.is_open:
                self._end(session)
        return self.drawn

    # -- one step of one session -----------------------------------------------------------------------------------------------

    def _tick(self, session: Session) -> int:
        """Draw one step; the number of transactions that it ended."""
        if session.is_open:
            if session.steps_left == 0:
                self._end(session)
                return 1
            session.steps_left -= 1
            self._step(session)
            return 0
        chance = self.dice.random()
        if chance < 0.55:
            self._say(session, "BEGIN")
            session.is_open, session.steps_left = True, self.dice.randint(1, 9)
            return 0
        if chance < 0.9:
            self._write(session)
        else:
            self._maintain(session)
        self._release(session)
        return 1

    def _step(self, session: Session) -> None:
        chance = self.dice.random()
        if chance < 0.12:
            self._savepoint(session)
        elif chance < 0.18 and session.savepoints:
            self._roll_back_to(session)
        elif chance < 0.22:
            self._fail(session)
        elif chance < 0.40:
            self._change_table(session)
        elif chance < 0.44:
            self._message(session)
        else:
            self._write(session)

    def _end(self, session: Session) -> None:
        if self.dice.random() < 0.15:
            self._say(session, "ROLLBACK")
            self._undo(session, 0)
        else:
            self._say(session, "COMMIT")
        session.is_open, session.steps_left = False, 0
        self._release(session)

    def _release(self, session: Session) -> None:
        session.savepoints.clear()
        session.undo.clear()
        self.held = {table: holder for table, holder in self.held.items() if holder != session.number}
        for sessions in self.touched.values():
            sessions.discard(session.number)

    # -- rows --------------------------------------------------------------------------------------------------------------------

    def _write(self, session: Session) -> None:
        table = self._some_table(session)
        if table is None:
            return self._message(session)
        self.touched.setdefault(table.name, set()).add(session.number)
        how = self.dice.choices(
            (self._insert, self._update, self._move_key, self._delete, self._upsert, self._copy),
            (30, 25, 8, 10, 12, 8),
        )[0]
        return how(session, table)

    def _insert(self, session: Session, table: Table) -> None:
        rows = [self._row(session, table) for _ in range(self.dice.choice((1, 1, 1, 2, 5)))]
        self._say(session, f"INSERT INTO {self._name(table)} ({self._columns(table)}) VALUES {', '.join(rows)}")

    def _update(self, session: Session, table: Table) -> None:
        columns = self.dice.sample(table.columns, min(len(table.columns), self.dice.randint(1, 3)))
        if not columns:
            return self._delete(session, table)
        changes = ", ".join(f"{name} = {self._value(kind)}" for name, kind in columns)
        return self._say(session, f"UPDATE {self._name(table)} SET {changes} WHERE id IN ({self._keys(session)})")

    def _move_key(self, session: Session, table: Table) -> None:
        self._say(session, f"UPDATE {self._name(table)} SET id = {self._new_key(session)} WHERE id = {self._key(session)}")

    def _delete(self, session: Session, table: Table) -> None:
        self._say(session, f"DELETE FROM {self._name(table)} WHERE id IN ({self._keys(session)})")

    def _upsert(self, session: Session, table: Table) -> None:
        insert = f"INSERT INTO {self._name(table)} ({self._columns(table)}) VALUES {self._row(session, table, again=True)}"
        if table.columns and self.dice.random() < 0.6:
            name, _ = self.dice.choice(table.columns)
            self._say(session, f"{insert} ON CONFLICT (id) DO UPDATE SET {name} = excluded.{name}")
        else:
            self._say(session, f"{insert} ON CONFLICT DO NOTHING")

    def _copy(self, session: Session, table: Table) -> None:
        texts = [name for name, kind in table.columns if kind in ("text", "varchar(200)")][:1]
        filler = "c" * self.dice.choice((1, 30, 190))
        keys = [self._new_key(session) for _ in range(self.dice.choice((3, 40, 300)))]
        data = "".join(f"{key}\t{filler}{key % 9}\n" if texts else f"{key}\n" for key in keys)
        self._say(session, f"COPY {self._name(table)} ({', '.join(['id', *texts])}) FROM STDIN", data=data)

    # -- tables ------------------------------------------------------------------------------------------------------------------

    def _change_table(self, session: Session) -> None:
        if self.dice.random() < 0.2:
            return self._create(session)
        table = self._some_table(session, alone=True)
        if table is None:
            return self._write(session)
        self.held[table.name] = session.number
        how = self.dice.choices(
            (
                self._add,
                self._drop,
                self._rename_column,
                self._retype,
                self._identity,
                self._rename,
                self._truncate,
                self._drop_table,
            ),
            (22, 12, 12, 12, 10, 8, 10, 6),
        )[0]
        return how(session, table)

    def _create(self, session: Session) -> None:
        if self.dice.random() < 0.15:
            return self._temporary(session)
        columns = tuple((f"c{self._number()}", self._kind()) for _ in range(self.dice.randint(0, 6)))
        table = Table(f"t{self._number()}", columns)
        spelled = "".join(f", {name} {kind}" for name, kind in columns)
        self._say(session, f"CREATE TABLE {self._name(table)} (id int PRIMARY KEY{spelled})")
        self.held[table.name] = session.number
        return self._believe(session, table.name, table)

    def _temporary(self, session: Session) -> None:
        name = f"temp{self._number()}"
        self._say(session, f"CREATE TEMP TABLE {name} AS SELECT g AS id, repeat('t', g) AS v FROM generate_series(1, 20) g")
        self._say(session, f"DROP TABLE {name}" if self.dice.random() < 0.7 else f"DELETE FROM {name} WHERE id > 10")

    def _add(self, session: Session, table: Table) -> None:
        name, kind = f"c{self._number()}", self._kind()
        default = "" if "mood" in kind or self.dice.random() < 0.5 else f" DEFAULT {default_of(kind, self.dice)}"
        self._alter(session, table, f"ADD COLUMN {name} {kind}{default}", (*table.columns, (name, kind)))

    def _drop(self, session: Session, table: Table) -> None:
        free = self._free(table)
        if not free:
            return self._add(session, table)
        gone = self.dice.choice(free)
        return self._alter(session, table, f"DROP COLUMN {gone[0]}", tuple(kept for kept in table.columns if kept != gone))

    def _rename_column(self, session: Session, table: Table) -> None:
        if not table.columns:
            return self._add(session, table)
        old, new = self.dice.choice(table.columns)[0], f"c{self._number()}"
        columns = tuple((new if name == old else name, kind) for name, kind in table.columns)
        return self._alter(session, table, f"RENAME COLUMN {old} TO {new}", columns)

    def _retype(self, session: Session, table: Table) -> None:
        candidates = [name for name, kind in self._free(table) if kind in WIDENED]
        if not candidates:
            return self._add(session, table)
        chosen = self.dice.choice(candidates)
        columns = tuple((name, WIDENED[kind] if name == chosen else kind) for name, kind in table.columns)
        change = f"ALTER COLUMN {chosen} DROP DEFAULT, ALTER COLUMN {chosen} TYPE {dict(columns)[chosen]} USING {chosen}"
        return self._alter(session, table, f"{change}::{dict(columns)[chosen]}", columns)

    def _identity(self, session: Session, table: Table) -> None:
        self._alter(session, table, f"REPLICA IDENTITY {self.dice.choice(self.identities)}", table.columns)

    def _rename(self, session: Session, table: Table) -> None:
        renamed = replace(table, name=f"t{self._number()}")
        self._say(session, f"ALTER TABLE {self._name(table)} RENAME TO {renamed.name}")
        self.held[renamed.name] = session.number
        self._believe(session, table.name, None)
        self._believe(session, renamed.name, renamed)

    def _truncate(self, session: Session, table: Table) -> None:
        self._say(session, f"TRUNCATE {self._name(table)}")

    def _drop_table(self, session: Session, table: Table) -> None:
        if len(self.tables) <= 4:
            return self._truncate(session, table)
        self._say(session, f"DROP TABLE {self._name(table)}")
        return self._believe(session, table.name, None)

    def _alter(self, session: Session, table: Table, change: str, columns: tuple[tuple[str, str], ...]) -> None:
        self._say(session, f"ALTER TABLE {self._name(table)} {change}")
        self._believe(session, table.name, replace(table, columns=columns))

    # -- outside of transactions -------------------------------------------------------------------------------------------------

    def _maintain(self, session: Session) -> None:
        chance = self.dice.random()
        if chance < 0.35:
            return self._say(session, f"VACUUM FULL {self.dice.choice(CATALOGS)}", outcome="either")
        if chance < 0.5:
            return self._say(session, f"VACUUM {self.dice.choice(CATALOGS)}", outcome="either")
        if chance < 0.6:
            return self._say(session, "CHECKPOINT")
        if chance < 0.7:
            return self._add_label(session)
        table = self._some_table(session, alone=True)
        if table is None:
            return self._say(session, "CHECKPOINT")
        what = self.dice.choice(("VACUUM FULL {}", "VACUUM FULL {}", "VACUUM (FREEZE) {}", "ANALYZE {}", "REINDEX TABLE {}"))
        return self._say(session, what.format(self._name(table)))

    def _add_label(self, session: Session) -> None:
        label = f"mood{self._number()}"
        self._say(session, f"ALTER TYPE mood ADD VALUE '{label}' BEFORE '{self.dice.choice(self.labels)}'")
        self.labels.append(label)

    def _rename_shared(self) -> None:
        """End every transaction; then the schema gets another name, or a label does."""
        for session in self.sessions:
            if session.is_open:
                self._end(session)
        session = self.dice.choice(self.sessions)
        if self.dice.random() < 0.5:
            old, self.schema = self.schema, f"w{self._number()}"
            self._say(session, f"ALTER SCHEMA {old} RENAME TO {self.schema}")
        else:
            at, label = self.dice.randrange(len(self.labels)), f"mood{self._number()}"
            self._say(session, f"ALTER TYPE mood RENAME VALUE '{self.labels[at]}' TO '{label}'")
            self.labels[at] = label

    # -- inside of transactions --------------------------------------------------------------------------------------------------

    def _savepoint(self, session: Session) -> None:
        if session.savepoints and self.dice.random() < 0.4:
            name, _ = session.savepoints.pop()
            return self._say(session, f"RELEASE {name}")
        name = f"s{self._number()}"
        session.savepoints.append((name, len(session.undo)))
        return self._say(session, f"SAVEPOINT {name}")

    def _roll_back_to(self, session: Session) -> None:
        del session.savepoints[self.dice.randrange(len(session.savepoints)) + 1 :]
        name, undone = session.savepoints[-1]
        self._say(session, f"ROLLBACK TO {name}")
        self._undo(session, undone)

    def _fail(self, session: Session) -> None:
        """Some rows, and then an error; the transaction goes on from before them."""
        table = self._some_table(session)
        if table is None:
            return
        self.touched.setdefault(table.name, set()).add(session.number)
        name, first = f"s{self._number()}", self._new_key(session)
        self._say(session, f"SAVEPOINT {name}")
        rows = f"SELECT CASE WHEN g < 5 THEN {first} + g * {len(self.sessions)} END FROM generate_series(1, 5) g"
        self._say(session, f"INSERT INTO {self._name(table)} (id) {rows}", outcome="fails")
        self._say(session, f"ROLLBACK TO {name}")

    def _message(self, session: Session) -> None:
        """Behind one that waits for its commit stands one that does not: a record between it and the next row. Where the two touch, the server
        may print the row first (story `message_ties`), and whether they touch is not the same in two clusters."""
        transactional = self.dice.choice(("true", "false"))
        number = self._number()
        behind = ", pg_logical_emit_message(false, 'p', 'behind it')" if transactional == "true" else ""
        self._say(session, f"SELECT pg_logical_emit_message({transactional}, 'p', 'message {number}'){behind}")

    # -- the model ---------------------------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        first = self.sessions[0]
        for statement in OWN_TYPES:
            self._say(first, statement)
        self._say(first, f"CREATE SCHEMA {self.schema}")
        for number in range(4):
            columns = (("v", "text"), ("m", "mood"), *((f"f{at}", kind) for at, kind in enumerate(TYPES)))
            table = Table(f"shared{number}", columns, can_change=number > 1)
            spelled = ", ".join(f"{name} {kind}" for name, kind in columns)
            self._say(first, f"CREATE TABLE {self._name(table)} (id int PRIMARY KEY, {spelled})")
            self.tables[table.name] = table
        self._say(first, f"ALTER TABLE {self.schema}.shared1 REPLICA IDENTITY FULL")
        parts = Table("parts", (("v", "text"),), can_change=False)
        self._say(first, f"CREATE TABLE {self._name(parts)} (id int PRIMARY KEY, v text) PARTITION BY HASH (id)")
        for part in range(3):
            of = f"{self._name(parts)} FOR VALUES WITH (MODULUS 3, REMAINDER {part})"
            self._say(first, f"CREATE TABLE {self.schema}.parts{part} PARTITION OF {of}")
        self.tables[parts.name] = parts

    def _some_table(self, session: Session, *, alone: bool = False) -> Table | None:
        """One that nobody else holds and, if it is to be had `alone`, that nobody else has touched."""
        others = {name for name, holder in self.held.items() if holder != session.number}
        if alone:
            others |= {name for name, sessions in self.touched.items() if sessions - {session.number}}
            others |= {table.name for table in self.tables.values() if not table.can_change}
        candidates = sorted(self.tables.keys() - others)
        return self.tables[self.dice.choice(candidates)] if candidates else None

    def _free(self, table: Table) -> tuple[tuple[str, str], ...]:
        """The columns that may be dropped, or get another type."""
        return table.columns

    def _believe(self, session: Session, name: str, table: Table | None) -> None:
        session.undo.append((name, self.tables.pop(name, None)))
        if table is not None:
            self.tables[name] = table

    def _undo(self, session: Session, down_to: int) -> None:
        while len(session.undo) > down_to:
            name, table = session.undo.pop()
            self.tables.pop(name, None)
            if table is not None:
                self.tables[name] = table

    # -- small draws -------------------------------------------------------------------------------------------------------------

    def _say(self, session: Session, sql: str, *, data: str | None = None, outcome: str = "ok") -> None:
        self.drawn.append(Statement(session.number, sql, data, outcome))

    def _name(self, table: Table) -> str:
        return f"{self.schema}.{table.name}"

    def _columns(self, table: Table) -> str:
        return ", ".join(["id", *(name for name, _ in table.columns)])

    def _row(self, session: Session, table: Table, *, again: bool = False) -> str:
        key = self._key(session) if again and self.dice.random() < 0.6 else self._new_key(session)
        return f"({', '.join([str(key), *(self._value(kind) for _, kind in table.columns)])})"

    def _value(self, kind: str) -> str:
        if kind.startswith("mood"):
            label = f"'{self.dice.choice(self.labels)}'"
            return label if kind == "mood" else f"ARRAY[{label}, NULL]::mood[]"
        return draw(kind, self.dice)

    def _kind(self) -> str:
        return self.dice.choice((*TYPES, "text", "mood", "mood[]", *RARE))

    def _number(self) -> int:
        self.counter += 1
        return self.counter

    def _new_key(self, session: Session) -> int:
        key = self._number() * len(self.sessions) + session.number
        session.keys = [*session.keys[-60:], key]
        return key

    def _key(self, session: Session) -> int:
        return self.dice.choice(session.keys or [session.number])

    def _keys(self, session: Session) -> str:
        return ", ".join(str(self._key(session)) for _ in range(self.dice.choice((1, 1, 3, 10))))
