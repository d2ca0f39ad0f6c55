"""A first copy of a standby, of which less can be asked: its snapshots name nobody that runs, and nobody can write there."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.builds import find_build
from support.command import ran
from support.sampling import some_of
from support.servers import Server
from support.slots import TAILRACE
from support.standbys import caught_up, standby_of
from support.storm import begin, different, storm
from support.waiting import until
from tailrace.lake.catalog import LakeCatalog, StoredCatalog
from tailrace.lake.reading import read_table
from tailrace.model import Lsn
from tailrace.storage.local_store import LocalStore

pytestmark = pytest.mark.postgres
SETTINGS = {"wal_keep_size": "500MB", "max_prepared_transactions": "10"}


@contextmanager
def both(
    home: Path, *statements: str, major: int = 18, settings: dict[str, str | int] | None = None
) -> Iterator[tuple[Server, Server]]:  # fmt: skip
    """A primary, where this has been said, and its standby, which ends none of our sessions."""
    more = settings or {}
    with Server(major, {**SETTINGS, **more}, test_decoding=False, dbname="app") as primary:
        primary.say(*statements)
        with standby_of(primary, home, more) as standby:
            for name in ("streaming", "archive"):
                standby.say(f"ALTER SYSTEM SET max_standby_{name}_delay = -1")
            standby.say("ALTER SYSTEM SET hot_standby_feedback = on", "SELECT pg_reload_conf()")
            caught_up(standby, primary)
            yield primary, standby


def _words(standby: Server, home: Path, *more: str) -> list[str]:
    where = ("--database", standby.dbname, "--to", home / "lake", "--state", home / "state")
    return list(map(str, ("mirror", standby.dsn(), *where, *more)))


def _mirrored(primary: Server, standby: Server, home: Path, *more: str) -> str:
    """What it said. The primary writes something now and then, as primaries do."""
    with subprocess.Popen([TAILRACE, *_words(standby, home, *more)], stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            primary.say("SELECT pg_logical_emit_message(false, 'somebody', 'writes')")
            time.sleep(0.2)
        assert process.stderr is not None
        said = process.stderr.read()
    assert process.returncode == 0, said
    return said


@contextmanager
def _following(standby: Server, home: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    words = [TAILRACE, *_words(standby, home, "--follow", "--every", "0.3s", *more)]
    with (home / "said").open("w") as said, subprocess.Popen(words, stderr=said) as process:
        try:
            yield process  # type: ignore[misc]
            process.terminate()
            process.wait(60)
        finally:
            process.kill()
    assert process.returncode == 0, _said(home)


def _said(home: Path) -> str:
    return (home / "said").read_text()


def _catalog(home: Path) -> LakeCatalog | None:
    return StoredCatalog.read(LocalStore(home / "lake")).catalog


def _await_lake(primary: Server, home: Path, process: subprocess.Popen[str]) -> None:
    """Until what is in the primary's log now is in the lake, and no table waits for its copy."""
    upto = Lsn.parse(primary.flush_lsn())

    def is_there() -> bool:
        catalog = _catalog(home)
        return catalog is not None and catalog.complete >= upto and not catalog.awaits_tables

    until(lambda: process.poll() is not None or is_there())


def _rows(home: Path, name: str) -> list[dict[str, Any]]:
    return sorted(read_table(home / f"lake/public.{name}").to_pylist(), key=str)


def _verify(standby: Server, home: Path) -> None:
    done = ran("verify", standby.dsn(), "--database", standby.dbname, "--to", home / "lake")
    assert done.returncode == 0, done.stdout + done.stderr


def _under_a_storm(home: Path, seed: int, major: int) -> None:
    with both(home, major=major) as (primary, standby):
        begin(primary)
        caught_up(standby, primary)
        with storm(primary, seed, dwell=0.1):
            time.sleep(0.3)
            _mirrored(primary, standby, home)
        caught_up(standby, primary)
        _mirrored(primary, standby, home)
        assert different(primary, LocalStore(home / "lake")) == []
        _verify(standby, home)


@pytest.mark.parametrize("seed", some_of([pytest.param(seed, id=str(seed)) for seed in range(12)], 2))
def test_under_a_storm(tmp_path: Path, seed: int) -> None:
    """Of DDL, TRUNCATE, savepoints, prepared transactions and key moves."""
    _under_a_storm(tmp_path, seed, 18)


@pytest.mark.parametrize("major", [pytest.param(major, marks=pytest.mark.matrix) for major in (14, 15, 16, 17)])
def test_every_major(tmp_path: Path, major: int) -> None:
    find_build(major)
    _under_a_storm(tmp_path, major, major)


def test_tables_that_join_one_that_is_late(tmp_path: Path) -> None:
    """It sends more of the log than it has replayed, and that is waited for. Who has written to a table before it was published, is too."""
    tables = [f"CREATE TABLE {name} (id int PRIMARY KEY)" for name in "abc"]
    with both(tmp_path, *tables, "INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)", "CREATE PUBLICATION p FOR TABLE a") as (
        primary, standby,
    ):  # fmt: skip
        _mirrored(primary, standby, tmp_path, "--publication", "p")
        standby.say("ALTER SYSTEM SET recovery_min_apply_delay = '2s'", "SELECT pg_reload_conf()")
        with (
            _following(standby, tmp_path, "--publication", "p") as process,
            primary.connect() as first,
            primary.connect() as second,
        ):
            first.execute("BEGIN; ALTER PUBLICATION p ADD TABLE b, c")
            second.execute("BEGIN; INSERT INTO b VALUES (2); INSERT INTO c VALUES (1)")
            first.execute("COMMIT")
            until(lambda: process.poll() is not None or bool((catalog := _catalog(tmp_path)) and catalog.joining))
            time.sleep(3)
            primary.say("INSERT INTO b VALUES (3)", "INSERT INTO a VALUES (2)")
            second.execute("INSERT INTO b VALUES (4); COMMIT")
            _await_lake(primary, tmp_path, process)
        rows = {name: [row["id"] for row in _rows(tmp_path, name)] for name in "abc"}
        assert rows == {"a": [1, 2], "b": [1, 2, 3, 4], "c": [1]}
        primary.say("UPDATE b SET id = 5 WHERE id = 1")
        _mirrored(primary, standby, tmp_path, "--publication", "p")
        _verify(standby, tmp_path)


def test_more_subtransactions_than_it_keeps(tmp_path: Path) -> None:
    """Its snapshots do not name them, nor anybody, until they are over."""
    with both(tmp_path, "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (-1)") as (primary, standby):
        _mirrored(primary, standby, tmp_path)
        with primary.connect() as other:
            other.execute("BEGIN")
            for number in range(100):
                other.execute(f"SAVEPOINT s; INSERT INTO t VALUES ({number}); RELEASE s".encode())
            caught_up(standby, primary)
            words = ("verify", standby.dsn(), "--database", standby.dbname, "--to", tmp_path / "lake")
            with subprocess.Popen(
                [TAILRACE, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as process:
                until(
                    lambda: (
                        process.poll() is not None
                        or bool(standby.value("SELECT count(*) FROM pg_stat_activity WHERE query ~ 'snapshots/'"))
                    )
                )
                time.sleep(2)
                assert process.poll() is None
                other.execute("COMMIT")
                out, err = process.communicate(timeout=60)
        assert (process.returncode, "101 rows compared" in out) == (0, True), out + err


@pytest.mark.soak
def test_who_is_in_the_way_of_what_is_replayed(tmp_path: Path) -> None:
    """The standby ends our sessions. The copy is begun anew some times; then it is one error, which says what would help. Who follows goes on."""
    rows = "INSERT INTO t SELECT g, repeat(md5(g::text), 20) FROM generate_series(1, 4000) g"
    tables = ("CREATE TABLE t (id int PRIMARY KEY, v text)", rows, "CREATE TABLE u (id int)")
    with both(tmp_path, *tables) as (primary, standby):
        standby.say("ALTER SYSTEM SET max_standby_streaming_delay = '200ms'", "SELECT pg_reload_conf()")
        slowly = ("--copy-rate", "300kB/s")  # all tables are locked until the last is copied
        with subprocess.Popen([TAILRACE, *_words(standby, tmp_path, *slowly)], stderr=subprocess.PIPE, text=True) as process:
            while process.poll() is None:
                primary.say("TRUNCATE u", "INSERT INTO u VALUES (1)")
                time.sleep(0.5)
            assert process.stderr is not None
            said = process.stderr.read()
        assert process.returncode == 1
        assert said.count("conflict with recovery; what is not copied yet is begun anew") == 3
        assert said.count("HINT:  On the standby set a longer max_standby_streaming_delay") == 2
        assert "Traceback" not in said
        with _following(standby, tmp_path, *slowly) as following:
            while following.poll() is None and "conflict with recovery" not in _said(tmp_path):
                primary.say("TRUNCATE u", "INSERT INTO u VALUES (1)")
                time.sleep(0.5)
            _await_lake(primary, tmp_path, following)
        _verify(standby, tmp_path)


def test_promoted_a_moment_ago(tmp_path: Path) -> None:
    """Its last checkpoint is of the timeline before. Whoever begins anew has the log from there on."""
    with both(tmp_path, "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)") as (primary, standby):
        _mirrored(primary, standby, tmp_path)
        primary.say("INSERT INTO t SELECT generate_series(3, 200000)")  # which takes a checkpoint long to write
        caught_up(standby, primary)
        primary.stop()
        standby.say("SELECT pg_promote()", "INSERT INTO t VALUES (2)")
        assert standby.value("SELECT timeline_id FROM pg_control_checkpoint()") == 1
        done = ran("verify", standby.dsn(), "--database", standby.dbname, "--to", tmp_path / "lake")
        assert (done.returncode, "200,000 rows compared" in done.stdout) == (0, True), done.stderr
        anew = tmp_path / "anew"
        done = ran(*_words(standby, anew))
        assert done.returncode == 0, done.stderr
        assert read_table(anew / "lake/public.t").num_rows == 200_000


@pytest.mark.soak
def test_promoted_while_older_transactions_are_waited_for(tmp_path: Path) -> None:
    """They end with the primary; and what is asked of a standby says nothing of what it has become."""
    definitions = ("CREATE TABLE t (id int)", "ALTER TABLE t REPLICA IDENTITY FULL", "INSERT INTO t VALUES (0)")
    with both(tmp_path, *definitions) as (primary, standby), closing(primary.connect()) as other:
        other.execute("BEGIN; INSERT INTO t VALUES (-1)")
        primary.say("INSERT INTO t VALUES (1)")
        caught_up(standby, primary)
        with _following(standby, tmp_path) as process:
            until(lambda: process.poll() is not None or "waiting for transactions" in _said(tmp_path))
            primary.crash()
            standby.say("SELECT pg_promote()")
            for number in range(2, 800):
                standby.say(f"INSERT INTO t VALUES ({number})")
            until(lambda: process.poll() is not None or bool((catalog := _catalog(tmp_path)) and not catalog.awaits_tables))
            _await_lake(standby, tmp_path, process)
        assert sorted(row["id"] for row in _rows(tmp_path, "t")) == list(range(800))


@pytest.mark.soak
def test_one_that_is_late_while_others_write(tmp_path: Path) -> None:
    """What goes on meanwhile goes no further than the standby shows."""
    tables = ("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE u")
    with both(tmp_path, *tables) as (primary, standby):
        _mirrored(primary, standby, tmp_path, "--publication", "p")
        standby.say("ALTER SYSTEM SET recovery_min_apply_delay = '4s'", "SELECT pg_reload_conf()")
        with _following(standby, tmp_path, "--publication", "p") as process:
            primary.say("ALTER PUBLICATION p ADD TABLE t")
            until(lambda: process.poll() is not None or bool((catalog := _catalog(tmp_path)) and catalog.joining))
            for number in range(60):
                primary.say(f"INSERT INTO u VALUES ({number})", f"INSERT INTO t VALUES ({number})")
                time.sleep(0.15)
            _await_lake(primary, tmp_path, process)
        assert [len(_rows(tmp_path, name)) for name in "tu"] == [60, 60]
        _verify(standby, tmp_path)


@pytest.mark.soak
def test_it_shows_a_commit_before_it_has_replayed_it(tmp_path: Path) -> None:
    """While it removes the files of many tables. The snapshot has seen what lies behind where the standby says that it is."""
    tables = 14000
    every = "DO $$ BEGIN FOR i IN 1..{} LOOP EXECUTE format('{} TABLE d.t%s {}', i); END LOOP; END $$"
    made = (
        "CREATE TABLE t (id int)",
        "CREATE TABLE u (id int)",
        "INSERT INTO t VALUES (0)",
        "CREATE SCHEMA d",
        every.format(tables, "CREATE", "(a int)"),
    )
    with both(tmp_path, *made, settings={"max_locks_per_transaction": 2048}) as (primary, standby), primary.connect() as other:
        other.execute("BEGIN; INSERT INTO t VALUES (1), (2)")
        other.execute(every.format(tables, "DROP", "").encode())
        with _following(standby, tmp_path) as process:
            until(lambda: process.poll() is not None or "waiting for transactions" in _said(tmp_path))
            other.execute("COMMIT")
            _await_lake(primary, tmp_path, process)
        assert sorted(row["id"] for row in _rows(tmp_path, "t")) == [0, 1, 2]
        _verify(standby, tmp_path)


def test_a_primary_that_rests(tmp_path: Path) -> None:
    """Nobody can make the log go on from a standby, and nobody need."""
    with both(tmp_path, "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)", "CREATE TABLE u (id int)") as (
        primary,
        standby,
    ):
        primary.say("INSERT INTO u VALUES (1)", "CREATE PUBLICATION p FOR TABLE t", "CHECKPOINT")
        caught_up(standby, primary)
        done = ran(*_words(standby, tmp_path, "--publication", "p"))
        assert (done.returncode, done.stderr) == (0, "")
        assert _rows(tmp_path, "t") == [{"id": 1}]
        primary.say("ALTER PUBLICATION p ADD TABLE u")
        caught_up(standby, primary)
        done = ran(*_words(standby, tmp_path, "--publication", "p"))
        assert done.returncode == 0, done.stderr
        assert _rows(tmp_path, "u") == [{"id": 1}]
        _verify(standby, tmp_path)


def test_what_is_refused(tmp_path: Path) -> None:
    with both(tmp_path, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE ROLE reader LOGIN REPLICATION", "GRANT SELECT ON t TO reader") as (
        primary, standby,
    ):  # fmt: skip
        pages = ran(*_words(standby, tmp_path, "--copy-strategy", "pages"))
        assert pages.returncode == 1
        assert "pages of a standby cannot be read" in pages.stderr
        words = [each.replace("user=postgres", "user=reader") for each in _words(standby, tmp_path / "other")]
        files = ran(*words)
        assert files.returncode == 1
        assert "permission denied for function pg_read_binary_file\nHINT:  GRANT EXECUTE ON FUNCTION" in files.stderr
        assert not (tmp_path / "other").exists()  # nor was a base backup taken
        for server, said in ((standby, "none, as the server is in recovery"), (primary, "made by the server")):
            served = ran("serve", server.dsn(), "--state", tmp_path / server.data_dir.name / str(server.port), "--check")
            assert f"first copies by subscribers: {said}" in served.stdout, served.stderr
