"""`tailrace verify` finds what is wrong with a lake, and nothing where nothing is, whoever changes the source meanwhile."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lake.test_mirror import TYPES
from support.command import Run, ran
from support.forked import forked
from support.lake_damage import DOUBLED, LOST, damage, rows_in, write_rows
from support.own_database import own_database, servers_with_databases
from support.servers import Server
from support.storm import begin, different, storm
from support.waiting import until
from tailrace.client.copy_options import CopyStrategy
from tailrace.client.table_pages import TablePages
from tailrace.client.visible_commits import await_commits
from tailrace.errors import PeerError
from tailrace.lake.catalog import StoredCatalog
from tailrace.pipeline.runner import LocalRunner
from tailrace.spark.jobs import SparkRunner
from tailrace.storage.local_store import LocalStore
from tailrace.verify import server_source
from tailrace.verify.differences import EXTRA, MISSING, OTHER
from tailrace.verify.verification import TableCompared, VerifyOptions, verification

pytestmark = pytest.mark.postgres
SETTINGS = {"wal_keep_size": "500MB", "max_prepared_transactions": "10"}
FORMATS = ("delta", pytest.param("iceberg", marks=pytest.mark.marathon))
WIDE = """
CREATE TABLE wide (
    id int PRIMARY KEY, a int, b int, t text, u text, n numeric(12,2), m numeric(12,2), at timestamptz, until timestamptz, d date, f float8, g real,
    s smallint, w bigint, tf boolean, y bytea, k uuid);
INSERT INTO wide SELECT g, g, g + 1, 'text ' || g, 'other ' || g, g * 0.25, g * 0.5, '2026-01-01'::timestamptz + g * interval '1 s',
    '2026-02-01'::timestamptz + g * interval '1 s', '2026-01-01'::date + g % 1000, g / 3.0, g / 7.0, g % 100, g::bigint * 1000000007, g % 2 = 0,
    decode(md5(g::text), 'hex'), md5(g::text)::uuid FROM generate_series(1, {}) g
"""


running, server = servers_with_databases(SETTINGS)


def _mirror(server: Server, home: Path, *more: str) -> list[str]:
    where = ("--database", server.dbname, "--to", home / "lake", "--state", home / "state")
    return list(map(str, ("mirror", server.dsn(), *where, *more)))


def _mirrored(server: Server, home: Path, *more: str) -> LocalStore:
    """The lake."""
    done = ran(*_mirror(server, home, *more))
    assert done.returncode == 0, done.stderr
    return LocalStore(home / "lake")


def _compared(server: Server, lake: LocalStore, *tables: str, listed: int = 10_000) -> dict[str, TableCompared]:
    """What differs, which is the same from the pages of the server's files."""
    found = _compared_by(CopyStrategy.ROWS, server, lake, *tables, listed=listed)
    by_pages = _compared_by(CopyStrategy.PAGES, server, lake, *tables, listed=listed)
    assert {name: _outcome(each) for name, each in by_pages.items()} == {name: _outcome(each) for name, each in found.items()}
    return found


def _compared_by(
    strategy: CopyStrategy, server: Server, lake: LocalStore, *tables: str, listed: int = 10_000
) -> dict[str, TableCompared]:
    options = VerifyOptions(tables, listed, strategy=strategy)
    with verification(lake, server.dsn(), server.dbname, LocalRunner(), options) as found:
        return {each.sides.name: each for each in found.run()}


def _outcome(compared: TableCompared) -> tuple[Any, ...]:
    rows = sorted(map(str, compared.listed))
    return compared.found.counts, compared.is_compared, bool(compared.sides.unfit), compared.sides.note, rows


def _differing(server: Server, lake: LocalStore, *tables: str) -> dict[str, Any]:
    """By table what is wrong with how many rows."""
    found = _compared(server, lake, *tables)
    return {name: each.found.counts if not each.sides.unfit else each.sides.unfit for name, each in found.items() if each.differs}


def _verify(server: Server, lake: LocalStore, *more: str) -> subprocess.CompletedProcess[str]:
    return ran("verify", server.dsn(), "--database", server.dbname, "--to", lake.folder, *more)


@contextmanager
def _following(server: Server, home: Path, *more: str) -> Iterator[None]:
    said, before = home / "said", _complete(home)
    process = forked(_mirror(server, home, "--follow", "--every", "0.3s", *more), said)
    try:
        until(lambda: _complete(home) > before or process.poll() is not None)  # while it begins, SIGTERM ends it as any program
        yield
    except BaseException:
        process.kill()
        raise
    process.terminate()
    assert process.wait(60) == 0, said.read_text()


def _complete(home: Path) -> int:
    """Up to where the lake has all; 0 where it has not yet begun."""
    catalog = StoredCatalog.read(LocalStore(home / "lake")).catalog
    return catalog.complete if catalog is not None and not catalog.awaits_copy else 0


# -- what one table cannot take ------------------------------------------------------------------------------------------------------------


def test_unfit_values_leave_the_other_tables(server: Server, tmp_path: Path) -> None:
    """More of them than there are sessions, of which each is wanted for the next table."""
    unfit, others = [f"a{number}" for number in range(server_source.THREADS + 1)], ("b", "c")
    server.say(*(f"CREATE TABLE {name} (id int PRIMARY KEY, v numeric(10,2))" for name in (*unfit, *others)))
    server.say(*(f"INSERT INTO {name} VALUES (1, 1), (2, 2)" for name in (*unfit, *others)))
    lake = _mirrored(server, tmp_path)
    server.say(*(f"INSERT INTO {name} SELECT g, 3 FROM generate_series(3, 30000) g" for name in (*unfit, *others)))
    server.say(*(f"UPDATE {name} SET v = 'NaN' WHERE id = 10" for name in unfit))
    found = _differing(server, lake)
    assert set(found) == {f"public.{name}" for name in unfit}
    assert all(
        each.startswith("a value of the source cannot be in the lake: numeric NaN does not fit decimal128(10, 2)")
        for each in found.values()
    )
    done = _verify(server, lake)
    assert done.returncode == 1, done.stderr
    assert "2 tables, 60,000 rows compared" in done.stdout
    assert done.stdout.rstrip().endswith(f"no row differs; {len(unfit)} tables were not compared")


def test_a_held_table_leaves_the_others(server: Server, tmp_path: Path) -> None:
    server.say("CREATE TABLE a (id int PRIMARY KEY, v int)", "CREATE TABLE b (id int PRIMARY KEY, v int)")
    server.say("INSERT INTO a VALUES (1, 1)", "INSERT INTO b VALUES (1, 1), (2, 2)")
    lake = _mirrored(server, tmp_path, "--on-error", "quarantine")
    server.say("ALTER TABLE a REPLICA IDENTITY NOTHING", "UPDATE a SET v = 2", "INSERT INTO b VALUES (3, 3)")
    assert _differing(server, lake) == {"public.a": {"missing": 1, "differs": 0, "extra": 1}}  # held, aside alone
    _mirrored(server, tmp_path, "--on-error", "quarantine")
    server.say("UPDATE b SET v = 4 WHERE id = 1")
    found = _compared(server, lake)
    assert found["public.a"].differs
    assert found["public.a"].sides.note.startswith("held since ")
    assert not found["public.b"].differs


def test_a_held_table_lacks_a_column(server: Server, tmp_path: Path) -> None:
    """That its rows were changed since would not show in the columns that both have."""
    server.say("CREATE TABLE a (k text)", "INSERT INTO a VALUES ('a'), ('b')")
    lake = _mirrored(server, tmp_path, "--on-error", "quarantine")
    server.say("ALTER TABLE a ADD c int", "UPDATE a SET c = 1 WHERE k = 'a'")
    _mirrored(server, tmp_path, "--on-error", "quarantine")
    assert _differing(server, lake) == {"public.a": "the lake does not have column c yet"}
    done = _verify(server, lake)
    assert done.returncode == 1, done.stdout
    assert done.stdout.rstrip().endswith("columns differ"), done.stdout


# -- nothing is wrong ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    [
        pytest.param((), id="typed"),
        pytest.param(("--numeric", "text", "--arrays", "text", "--times", "text"), id="text", marks=pytest.mark.marathon),
    ],
)
@pytest.mark.parametrize("format", FORMATS)
def test_every_type(server: Server, tmp_path: Path, format: str, how: tuple[str, ...]) -> None:
    """Copied and streamed."""
    script = [each for each in TYPES.split(";\n") if each.strip()]
    more = (
        'CREATE TABLE odd (id int PRIMARY KEY, c char(7), v varchar, n name, q "char", b bit varying, nu numeric, nn numeric(9,2)[],'
        " cs couple[], ms mood[], rc regclass, it interval[], ip inet, cd cidr, tz timetz, g int GENERATED ALWAYS AS (id * 2) STORED, bo boolean[])"
    )
    values = (
        "({}, 'ab ', 'c', 'nm', 'q', '101', 1e-20, '{{1.25,NULL}}', '{{\"(1,x)\",NULL}}', '{{good,bad}}', 'kinds', '{{1 day}}', '10.0.0.1',"
        " '10.0.0.0/8', '01:02+03', DEFAULT, '{{t,NULL}}')"
    )
    server.say(*script, more, f"INSERT INTO odd VALUES {values.format(1)}")
    lake = _mirrored(server, tmp_path, "--format", format, *how)
    assert _differing(server, lake) == {}
    again = [
        each.replace("    1, '1 month", "    11, '1 month").replace("(id) VALUES (2)", "(id) VALUES (12)") for each in script
    ]
    server.say(*(each for each in again if "INSERT" in each), f"INSERT INTO odd VALUES {values.format(11)}")
    assert _differing(server, lake) == {}  # what the lake lacks is no difference
    _mirrored(server, tmp_path)
    assert _differing(server, lake) == {}
    for name in ("kinds", "odd") if not how else ():
        _each_column_counts(server, lake, tmp_path, name)


def _each_column_counts(server: Server, lake: LocalStore, home: Path, name: str) -> None:
    """A NULL in any column of a row is found, and told of that column: each is damaged in a row of its own."""
    columns = [each for each in rows_in(lake, name).schema.names if each not in ("id", "g")]
    names = ", ".join(columns)
    server.say(
        f"INSERT INTO {name} (id, {names}) SELECT 100 + place, {names} FROM {name}, generate_series(1, {len(columns)}) place WHERE id = 1"
    )
    _mirrored(server, home)
    rows = rows_in(lake, name).sort_by("id")
    at = rows["id"].to_pylist().index(101)
    for number, column in enumerate(columns):
        place, values = rows.schema.get_field_index(column), rows[column].combine_chunks()
        parts = [values.slice(0, at + number), pa.nulls(1, values.type), values.slice(at + number + 1)]
        rows = rows.set_column(place, rows.schema.field(column), pa.concat_arrays(parts))
    write_rows(lake, name, rows)
    [found] = _compared(server, lake, f"public.{name}").values()
    told = {}
    for one in found.listed:
        assert one.first is not None
        assert one.second is not None
        told[str(one.key["id"])] = [
            each for each in one.first if one.first[each] != one.second[each] and one.second[each] is None
        ]
    assert told == {str(101 + number): [column] for number, column in enumerate(columns)}


@pytest.mark.soak
@pytest.mark.parametrize("format", FORMATS)
def test_beside_a_stream(server: Server, tmp_path: Path, format: str) -> None:
    """A storm of DDL, TRUNCATE, savepoints, prepared transactions and key moves, and a lake that follows it."""
    begin(server)
    lake = _mirrored(server, tmp_path, "--format", format)
    with storm(server, 5), _following(server, tmp_path):
        for _ in range(4):
            assert _differing(server, lake) == {}
            time.sleep(0.2)
    _mirrored(server, tmp_path)
    assert _differing(server, lake) == {}
    assert different(server, lake) == []


def test_a_lake_that_nobody_brings_along(server: Server, tmp_path: Path) -> None:
    """While rows change without a pause, some of them in each transaction."""
    begin(server)
    server.say("CREATE TABLE hot (id int PRIMARY KEY, n bigint)", "INSERT INTO hot VALUES (1, 0)")
    lake = _mirrored(server, tmp_path)
    before = StoredCatalog.read(lake)
    with storm(server, 6, pause=0), server.connect() as connection:
        for _ in range(3):
            for _ in range(50):
                connection.execute("UPDATE hot SET n = n + 1")
            assert _differing(server, lake) == {}
    assert StoredCatalog.read(lake) == before  # it was looked at, and no more


def test_what_the_source_did_to_tables_since(server: Server, tmp_path: Path) -> None:
    server.say(*(f"CREATE TABLE {name} (id int PRIMARY KEY, v text)" for name in ("a", "b", "c", "d", "e")))
    server.say(*(f"INSERT INTO {name} VALUES (1, 'one'), (2, 'two')" for name in ("a", "b", "c", "d", "e")))
    lake = _mirrored(server, tmp_path)
    server.say(
        "DROP TABLE a", "TRUNCATE b", "ALTER TABLE c RENAME TO other", "ALTER TABLE d ALTER v TYPE bytea USING v::bytea",
        "CREATE TABLE f (id int)", "INSERT INTO f VALUES (1), (1)", "ALTER TABLE e ADD n int DEFAULT 7",
    )  # fmt: skip
    found = _compared(server, lake)
    assert {name for name, each in found.items() if each.differs} == set()
    assert found["public.e"].sides.note == "the lake does not have column n yet"
    assert {name: each.rows for name, each in found.items()} == {
        "public.a": 0, "public.b": 0, "public.d": 2, "public.e": 2, "public.f": 2, "public.other": 2
    }  # fmt: skip
    _mirrored(server, tmp_path)
    assert _differing(server, lake) == {}


@pytest.mark.soak
def test_what_is_committed_and_not_visible(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lake has it, while its COMMIT waits for a standby that does not answer."""
    server.say("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    lake = _mirrored(server, tmp_path)
    server.say("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
    monkeypatch.setattr(server_source, "await_commits", partial(await_commits, patience=2.0))
    try:
        with server.connect() as watching, ThreadPoolExecutor(1) as aside, ThreadPoolExecutor(1) as other:
            watching.execute("SET synchronous_commit = local")
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            done = aside.submit(server.say, "INSERT INTO t VALUES (2)")
            until(lambda: watching.execute(waits).fetchone() == (1,))
            _mirrored(server, tmp_path)
            assert rows_in(lake, "t").num_rows == 2
            with pytest.raises(PeerError, match="they wait for a synchronous standby"):
                _compared(server, lake)
            role = f"blind_{server.dbname}"
            for statement in (f"CREATE ROLE {role} LOGIN", f"GRANT pg_read_all_data TO {role}"):
                watching.execute(statement.encode())
            with pytest.raises(PeerError, match="the role may not know whether transactions that run wait for"):
                await_commits(server.dsn().replace("user=postgres", f"user={role}"), server.dbname, patience=2.0)
            monkeypatch.setattr(server_source, "await_commits", partial(await_commits, patience=60.0))
            later = other.submit(_differing, server, lake)
            time.sleep(1)
            watching.execute("ALTER SYSTEM RESET synchronous_standby_names")
            watching.execute("SELECT pg_reload_conf()")
            done.result(30)
            assert later.result(60) == {}
    finally:
        with server.connect() as connection:
            connection.execute("SET synchronous_commit = local")
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            connection.execute("SELECT pg_reload_conf()")
            connection.execute(f"DROP ROLE IF EXISTS blind_{server.dbname}".encode())


# -- something is --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(each, marks=pytest.mark.marathon) for each in range(1, 11))])
def test_each_damage_is_found(server: Server, tmp_path: Path, seed: int, format: str) -> None:
    """A hundred rows of a thousand; a thousand of them in each format in the marathon."""
    rows, times = (1000, 40) if not seed else (3000, 100)
    server.say(*WIDE.format(rows).strip().split(";\n"))
    lake = _mirrored(server, tmp_path, "--format", format)
    damaged = damage(lake, "wide", "id", times, seed)
    server.say("INSERT INTO wide (id) VALUES (-1)", "UPDATE wide SET a = a WHERE id = -1")  # which the lake lacks
    [found] = _compared(server, lake).values()
    told = {int(str(one.key["id"])): one.kind for one in found.listed}
    kinds = {LOST: MISSING, DOUBLED: EXTRA}
    assert told == {key: kinds.get(how, OTHER) for key, how in damaged.items()}
    assert found.found.rows == len(damaged)
    [few] = _compared(server, lake, listed=3).values()
    assert (len(few.listed), few.found.rows) == (3, len(damaged))


def test_rows_without_a_key(server: Server, tmp_path: Path) -> None:
    """Equal rows count as often as they are there."""
    server.say("CREATE TABLE bag (v int, t text)", "ALTER TABLE bag REPLICA IDENTITY FULL")
    server.say(
        "INSERT INTO bag SELECT g % 5, 'x' FROM generate_series(1, 50) g", "INSERT INTO bag VALUES (NULL, NULL), (NULL, NULL)"
    )
    lake = _mirrored(server, tmp_path)
    assert _differing(server, lake) == {}
    rows = rows_in(lake, "bag")
    ones = [at for at, each in enumerate(rows["v"].to_pylist()) if each == 1]
    none = [at for at, each in enumerate(rows["v"].to_pylist()) if each is None]
    stay = [at for at in range(len(rows)) if at not in (*ones[:3], none[0])]
    write_rows(lake, "bag", rows.take(pa.array([*stay, *none[:1], *none[:1], ones[5]])))
    server.say("DELETE FROM bag WHERE ctid IN (SELECT ctid FROM bag WHERE v = 1 LIMIT 1)", "INSERT INTO bag VALUES (2, 'x')")
    [found] = _compared(server, lake).values()
    assert found.found.counts == {MISSING: 2, OTHER: 0, EXTRA: 1}
    assert sorted((one.kind, (one.first or one.second or {})["v"]) for one in found.listed) == [
        (EXTRA, None), (MISSING, "1"), (MISSING, "1"),
    ]  # fmt: skip


def test_pages_that_say_otherwise_than_the_server(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is asked for some blocks of each part; and for all rows where it gives others than were found in the pages."""
    server.say(
        "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(1, 20000) g"
    )
    lake = _mirrored(server, tmp_path)
    found, whole = set[str](), TablePages.rows

    def all_but_one(*given: Any) -> Iterator[Any]:
        for batch in whole(*given):
            found.add(given[0].path)
            yield batch.slice(1)

    monkeypatch.setattr(TablePages, "rows", all_but_one)
    with pytest.warns(
        UserWarning, match=r"table public\.t: blocks \d+ to \d+ have other rows in the file .*; the server is asked for all rows"
    ):
        compared = _compared_by(CopyStrategy.PAGES, server, lake)["public.t"]
    assert len(found) == 1
    assert not compared.differs
    assert compared.rows == 20_000


@pytest.mark.soak
def test_partitions(server: Server, tmp_path: Path) -> None:
    """Each in a table of its own; or as one, published as a whole."""
    server.say(
        "CREATE TABLE parts (id int, region text, v int, PRIMARY KEY (region, id)) PARTITION BY LIST (region)",
        "CREATE TABLE parts_a PARTITION OF parts FOR VALUES IN ('a')",
        "CREATE TABLE parts_b (v int, region text NOT NULL, id int NOT NULL)",  # its columns in another order
        "ALTER TABLE parts ATTACH PARTITION parts_b FOR VALUES IN ('b')",
        "CREATE PUBLICATION whole FOR TABLE parts WITH (publish_via_partition_root)",
    )
    lake = _mirrored(server, tmp_path)
    as_one = _mirrored(server, tmp_path / "as_one", "--publication", "whole", "--no-copy")
    server.say("INSERT INTO parts SELECT g, CASE g % 3 WHEN 0 THEN 'a' ELSE 'b' END, g * 2 FROM generate_series(1, 300) g")
    assert _differing(server, lake) == {}
    assert _differing(server, as_one) == {}
    for home in (tmp_path, tmp_path / "as_one"):
        _mirrored(server, home, *(["--publication", "whole"] if home != tmp_path else []))
    assert _differing(server, lake) == {}
    assert _differing(server, as_one) == {}
    for store, name in ((lake, "parts_b"), (as_one, "parts")):
        rows = rows_in(store, name)
        write_rows(store, name, rows.slice(1))
        [found] = [each for each in _compared(server, store).values() if each.differs]
        key = {name: str(value) for name, value in rows.select(["region", "id"]).slice(0, 1).to_pylist()[0].items()}
        assert [(one.kind, dict(sorted(one.key.items()))) for one in found.listed] == [(MISSING, dict(sorted(key.items())))]


def test_what_is_published(server: Server, tmp_path: Path) -> None:
    """The columns and rows of a lake of publications, and no others."""
    begin(server)
    server.say(
        "CREATE PUBLICATION p FOR TABLE plain (id, v) WHERE (id > 100), bag WHERE (v = 1)",
        "INSERT INTO bag VALUES (1, 'x'), (2, 'y')",
    )
    lake = _mirrored(server, tmp_path, "--publication", "p")
    server.say(
        "UPDATE plain SET n = n + 1 WHERE id < 120",
        "DELETE FROM plain WHERE id IN (50, 150)",
        "INSERT INTO bag VALUES (1, 'new')",
    )
    found = _compared(server, lake)
    assert {name: (each.rows, each.differs) for name, each in found.items()} == {
        "public.bag": (3, False),
        "public.plain": (99, False),
    }
    rows = rows_in(lake, "plain")
    write_rows(lake, "plain", rows.slice(0, len(rows) - 1))
    assert _differing(server, lake) == {"public.plain": {MISSING: 1, OTHER: 0, EXTRA: 0}}
    write_rows(lake, "plain", rows)
    server.say("ALTER PUBLICATION p DROP TABLE bag")
    found = _compared(server, lake)
    assert {name: (each.is_compared, each.differs) for name, each in found.items()} == {
        "public.bag": (False, False),
        "public.plain": (True, False),
    }
    done = _verify(server, lake)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "table public.bag: it is published no more, and was not compared" in done.stdout
    assert done.stdout.rstrip().endswith("no row differs; 1 table was not compared")
    nothing = _verify(server, lake, "--table", "bag")
    assert (nothing.returncode, nothing.stdout.splitlines()[-1][:8]) == (1, "0 tables"), nothing.stdout


def test_a_table_that_may_not_be_read(server: Server, tmp_path: Path) -> None:
    """It is in the way of who compares it, and of nobody else."""
    role = f"reader_{server.dbname}"
    server.say("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)", f"CREATE ROLE {role} LOGIN REPLICATION")
    server.say(
        f"GRANT SELECT ON t TO {role}",
        f"GRANT EXECUTE ON FUNCTION pg_read_binary_file(text, bigint, bigint, boolean) TO {role}",
    )
    lake = _mirrored(server, tmp_path)
    server.say("CREATE TABLE u (id int PRIMARY KEY)")
    words = ("verify", server.dsn().replace("user=postgres", f"user={role}"), "--database", server.dbname, "--to", lake.folder)
    refused, done = ran(*words), ran(*words, "--table", "t")
    assert (refused.returncode, "permission denied for table u" in refused.stderr) == (2, True), refused.stderr
    assert "--no-copy" not in refused.stderr
    assert done.returncode == 0, done.stderr
    server.say(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_a_table_that_one_side_has_not(server: Server, tmp_path: Path) -> None:
    server.say("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE empty (id int)", "INSERT INTO t VALUES (1), (2)")
    lake = _mirrored(server, tmp_path, "--no-copy")
    server.say("CREATE TABLE u (id int PRIMARY KEY)", "INSERT INTO u VALUES (1)")
    assert _differing(server, lake) == {"public.t": {MISSING: 2, OTHER: 0, EXTRA: 0}}
    _mirrored(server, tmp_path, "--no-copy")
    assert _differing(server, lake) == {"public.t": {MISSING: 2, OTHER: 0, EXTRA: 0}}


# -- the command ---------------------------------------------------------------------------------------------------------------------------


def test_what_it_prints(server: Server, tmp_path: Path) -> None:
    server.say(
        "CREATE TABLE t (id int PRIMARY KEY, v text, w text)",
        "INSERT INTO t SELECT g, 'v' || g, NULL FROM generate_series(1, 9) g",
    )
    lake = _mirrored(server, tmp_path)
    done = _verify(server, lake)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 table, 9 rows compared at " in done.stdout
    assert done.stdout.endswith(": no row differs\n")
    rows = rows_in(lake, "t").sort_by("id")
    changed = rows.set_column(1, "v", pa.array(["V1", *rows["v"].to_pylist()[1:]]))
    write_rows(lake, "t", pa.concat_tables([changed.slice(0, 4), changed.slice(5), changed.slice(8)]))
    done = _verify(server, lake)
    assert done.returncode == 1
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert lines[0] == ["table", "what", "key", "source", "lake", "changed"]
    assert sorted(line[:5] for line in lines[1:4]) == [
        ["public.t", "missing in the lake", "id=5", "v=v5, w=NULL", ""],
        ["public.t", "other values", "id=1", "v=v1", "v=V1"],
        ["public.t", "too many in the lake", "id=9", "", "v=v9, w=NULL"],
    ]
    assert done.stdout.endswith(": 3 rows differ\n")
    done = _verify(server, lake, "--json", "--limit", "1", "--tables", "t")
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert (said["rows"], said["differ"], said["repaired"]) == (9, 3, 0)
    [table] = said["tables"]
    assert (table["table"], table["missing"], table["extra"], table["differs"], len(table["differences"])) == (
        "public.t",
        1,
        1,
        1,
        1,
    )


@pytest.mark.soak
def test_a_lake_that_is_too_far_behind(tmp_path: Path) -> None:
    """The server still has some of its log behind a checkpoint; and then no more."""
    keeps = {"wal_keep_size": "10MB", "min_wal_size": "2MB", "max_wal_size": "4MB"}
    with Server(18, keeps, test_decoding=False, dbname="app") as server:
        server.say("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1)")
        lake = _mirrored(server, tmp_path)
        server.say("INSERT INTO t VALUES (2)", "CHECKPOINT", "ALTER TABLE t ADD w int", "UPDATE t SET w = id", "CHECKPOINT")
        assert _verify(server, lake).returncode == 0
        for _ in range(6):
            server.say("INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(10, 10000) g", "DELETE FROM t WHERE id > 9")
            server.say("SELECT pg_switch_wal()", "CHECKPOINT")
        done = _verify(server, lake)
        assert (done.returncode, done.stdout) == (2, "")
        assert "is complete up to" in done.stderr
        assert "DETAIL:  What differs cannot be told from what it lacks" in done.stderr
        assert "HINT:  Bring the lake up with tailrace replicate or mirror" in done.stderr
        server.say("DELETE FROM t WHERE id = 2")
        assert _verify(server, lake).returncode == 0  # it has all that the source has


@pytest.mark.soak
def test_who_is_refused(server: Server, tmp_path: Path) -> None:
    server.say("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    nothing = _verify(server, LocalStore(tmp_path / "nothing"))
    assert (nothing.returncode, "there is no lake" in nothing.stderr) == (2, True), nothing.stderr
    lake = _mirrored(server, tmp_path)
    unknown = _verify(server, lake, "--table", "u")
    assert (unknown.returncode, 'relation "u" does not exist' in unknown.stderr) == (2, True), unknown.stderr
    other = _mirrored(server, tmp_path / "changes", "--layout", "changes")
    refused = _verify(server, other)
    assert (refused.returncode, "has layout changes" in refused.stderr) == (2, True), refused.stderr
    with own_database(server) as elsewhere:
        refused = _verify(elsewhere, lake)
    assert (refused.returncode, "is of database" in refused.stderr) == (2, True), refused.stderr


def test_who_asks_wrongly_is_not_told_that_rows_differ(tailrace: Run, tmp_path: Path) -> None:
    """1 is the status of rows that differ alone."""
    for words, said in (
        (("host=127.0.0.1",), "no database is named"),
        ((str(tmp_path), "--repair"), "--repair is for a lake that is compared with its server"),
        ((str(tmp_path), "--copy-strategy", "pages"), "--copy-strategy is for a lake that is compared with its server"),
    ):
        code, out, err = tailrace("verify", *words, "--to", str(tmp_path / "lake"))
        assert (code, out, said in err) == (2, "", True), (words, err)


@pytest.mark.soak
def test_two_lakes(server: Server, tmp_path: Path) -> None:
    """Of one server: a copy, and one of the other format; and where one is behind the other."""
    server.say("CREATE TABLE t (id int PRIMARY KEY, a int, b int, v text)", "CREATE TABLE bag (v int)")
    server.say(
        "INSERT INTO t SELECT g, g, g + 1, 'v' || g FROM generate_series(1, 200) g", "INSERT INTO bag VALUES (1), (1), (2)"
    )
    one = _mirrored(server, tmp_path / "one")
    shutil.copytree(tmp_path / "one/lake", tmp_path / "copy")
    two, copy = _mirrored(server, tmp_path / "two", "--format", "iceberg"), LocalStore(tmp_path / "copy")

    def run(second: LocalStore, *more: str) -> subprocess.CompletedProcess[str]:
        return ran("verify", one.folder, "--to", second.folder, *more)

    for other in (two, copy):
        done = run(other)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("2 tables, 203 rows compared at ")
    damaged = damage(copy, "t", "id", 10, 3)
    done = run(copy, "--json")
    assert done.returncode == 1, done.stderr
    table = json.loads(done.stdout)["tables"][1]
    assert sorted(int(each["key"]["id"]) for each in table["differences"]) == sorted(damaged)
    server.say("INSERT INTO bag VALUES (3)")
    _mirrored(server, tmp_path / "one")
    late = run(two)
    assert (late.returncode, "cannot be told from what one of them lacks" in late.stderr) == (2, True), late.stdout + late.stderr
    assert run(two, "--table", "t").returncode == 0
    assert "--repair is for" in run(two, "--repair").stderr


# -- repaired ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
def test_repaired(server: Server, tmp_path: Path, format: str) -> None:
    """Exactly what differs, and the lake goes on from there."""
    server.say(*WIDE.format(500).strip().split(";\n"))
    server.say("CREATE TABLE bag (v int, t text)", "INSERT INTO bag SELECT g % 5, 'x' FROM generate_series(1, 50) g")
    lake = _mirrored(server, tmp_path, "--format", format)
    before = rows_in(lake, "wide").sort_by("id")
    damaged = damage(lake, "wide", "id", 30, 1)
    bag = rows_in(lake, "bag")
    write_rows(lake, "bag", pa.concat_tables([bag.slice(3), bag.slice(49)]))
    server.say(
        "INSERT INTO wide (id) VALUES (-1)", "UPDATE wide SET a = a + 1 WHERE id % 7 = 0", "INSERT INTO bag VALUES (1, 'x')"
    )
    done = _verify(server, lake, "--repair")
    healed = {key for key, how in damaged.items() if key % 7 == 0}
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(f"{len(damaged) - len(healed) + 4} rows were repaired\n")
    assert _differing(server, lake) == {}
    after = {row["id"]: row for row in rows_in(lake, "wide").to_pylist()}
    assert {key: row for key, row in after.items() if key not in healed} == {
        row["id"]: row for row in before.to_pylist() if row["id"] not in healed
    }
    _mirrored(server, tmp_path)
    server.say("UPDATE wide SET t = 'later' WHERE id < 100", "DELETE FROM wide WHERE id > 400")
    _mirrored(server, tmp_path)
    assert _differing(server, lake) == {}
    done = _verify(server, lake, "--repair")
    assert (done.returncode, "repaired" in done.stdout) == (0, False)


@pytest.mark.soak
def test_repaired_while_it_follows(server: Server, tmp_path: Path) -> None:
    begin(server)
    server.say(*WIDE.format(200).strip().split(";\n"))
    lake = _mirrored(server, tmp_path)
    damaged = damage(lake, "wide", "id", 20, 2)
    with storm(server, 8), _following(server, tmp_path):
        done = _verify(server, lake, "--repair")
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{len(damaged)} rows were repaired" in done.stdout
        assert _differing(server, lake) == {}
    _mirrored(server, tmp_path)
    assert _differing(server, lake) == {}
    assert different_but_wide(server, lake) == []


def different_but_wide(server: Server, lake: LocalStore) -> list[str]:
    return [each for each in different(server, lake) if each != "wide"]


@pytest.mark.spark
def test_on_spark(server: Server, tmp_path: Path, spark: Any) -> None:
    """The lake's files are read by Spark's workers."""
    server.say(
        "CREATE TABLE t (id int PRIMARY KEY, a int, b int)", "INSERT INTO t SELECT g, g, g + 1 FROM generate_series(1, 1000) g"
    )
    lake = _mirrored(server, tmp_path)
    damaged = damage(lake, "t", "id", 5, 4)
    with verification(lake, server.dsn(), server.dbname, SparkRunner(spark)) as found:
        [table] = found.run()
    assert sorted(int(str(one.key["id"])) for one in table.listed) == sorted(damaged)
