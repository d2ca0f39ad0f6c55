"""Tables that join a lake of publications later: their rows of before are copied, and meet the log without a gap and without an overlap."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from support.builds import find_build
from support.command import ran
from support.own_database import servers_with_databases
from support.sampling import some_of
from support.servers import Server
from support.slots import TAILRACE
from support.storm import KEYS, begin, different, storm
from support.waiting import until
from tailrace.demo.compare import compare_rows
from tailrace.lake.catalog import LakeCatalog, StoredCatalog
from tailrace.lake.files.file_changes import FileChanges
from tailrace.lake.lake import Lake
from tailrace.lake.reading import read_table
from tailrace.lake.table import CommitNote
from tailrace.model import Lsn
from tailrace.replication.slot_location import SlotLocation
from tailrace.storage.local_store import LocalStore

pytestmark = pytest.mark.postgres
SETTINGS = {"wal_keep_size": "500MB", "max_prepared_transactions": "10"}


running, server = servers_with_databases(SETTINGS)


@pytest.fixture
def reader(server: Server) -> Iterator[str]:
    """A role that may receive the log, and read no table yet."""
    role = f"reader_{server.dbname}"
    function = "pg_read_binary_file(text, bigint, bigint, boolean)"
    server.say(f"CREATE ROLE {role} LOGIN REPLICATION", f"GRANT EXECUTE ON FUNCTION {function} TO {role}")
    yield role
    server.say(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def _words(server: Server, home: Path, *more: str) -> list[str]:
    where = ("--database", server.dbname, "--to", home / "lake", "--state", home / "state", "--publication", "p")
    return list(map(str, ("mirror", server.dsn(), *where, *more)))


def _mirrored(server: Server, home: Path, *more: str) -> str:
    """What it said."""
    done = ran(*_words(server, home, *more))
    assert done.returncode == 0, done.stderr
    return done.stderr


def _catalog(home: Path) -> LakeCatalog:
    catalog = StoredCatalog.read(LocalStore(home / "lake")).catalog
    assert catalog is not None
    return catalog


def _rows(home: Path, name: str) -> list[dict[str, Any]]:
    return sorted(read_table(home / f"lake/public.{name}").to_pylist(), key=str)


@contextmanager
def _following(server: Server, home: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """The command that follows, which ends without an error when it is told to."""
    words = [TAILRACE, *_words(server, home, "--follow", "--every", "0.3s", *more)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
            process.terminate()
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, said


def _await_lake(server: Server, home: Path, process: subprocess.Popen[str]) -> None:
    """Until what is in the log now is in the lake, and no table waits for its copy."""
    with server.connect() as connection:
        ((text,),) = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchall()
    upto = Lsn.parse(text)
    until(lambda: process.poll() is not None or (_catalog(home).complete >= upto and not _catalog(home).awaits_tables))


def _verify(server: Server, home: Path, *more: str) -> None:
    """No row differs."""
    done = ran("verify", server.dsn(), "--database", server.dbname, "--to", home / "lake", *more)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.marathon
@pytest.mark.parametrize("seed", range(12))
def test_under_a_storm(server: Server, tmp_path: Path, seed: int) -> None:
    """Tables are added, removed and added again while clients write to all of them."""
    begin(server)
    server.say("CREATE PUBLICATION p FOR TABLE plain")
    with storm(server, seed):
        _mirrored(server, tmp_path)
        with _following(server, tmp_path) as process:
            for statement in ("ADD TABLE pair", "ADD TABLE long", "DROP TABLE plain", "ADD TABLE plain, bag"):
                server.say(f"ALTER PUBLICATION p {statement}")
                _await_lake(server, tmp_path, process)
                time.sleep(0.5)
    _mirrored(server, tmp_path)
    assert different(server, LocalStore(tmp_path / "lake")) == []
    assert _catalog(tmp_path).joining == ()
    _verify(server, tmp_path)


@pytest.mark.parametrize("major", [pytest.param(major, marks=pytest.mark.matrix) for major in (14, 15, 16, 17)])
def test_every_major(major: int, tmp_path: Path) -> None:
    find_build(major)
    with Server(major, SETTINGS, test_decoding=False, dbname="app") as server:
        begin(server)
        server.say("CREATE PUBLICATION p FOR TABLE plain, long")
        _mirrored(server, tmp_path)
        with storm(server, major):
            server.say("ALTER PUBLICATION p DROP TABLE plain", "ALTER PUBLICATION p ADD TABLE pair, bag")
            time.sleep(0.5)
            server.say("ALTER PUBLICATION p ADD TABLE plain")
            _mirrored(server, tmp_path)
        _mirrored(server, tmp_path)
        assert different(server, LocalStore(tmp_path / "lake")) == []


def test_far_behind(server: Server, tmp_path: Path) -> None:
    """Others go on, window by window; and a transaction that makes a table, fills it, and publishes it is longer than a window."""
    _table(server, "a", "b")
    server.say("CREATE PUBLICATION p FOR TABLE a")
    _mirrored(server, tmp_path)
    fill = "INSERT INTO {} SELECT g, repeat(md5(g::text), 8) FROM generate_series({}, {}) g"
    server.say(
        "ALTER PUBLICATION p ADD TABLE b", "DELETE FROM b WHERE id = 1", fill.format("b", 1000, 6000),
        "BEGIN; CREATE TABLE c (id int PRIMARY KEY, v text); " + fill.format("c", 1, 8000) + "; ALTER PUBLICATION p ADD TABLE c; COMMIT",
        *(fill.format("a", number * 10_000, number * 10_000 + 5000) for number in range(1, 4)),
    )  # fmt: skip
    lines = _lines(server, tmp_path, "--window", "1MB")
    copies = [number for number, line in enumerate(lines) if "public.b" in line["tables"]]
    assert copies[0] > 2, "the windows before were of others"
    _verify(server, tmp_path)
    assert len(_rows(tmp_path, "c")) == 8000


def _lines(server: Server, home: Path, *more: str) -> list[dict[str, Any]]:
    """What it printed of each commit."""
    done = ran(*_words(server, home, "--json", *more))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _copied(server: Server, home: Path, *more: str) -> set[str]:
    """The tables that were copied in a run, without their schema."""
    copies = [line for line in _lines(server, home, *more) if line["commit_time"] is None and line["lag_bytes"] == 0]
    return {name.removeprefix("public.") for line in copies for name in line["tables"]}


def _table(server: Server, *names: str, rows: int = 3) -> None:
    for name in names:
        server.say(
            f"CREATE TABLE {name} (id int PRIMARY KEY, v text)",
            f"INSERT INTO {name} SELECT g, 'of before' FROM generate_series(1, {rows}) g",
        )


def test_others_go_on_while_transactions_are_waited_for(server: Server, tmp_path: Path) -> None:
    """One has written to the table before it joins, and commits late: its rows are in the copy. What joins meanwhile is copied behind it."""
    _table(server, "a", "b", "c")
    server.say("CREATE PUBLICATION p FOR TABLE a")
    _mirrored(server, tmp_path)
    with server.connect() as other, _following(server, tmp_path) as process:
        other.execute("BEGIN; INSERT INTO b VALUES (4, 'late')")
        server.say("ALTER PUBLICATION p ADD TABLE b")
        until(lambda: process.poll() is not None or len(_catalog(tmp_path).joining) == 1)
        other.execute("INSERT INTO c VALUES (4, 'late')")
        server.say("INSERT INTO a VALUES (4, 'streamed')", "ALTER PUBLICATION p ADD TABLE c")
        until(lambda: process.poll() is not None or (len(_catalog(tmp_path).joining) == 2 and len(_rows(tmp_path, "a")) == 4))
        other.execute("INSERT INTO b VALUES (5, 'later'); COMMIT")
        _await_lake(server, tmp_path, process)
        server.say("UPDATE c SET v = 'streamed' WHERE id = 1")
        _await_lake(server, tmp_path, process)
    _verify(server, tmp_path)
    assert (len(_rows(tmp_path, "b")), len(_rows(tmp_path, "c"))) == (5, 4)


def test_a_commit_that_waits_for_a_standby_meanwhile(tmp_path: Path) -> None:
    """Its record is in the log, and with that in a window that others take; and it is invisible. The copy is of a snapshot that sees it."""
    with Server(18, {**SETTINGS, "synchronous_standby_names": "nobody", "synchronous_commit": "local"}, dbname="app") as server:
        server.say(
            "CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE u"
        )
        _mirrored(server, tmp_path)
        with _following(server, tmp_path) as process, server.connect() as old, server.connect() as waits:
            old.execute("BEGIN; INSERT INTO u VALUES (1)")
            server.say("ALTER PUBLICATION p ADD TABLE t")
            until(lambda: process.poll() is not None or bool(_catalog(tmp_path).joining))
            time.sleep(1.5)
            waits.execute("SET synchronous_commit = on")
            with ThreadPoolExecutor(1) as aside:
                inserted = aside.submit(waits.execute, "INSERT INTO t VALUES (1)")
                time.sleep(0.5)
                server.say("INSERT INTO u VALUES (2)")
                until(lambda: process.poll() is not None or {"id": 2} in _rows(tmp_path, "u"))
                old.execute("COMMIT")
                time.sleep(2)
                server.say(f"SELECT pg_cancel_backend({waits.info.backend_pid})")
                inserted.result()
            _await_lake(server, tmp_path, process)
        assert _rows(tmp_path, "t") == [{"id": 1}]
        _verify(server, tmp_path)


def _joined(server: Server, home: Path, rows: int) -> None:
    """A lake of table a, and a table b of so many rows that joins it."""
    _table(server, "a")
    _table(server, "b", rows=rows)
    server.say("CREATE PUBLICATION p FOR TABLE a")
    _mirrored(server, home)
    server.say("ALTER PUBLICATION p ADD TABLE b")


def test_the_newest_transaction_is_waited_for_too(tmp_path: Path) -> None:
    """One that has written before the table was published, and is newer than all that have ended: a snapshot's xmax is not beyond it."""
    with Server(18, SETTINGS, dbname="app") as server:
        server.say(
            "CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE u"
        )
        _mirrored(server, tmp_path)
        with _following(server, tmp_path) as process, server.connect() as first, server.connect() as second:
            first.execute("BEGIN; ALTER PUBLICATION p ADD TABLE t")
            second.execute("BEGIN; INSERT INTO t VALUES (1)")
            first.execute("COMMIT")
            until(lambda: process.poll() is not None or bool(_catalog(tmp_path).joining))
            time.sleep(2)
            second.execute("INSERT INTO t VALUES (2); COMMIT")
            _await_lake(server, tmp_path, process)
        assert _rows(tmp_path, "t") == [{"id": 1}, {"id": 2}]
        _verify(server, tmp_path)


def test_others_go_on_while_it_is_copied(server: Server, tmp_path: Path) -> None:
    """They may be altered, too. The table has what happened to it meanwhile, though the run is killed, and stopped, and killed as it catches up."""
    _joined(server, tmp_path, 30000)
    ids = count(4)

    def others_go_on(process: subprocess.Popen[str]) -> None:
        until(lambda: process.poll() is not None or bool(_catalog(tmp_path).joining))
        for number in (next(ids), next(ids)):
            server.say(
                f"INSERT INTO a VALUES ({number}, 'streamed')", f"INSERT INTO b VALUES (-{number}, 'streamed')",
                f"UPDATE b SET v = 'changed' WHERE id % 1000 = {number}", f"DELETE FROM b WHERE id % 1000 = 500 + {number}",
            )  # fmt: skip
            until(partial(_has, process, tmp_path, number))
        server.say("SET lock_timeout = '2s'", f"ALTER TABLE a ADD COLUMN c{number} int DEFAULT {number}")
        assert process.poll() is None
        assert _catalog(tmp_path).joining
        assert not (tmp_path / "lake/public.b/_delta_log").exists()

    with _following(server, tmp_path, "--copy-rate", "20kB/s") as process:
        others_go_on(process)
        began = time.monotonic()
    assert time.monotonic() - began < 15, "the copy takes longer"
    words = [TAILRACE, *_words(server, tmp_path, "--follow", "--every", "0.3s", "--copy-rate", "20kB/s")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        others_go_on(process)
        process.kill()
    with _following(server, tmp_path, "--copy-rate", "300kB/s") as process:
        others_go_on(process)
        _await_lake(server, tmp_path, process)
    assert _catalog(tmp_path).catching_up == ()
    _verify(server, tmp_path)


@pytest.mark.soak
def test_the_server_is_restarted_while_it_is_copied(tmp_path: Path) -> None:
    """Who follows waits for it, and copies the table then. The others have what they had."""
    with Server(18, SETTINGS, test_decoding=False) as server:
        _joined(server, tmp_path, 15000)
        with _following(server, tmp_path, "--copy-rate", "60kB/s") as process:
            until(lambda: process.poll() is not None or bool(_catalog(tmp_path).joining))
            server.say("INSERT INTO a VALUES (4, 'streamed')", "UPDATE b SET v = 'changed' WHERE id % 97 = 1")
            until(partial(_has, process, tmp_path, 4))
            server.stop()
            server.start()
            server.say("INSERT INTO a VALUES (5, 'streamed')", "UPDATE b SET v = 'changed again' WHERE id % 97 = 2")
            _await_lake(server, tmp_path, process)
        _verify(server, tmp_path)


@pytest.mark.soak
def test_another_joins_while_it_is_copied(server: Server, tmp_path: Path) -> None:
    """It was made behind windows that come again as the first catches up, and is not taken for one that was dropped."""
    _joined(server, tmp_path, 10000)
    locked = "SELECT count(*) FROM pg_locks WHERE relation = 'b'::regclass AND mode = 'AccessShareLock'"
    with _following(server, tmp_path, "--copy-rate", "60kB/s", "--window", "1MB") as process:
        until(lambda: process.poll() is not None or server.value(locked) > 0)
        for number in range(1, 5):
            server.say(f"INSERT INTO b SELECT g, repeat(md5(g::text), 8) FROM generate_series({number}00000, {number}01000) g")
        _table(server, "c")
        server.say("ALTER PUBLICATION p ADD TABLE c", "INSERT INTO c VALUES (100, 'streamed')")
        until(lambda: process.poll() is not None or len(_catalog(tmp_path).joining) == 2)
        _await_lake(server, tmp_path, process)
    _verify(server, tmp_path)


def _has(process: subprocess.Popen[str], home: Path, number: int) -> bool:
    return process.poll() is not None or any(row["id"] == number for row in _rows(home, "a"))


@pytest.mark.soak
@pytest.mark.parametrize("layout", ["mirror", pytest.param("history", marks=pytest.mark.marathon)])
def test_killed_while_tables_join(server: Server, tmp_path: Path, layout: str) -> None:
    """At any moment: while they are noted, waited for, copied, refilled, and when that is said."""
    begin(server)
    server.say("CREATE PUBLICATION p FOR TABLE plain")
    dice, killed = random.Random(5), 0
    options = ("--layout", layout, "--follow", "--every", "0.2s", "--copy-rate", "30kB")
    with storm(server, 55, pause=0.05):
        _mirrored(server, tmp_path, "--layout", layout)
        for number in range(10):
            server.say(f"ALTER PUBLICATION p SET TABLE {('plain, long', 'bag, pair')[number % 2]}")
            with subprocess.Popen([TAILRACE, *_words(server, tmp_path, *options)], stderr=subprocess.PIPE, text=True) as process:
                time.sleep(dice.random() * 3)
                server.say(f"ALTER PUBLICATION p ADD TABLE {('bag, pair', 'long')[number % 2]}")
                until(lambda: bool(_catalog(tmp_path).joining) or process.poll() is not None)
                time.sleep(dice.random())
                is_dead = process.poll() is not None
                killed += _catalog(tmp_path).awaits_tables
                process.kill()
                assert process.stderr is not None
                assert not is_dead, process.stderr.read()
        server.say("ALTER PUBLICATION p SET TABLE plain, long, bag, pair")
        _mirrored(server, tmp_path)
    _mirrored(server, tmp_path)
    assert killed > 3
    assert _catalog(tmp_path).joining == ()
    if layout == "mirror":
        assert different(server, LocalStore(tmp_path / "lake")) == []
        return
    with server.connect() as connection:
        for name in KEYS:
            table = read_table(tmp_path / f"lake/public.{name}")
            current = table.filter(pc.is_null(table["valid_to_lsn"]))
            columns = connection.execute(f"SELECT * FROM {name}".encode()).description or ()
            rows = current.select([column.name for column in columns])
            found = compare_rows(connection, name, rows, KEYS[name])
            assert found.equal, found


def test_another_one_is_altered_for_long(server: Server, tmp_path: Path) -> None:
    """Whose publications the server tells nobody before that is over, by a transaction that began behind those that are waited for."""
    _table(server, "a", "b", "c")
    server.say("CREATE PUBLICATION p FOR TABLE a")
    _mirrored(server, tmp_path)
    with _following(server, tmp_path) as process, server.connect() as older, server.connect() as other:
        older.execute("BEGIN; INSERT INTO c VALUES (100, 'older')")
        server.say("ALTER PUBLICATION p ADD TABLE b")
        until(lambda: process.poll() is not None or bool(_catalog(tmp_path).joining))
        time.sleep(2)
        other.execute("BEGIN; ALTER TABLE a ADD more int DEFAULT 3")
        older.execute("COMMIT")
        time.sleep(3)
        assert process.poll() is None
        assert _catalog(tmp_path).joining
        other.execute("COMMIT")
        _await_lake(server, tmp_path, process)
    _verify(server, tmp_path)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_maintained_where_a_run_died_that_filled_it_anew(server: Server, tmp_path: Path, format: str) -> None:
    """A version that gathers files is not taken for a copy that was never made, though the table's last commit of ours was a copy's, and another
    table was filled anew."""
    names = ("a", "b", "t")
    server.say(
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, v text)" for name in names), "INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)",
        "INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 2000) g", "CREATE PUBLICATION p FOR TABLE a, b, t",
    )  # fmt: skip
    _mirrored(server, tmp_path, "--format", format)
    known = {table.name: table.version for table in _catalog(tmp_path).tables.values()}
    server.say("UPDATE t SET v = 'new' WHERE id <= 10", "DELETE FROM t WHERE id = 20")
    again = [word for name in reversed(names) for word in ("--copy-again", f"public.{name}")]
    words = [TAILRACE, *_words(server, tmp_path, *again, "--copy-rate", "200kB/s")]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        until(lambda: process.poll() is not None or _version_of(tmp_path, "b") > known["b"])
        assert process.poll() is None
        process.kill()
    assert _version_of(tmp_path, "t") == known["t"]
    lake = Lake.open(LocalStore(tmp_path / "lake"))
    [table] = [each for each in _catalog(tmp_path).tables.values() if each.name == "t"]
    lake.opened(table).commit("t", FileChanges(), CommitNote())  # as `lake maintain` does, of files that are moved
    _mirrored(server, tmp_path)
    _verify(server, tmp_path)


def _version_of(home: Path, name: str) -> int:
    lake = Lake.open(LocalStore(home / "lake"))
    return next(lake.opened(each).version for each in _catalog(home).tables.values() if each.name == name)


@pytest.mark.soak
def test_one_joins_while_others_are_copied_first(server: Server, tmp_path: Path) -> None:
    """And one that was copied already is removed and added again. The run that copies is killed."""
    _table(server, "a", "c")
    server.say(
        "CREATE TABLE b (id int PRIMARY KEY, v text)", "INSERT INTO b SELECT g, repeat(md5(g::text), 20) FROM generate_series(1, 20000) g",
        "CREATE PUBLICATION p FOR TABLE a, b",
    )  # fmt: skip
    words = [TAILRACE, *_words(server, tmp_path, "--copy-rate", "500kB/s")]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        until(lambda: process.poll() is not None or ((tmp_path / "lake").exists() and _has_copied(tmp_path, "a")))
        server.say("ALTER PUBLICATION p DROP TABLE a", "UPDATE a SET v = 'unnoticed' WHERE id = 1", "DELETE FROM a WHERE id = 2")
        server.say("ALTER PUBLICATION p ADD TABLE a, c", "INSERT INTO a VALUES (9, 'new')", "INSERT INTO c VALUES (9, 'new')")
        assert process.poll() is None
        process.kill()
    server.say("UPDATE b SET v = 'changed' WHERE id < 10")
    _mirrored(server, tmp_path)
    server.say("UPDATE c SET v = 'streamed' WHERE id = 1")
    _mirrored(server, tmp_path)
    _verify(server, tmp_path)
    assert [row["id"] for row in _rows(tmp_path, "a")] == [1, 3, 9]
    assert len(_rows(tmp_path, "c")) == 4


def _has_copied(home: Path, name: str) -> bool:
    catalog = StoredCatalog.read(LocalStore(home / "lake")).catalog
    return catalog is not None and any(each.name == name and each.copied for each in catalog.tables.values())


def test_which_tables_join(server: Server, tmp_path: Path) -> None:
    """Those of which more is published than was, by whatever means; and no others."""
    _table(server, "a", "b", "c", "d", "e", "f", "g")
    server.say(
        "CREATE SCHEMA s", "CREATE UNLOGGED TABLE u (id int PRIMARY KEY)", "INSERT INTO u VALUES (1)",
        "CREATE PUBLICATION p FOR TABLE a, b WHERE (id > 1), c (id), d, e", "CREATE PUBLICATION q FOR TABLES IN SCHEMA s",
    )  # fmt: skip
    both = ("--publication", "q")
    _mirrored(server, tmp_path, *both)
    server.say(
        "ALTER PUBLICATION p SET TABLE a, b WHERE (id > 2), c (id, v), d, e, f",  # another filter, more columns, a table
        "ALTER TABLE g SET SCHEMA s",
        "ALTER PUBLICATION p DROP TABLE d", "DELETE FROM d WHERE id = 1", "INSERT INTO d VALUES (9, 'unnoticed')", "ALTER PUBLICATION p ADD TABLE d",
        "ALTER PUBLICATION p DROP TABLE e",
        "CREATE TABLE s.new (id int PRIMARY KEY)", "INSERT INTO s.new VALUES (1)",  # published from its first row on
        "ALTER TABLE u SET SCHEMA s", "ALTER TABLE s.u SET LOGGED",
        "BEGIN; CREATE TABLE h (id int PRIMARY KEY); INSERT INTO h VALUES (1); ALTER PUBLICATION p ADD TABLE h; INSERT INTO h VALUES (2); COMMIT",
        "INSERT INTO a VALUES (4, 'streamed')", "UPDATE f SET v = 'changed' WHERE id = 2",
    )  # fmt: skip
    assert _copied(server, tmp_path, *both) == {"b", "c", "d", "f", "h", "s.g", "s.u"}
    published = [word for name in ("a", "b", "c", "d", "f", "h", "s.g", "s.new", "s.u") for word in ("--table", name)]
    _verify(server, tmp_path, *published)
    assert len(_rows(tmp_path, "e")) == 3, "what is not published any more stays"
    assert [row["id"] for row in _rows(tmp_path, "d")] == [2, 3, 9]
    assert [row["id"] for row in _rows(tmp_path, "h")] == [1, 2]
    server.say("INSERT INTO f VALUES (4, 'streamed')", "ALTER PUBLICATION p SET (publish = 'insert, update, delete')")
    assert _copied(server, tmp_path, *both) == set()
    _verify(server, tmp_path, *published)


def test_partitions_join(server: Server, tmp_path: Path) -> None:
    """One that is attached and published as itself, a table that is published as a whole from now on, and one that is made with its rows."""
    server.say(
        "CREATE TABLE w (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)", "CREATE TABLE w1 PARTITION OF w FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE w2 (LIKE w)", "INSERT INTO w VALUES (1, 'one')", "INSERT INTO w2 VALUES (11, 'eleven')", "CREATE PUBLICATION p FOR TABLE w",
    )  # fmt: skip
    _mirrored(server, tmp_path)
    server.say(
        "ALTER TABLE w ATTACH PARTITION w2 FOR VALUES FROM (10) TO (20)",
        "CREATE TABLE w3 PARTITION OF w FOR VALUES FROM (20) TO (30)", "INSERT INTO w VALUES (21, 'streamed')",
        "BEGIN; CREATE TABLE w4 (LIKE w); INSERT INTO w4 VALUES (31, ''); ALTER TABLE w ATTACH PARTITION w4 FOR VALUES FROM (30) TO (40); COMMIT",
    )  # fmt: skip
    assert _copied(server, tmp_path) == {"w2", "w4"}
    _verify(server, tmp_path)
    server.say("ALTER PUBLICATION p SET (publish_via_partition_root = true)", "INSERT INTO w VALUES (12, 'as a whole')")
    assert _copied(server, tmp_path) == {"w"}
    assert [row["id"] for row in _rows(tmp_path, "w")] == [1, 11, 12, 21, 31]
    server.say(
        "CREATE TABLE w5 (LIKE w)", "INSERT INTO w5 VALUES (41, 'attached')", "ALTER TABLE w ATTACH PARTITION w5 FOR VALUES FROM (40) TO (50)",
        "ALTER TABLE w DETACH PARTITION w3", "CREATE TABLE w6 PARTITION OF w FOR VALUES FROM (50) TO (60)", "DROP TABLE w1",
    )  # fmt: skip
    said = _mirrored(server, tmp_path)
    assert [line.split(" is ")[0].partition(", which")[0] for line in said.splitlines() if "published as a whole" in line] == [
        "tailrace: warning: partition public.w1 left table public.w",
        "tailrace: warning: partition public.w3 left table public.w",
        "tailrace: warning: partition public.w5 became one of table public.w",
    ]
    done = ran("verify", server.dsn(), "--database", server.dbname, "--to", tmp_path / "lake", "--table", "w", "--repair")
    assert "3 rows were repaired" in done.stdout, done.stdout + done.stderr
    assert "partition" not in _mirrored(server, tmp_path)
    server.say("ALTER PUBLICATION p SET (publish_via_partition_root = false)", "INSERT INTO w VALUES (13, 'as its parts')")
    assert _copied(server, tmp_path) == {"w2", "w4", "w5", "w6"}
    assert [row["id"] for row in _rows(tmp_path, "w2")] == [11, 12, 13]


def test_publications_are_made_later(server: Server, tmp_path: Path) -> None:
    """Since 18 a publication may be missing: all its tables join."""
    _table(server, "a")
    _mirrored(server, tmp_path)
    server.say("CREATE PUBLICATION p FOR ALL TABLES", "INSERT INTO a VALUES (4, 'streamed')")
    _table(server, "b")
    assert _copied(server, tmp_path) == {"a"}
    _verify(server, tmp_path)


@pytest.mark.parametrize(
    ("layout", "format"),
    some_of(
        [
            pytest.param(layout, format, id=f"{layout}-{format}")
            for layout, formats in (("changes", ("delta", "iceberg")), ("history", ("iceberg", "delta")))
            for format in formats
        ],
        2,
    ),
)
def test_layouts(server: Server, tmp_path: Path, layout: str, format: str) -> None:
    """A table that is published again goes on from what the lake has of it."""
    _table(server, "a", "b")
    server.say("CREATE PUBLICATION p FOR TABLE a")
    options = ("--layout", layout, "--format", format)
    _mirrored(server, tmp_path, *options)
    server.say(
        "ALTER PUBLICATION p DROP TABLE a", "DELETE FROM a WHERE id = 1", "UPDATE a SET v = 'unnoticed' WHERE id = 2",
        "ALTER PUBLICATION p ADD TABLE a, b",
    )  # fmt: skip
    said = _mirrored(server, tmp_path, *options)
    assert "table public.a is published as it is now since" in said
    assert "public.b" not in said
    server.say("UPDATE a SET v = 'streamed' WHERE id = 3")
    _mirrored(server, tmp_path, *options)
    rows = read_table(tmp_path / "lake/public.a")
    if layout == "changes":
        rows = rows.sort_by([(name, "ascending") for name in ("commit_lsn", "lsn", "sequence")])
        assert [(row["kind"], row["new"]["id"], row["new"]["v"]) for row in rows.to_pylist()] == [
            *(("insert", number, "of before") for number in (1, 2, 3)),
            ("insert", 3, "of before"), ("insert", 2, "unnoticed"), ("update", 3, "streamed"),
        ]  # fmt: skip
        return
    ended = [(row["id"], row["v"]) for row in rows.to_pylist() if row["valid_to"] is not None]
    current = [(row["id"], row["v"]) for row in rows.to_pylist() if row["valid_to"] is None]
    assert sorted(current) == [(2, "unnoticed"), (3, "streamed")]
    assert sorted(ended) == [(1, "of before"), (2, "of before"), (3, "of before"), (3, "of before")]
    assert len(_rows(tmp_path, "b")) == 3


def test_nobody_copies(server: Server, tmp_path: Path) -> None:
    """Without copies, and of files, it is told which rows are missing, once."""
    _table(server, "a", "b")
    server.say("CREATE PUBLICATION p FOR TABLE a")
    _mirrored(server, tmp_path, "--no-copy")
    server.say("ALTER PUBLICATION p ADD TABLE b", "INSERT INTO b VALUES (4, 'streamed')")
    said = _mirrored(server, tmp_path, "--no-copy")
    assert said.count("table public.b is published as it is now only since ") == 1
    assert "published as it is now" not in _mirrored(server, tmp_path, "--no-copy")
    assert _rows(tmp_path, "b") == [{"id": 4, "v": "streamed"}]


def test_a_lake_of_files(server: Server, tmp_path: Path) -> None:
    _table(server, "a", "b")
    server.say("CREATE PUBLICATION p FOR TABLE a")
    words = [str(server.data_dir) if word == server.dsn() else word for word in _words(server, tmp_path)]
    ran(*words).check_returncode()
    server.say("ALTER PUBLICATION p ADD TABLE b", "INSERT INTO b VALUES (4, 'streamed')")
    done = ran(*words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("table public.b is published as it is now only since ") == 1
    assert _rows(tmp_path, "b") == [{"id": 4, "v": "streamed"}]


def test_copied_again(server: Server, tmp_path: Path) -> None:
    """What somebody names, be it a table of which the lake has nothing."""
    _table(server, "a", "b")
    server.say("CREATE PUBLICATION p FOR TABLE a")
    _mirrored(server, tmp_path)
    server.say("ALTER PUBLICATION p ADD TABLE b", "DELETE FROM a WHERE id = 3")
    _mirrored(server, tmp_path, "--no-copy")
    assert not (tmp_path / "lake/public.b").exists()
    assert _copied(server, tmp_path, "--copy-again", "b", "--copy-again", "public.a") == {"a", "b"}
    server.say("UPDATE b SET v = 'streamed' WHERE id = 2", "CREATE TABLE c (id int)")
    _mirrored(server, tmp_path)
    _verify(server, tmp_path)
    assert "table public.c is not published, and was not copied" in _mirrored(server, tmp_path, "--copy-again", "c")
    for more, message in (
        (("--copy-again", "d"), 'relation "d" does not exist'),
        (("--copy-again", "a", "--no-copy"), "--no-copy"),
    ):
        done = ran(*_words(server, tmp_path, *more))
        assert (done.returncode, message in done.stderr) == (1, True), done.stderr
    _verify(server, tmp_path)


def test_a_copy_takes_the_place_of_changes_that_do_not_fit(server: Server, tmp_path: Path) -> None:
    """A type is changed, and no row written anew, as PostgreSQL needs none: where the table was there before, and where it was made since."""
    server.say("CREATE PUBLICATION p FOR ALL TABLES", "CREATE TABLE old (id int PRIMARY KEY, at timestamptz)")
    server.say("INSERT INTO old VALUES (1, now())")
    _mirrored(server, tmp_path)
    server.say(
        "CREATE TABLE new (id int PRIMARY KEY, at timestamptz)", "INSERT INTO new VALUES (1, now())",
        *(f"SET TimeZone = 'UTC'; ALTER TABLE {name} ALTER at TYPE timestamp; INSERT INTO {name} VALUES (2, now())" for name in ("old", "new")),
    )  # fmt: skip
    done = ran(*_words(server, tmp_path))
    assert done.returncode == 1
    assert "cannot read values of type timestamp[us, tz=UTC]" in done.stderr
    assert "--copy-again" in done.stderr
    assert _copied(server, tmp_path, "--copy-again", "old", "--copy-again", "new") == {"old", "new"}
    server.say("UPDATE old SET at = at + interval '1 day'", "INSERT INTO new VALUES (3, now())")
    _mirrored(server, tmp_path)
    _verify(server, tmp_path)


@pytest.mark.parametrize("lacks", ["table", *(pytest.param(each, marks=pytest.mark.soak) for each in ("schema", "rows"))])
def test_who_may_not_read_one_goes_on_with_the_others(server: Server, reader: str, tmp_path: Path, lacks: str) -> None:
    """The table waits for the right, which is named once, and has all its rows then."""
    server.say(
        "CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)", f"GRANT SELECT ON a TO {reader}",
        "CREATE SCHEMA other", "CREATE TABLE other.b (id int PRIMARY KEY)", "INSERT INTO other.b SELECT generate_series(1, 100)",
        "CREATE PUBLICATION p FOR TABLE a",
    )  # fmt: skip
    grants = {
        "schema": f"GRANT USAGE ON SCHEMA other TO {reader}", "table": f"GRANT SELECT ON other.b TO {reader}",
        "rows": f"ALTER ROLE {reader} BYPASSRLS",
    }  # fmt: skip
    refusals = {
        "schema": "permission denied for schema other", "table": "permission denied for table b",
        "rows": 'query would be affected by row-level security policy for table "b"',
    }  # fmt: skip
    server.say("ALTER TABLE other.b ENABLE ROW LEVEL SECURITY", *(grant for name, grant in grants.items() if name != lacks))
    words = [each.replace("user=postgres", f"user={reader}") for each in _words(server, tmp_path, "--follow", "--every", "0.3s")]
    with subprocess.Popen([TAILRACE, *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            said = _let_in_late(server, tmp_path, process, grants[lacks])
        finally:
            process.kill()
    assert process.returncode == 0, said
    assert said.count(refusals[lacks]) == 1, said
    assert {row["id"] for row in read_table(tmp_path / "lake/other.b").to_pylist()} == {
        *range(1, 7),
        *range(8, 102),
        *range(103, 107),
    }
    _verify(server, tmp_path)


@pytest.mark.soak
def test_two_runs_and_a_refused_table(server: Server, reader: str, tmp_path: Path) -> None:
    """Both go on while it waits, and with it once all is copied anew: a run that copies nothing writes nothing about it."""
    server.say(
        "CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO b VALUES (1)", f"GRANT SELECT ON a TO {reader}",
        "CREATE PUBLICATION p FOR TABLE a",
    )  # fmt: skip
    words = [each.replace("user=postgres", f"user={reader}") for each in _words(server, tmp_path, "--follow", "--every", "0.3s")]
    other = [str(tmp_path / "other") if each == str(tmp_path / "state") else each for each in words]

    def confirmed(state: str) -> Lsn:
        (slot,) = SlotLocation.open(tmp_path / state).slots()
        return slot.confirmed_flush_lsn

    with ExitStack() as both:
        first, second = (
            both.enter_context(subprocess.Popen([TAILRACE, *each], stderr=subprocess.PIPE, text=True)) for each in (words, other)
        )
        both.callback(first.kill)
        both.callback(second.kill)
        until(lambda: (tmp_path / "lake/public.a/_delta_log").exists() and (tmp_path / "other").exists())
        _await_lake(server, tmp_path, first)
        server.say("ALTER PUBLICATION p ADD TABLE b")
        for number in range(1, 20):
            server.say(f"BEGIN; INSERT INTO a VALUES ({number}); SELECT pg_sleep(0.7); COMMIT")
        upto = Lsn.parse(server.flush_lsn())
        server.say("INSERT INTO a VALUES (20)")
        until(lambda: confirmed("state") >= upto and confirmed("other") >= upto)
        assert (first.poll(), second.poll()) == (None, None)
    with subprocess.Popen([TAILRACE, *words, "--resync"], stderr=subprocess.PIPE, text=True) as again:
        try:
            server.say("INSERT INTO a VALUES (21)")
            until(partial(_has, again, tmp_path, 21))
            assert again.poll() is None
            server.say(f"GRANT SELECT ON b TO {reader}")
            _await_lake(server, tmp_path, again)
            again.terminate()
            said = again.communicate(timeout=60)[1]
        finally:
            again.kill()
    assert again.returncode == 0, said
    _verify(server, tmp_path)


def test_refused_while_it_is_copied(server: Server, reader: str, tmp_path: Path) -> None:
    """A REVOKE that comes between, and one for a table that was let in before: each is told, and nobody else is held up."""
    server.say(
        "CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY, v text)", "CREATE TABLE c (id int PRIMARY KEY)",
        "INSERT INTO b SELECT g, repeat('x', 1000) FROM generate_series(1, 3000) g", "INSERT INTO c VALUES (1)",
        f"GRANT SELECT ON a, b, c TO {reader}", "CREATE PUBLICATION p FOR TABLE a",
    )  # fmt: skip
    more = ("--follow", "--every", "0.3s", "--copy-rate", "500kB/s")
    words = [each.replace("user=postgres", f"user={reader}") for each in _words(server, tmp_path, *more)]
    said = ""
    with subprocess.Popen([TAILRACE, *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: process.poll() is not None or (tmp_path / "lake/public.a/_delta_log").exists())
            _await_lake(server, tmp_path, process)
            server.say("ALTER PUBLICATION p ADD TABLE b", "ALTER PUBLICATION p ADD TABLE c")
            until(lambda: process.poll() is not None or len(_catalog(tmp_path).joining) == 2)
            time.sleep(1)
            server.say(f"REVOKE SELECT ON b, c FROM {reader}", "INSERT INTO a VALUES (1)")
            until(partial(_has, process, tmp_path, 1))
            server.say(f"GRANT SELECT ON b, c TO {reader}")
            _await_lake(server, tmp_path, process)
            for number in (2, 3):
                server.say(
                    "ALTER PUBLICATION p DROP TABLE c", f"REVOKE SELECT ON c FROM {reader}", f"INSERT INTO c VALUES ({number})"
                )
                server.say("ALTER PUBLICATION p ADD TABLE c", f"INSERT INTO a VALUES ({number})")
                until(partial(_has, process, tmp_path, number))
                until(lambda: process.poll() is not None or bool(_catalog(tmp_path).joining))
                time.sleep(1)
                server.say(f"GRANT SELECT ON c TO {reader}")
                _await_lake(server, tmp_path, process)
            process.terminate()
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, said
    assert said.count("table public.c joins the lake once it may be read") >= 2, said
    _verify(server, tmp_path)


def _let_in_late(server: Server, home: Path, process: subprocess.Popen[str], grant: str) -> str:
    """What it said, who has table a alone for longer than until it tries again to read b."""
    until(lambda: process.poll() is not None or (home / "lake/public.a/_delta_log").exists())
    _await_lake(server, home, process)
    server.say("ALTER PUBLICATION p ADD TABLE other.b", "INSERT INTO a VALUES (2)", "INSERT INTO other.b VALUES (101)")
    for number in range(3, 7):
        server.say(f"INSERT INTO a VALUES ({number})", f"INSERT INTO other.b VALUES (100 + {number})")
        until(partial(_has, process, home, number))
        time.sleep(2)
    assert process.poll() is None
    assert not (home / "lake/other.b").exists()
    server.say(grant, "DELETE FROM other.b WHERE id = 7")
    _await_lake(server, home, process)
    process.terminate()
    return process.communicate(timeout=60)[1]
