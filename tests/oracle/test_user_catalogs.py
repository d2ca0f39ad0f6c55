"""What a plugin reads of catalogs and user catalog tables: what sessions read at the same moment, each of whom left a message behind every look."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.beginning import begin
from support.cases import DBNAME
from support.cuts import random_groups, random_stretches
from support.servers import Server
from tailrace.catalog.state.state_file import read_state, write_state
from tailrace.majors import MAJORS
from tailrace.model import Lsn, Relation, Transaction
from tailrace.pipeline import LocalRunner, Pipeline, Source, capture, open_pipeline
from tailrace.pipeline.scanning import scan_stretch
from tailrace.pipeline.windows import step
from tailrace.plugins.callbacks import Change, Context, Plugin
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.plugins.registry import as_output_plugin

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
STEPS = 200
CLASSES = "oid", "relname", "relkind", "relnatts", "relnamespace", "reltoastrelid", "relfilenode", "reloptions"
_LOOKED = "looked"
_CHAR = 18  # "char"
_CELL = 1 << 16
Rows = list[dict[str, Any]]


class Looking(Plugin):
    """Where somebody looked, so does it."""

    def begin(self, ctx: Context, txn: Transaction) -> None: ...

    def change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None: ...

    def commit(self, ctx: Context, txn: Transaction, commit_lsn: Lsn) -> None: ...

    def message(
        self, ctx: Context, txn: Transaction | None, message_lsn: Lsn, transactional: bool, prefix: str, message: bytes
    ) -> None:
        if prefix == _LOOKED:
            settings = list(ctx.catalog("settings"))
            classes = [row for row in ctx.catalog("pg_class", *CLASSES) if int(row["oid"]) >= 16384]
            ctx.emit(json.dumps([message.decode(), _sorted(settings), _sorted(classes)]))


def _sorted(rows: Rows) -> Rows:
    return sorted((dict(row) for row in rows), key=lambda row: json.dumps(row, sort_keys=True))


class Session:
    """Does this and that to a user catalog table, and looks at it."""

    def __init__(self, server: Server, dice: random.Random, looks: dict[str, list[Rows]]) -> None:
        self._connection = server.connect(autocommit=False)
        self._dice = dice
        self._looks = looks
        self._savepoints = 0

    def step(self) -> None:
        dice, run = self._dice, self._connection.execute
        match dice.randrange(12):
            case 0:
                self._savepoints += 1
                run(f"SAVEPOINT s{self._savepoints}")
            case 1 if self._savepoints:
                back = dice.randint(1, self._savepoints)
                run(f"ROLLBACK TO s{back}")
                self._savepoints = back
            case 2 | 3 | 4:
                self._connection.rollback() if dice.random() < 0.2 else self._connection.commit()
                self._savepoints = 0
            case _:
                run("SAVEPOINT step; SET LOCAL lock_timeout = '20ms'")
                try:
                    self._do()
                    run("RELEASE step")
                except psycopg.Error:  # another holds a lock, or it cannot be done
                    run("ROLLBACK TO step; RELEASE step")
        self._look()

    def _do(self) -> None:
        dice, run = self._dice, self._connection.execute
        number, value = dice.randrange(30), self._value()
        match dice.randrange(20):
            case 0 | 1 | 2 | 3 | 4:
                run("INSERT INTO settings (id, v) VALUES (%s, %s)", [number, value])
            case 5 | 6:
                run("INSERT INTO settings (id, v) SELECT i / 2, %s FROM generate_series(1, %s) i", [value, number])
            case 7:
                run("ALTER TABLE settings SET (user_catalog_table = true)")
            case 8 | 9 | 10:
                run("UPDATE settings SET v = %s WHERE id = %s", [value, number])
            case 11 | 12:
                run("DELETE FROM settings WHERE id < %s", [number // 3])
            case 13:
                run(f"ALTER TABLE settings ADD COLUMN c{dice.randrange(10**6)} text DEFAULT 'added'")
            case 14:
                dropped = run(
                    "SELECT min(attname) FROM pg_attribute WHERE attrelid = 'settings'::regclass AND attnum > 2 AND NOT attisdropped"
                ).fetchone()
                run(f"ALTER TABLE settings DROP COLUMN {dropped[0] if dropped else None}")
            case 15:
                run("ALTER TABLE settings RENAME id TO other; ALTER TABLE settings RENAME other TO id")
            case 16:
                run(dice.choice(("TRUNCATE settings", "CLUSTER settings USING by_value", "SELECT FROM settings FOR UPDATE")))
            case 17:
                run(f"CREATE TABLE t{dice.randrange(10**6)} (a int, b text)")
            case _:
                self._made_anew(value)

    def _made_anew(self, value: str) -> None:
        """A table that is truncated in the transaction that made it keeps its file."""
        self._connection.execute("ALTER TABLE settings RENAME TO settings_of_old")
        self._connection.execute("DROP TABLE settings_of_old")
        make(self._connection)
        self._connection.execute("INSERT INTO settings SELECT i, %s FROM generate_series(1, 3) i", [value])
        if self._dice.random() < 0.5:
            self._connection.execute("SAVEPOINT deeper; DELETE FROM settings WHERE id = 1; ROLLBACK TO deeper; RELEASE deeper")
            self._connection.execute("TRUNCATE settings")
            self._connection.execute("INSERT INTO settings VALUES (40, %s)", [value])

    def _value(self) -> str:
        kind = self._dice.randrange(4)
        return "x" * 5000 if kind == 0 else self._dice.randbytes(4000).hex() if kind == 1 else f"v{self._dice.randrange(3)}"

    def _look(self) -> None:
        """Whoever would have to wait for that does not look."""
        try:
            self._connection.execute("SAVEPOINT look; SET LOCAL lock_timeout = '20ms'")
            self._looked()
            self._connection.execute("RELEASE look")
        except psycopg.Error:
            self._connection.execute("ROLLBACK TO look; RELEASE look")

    def _looked(self) -> None:
        name = str(len(self._looks))
        with self._connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            settings = cursor.execute("SELECT * FROM settings").fetchall()
            classes = cursor.execute(f"SELECT {', '.join(CLASSES)} FROM pg_class WHERE oid >= 16384").fetchall()
            cursor.execute("SELECT pg_logical_emit_message(true, %s, %s)", [_LOOKED, name])
            cursor.execute("INSERT INTO looks VALUES (%s)", [name])
        self._looks[name] = [_sorted(settings), _sorted(classes)]

    def end(self, *, commits: bool) -> None:
        self._connection.commit() if commits else self._connection.rollback()
        self._savepoints = 0


def make(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE settings (id int, v text) WITH (user_catalog_table = true, fillfactor = 50)")
    connection.execute("CREATE INDEX by_value ON settings (left(v, 10))")


def _text_only(connection: psycopg.Connection) -> None:
    """Values as PostgreSQL prints them."""
    oids = {oid for known in connection.adapters.types for oid in (known.oid, known.array_oid) if oid}
    for oid in oids | {_CHAR}:
        connection.adapters.register_loader(oid, psycopg.types.string.TextLoader)


@pytest.mark.parametrize("major", MAJORS)
def test_a_plugin_reads_what_was_there(major: int, tmp_path: Path) -> None:
    dice = random.Random(major)
    looks: dict[str, list[Rows]] = {}
    with Server(major, {"autovacuum": "off"}, dbname=DBNAME) as server:
        with server.connect() as connection:
            make(connection)
            connection.execute("INSERT INTO settings SELECT i, 'of before' FROM generate_series(1, 9) i")
            connection.execute("CREATE TABLE looks (name text)")
        server.checkpoint()
        start = Lsn.parse(server.flush_lsn())
        state = capture(Source.open(server.data_dir), LocalRunner(1), DBNAME)
        sessions = [Session(server, dice, looks) for _ in range(3)]
        for each in sessions:
            _text_only(each._connection)
        for number in range(STEPS):
            if number % 8 == 0:  # most of the time nobody else has anything locked
                for each in sessions:
                    each.end(commits=dice.random() < 0.9)
                mine = dice.choice(([sessions[0]], [sessions[0]], sessions))
            dice.choice(mine).step()
        for each in sessions:
            each.end(commits=True)
        told = {name for (name,) in server.sql("SELECT name FROM looks")}
        server.stop()
        data = server.move_to(tmp_path / "data")
    assert len(told) > STEPS // 2

    plugin = as_output_plugin(Looking)
    plugin.startup({}, major)
    captured = read_state(write_state(state), "captured")
    whole = open_pipeline(data, DBNAME, start_lsn=start, runner=LocalRunner(2), catalog=captured, demand=plugin.demand)
    assert _compared([whole], plugin, looks) == told
    assert _compared(_in_windows(data, captured, start, dice, plugin), plugin, looks) == told


def _in_windows(path: Path, state: Any, start: Lsn, dice: random.Random, plugin: OutputPlugin) -> Iterator[Pipeline]:
    source, runner = Source.open(path, state.needs_wal_from), LocalRunner(2)
    parts = random_stretches(source, dice, state.needs_wal_from, cell=_CELL)
    indexes = [scan_stretch(source.segments, (), part) for part in parts]
    carried, asked = begin(source, runner, indexes, DBNAME, state, start_lsn=start, upto_lsn=None, demand=plugin.demand)
    for group in random_groups(indexes, dice):
        carried, window = step(source, runner, carried, group, asked)
        yield window


def _compared(windows: Any, plugin: OutputPlugin, looks: dict[str, list[Rows]]) -> set[str]:
    told = set()
    for window in windows:
        for lines in window.lines(plugin):
            for text in lines.texts.to_list():
                name, settings, classes = json.loads(text)
                told.add(name)
                assert [name, settings] == [name, looks[name][0]]
                assert [name, classes] == [name, looks[name][1]]
    return told
