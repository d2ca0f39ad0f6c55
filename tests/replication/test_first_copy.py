"""A lake of a live server has the rows that were there before it: the copy and the log meet without a gap and without an overlap."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lake.test_mirror import TYPES
from support.builds import find_build
from support.command import ran
from support.forked import forked
from support.own_database import servers_with_databases
from support.sampling import some_of
from support.servers import Server
from support.slots import TAILRACE
from support.storm import begin, different, storm
from support.waiting import until
from tailrace.cli.mirror import copy_in_words
from tailrace.lake.catalog import StoredCatalog
from tailrace.lake.lake import Lake
from tailrace.lake.quarantine import Quarantine
from tailrace.lake.reading import read_table
from tailrace.lake.replay import replay
from tailrace.lake.table_copy import CopyProgress
from tailrace.storage.local_store import LocalStore

pytestmark = pytest.mark.postgres
SETTINGS = {"wal_keep_size": "500MB", "max_prepared_transactions": "10"}


running, server = servers_with_databases(SETTINGS)


def _words(server: Server, home: Path, *more: str, dsn: str = "") -> list[str]:
    where = ("--database", server.dbname, "--to", home / "lake", "--state", home / "state")
    return list(map(str, ("mirror", dsn or server.dsn(), *where, *more)))


def _mirrored(server: Server, home: Path, *more: str, dsn: str = "") -> str:
    """What it printed."""
    done = ran(*_words(server, home, *more, dsn=dsn))
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def _rows(home: Path, name: str) -> list[dict[str, Any]]:
    rows = read_table(home / "lake" / f"public.{name}")
    names = [each.name for each in rows.schema if pa.types.is_date32(each.type) or pa.types.is_timestamp(each.type)]
    for each in () if "valid_to" in names or "commit_timestamp" in names else names:  # Python has not all of them
        kind = pa.int32() if pa.types.is_date32(rows.schema.field(each).type) else pa.int64()
        rows = rows.set_column(rows.schema.get_field_index(each), each, rows[each].cast(kind))
    return sorted(rows.to_pylist(), key=str)


@pytest.mark.parametrize("seed", some_of([pytest.param(seed, id=str(seed)) for seed in range(20)], 20))
def test_under_a_storm(server: Server, tmp_path: Path, seed: int) -> None:
    _under_a_storm(server, tmp_path, seed)


def _under_a_storm(server: Server, tmp_path: Path, seed: int) -> None:
    """Of DDL, TRUNCATE, savepoints, prepared transactions and key moves. By turns the server copies, and we read its pages."""
    begin(server)
    with storm(server, seed, dwell=0.1):
        time.sleep(0.3)
        _mirrored(server, tmp_path, "--copy-strategy", ("rows", "pages")[seed % 2])
    _mirrored(server, tmp_path)
    assert different(server, LocalStore(tmp_path / "lake")) == []


@pytest.mark.matrix
@pytest.mark.parametrize(("major", "seed"), [(major, seed) for major in (14, 15, 16, 17) for seed in range(20)])
def test_every_major(major: int, seed: int, tmp_path: Path) -> None:
    find_build(major)
    with Server(major, SETTINGS, test_decoding=False, dbname="app", checksums=True) as server:
        _under_a_storm(server, tmp_path, seed)


@pytest.mark.parametrize("strategy", ["rows", "pages"])
def test_what_is_copied_is_as_what_is_streamed(server: Server, tmp_path: Path, strategy: str) -> None:
    """Of every type."""
    script = [each for each in TYPES.split(";\n") if each.strip()]
    more = (
        'CREATE TABLE odd (id int PRIMARY KEY, c char(7), v varchar, n name, q "char", b bit varying, nu numeric, nn numeric(9,2)[],'
        " cs couple[], ms mood[], rc regclass, it interval[], ip inet, cd cidr, tz timetz, g int GENERATED ALWAYS AS (id * 2) STORED, bo boolean[])"
    )
    values = (
        "({}, 'ab ', 'c', 'nm', 'q', '101', 1e-20, '{{1.25,NULL}}', '{{\"(1,x)\",NULL}}', '{{good,bad}}', 'kinds', '{{1 day}}', '10.0.0.1',"
        " '10.0.0.0/8', '01:02+03', DEFAULT, '{{t,NULL}}'), ({}, {})"
    )
    nothing = ", ".join(["NULL"] * 14 + ["DEFAULT", "NULL"])
    server.say(*script, more, f"INSERT INTO odd VALUES {values.format(1, 2, nothing)}")
    _mirrored(server, tmp_path, "--copy-strategy", strategy)
    renumbered = (("(1,", "(11,"), ("    1, '1 month", "    11, '1 month"), ("(id) VALUES (2)", "(id) VALUES (12)"))
    again = list(script)
    for old, new in renumbered:
        again = [each.replace(old, new) for each in again]
    server.say(*(each for each in again if "INSERT" in each), f"INSERT INTO odd VALUES {values.format(11, 12, nothing)}")
    _mirrored(server, tmp_path)
    for name in ("kinds", "odd"):
        by_id = {row.pop("id"): row for row in _rows(tmp_path, name)}
        assert by_id.keys() == {1, 2, 11, 12}
        for copied, streamed in ((1, 11), (2, 12)):
            ours, theirs = (
                {k: str(v).replace("(11,", "(1,") for k, v in by_id[each].items() if k != "g"} for each in (copied, streamed)
            )
            assert ours == theirs
            assert by_id[copied].get("g") in (None, 2 * copied)


def test_what_is_published(server: Server, tmp_path: Path) -> None:
    """The rows and columns that a subscriber copies."""
    begin(server)
    server.say(
        "CREATE PUBLICATION p FOR TABLE plain (id, v) WHERE (id > 100), bag WHERE (v = 1)",
        "INSERT INTO bag VALUES (1, 'x'), (2, 'y')",
    )
    _mirrored(server, tmp_path, "--publication", "p")
    with server.connect() as connection:
        assert [tuple(row.values()) for row in _rows(tmp_path, "plain")] == sorted(
            connection.execute("SELECT id, v FROM plain WHERE id > 100").fetchall(),
            key=lambda row: str(dict(zip(("id", "v"), row, strict=True))),
        )
    assert {row["v"] for row in _rows(tmp_path, "bag")} == {1}
    assert not (tmp_path / "lake/public.pair").exists()


def test_what_is_published_as_a_whole(server: Server, tmp_path: Path) -> None:
    """A partitioned table with the rows of all its partitions, whose columns lie otherwise; of tables that inherit each its own."""
    server.say(
        "CREATE TABLE p (id int, v text, secret text, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000)",
        "CREATE TABLE p2 (secret text, gone int, v text, id int NOT NULL)", "ALTER TABLE p2 DROP gone",
        "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (1000) TO (4000)",
        "CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (4000) TO (9000) PARTITION BY LIST (id)",
        "CREATE TABLE p31 PARTITION OF p3 DEFAULT",
        "CREATE TABLE parent (id int PRIMARY KEY)", "CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent)",
        "INSERT INTO p SELECT g, repeat('x', g), 'no' FROM generate_series(0, 4999) g",
        "INSERT INTO parent VALUES (1)", "INSERT INTO child VALUES (2)",
        "CREATE PUBLICATION one FOR TABLE p (id, v) WHERE (id % 3 = 0), parent WITH (publish_via_partition_root = true)",
        "CREATE PUBLICATION other FOR TABLE p (id, v) WHERE (id < 10), child WITH (publish_via_partition_root = true)",
    )  # fmt: skip
    names = ("--publication", "one,other")
    _mirrored(server, tmp_path, *names)
    server.say(
        "INSERT INTO p VALUES (6000, 'new', '')",
        "UPDATE p SET v = 'moved', id = 6003 WHERE id = 3",
        "DELETE FROM p WHERE id = 4998",
    )
    _mirrored(server, tmp_path, *names)
    query = "SELECT id, v FROM p WHERE id % 3 = 0 OR id < 10 ORDER BY id"
    with server.connect() as connection:
        assert sorted((row["id"], row["v"]) for row in _rows(tmp_path, "p")) == connection.execute(query).fetchall()
    assert (_rows(tmp_path, "parent"), _rows(tmp_path, "child")) == ([{"id": 1}], [{"id": 2}])
    assert not any((tmp_path / f"lake/public.{name}").exists() for name in ("p1", "p2", "p3", "p31"))


def test_a_checkpoint_for_what_is_published_alone(server: Server, tmp_path: Path) -> None:
    """Of other tables no page is read, however large they are."""
    server.say(
        "CREATE TABLE other (id int PRIMARY KEY)", "INSERT INTO other VALUES (1)",
        "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)", "CREATE TABLE p1 PARTITION OF p DEFAULT", "INSERT INTO p VALUES (1)",
        "CREATE PUBLICATION p FOR TABLE p WITH (publish_via_partition_root = true)", "CREATE PUBLICATION o FOR TABLE other",
    )  # fmt: skip
    checkpoints = "SELECT checkpoint_lsn FROM pg_control_checkpoint()"
    for name, makes_one in (("p", False), ("o", True)):
        home, before = tmp_path / name, server.value(checkpoints)
        home.mkdir()
        _mirrored(server, home, "--publication", name, "--copy-strategy", "pages")
        assert (server.value(checkpoints) != before) == makes_one


def test_what_any_publication_lets_pass(server: Server, tmp_path: Path) -> None:
    """All rows where one has no filter."""
    server.say(
        "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 9)",
        "CREATE PUBLICATION few FOR TABLE t WHERE (id < 3)", "CREATE PUBLICATION more FOR TABLE t WHERE (id > 7)",
        "CREATE PUBLICATION every FOR TABLE t WITH (publish = 'delete')",
    )  # fmt: skip
    for names, ids in (("few", {1, 2}), ("few,more", {1, 2, 8, 9}), ("few,every", set(range(1, 10)))):
        home = tmp_path / names
        home.mkdir()
        _mirrored(server, home, "--publication", names)
        assert {row["id"] for row in _rows(home, "t")} == ids


@pytest.mark.parametrize(
    "layout", ["mirror", *(pytest.param(each, marks=pytest.mark.marathon) for each in ("changes", "history"))]
)
def test_rows_that_cannot_be_applied(server: Server, tmp_path: Path, layout: str) -> None:
    """They go into quarantine, the others are copied, and a replay brings them once they are put right."""
    server.say(
        "CREATE TABLE t (id int PRIMARY KEY, n numeric(9,2), ip inet, at date)",
        "INSERT INTO t SELECT g, CASE WHEN g % 100 = 7 THEN 'NaN' ELSE g / 4.0 END, '10.0.0.1', '2020-01-01' FROM generate_series(1, 1000) g",
    )
    options = ("--layout", layout, "--on-error")
    refused = ran(*_words(server, tmp_path, *options, "stop"))
    assert (refused.returncode, 'table public.t, column "n"' in refused.stderr) == (1, True), refused.stderr
    said = _mirrored(server, tmp_path, *options, "quarantine")
    assert "10 changes of table public.t went into quarantine" in said
    store = LocalStore(tmp_path / "lake")
    quarantine = Quarantine.of(store)
    assert list(quarantine.counts().values()) == [10]
    assert read_table(tmp_path / "lake/public.t").num_rows == 990
    kept = pa.concat_tables(quarantine.rows())
    assert sorted(int(json.loads(each)["id"]) for each in kept["new"].to_pylist()) == [7 + 100 * n for n in range(10)]
    assert {json.loads(each)["ip"] for each in kept["new"].to_pylist()} == {"10.0.0.1"}
    if layout != "mirror":
        return
    server.say(
        "UPDATE t SET n = 0 WHERE n = 'NaN' AND id < 800", "DELETE FROM t WHERE id = 907", "INSERT INTO t VALUES (2000, 'NaN')"
    )
    _mirrored(server, tmp_path, *options, "quarantine")
    replayed = replay(Lake.open(store))
    assert [(each.needless, each.left) for each in replayed] == [(9, 2)]
    with server.connect() as connection:
        rows = connection.execute("SELECT id, n FROM t WHERE n <> 'NaN' ORDER BY id::text").fetchall()
    assert [(row["id"], row["n"]) for row in sorted(_rows(tmp_path, "t"), key=lambda row: str(row["id"]))] == rows


@pytest.mark.parametrize("layout", ["changes", "history"])
def test_layouts(server: Server, tmp_path: Path, layout: str) -> None:
    server.say("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    _mirrored(server, tmp_path, "--layout", layout)
    server.say("UPDATE t SET v = 'c' WHERE id = 1")
    _mirrored(server, tmp_path)
    rows = _rows(tmp_path, "t")
    if layout == "changes":
        assert sorted(row["kind"] for row in rows) == ["insert", "insert", "update"]
        assert all(row["commit_timestamp"] is not None for row in rows)
    else:
        assert sorted((row["id"], row["v"], row["valid_to"] is None) for row in rows) == [
            (1, "a", False),
            (1, "c", True),
            (2, "b", True),
        ]


def test_rows_of_before_may_be_left_out(server: Server, tmp_path: Path) -> None:
    server.say("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    assert "rows that were written before" not in _mirrored(server, tmp_path, "--no-copy")
    server.say("INSERT INTO t VALUES (2)")
    assert "rows that were written before" in _mirrored(server, tmp_path, "--no-copy")
    assert _rows(tmp_path, "t") == [{"id": 2}]


@pytest.mark.soak
def test_who_is_waited_for(server: Server, tmp_path: Path) -> None:
    """A transaction that began before the log is received, and is told; a table that somebody alters meanwhile."""
    server.say("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    _mirrored(server, tmp_path / "first")  # its slot begins behind all others
    with server.connect() as other, subprocess.Popen(
        [TAILRACE, *_words(server, tmp_path, "--follow")], stderr=subprocess.PIPE, text=True
    ) as process:  # fmt: skip
        until(lambda: StoredCatalog.read(LocalStore(tmp_path / "lake")).catalog is not None or process.poll() is not None)
        other.execute("BEGIN; LOCK TABLE t; INSERT INTO t VALUES (2)")
        time.sleep(2)
        catalog = StoredCatalog.read(LocalStore(tmp_path / "lake")).catalog
        assert catalog is not None
        other.execute("ALTER TABLE t ADD v int DEFAULT 7; COMMIT")
        until(lambda: not _awaits(tmp_path))
        server.say("INSERT INTO t VALUES (3)")
        until(lambda: len(_rows(tmp_path, "t")) == 3)
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        said = process.stderr.read()
    assert process.returncode == 0, said
    assert _rows(tmp_path, "t") == [{"id": 1, "v": 7}, {"id": 2, "v": 7}, {"id": 3, "v": 7}]


@pytest.mark.soak
def test_a_transaction_that_is_open_since_before_the_checkpoint(server: Server, tmp_path: Path) -> None:
    """The log that is received does not have its beginning: the slot begins behind its end."""
    server.say("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    with server.connect() as other:
        other.execute("BEGIN; INSERT INTO t VALUES (2)")
        server.switch_wal()  # what is received begins with a segment
        server.say("INSERT INTO t VALUES (3)", "CHECKPOINT")
        with subprocess.Popen([TAILRACE, *_words(server, tmp_path)], stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            told = next((line for line in process.stderr if "waiting for transactions" in line), "")
            assert "waiting for transactions to end whose beginning is not in the log" in told
            other.execute("COMMIT")
            said = process.stderr.read()
    assert process.returncode == 0, said
    assert _rows(tmp_path, "t") == [{"id": 1}, {"id": 2}, {"id": 3}]


def _awaits(home: Path) -> bool:
    catalog = StoredCatalog.read(LocalStore(home / "lake")).catalog
    return catalog is None or catalog.awaits_copy


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kills", [pytest.param(12, marks=pytest.mark.soak), pytest.param(100, marks=pytest.mark.marathon)])
def test_killed_while_it_copies(server: Server, tmp_path: Path, kills: int) -> None:
    """The next run begins anew; what there is of before counts for nothing."""
    begin(server)
    server.say(
        "CREATE TABLE wide (id int PRIMARY KEY, v text)",
        "INSERT INTO wide SELECT n, repeat('x', 1000) FROM generate_series(1, 30000) n",
    )
    dice, killed = random.Random(7), 0
    with storm(server, 77, pause=0.05):
        for _ in range(kills):
            words = _words(server, tmp_path, "--copy-rate", "4MB")  # so that it takes longer than it is given
            with forked(words) as process:
                threading.Event().wait(1 + dice.random() * 3)
                killed += process.poll() is None and _awaits(tmp_path)
                process.kill()
        _mirrored(server, tmp_path)
    _mirrored(server, tmp_path)
    assert killed == kills
    server.say("DROP TABLE wide")
    assert read_table(tmp_path / "lake/public.wide").num_rows == 30000
    _mirrored(server, tmp_path)
    assert different(server, LocalStore(tmp_path / "lake")) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "asked to end"])
def test_a_run_that_has_ended_is_gone_on_with(server: Server, tmp_path: Path, number: signal.Signals) -> None:
    """Tables that are finished stay, and take part in what happened since; the others are copied as they are by then. Who is asked to end before the
    end says so by its status."""
    server.say(
        "CREATE TABLE a (id int PRIMARY KEY, v text)", "INSERT INTO a SELECT g, 'first' FROM generate_series(1, 100) g",
        "CREATE TABLE b (id int PRIMARY KEY, v text)", "INSERT INTO b SELECT g, repeat(md5(g::text), 20) FROM generate_series(1, 20000) g",
    )  # fmt: skip
    words = _words(server, tmp_path, "--copy-rate", "500kB/s")
    with forked(words) as process:
        until(lambda: process.poll() is not None or _copied(tmp_path) == {"a"})
        server.say("UPDATE a SET v = 'second' WHERE id < 10", "DELETE FROM a WHERE id = 50", "INSERT INTO a VALUES (101, 'new')")
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait() == {signal.SIGKILL: -number, signal.SIGTERM: 128 + number}[number]
    assert _awaits(tmp_path)
    assert _copied(tmp_path) == {"a"}
    files = {path.name for path in (tmp_path / "lake/public.a").glob("*.parquet")}
    server.say(
        "ALTER TABLE a ADD w int DEFAULT 7", "UPDATE a SET w = 8 WHERE id = 60", "DELETE FROM b WHERE id > 19000", "UPDATE b SET v = '' WHERE id = 1",
        "CREATE TABLE c (id int PRIMARY KEY)", "INSERT INTO c VALUES (1)", "ALTER TABLE b RENAME v TO w",
    )  # fmt: skip
    _mirrored(server, tmp_path)
    assert not _awaits(tmp_path)
    assert files <= {path.name for path in (tmp_path / "lake/public.a").glob("*.parquet")}
    server.say("INSERT INTO b VALUES (20001, 'new')", "UPDATE a SET v = 'third' WHERE id = 2")
    _mirrored(server, tmp_path)
    with server.connect() as connection:
        for name in "abc":
            rows = connection.execute(f"SELECT * FROM {name}".encode()).fetchall()
            assert sorted(tuple(row.values()) for row in _rows(tmp_path, name)) == sorted(rows)


def _copied(home: Path) -> set[str]:
    catalog = StoredCatalog.read(LocalStore(home / "lake")).catalog
    return set() if catalog is None else {each.name for each in catalog.tables.values() if each.copied is not None}


def test_how_fast_it_may_be_read(server: Server, tmp_path: Path) -> None:
    server.say(
        "CREATE TABLE t (id int, v text)", "INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 4000) g",
    )  # fmt: skip
    began = time.monotonic()
    _mirrored(server, tmp_path, "--copy-rate", "1MB/s")
    assert time.monotonic() - began > 3.5
    assert read_table(tmp_path / "lake/public.t").num_rows == 4000
    wrong = ran(*_words(server, tmp_path, "--copy-rate", "fast"))
    assert (wrong.returncode, "invalid size" in wrong.stderr) == (1, True), wrong.stderr


def test_what_is_told_of_a_copy() -> None:
    done = CopyProgress(2, 8, 1234567, 100 << 20, 400 << 20, 20.0)
    assert copy_in_words(done) == "first copy of the tables, 1,234,567 rows, 100 of 400 MB, 0:01:00 left"
    assert copy_in_words(CopyProgress(1, 1, 0, 0, 0, 0.1)) == "first copy of the tables, 0 rows, 0 of 0 MB"


def test_what_may_not_be_read(server: Server, tmp_path: Path) -> None:
    server.say("CREATE TABLE t (id int PRIMARY KEY)", "CREATE ROLE reader LOGIN REPLICATION", "INSERT INTO t VALUES (1)")
    server.say("GRANT EXECUTE ON FUNCTION pg_read_binary_file(text, bigint, bigint, boolean) TO reader")
    dsn = server.dsn().replace("user=postgres", "user=reader")
    done = ran(*_words(server, tmp_path, dsn=dsn))
    server.say("GRANT SELECT ON t TO reader")
    assert (done.returncode, "permission denied for table t" in done.stderr, "GRANT SELECT" in done.stderr) == (1, True, True), (
        done.stderr
    )
    _mirrored(server, tmp_path, dsn=dsn)
    assert _rows(tmp_path, "t") == [{"id": 1}]
    server.say(
        "REVOKE ALL ON t FROM reader",
        "REVOKE ALL ON FUNCTION pg_read_binary_file(text, bigint, bigint, boolean) FROM reader",
        "DROP ROLE reader",
    )


def test_schemas_that_change_places(server: Server, tmp_path: Path) -> None:
    """ALTER SCHEMA waits for no lock on a table, and a COPY means who has the name by then."""
    large = "INSERT INTO a{} SELECT g, repeat(md5(g::text), 20) FROM generate_series(1, 3000) g"
    server.say(
        *(f"CREATE TABLE a{number} (id int PRIMARY KEY, v text)" for number in range(4)), *(large.format(number) for number in range(4)),
        "CREATE SCHEMA s", "CREATE SCHEMA n",
        "CREATE TABLE s.t (id int PRIMARY KEY, v text)", "CREATE TABLE n.t (id int PRIMARY KEY, v text)",
        "INSERT INTO s.t VALUES (1, 'blue')", "INSERT INTO n.t VALUES (2, 'green')",
    )  # fmt: skip
    locked = "SELECT count(*) > 0 FROM pg_locks WHERE relation = 'a0'::regclass AND mode = 'AccessShareLock'"
    with subprocess.Popen(
        [TAILRACE, *_words(server, tmp_path, "--copy-rate", "2MB/s")], stderr=subprocess.PIPE, text=True
    ) as process:
        until(lambda: process.poll() is not None or bool(server.value(locked)))
        time.sleep(0.5)
        server.say("BEGIN; ALTER SCHEMA s RENAME TO x; ALTER SCHEMA n RENAME TO s; ALTER SCHEMA x RENAME TO n; COMMIT")
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "got another name while it was copied; what is not copied yet is begun anew" in said
    done = ran("verify", server.dsn(), "--database", server.dbname, "--to", tmp_path / "lake")
    assert done.returncode == 0, done.stdout + done.stderr
