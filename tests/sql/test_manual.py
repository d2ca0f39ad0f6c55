"""The session of the manual's chapter on logical decoding, against psql with a slot of the server's own.

The tables are changed once, by ours; what each says of its slot is compared statement by
statement, but for the positions of the slot itself.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from support.servers import Server
from tailrace.pipeline import LocalRunner
from tailrace.sql.connected_server import ConnectedServer
from tailrace.sql.postgres_session import PostgresSession
from tailrace.sql.psql.shell import Shell
from tailrace.sql.query.duckdb_engine import DuckDbEngine
from tailrace.sql.source_database import SourceDatabase

SLOT = "'regression_slot'"
SESSION = rf"""
postgres=# -- Create a slot named 'regression_slot' using the output plugin 'test_decoding'
postgres=# SELECT * FROM pg_create_logical_replication_slot({SLOT}, 'test_decoding');
    slot_name    |    lsn
-----------------+-----------
 regression_slot | 0/16B1970
(1 row)

postgres=# SELECT slot_name, plugin, slot_type, database, active, restart_lsn, confirmed_flush_lsn FROM pg_replication_slots;
    slot_name    |    plugin     | slot_type | database | active | restart_lsn | confirmed_flush_lsn
-----------------+---------------+-----------+----------+--------+-------------+-----------------
 regression_slot | test_decoding | logical   | postgres | f      | 0/16A4408   | 0/16A4440
(1 row)

postgres=# -- There are no changes to see yet
postgres=# SELECT * FROM pg_logical_slot_get_changes({SLOT}, NULL, NULL);
postgres=# CREATE TABLE data(id serial primary key, data text);
CREATE TABLE

postgres=# -- DDL isn't replicated, so all you'll see is the transaction
postgres=# SELECT * FROM pg_logical_slot_get_changes({SLOT}, NULL, NULL);
postgres=# -- Once changes are read, they're consumed and not emitted
postgres=# -- in a subsequent call:
postgres=# SELECT * FROM pg_logical_slot_get_changes({SLOT}, NULL, NULL);
postgres=# BEGIN;
postgres=# INSERT INTO data(data) VALUES('1');
postgres=# INSERT INTO data(data) VALUES('2');
postgres=# COMMIT;
postgres=# SELECT * FROM pg_logical_slot_get_changes({SLOT}, NULL, NULL);
postgres=# INSERT INTO data(data) VALUES('3');
postgres=# -- You can also peek ahead in the change stream without consuming changes
postgres=# SELECT * FROM pg_logical_slot_peek_changes({SLOT}, NULL, NULL);
postgres=# -- The next call to pg_logical_slot_peek_changes() returns the same changes again
postgres=# SELECT * FROM pg_logical_slot_peek_changes({SLOT}, NULL, NULL);
postgres=# -- options can be passed to output plugin, to influence the formatting
postgres=# SELECT * FROM pg_logical_slot_peek_changes({SLOT}, NULL, NULL, 'include-timestamp', 'on');
postgres=# -- Remember to destroy a slot you no longer need to stop it consuming
postgres=# -- server resources:
postgres=# SELECT pg_drop_replication_slot({SLOT});
"""
STATEMENTS = [
    line.removeprefix("postgres=# ") for line in SESSION.splitlines() if line.startswith("postgres=# ") and "=# --" not in line
]
MAJORS = [pytest.param(16), *(pytest.param(each, marks=pytest.mark.matrix) for each in (14, 15, 17, 18))]


def _ours(server: Server, state: Path, text: str) -> str:
    words = ["--database", server.dbname, "--state", str(state), "--connect", server.dsn()]
    done = subprocess.run(  # fmt: skip
        [sys.executable, "-m", "tailrace", "sql", str(server.data_dir), *words],
        input=text,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stderr == ""
    return done.stdout


def _psql(server: Server, text: str) -> str:
    command = [str(server.bin("psql")), "-X", server.dsn()]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout


def _tag(statement: str) -> str:
    """What psql prints of a statement that the server has done already."""
    word = statement.split(maxsplit=1)[0].rstrip(";")
    return {"CREATE": "CREATE TABLE", "INSERT": "INSERT 0 1"}.get(word, word) + "\n"


@pytest.mark.postgres
@pytest.mark.parametrize("major", MAJORS)
def test_every_statement_prints_what_psql_prints(major: int, tmp_path: Path) -> None:
    with Server(major) as server:
        database = SourceDatabase(server.data_dir, server.dbname, tmp_path / "state", lambda _: LocalRunner(), lambda _: None)
        shell = Shell(PostgresSession(database, DuckDbEngine().run, ConnectedServer(server.dsn(), lambda _: None)))
        for statement in STATEMENTS:
            out = io.StringIO()
            with redirect_stdout(out):
                shell.feed(f"postgres=# {statement}")
            theirs = _psql(server, f"{statement}\n") if statement.startswith("SELECT") else _tag(statement)
            names_itself = "FROM pg_replication_slots" in statement or "pg_create_" in statement
            assert _compared(out.getvalue(), names_itself) == _compared(theirs, names_itself), statement
        assert not shell.failed
        shell.session.close()


def _compared(text: str, names_itself: bool) -> str:
    """The text; where the slot's own positions are in it, without them, and without the widths that come of them."""
    if not names_itself:
        return text
    return re.sub(r" +|-+", lambda met: met[0][0], re.sub(r"\b[0-9A-F]+/[0-9A-F]+\b", "L", text))


@pytest.mark.postgres
def test_it_can_be_pasted(tmp_path: Path) -> None:
    """Whole, with its prompts, comments, and the results that stood in the manual."""
    with Server(16) as server:
        out = _ours(server, tmp_path / "state", SESSION)
        tags = [line for line in out.splitlines() if (line.isupper() and "|" not in line) or line.startswith("INSERT")]
        assert tags == ["CREATE TABLE", "BEGIN", "INSERT 0 1", "INSERT 0 1", "COMMIT", "INSERT 0 1"]
        assert out.count("table public.data: INSERT: id[integer]:3 data[text]:'3'") == 3
        assert out.count("table public.data: INSERT: id[integer]:1 data[text]:'1'") == 1
        assert out.endswith(" pg_drop_replication_slot \n--------------------------\n \n(1 row)\n\n")
        assert "(0 rows)" in _ours(server, tmp_path / "state", "SELECT slot_name FROM pg_replication_slots;\n")
