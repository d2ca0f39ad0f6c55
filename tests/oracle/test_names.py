"""Names at the moment of a row: what a timeline says is what all catalogs of that moment say, name by name, to every row.

The timeline asks only what changed (`catalog/names/name_changes.py`); `names_at` makes all names anew, and `tests/stories/names.sql` compares those
that are printed with PostgreSQL's. Here chance changes names, in several sessions at once, and each row is asked for all of them.
"""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from support.decoding import opened
from support.live import live_case
from support.servers import Server
from support.stories import read_story, tell
from tailrace.catalog.names.name_timeline import NameTimeline
from tailrace.catalog.names.oid_names import names_at, oid_alias_types
from tailrace.decode import decode
from tailrace.model import Lsn
from tailrace.pipeline import Pipeline

pytestmark = [pytest.mark.matrix, pytest.mark.postgres]
SMALL_STRETCH = 1 << 15
SCHEMAS = ("public", "one", "two", "pg_temp")
NAMES = ("a", "b", '"C"')
STATEMENTS = 300
ENDS = ("BEGIN", "COMMIT", "SAVEPOINT", "ROLLBACK")
_AUDIT = """
    CREATE SCHEMA one; CREATE SCHEMA two; SET lock_timeout = '10ms';
    CREATE TABLE one.audit (id int, c regclass, t regtype, p regproc, pp regprocedure, op regoper, oo regoperator, o regrole, s regnamespace,
        cfg regconfig, dict regdictionary, coll regcollation)
"""


@pytest.mark.marathon
@pytest.mark.parametrize(("major", "seed"), [(14, 1), (16, 2), (18, 3)])
def test_chance(major: int, seed: int, tmp_path: Path) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)

    def work(server: Server) -> None:
        with server.connect() as first, server.connect() as second, server.connect() as third:
            first.execute(_AUDIT)
            for session in (second, third):
                session.execute("SET lock_timeout = '10ms'")
            done = sum(_try(chance.choice([first, second, third]), _statement(chance)) for _ in range(STATEMENTS))
            assert done > STATEMENTS // 3
            for session in (first, second, third):
                _try(session, "COMMIT")

    case = live_case(major, work, tmp_path)
    for stretch_bytes in (None, SMALL_STRETCH):
        compare(opened(case.data_dir, start_lsn=case.meta["start_lsn"], stretch_bytes=stretch_bytes))


@pytest.mark.parametrize("major", [17])
def test_story(major: int, tmp_path: Path) -> None:
    case = live_case(major, lambda server: tell(read_story("names"), server), tmp_path)
    compare(opened(case.data_dir, start_lsn=case.meta["start_lsn"], stretch_bytes=SMALL_STRETCH))


def compare(pipeline: Pipeline) -> None:
    """At the moment of every row, all names that there are or were."""
    history = pipeline.catalogs.history()
    moments = 0
    for plan in pipeline.plan.stretches:
        if plan.names is None:
            continue
        reg_types = frozenset[int]().union(*map(oid_alias_types, plan.relations))
        timeline: NameTimeline = pickle.loads(pickle.dumps(plan.names))
        ever = set(timeline.common).union(timeline.changes, *timeline.own.values())
        for batch in decode(plan, pipeline.source.segments.read):
            parts = list(timeline.parts(batch.lsn, batch.ordinal))
            assert sorted(row for _, part in parts for row in part.tolist()) == list(range(len(batch)))
            for moment, part in parts:
                assert part.tolist() == sorted(part.tolist())
                for row in part.tolist():
                    lsn, ordinal = int(batch.lsn[row]), int(batch.ordinal[row])
                    names = names_at(history, reg_types, lsn, ordinal)
                    wrong = [(key, moment(*key), names.get(key)) for key in ever | names.keys() if moment(*key) != names.get(key)]
                    assert wrong == [], f"at {Lsn(lsn)} in {ordinal}"
                    moments += 1
    assert moments > 20


def _try(session: psycopg.Connection[Any], statement: str) -> bool:
    """What is not possible just then is left out (False), and a transaction goes on without it."""
    is_open = session.info.transaction_status != TransactionStatus.IDLE
    guarded = is_open and not statement.startswith(ENDS)
    try:
        session.execute(f"SAVEPOINT guard; {statement}; RELEASE guard".encode() if guarded else statement.encode())
    except psycopg.Error:
        if is_open:
            session.execute(b"ROLLBACK TO guard" if guarded else b"ROLLBACK")
        return False
    return True


def _statement(chance: random.Random) -> str:
    schema, other = chance.choice(SCHEMAS), chance.choice(SCHEMAS[:3])
    name, another = chance.choice(NAMES), chance.choice(NAMES)
    thing = f"{schema}.{name}"
    hidden = f"{chance.choice(['public', 'pg_catalog'])}.{name}"
    ddl = (
        f"CREATE TABLE {thing} (x int, y text)", f"CREATE TABLE {thing} (x int)", f"DROP TABLE {thing} CASCADE", f"TRUNCATE {thing}",
        f"ALTER TABLE {thing} RENAME TO {another}", f"ALTER TABLE {thing} SET SCHEMA {other}",
        f"CREATE DOMAIN {hidden} AS int", f"DROP DOMAIN {hidden} CASCADE", f"CREATE TYPE {thing} AS ENUM ('x')", f"DROP TYPE {thing} CASCADE",
        f"ALTER TYPE {thing} RENAME TO {another}", f"ALTER TYPE {thing} SET SCHEMA {other}",
        f"CREATE FUNCTION {hidden}(int) RETURNS int LANGUAGE sql AS 'SELECT 1'", f"DROP FUNCTION {hidden}(int)",
        f"CREATE FUNCTION {other}.{another}({thing}, {other}.{name}[]) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        f"CREATE FUNCTION {other}.{another}({thing}) RETURNS int LANGUAGE sql AS 'SELECT 1'", f"DROP FUNCTION {other}.{name}",
        f"ALTER FUNCTION {other}.{name}(int) RENAME TO {another}", f"ALTER FUNCTION {other}.{name}(int) SET SCHEMA {schema}",
        f"CREATE FUNCTION {other}.f({thing}, int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        f"CREATE OPERATOR {other}.<+> (LEFTARG = {thing}, RIGHTARG = int, FUNCTION = {other}.f)", f"DROP OPERATOR {other}.<+> ({thing}, int)",
        f"CREATE COLLATION {hidden} FROM \"C\"", f"DROP COLLATION {hidden}", f"ALTER COLLATION {hidden} SET SCHEMA {other}",
        f"CREATE TEXT SEARCH DICTIONARY {hidden} (TEMPLATE = simple)", f"DROP TEXT SEARCH DICTIONARY {hidden}",
        f"CREATE TEXT SEARCH CONFIGURATION {thing} (COPY = simple)", f"ALTER TEXT SEARCH CONFIGURATION {thing} RENAME TO {another}",
        f"CREATE ROLE {name}", f"ALTER ROLE {name} RENAME TO {another}", f"DROP ROLE {name}",
        "ALTER SCHEMA two RENAME TO three", "ALTER SCHEMA three RENAME TO two", "ALTER SCHEMA public RENAME TO away",
        "ALTER SCHEMA away RENAME TO public", "CREATE SCHEMA public", "DROP SCHEMA public", "GRANT USAGE ON SCHEMA two TO PUBLIC",
        "GRANT USAGE ON SCHEMA public TO PUBLIC", "DROP SCHEMA two CASCADE", "CREATE SCHEMA two",
    )  # fmt: skip
    ends = ("BEGIN", "BEGIN", "COMMIT", "SAVEPOINT s", "ROLLBACK TO s", "ROLLBACK")
    return chance.choice(
        [chance.choice(ddl), chance.choice(ddl), chance.choice(ends), "INSERT INTO one.audit (id) VALUES (1), (2)"]
    )
