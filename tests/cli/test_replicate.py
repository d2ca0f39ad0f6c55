"""`tailrace replicate`: a server is checked, copied and followed by one command, which tells how far it is and leaves nothing on the server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from support.command import Run
from support.own_database import own_database
from support.servers import Server
from support.slots import TAILRACE
from support.waiting import until
from tailrace.lake.reading import read_table

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server(18, test_decoding=False) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    with own_database(running) as server:
        server.say(
            "CREATE TABLE t (id int PRIMARY KEY, v text)",
            "CREATE TABLE other (id int PRIMARY KEY)",
            "INSERT INTO t SELECT n, 'x' FROM generate_series(1, 5) n",
            "CREATE PUBLICATION p FOR TABLE t",
        )
        yield server


def _words(server: Server, home: Path, *more: str) -> list[str]:
    where = f"host=127.0.0.1 port={server.port} user=postgres dbname={server.dbname}"
    return [str(TAILRACE), "replicate", where, "--to", str(home / "lake"), "--publication", "p", *more]


@contextmanager
def _replicating(server: Server, home: Path) -> Iterator[str]:
    """The URL of its status."""
    environment = {**os.environ, "XDG_STATE_HOME": str(home / "state")}
    words = _words(server, home, "--every", "0.3s", "--status", "0")
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = next((line for line in process.stderr if "status at " in line), "")
        try:
            yield told.partition("status at ")[2].partition(",")[0]
            process.send_signal(signal.SIGTERM)
            said = process.stderr.read()
            assert process.wait() == 0, said
        finally:
            process.kill()


def _facts(url: str) -> dict[str, object]:
    with urlopen(url) as answer:
        found: dict[str, object] = json.load(answer)
    return found


def _rows(home: Path) -> list[tuple[int, str]]:
    return sorted((row["id"], row["v"]) for row in read_table(home / "lake/public.t").to_pylist())


def test_from_nothing_to_following_and_on(server: Server, tmp_path: Path) -> None:
    with _replicating(server, tmp_path) as url:
        until(lambda: _facts(url)["phase"] == "following")
        assert _facts(url)["tables"] == {"public.t": 5}
        server.say("UPDATE t SET v = 'y' WHERE id = 2", "INSERT INTO other VALUES (1)")
        until(lambda: _facts(url)["tables"] == {"public.t": 6})
        with urlopen(f"{url}metrics") as answer:
            lines = answer.read().decode().splitlines()
        assert 'tailrace_lake_changes_total{table="public.t"} 6.0' in lines
        assert "tailrace_lake_lag_bytes 0.0" in lines
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{url}../etc/passwd")
        assert server.sql("SELECT slot_name FROM pg_replication_slots") == []
        committed = _facts(url)["last_commit_time"]
        assert committed is not None
    assert _rows(tmp_path) == [(1, "x"), (2, "y"), (3, "x"), (4, "x"), (5, "x")]
    assert sorted(path.name for path in (tmp_path / "lake").iterdir() if path.name != "_tailrace") == ["public.t"]
    of_ours = "SELECT pid FROM pg_stat_activity WHERE application_name = 'tailrace' AND datname = current_database()"
    until(lambda: server.sql(of_ours) == [])
    with _replicating(server, tmp_path) as url:  # goes on where it was, and knows since when
        until(lambda: _facts(url)["last_commit_time"] == committed)
        server.say("DELETE FROM t WHERE id > 3")
        until(lambda: _facts(url)["tables"] == {"public.t": 2})
    assert _rows(tmp_path) == [(1, "x"), (2, "y"), (3, "x")]


def test_a_server_that_is_not_ready(tmp_path: Path) -> None:
    """What is missing is said, with its remedy, and nothing is made."""
    with Server(18, {"wal_level": "replica"}, test_decoding=False) as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE PUBLICATION p FOR TABLE t")
        said = subprocess.run(
            _words(server, tmp_path, "--state", str(tmp_path / "state"), "--once"), check=False, capture_output=True, text=True
        )
    assert said.returncode == 1
    assert "ALTER SYSTEM SET wal_level = logical" in said.stderr
    assert "would stop tailrace" in said.stderr.splitlines()[-2]
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_copied(server: Server, tmp_path: Path, tailrace: Run) -> None:
    """A publication that is misspelt, tables that the role may not read, or of which policies hide rows: said at once, and nothing is made."""
    role = f"reader_{server.dbname}"
    server.say(
        f"CREATE ROLE {role} LOGIN REPLICATION",
        f"GRANT EXECUTE ON FUNCTION pg_read_binary_file(text, bigint, bigint, boolean) TO {role}",
        "CREATE SCHEMA hidden",
        "CREATE TABLE hidden.away (id int PRIMARY KEY)",
        "CREATE PUBLICATION of_hidden FOR TABLE hidden.away",
    )
    words = [word.replace("user=postgres", f"user={role}") for word in _words(server, tmp_path)[1:]]
    words += ["--state", str(tmp_path / "state"), "--once"]

    def refused(publications: str) -> list[str]:
        code, _, err = tailrace(*[publications if word == "p" else word for word in words])
        assert (code, list(tmp_path.iterdir())) == (1, []), err
        return [line.strip() for line in err.splitlines() if line.strip().startswith(("stops", "GRANT", "ALTER", "CREATE"))]

    at = f"stops    {server.dbname}: "
    there = f'{at}publications: publication "P" does not exist; there are of_hidden, p'
    assert refused('"P"') == [there, 'CREATE PUBLICATION "P" FOR …;']
    assert refused("p,of_hidden") == [
        f"{at}rows: role {role} may not read table hidden.away, which is to be copied",
        f"GRANT SELECT ON hidden.away TO {role};",
        f"{at}rows: role {role} may not read table public.t, which is to be copied",
        f"GRANT SELECT ON public.t TO {role};",
        f"{at}rows: role {role} may not use schema hidden, whose tables are to be copied",
        f"GRANT USAGE ON SCHEMA hidden TO {role};",
    ]
    server.say(f"GRANT SELECT ON t TO {role}", "ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    assert refused("p") == [
        f"{at}rows: policies of table public.t may hide rows from role {role}: it is not copied",
        f"ALTER ROLE {role} BYPASSRLS;",
    ]
    server.say(f"ALTER ROLE {role} BYPASSRLS")
    assert tailrace(*words)[0] == 0
    assert len(_rows(tmp_path)) == 5


def test_a_value_that_no_decimal_holds(server: Server, tmp_path: Path, tailrace: Run) -> None:
    """The option that the error names is there."""
    server.say("ALTER TABLE t ADD n numeric(10, 2)", "UPDATE t SET n = 'NaN' WHERE id = 1")
    words = [*_words(server, tmp_path)[1:], "--state", tmp_path / "state", "--once"]
    code, _, err = tailrace(*words)
    assert (code, "HINT:  Set --numeric text." in err) == (1, True), err
    code, _, err = tailrace(*words, "--numeric", "text")
    assert code == 0, err
    assert set(read_table(tmp_path / "lake/public.t")["n"].to_pylist()) == {"NaN", None}


def test_what_cannot_be_meant(server: Server, tmp_path: Path, tailrace: Run) -> None:
    for words, message in (
        ((str(tmp_path), "--to", "lake"), "is no connection string"),
        (("host=127.0.0.1", "--to", "lake"), "no database is named"),
        ((*_words(server, tmp_path)[2:], "--status", "here"), '"here" is no address to listen on'),
        ((*_words(server, tmp_path)[2:], "--status", "70000"), '"70000" is no address to listen on'),
        ((*_words(server, tmp_path)[2:], "--status", f"127.0.0.1:{server.port}"), "could not listen on"),
    ):
        status, _, said = tailrace("replicate", *words)
        assert status == 1
        assert message in said
    for words, message in (
        (("--to", "nosuch://bucket/lake"), "is of a kind of store that is not known"),
        (("--to", str(tmp_path / "lake"), "--layout", "none"), '"none"'),
    ):
        status, _, said = tailrace("replicate", server.dsn(), "--publication", "p", *words)
        assert status == 1
        assert message in said
        assert "are kept in" not in said
