"""Tables that are made, altered, analyzed, vacuumed and dropped on a running server, many of them; and what its directory then says they are.

In: a server, how many tables, a seed. Out: the columns of all tables that are there, as the server says, and as catalogs say that were captured from
its directory; and rows that were inserted afterwards. `python -m support.churn STATE DIRECTORY DATABASE LSN` prints the latter two as JSON, so that
they can be had of another process, with other settings.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

from support.servers import Server
from tailrace.catalog.state.state_file import read_state
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner, open_pipeline
from tailrace.plugins.test_decoding import TestDecoding

SETTINGS = {
    "wal_level": "logical",
    "autovacuum_naptime": 1,
    "autovacuum_vacuum_threshold": 5,
    "autovacuum_analyze_threshold": 5,
    "autovacuum_vacuum_cost_delay": 0,
    "checkpoint_timeout": "1d",  # all of it is replayed
    "max_wal_size": "100GB",
}
_AT_ONCE = 100
_TYPES = ("int", "text", "numeric(10,2)", "timestamptz", "int[]", "int DEFAULT 42")
_WANTED = """
    SELECT c.oid::int8, c.relname::text, a.attnum::int, a.attname::text, a.atttypid::int8, a.attlen::int
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, 3
"""
Columns = list[list[Any]]
"""Of each column the table's oid and name, its number, its name, the oid of its type and its length."""


def churn(server: Server, tables: int, seed: int) -> None:
    """Make so many tables, and do to them what is done to tables."""
    dice = random.Random(seed)
    there: list[int] = []
    added = 0
    for first in range(0, tables, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, tables))
        statements = [f"CREATE TABLE t{number} (a int, b text)" for number in numbers]
        there += numbers
        for number in dice.sample(there, min(len(there), _AT_ONCE // 2)):
            added += 1
            name, other = f"t{number}", f"c{added}"
            statements += dice.choice(
                (
                    [f"ALTER TABLE {name} ADD COLUMN {other} {dice.choice(_TYPES)}"],
                    [f"ALTER TABLE {name} ADD COLUMN {other} int", f"ALTER TABLE {name} DROP COLUMN {other}"],
                    [f"ALTER TABLE {name} ADD COLUMN {other} text", f"ALTER TABLE {name} RENAME COLUMN {other} TO {other}x"],
                    [f"INSERT INTO {name} (a) SELECT generate_series(1, 20)", f"ANALYZE {name}"],
                    [f"ALTER TABLE {name} ALTER COLUMN a SET STATISTICS {dice.randrange(100)}", f"CREATE INDEX ON {name} (a)"],
                    [f"ALTER TABLE {name} RENAME TO t{number}x", f"ALTER TABLE t{number}x RENAME TO {name}"],
                )
            )
        gone = dice.sample(there, _AT_ONCE // 10)
        there = [number for number in there if number not in set(gone)]
        statements += [f"DROP TABLE t{number}" for number in gone]
        server.say("; ".join(statements))
        # Each changes a row of pg_class in place: what its tables have, and their oldest xid.
        again = {*there[-_AT_ONCE:], *dice.sample(there, min(len(there), _AT_ONCE // 2))}
        server.say("VACUUM (FREEZE) " + ", ".join(f"t{number}" for number in sorted(again)))
        if dice.random() < 0.1:
            server.say(f"VACUUM {dice.choice(('', 'FREEZE '))}{dice.choice(('pg_class', 'pg_attribute', 'pg_type'))}")


def columns_there(server: Server) -> Columns:
    """As the server says."""
    with server.connect() as connection:
        return [list(row) for row in connection.execute(_WANTED.encode()).fetchall()]


def insert_rows(server: Server, columns: Columns, count: int, seed: int) -> tuple[str, list[str]]:
    """Insert a row in each of so many tables. Returns the LSN before, and what test_decoding prints of them."""
    own: dict[int, list[tuple[int, str]]] = {}
    for oid, _, attnum, attname, *_ in columns:
        own.setdefault(oid, []).append((attnum, attname))
    with server.connect() as connection:
        typed = connection.execute(
            b"SELECT a.attrelid::int8, a.attnum::int, format_type(a.atttypid, NULL), a.atthasdef FROM pg_attribute a WHERE attrelid >= 16384"
        ).fetchall()
        kinds = {(oid, number): (kind, has_default) for oid, number, kind, has_default in typed}
        start = str(connection.execute(b"SELECT pg_current_wal_insert_lsn()::text").fetchone()[0])  # type: ignore[index]
        names = {oid: name for oid, name, *_ in columns}
        printed = []
        for number, oid in enumerate(random.Random(seed).sample(sorted(names), count)):
            connection.execute(f"INSERT INTO {names[oid]} (a) VALUES ({number})".encode())
            values = []
            for attnum, attname in own[oid]:
                kind, has_default = kinds[oid, attnum]
                values.append(f"{attname}[{kind}]:{number if attname == 'a' else 42 if has_default else 'null'}")
            printed.append(f"table public.{names[oid]}: INSERT: {' '.join(values)}")
        connection.execute(b"SELECT pg_switch_wal()")
    return start, printed


def by_state(captured: Path, data_dir: Path, dbname: str, start_lsn: str) -> tuple[Columns, list[str]]:
    """The same of a captured state; and the rows inserted from the LSN on, decoded by it."""
    state = read_state(captured.read_bytes(), str(captured))
    pipeline = open_pipeline(data_dir, dbname, runner=LocalRunner(2), start_lsn=Lsn.parse(start_lsn), catalog=state)
    history, end = pipeline.history, int(pipeline.log.end)
    classes, namespaces = history.table("pg_class"), history.table("pg_namespace")
    public = namespaces.seen_where("nspname", "public", end, -1)
    mine = (classes["relkind"] == ord("r")) & np.isin(classes["relnamespace"], namespaces["oid"][public])
    rows = classes.rows.seen(np.flatnonzero(mine), end, -1)
    relations = history.relations_of(rows, np.full(len(rows), end, np.int64))
    columns = [
        [relation.oid, relation.name, column.number, column.name, column.type.oid, column.length]
        for relation in relations
        if relation is not None
        for column in relation.live_columns
        if column.type is not None
    ]
    plugin = TestDecoding()
    plugin.startup({"include-xids": "off"}, pipeline.catalogs.state.major)
    lines = [line for part in pipeline.lines(plugin) for line in part.texts.to_list()]
    return sorted(columns), [line for line in lines if line.startswith("table public.t")]


if __name__ == "__main__":
    json.dump(by_state(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]), sys.stdout)
