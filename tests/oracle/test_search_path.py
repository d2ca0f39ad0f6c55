"""Schemas in front of types and of names in values, under search paths of the reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cases import DBNAME
from support.decoding import opened, text_of
from support.live import Slot
from support.normalise import print_rows
from support.servers import Server
from tailrace.plan.demand import Demand
from tailrace.types.style import TextStyle

pytestmark = pytest.mark.matrix

STORY = (
    "CREATE SCHEMA mine", 'CREATE SCHEMA "Odd, one"', "CREATE SCHEMA reader", "CREATE TYPE mine.mood AS ENUM ('sad', 'happy')",
    "CREATE TYPE mood AS ENUM ('bored')", "CREATE TYPE reader.kind AS (a int, m mine.mood)", "CREATE FUNCTION mine.f(mine.mood) RETURNS int RETURN 1",
    "CREATE TABLE t (id int, m mine.mood, p public.mood, k reader.kind, c regclass[], f regprocedure, t regtype)",
    "INSERT INTO t VALUES (1, 'sad', 'bored', (1, 'happy'), '{t,pg_class}', 'mine.f(mine.mood)', 'mine.mood')",
    'CREATE TYPE "Odd, one".mood AS (a int)', 'CREATE TABLE "Odd, one".t (id int)',
    "INSERT INTO t VALUES (2, 'happy', 'bored', (2, 'sad'), '{public.t,\"\\\"Odd, one\\\".t\"}', 'mine.f(mine.mood)', 'public.mood')",
    'DROP TYPE "Odd, one".mood', 'DROP TABLE "Odd, one".t',
    "INSERT INTO t VALUES (3, 'happy', 'bored', NULL, '{public.t}', 'mine.f(mine.mood)', 'reader.kind')",
)  # fmt: skip
PATHS = (
    '"$user", public',
    "mine, public",
    'public, MINE , "Odd, one"',
    '"Odd, one",public,mine',
    "reader, pg_catalog, mine",
    "pg_temp",
    "",
)


@pytest.mark.parametrize("major", [14, 18])
def test_search_paths(major: int, tmp_path: Path) -> None:
    with Server(major, dbname=DBNAME) as server:
        server.say("CREATE ROLE reader LOGIN SUPERUSER", "CHECKPOINT")
        slot = Slot.on(server)
        server.say(*STORY)
        theirs = {(path, role): _theirs(server, path, role) for path in PATHS for role in ("", "reader")}
        server.stop()
        server.move_to(tmp_path / "data")
    assert len(set(theirs.values())) > 4
    for (path, role), expected in theirs.items():
        style = TextStyle().under({"search_path": path, "role": role})
        pipeline = opened(tmp_path / "data", start_lsn=slot.start_lsn, demand=Demand(search_path=style.schemas))
        assert text_of(pipeline, {}, style) == expected, (path, role)


def _theirs(server: Server, path: str, role: str) -> str:
    with server.connect() as connection:
        connection.execute("SELECT set_config('search_path', %s, false), set_config('role', %s, false)", [path, role or "none"])
        return print_rows(
            connection.execute("SELECT lsn, xid, data FROM pg_logical_slot_peek_changes('s', NULL, NULL)").fetchall()
        )
