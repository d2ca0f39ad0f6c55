"""`tailrace sql` prints what psql prints, and ends as psql ends."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from support.command import Run
from support.servers import Server

pytestmark = pytest.mark.postgres
VALUES = r"""
SELECT 1 AS a, 'x' AS b, NULL::text AS c;
SELECT E'a\nbb\nc' AS x, 12 AS "n
m", 'y' AS z;
SELECT 'é日本' AS "ü", E'\t|' AS t, E'a\tb' AS u, E'\r' AS r, E'\x01' AS c;
SELECT 1.5::numeric AS n, 2::float8 AS f, true AS b, '0/16'::pg_lsn AS l, '5'::xid AS x, 7::oid AS o, '1 day'::interval AS i, '{1,2}'::int[] AS arr;
SELECT WHERE false;
SELECT 1 WHERE false;
SELECT;
SELECT generate_series(1, 3) AS g, 'abc' AS t;
SELECT 'a' AS averyveryverylongcolumnname, repeat('x', 40) AS c;
CREATE TABLE t9(i int);
INSERT INTO t9 VALUES (1), (2);
SELECT * FROM nonesuch;
SELECT 1/0;
SELECT foo(1),
  bar FROM
 t9 WHERE zz > 1;
DO $$ BEGIN RAISE NOTICE 'hi %', 1; END $$;
SELECT 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', nosuchcolumn, 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb' FROM t9;
DROP TABLE t9;
SELECT E'a\nb\\\n' AS x, E'1\n2' AS y \gx
"""
MANNERS = ("", "\\x\n", "\\a\n", "\\a\n\\x\n", "\\t\n", "\\t\n\\x\n", "\\a\n\\t\n", "\\a\n\\t\n\\x\n", "\\pset null NIL\n")
SLOT = "SELECT pg_create_logical_replication_slot('a', 'test_decoding')"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(16) as made:
        yield made


def test_values_look_as_psql_shows_them(server: Server, tailrace: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for manner in MANNERS:
        script = manner + VALUES
        psql = subprocess.run([server.bin("psql"), "-X", server.dsn()], input=script.encode(), capture_output=True, check=True)
        monkeypatch.setattr(sys, "stdin", io.StringIO(script))
        words = ("sql", server.data_dir, "--database", server.dbname, "--state", tmp_path / "s", "--connect", server.dsn())
        assert tailrace(*words) == (0, psql.stdout.decode(), psql.stderr.decode()), manner


def test_status_and_options(server: Server, tailrace: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("sql", server.data_dir, "--database", server.dbname, "--state", tmp_path / "state")
    assert tailrace(*words, "-At", "-c", f"{SLOT} IS NULL")[0] == 1
    status, out, err = tailrace(*words, "-At", "-c", SLOT, "-c", "SELECT slot_name, active FROM pg_replication_slots")
    assert (status, out.splitlines()[1:], err) == (0, ["a|f"], "")
    assert tailrace(*words, "-t", "-c", "SELECT slot_name FROM pg_replication_slots") == (0, " a\n\n", "")
    assert tailrace(*words, "-At", "-F", ",", "-c", "SELECT 1, 2; SELECT 3") == (0, "1,2\n3\n", "")
    failing = ("-c", "SELECT nonesuch FROM pg_replication_slots")
    assert tailrace(*words, "-At", *failing, "-c", "SELECT 1")[:2] == (0, "1\n")
    assert tailrace(*words, "-At", "-v", "ON_ERROR_STOP=1", *failing, "-c", "SELECT 1")[:2] == (1, "")
    status, out, err = tailrace(*words, "-c", "SELECT 1 WHERE false", *failing)
    assert (status, out) == (1, " ?column? \n----------\n(0 rows)\n\n")
    assert err == (
        'ERROR:  column "nonesuch" does not exist\nLINE 1: SELECT nonesuch FROM pg_replication_slots\n               ^\n'
    )
    file = tmp_path / "script.sql"
    file.write_text("SELECT 1;\nSELECT * FROM none;\nSELECT 2;\n")
    status, out, err = tailrace(*words, "-At", "-f", file)
    assert (status, out, err.splitlines()[0]) == (0, "1\n2\n", f'tailrace:{file}:2: ERROR:  relation "none" does not exist')
    assert tailrace(*words, "-At", "-v", "ON_ERROR_STOP=1", "-f", file)[:2] == (3, "1\n")
    file.write_bytes("SELECT 'a\u2028b\x0bc\x85', 1;\nSELECT '".encode() + b"\xe9';\nSELECT 2;\n")
    status, out, err = tailrace(*words, "-At", "-f", file)
    assert (status, out) == (0, "a\u2028b\x0bc\x85|1\n2\n")  # these end no lines
    assert err == f'tailrace:{file}:2: ERROR:  invalid byte sequence for encoding "UTF8": 0xe9\n'
    monkeypatch.setattr(sys, "stdin", io.StringIO("\\set VERBOSITY verbose\nSELECT * FROM none;\n\\nonesuch\n\\q\nSELECT 1;\n"))
    status, out, err = tailrace(*words)
    assert (status, out) == (0, "")
    assert err.startswith('ERROR:  42P01: relation "none" does not exist\n')
    assert err.endswith("invalid command \\nonesuch\nTry \\? for help.\n")


def test_a_lost_connection(server: Server, tailrace: Run, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text("SELECT 1 AS a;\nSELECT pg_terminate_backend(pg_backend_pid());\nSELECT 2 AS b;\n")
    psql = subprocess.run([server.bin("psql"), "-X", server.dsn(), "-f", script], capture_output=True, text=True, check=False)
    words = ("sql", server.data_dir, "--database", server.dbname, "--state", tmp_path / "state", "--connect", server.dsn())
    assert psql.returncode == 2
    status, out, err = tailrace(*words, "-f", script)
    assert (status, out, _unprefixed(err)) == (2, psql.stdout, _unprefixed(psql.stderr))
    status, out, err = tailrace(*words, "-c", "COPY pg_class TO STDOUT", "-c", "SELECT 1")
    assert (status, out) == (1, "")
    assert err == "ERROR:  COPY from and to the client is not supported\nERROR:  no connection to the server\n"


def _unprefixed(text: str) -> list[str]:
    return [line.split(":2: ", 1)[-1] for line in text.splitlines()]


@pytest.mark.parametrize("verbosity", ["default", "verbose", "terse", "sqlstate"])
def test_how_errors_are_printed(verbosity: str, server: Server, tailrace: Run, tmp_path: Path) -> None:
    """As psql does it, but for where in the server's source it was raised."""
    commands = [
        f"\\set VERBOSITY {verbosity}",
        "SELECT nonesuch FROM pg_replication_slots",
        "SELECT pg_drop_replication_slot('none')",
    ]
    words = [word for command in commands for word in ("-c", command)]
    psql = subprocess.run([server.bin("psql"), "-X", server.dsn(), *words], capture_output=True, text=True, check=False)
    expected = "".join(line for line in psql.stderr.splitlines(keepends=True) if not line.startswith("LOCATION"))
    status, out, err = tailrace("sql", server.data_dir, "--database", server.dbname, "--state", tmp_path / "state", *words)
    assert (status, out, err) == (psql.returncode, "", expected)
    status, _, err = tailrace(
        "sql", server.data_dir, "--database", server.dbname, "--state", tmp_path / "state", "-c", "\\set VERBOSITY loud"
    )
    assert err == 'unrecognized value "loud" for "VERBOSITY"\nAvailable values are: default, verbose, terse, sqlstate.\n'


def test_what_is_computed_here_with_a_server_beside(server: Server, tailrace: Run, tmp_path: Path) -> None:
    """A hint to give --connect is of no use to who has given it."""
    words = ("sql", server.data_dir, "--database", server.dbname, "--state", tmp_path / "state")
    query = "SELECT current_setting('port') FROM pg_replication_slots"
    status, _, err = tailrace(*words, "-c", query)
    assert (status, "--connect" in err) == (1, True), err
    status, _, err = tailrace(*words, "--connect", server.dsn(), "-c", query)
    assert (status, "--connect" in err, "it goes to the server whole" in err) == (1, False, True), err


def test_describing(server: Server, tailrace: Run, tmp_path: Path) -> None:
    server.say(
        "CREATE TABLE described (id int PRIMARY KEY, v varchar(20), n numeric(10,2), at timestamptz(3), a int[])",
        "ALTER TABLE described REPLICA IDENTITY FULL", "CREATE PUBLICATION seen FOR TABLE described",
        "CREATE PUBLICATION parts FOR TABLE described (v, id) WHERE (id > 5 AND v <> 'x')", "CREATE PUBLICATION entire FOR ALL TABLES",
        "CREATE PUBLICATION of_schema FOR TABLES IN SCHEMA public", "CREATE PUBLICATION twice FOR TABLE described, TABLES IN SCHEMA public",
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TABLE defaults (id serial PRIMARY KEY, i int GENERATED ALWAYS AS IDENTITY, j bigint GENERATED BY DEFAULT AS IDENTITY,"
        " v text DEFAULT 'x''y',"
        " c varchar(5) COLLATE \"C\" DEFAULT 'c', n numeric(10,2) DEFAULT 1.50, m int NOT NULL DEFAULT -1, b boolean DEFAULT true,"
        " at timestamptz DEFAULT now(),"
        " d date DEFAULT '2026-01-02', g int GENERATED ALWAYS AS (m * 2) STORED, k text[] DEFAULT '{}', f float8 DEFAULT 0,"
        " u uuid DEFAULT gen_random_uuid(), p jsonb DEFAULT '{}', r text DEFAULT lower('A'), s int DEFAULT 1 + 2, y interval DEFAULT '1 day')",
        "CREATE TABLE nested (a int DEFAULT (1 + 2) * 3, b text DEFAULT current_user, o mood DEFAULT 'ok', c int DEFAULT 1 - (2 - 3) - 4,"
        " e boolean DEFAULT (NOT (1 > 2 OR 3 < 4) AND (5::numeric + 1) IS NOT NULL), f text DEFAULT CASE WHEN 1 > 2 THEN 'a' || 'b' END)",
        "CREATE UNIQUE INDEX ON nested (lower(b) DESC, (a + c)) WHERE a > 0 AND (c < 5 OR e)",
    )  # fmt: skip
    words = ("sql", server.data_dir, "--database", server.dbname, "--state", tmp_path / "state")
    for command in ("\\dt", "\\dRp", "\\dRp+"):
        psql = subprocess.run([server.bin("psql"), "-X", server.dsn()], input=command, capture_output=True, text=True, check=True)
        assert tailrace(*words, "-c", command) == (0, psql.stdout, ""), command
    for name in ("described", "defaults", "nested"):
        psql = subprocess.run(
            [server.bin("psql"), "-X", server.dsn()], input=f"\\d {name}", capture_output=True, text=True, check=True
        )
        assert tailrace(*words, "-c", f"\\d {name}") == (0, psql.stdout, ""), name
    for name in ("information_schema.sql_features", "pg_class"):  # no publication has what initdb made
        assert "Publications:" not in tailrace(*words, "-c", f"\\d {name}")[1], name
    assert tailrace(*words, "-c", "\\d nonesuch") == (1, "", 'Did not find any relation named "nonesuch".\n')


def test_typed_at_a_terminal(server: Server, tmp_path: Path) -> None:
    """Prompts, Ctrl-C in an unfinished statement and in one that runs, and \\q."""
    leader, follower = pty.openpty()
    words = [
        "sql",
        str(server.data_dir),
        "--database",
        server.dbname,
        "--state",
        str(tmp_path / "state"),
        "--connect",
        server.dsn(),
    ]
    environment = {**os.environ, "TERM": "dumb", "XDG_CACHE_HOME": str(tmp_path), "INPUTRC": "/dev/null"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tailrace", *words], stdin=follower, stdout=follower, stderr=follower, env=environment,
        start_new_session=True,
    )  # fmt: skip
    os.close(follower)
    try:
        assert _until(leader, "postgres=# ")
        os.write(leader, b"SELECT (\n")
        assert _until(leader, "postgres(# ")
        _until_it_reads(process)
        process.send_signal(signal.SIGINT)
        assert _until(leader, "postgres=# ")
        os.write(leader, b"SELECT 40 + 2 AS answer;\n")
        assert "     42\r\n(1 row)\r\n" in _until(leader, "postgres=# ", twice="(1 row)")
        os.write(leader, b"SELECT 'asleep', pg_sleep(600);\n")
        while not server.sql("SELECT 1 FROM pg_stat_activity WHERE query LIKE '%asleep%' AND pid <> pg_backend_pid()"):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert "ERROR:  canceling statement due to user request\r\n" in _until(leader, "postgres=# ", twice="ERROR")
        os.write(leader, b"\\q\n")
        printed = _until_closed(leader)
        assert process.wait(60) == 0, printed
        assert "SELECT 40 + 2 AS answer;" in (tmp_path / "tailrace" / "sql_history").read_text()
    finally:
        process.kill()
        os.close(leader)


def _until(terminal: int, end: str, twice: str = "") -> str:
    """What is printed up to `end`."""
    text, deadline = "", time.monotonic() + 120
    while select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
        text += os.read(terminal, 4096).decode(errors="replace")
        if text.endswith(end) and twice in text:
            return text
    raise AssertionError(text)


def _until_closed(terminal: int) -> str:
    text = b""
    with contextlib.suppress(OSError):  # how a terminal that nobody holds any more is read
        while select.select([terminal], [], [], 60)[0]:
            text += os.read(terminal, 4096)
    return text.decode(errors="replace")


def _until_it_reads(process: subprocess.Popen[bytes]) -> None:
    """Readline looks for signals when it wakes: one that comes between the prompt and the wait for a key is seen at the next key."""
    of_system = psutil.Process(process.pid)
    while of_system.status() != psutil.STATUS_SLEEPING:
        time.sleep(0.01)
