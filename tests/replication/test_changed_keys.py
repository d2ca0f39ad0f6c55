"""Tables that are given another key while a lake follows them: each change says by the key of then which row it is of."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import ran
from support.own_database import servers_with_databases
from support.servers import Server

pytestmark = pytest.mark.postgres
MADE = (
    "CREATE TABLE a (id int PRIMARY KEY, u int NOT NULL, v text)", "CREATE UNIQUE INDEX a_u ON a (u)",
    "INSERT INTO a SELECT g, -g, 'v' FROM generate_series(1, 10) g", "CREATE PUBLICATION p FOR TABLE a",
)  # fmt: skip
BY_INDEX, BY_DEFAULT = "ALTER TABLE a REPLICA IDENTITY USING INDEX a_u", "ALTER TABLE a REPLICA IDENTITY DEFAULT"
OTHER_ID = "UPDATE a SET id = id + 50 WHERE id = 2"
CASES = {
    "bigint": (
        "ALTER TABLE a ADD new_id bigint NOT NULL DEFAULT 0", "UPDATE a SET new_id = id",
        "ALTER TABLE a DROP CONSTRAINT a_pkey, ADD PRIMARY KEY (new_id)", "UPDATE a SET v = 'by it' WHERE new_id < 4",
    ),
    "there and back": (BY_INDEX, OTHER_ID, BY_DEFAULT),
    "full": (BY_INDEX, OTHER_ID, "ALTER TABLE a REPLICA IDENTITY FULL", "DELETE FROM a WHERE u = -3"),
    "what becomes the key": ("UPDATE a SET u = u - 50 WHERE id = 2", BY_INDEX, "UPDATE a SET v = 'z' WHERE id = 2"),
    "deleted": (BY_INDEX, "DELETE FROM a WHERE id = 2", "INSERT INTO a VALUES (77, -2, 'n')", OTHER_ID, BY_DEFAULT),
}  # fmt: skip


running, server = servers_with_databases({"wal_keep_size": "200MB"})


def _mirrored(server: Server, home: Path, *more: str) -> tuple[int, str]:
    where = ("--database", server.dbname, "--to", home / "lake", "--state", home / "state", "--publication", "p")
    done = ran("mirror", server.dsn(), *where, *more)
    return done.returncode, done.stderr


def _verify(server: Server, home: Path) -> None:
    done = ran("verify", server.dsn(), "--database", server.dbname, "--to", home / "lake")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES)
def test_within_what_is_taken_at_once(server: Server, tmp_path: Path, case: str) -> None:
    server.say(*MADE)
    assert _mirrored(server, tmp_path) == (0, "")
    server.say("UPDATE a SET v = 'w' WHERE id = 1", *CASES[case], "UPDATE a SET v = 'x' WHERE u IN (-1, -4)")
    assert _mirrored(server, tmp_path) == (0, "")
    _verify(server, tmp_path)


def test_within_one_transaction(server: Server, tmp_path: Path) -> None:
    """Nobody can tell which rows were updated; a copy can."""
    server.say(*MADE)
    assert _mirrored(server, tmp_path) == (0, "")
    server.say(
        "BEGIN; UPDATE a SET u = u - 1000 WHERE id < 4; DROP INDEX a_u; ALTER TABLE a DROP CONSTRAINT a_pkey, ADD PRIMARY KEY (u); COMMIT"
    )
    status, said = _mirrored(server, tmp_path)
    assert status == 1
    assert 'the log does not say which row of table "a" was updated: its replica identity was another one then' in said
    assert "have the table copied again" in said
    assert _mirrored(server, tmp_path, "--copy-again", "public.a")[0] == 0
    _verify(server, tmp_path)
