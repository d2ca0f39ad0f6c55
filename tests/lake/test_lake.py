"""A lake on any store is brought along window by window, equals the source at each end, and costs what changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lake.test_mirror import FIRST, SECOND, THIRD
from support.iceberg_tables import iceberg_rows
from support.lake_writers import gather
from support.s3_servers import SeaweedFS
from support.servers import Server
from support.stopped_runs import interrupt_after
from tailrace.demo.compare import compare_rows
from tailrace.errors import InsufficientLogging, MissingHistory, Overtaken, UsageError
from tailrace.lake.delta.rows import read_rows
from tailrace.lake.delta.snapshot import DeltaSnapshot
from tailrace.lake.delta.table import DeltaVersion
from tailrace.lake.formats import FORMATS, ICEBERG
from tailrace.lake.iceberg import table as iceberg
from tailrace.lake.iceberg.table import IcebergVersion
from tailrace.lake.lake import Lake
from tailrace.lake.reading import rows_of
from tailrace.model import Lsn
from tailrace.pipeline import open_pipeline
from tailrace.storage.local_store import LocalStore
from tailrace.storage.open_store import open_store
from tailrace.storage.store import Store

pytestmark = pytest.mark.postgres
COMMITS = [("delta", (DeltaVersion, "commit_actions")), ("iceberg", (iceberg, "commit"))]
"""What makes a version of a table, by the format."""
KEYS = {"t": ("id",), "pair": ("x", "y"), "bag": (), "sack": (), "gone": ("id",)}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(18, test_decoding=False) as running:
        yield running


@pytest.fixture(params=["directory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "directory":
        return LocalStore(tmp_path / "lake")
    seaweedfs: SeaweedFS = request.getfixturevalue("seaweedfs")
    return open_store(seaweedfs.url, seaweedfs.options)


def _run(server: Server, script: str) -> None:
    server.say(*(statement for statement in script.split(";\n") if statement.strip()))


def _apply(server: Server, lake: Lake) -> dict[str, tuple[int, int, int]]:
    start = lake.catalog.complete if lake.catalog else None
    feed = open_pipeline(server.data_dir, "postgres", start_lsn=start)
    return {each.table: (each.changes, each.upserts, each.deletes) for each in lake.apply(feed)}


def _rows(lake: Lake, oid: int) -> pa.Table:
    """As the format's own reader has them, where there is one that reads from here."""
    assert lake.catalog is not None
    store = lake.store.below(lake.catalog.tables[oid].folder)
    if lake.format.name == ICEBERG:
        found = IcebergVersion(store).refreshed()
        return (
            iceberg_rows(store).cast(found.open().schema)
            if isinstance(store, LocalStore)
            else pa.Table.from_batches(rows_of(found))
        )
    snapshot = DeltaSnapshot.read(store)
    return pa.Table.from_batches(read_rows(store, snapshot), snapshot.schema)


def _check_equal(server: Server, lake: Lake) -> None:
    assert lake.catalog is not None
    with server.connect() as connection:
        tables = connection.execute(
            "SELECT oid::int, relname FROM pg_class WHERE relkind = 'r' AND oid >= 16384 AND relnamespace = 2200"
        ).fetchall()
        assert {oid for oid, _ in tables} == {oid for oid, each in lake.catalog.tables.items() if each.dropped is None}
        for oid, name in tables:
            assert lake.catalog.tables[oid].name == name
            found = compare_rows(connection, name, _rows(lake, oid), KEYS[name])
            assert found.equal, found


@pytest.mark.parametrize("format", FORMATS)
def test_step_by_step(server: Server, store: Store, format: str) -> None:
    lake = Lake.open(store, format=format)
    for script in (FIRST, SECOND, THIRD):
        _run(server, script)
        assert _apply(server, lake)
        _check_equal(server, lake)
        assert _apply(server, lake) == {}
    assert lake.catalog is not None
    folders = {each.folder: (each.name, each.dropped is not None) for each in lake.catalog.tables.values()}
    assert folders == {
        "public.t": ("t", False), "public.bag": ("sack", False), "public.pair": ("pair", False), "public.gone": ("gone", True),
    }  # fmt: skip
    again = Lake.open(store)
    assert again.catalog == lake.catalog
    _run(server, "CREATE TABLE bag (id int PRIMARY KEY);\nINSERT INTO bag VALUES (1)")
    assert _apply(server, again) == {"public.bag": (1, 1, 0)}
    assert again.catalog is not None
    oid = server.value("SELECT 'bag'::regclass::oid")
    assert {each.folder for each in again.catalog.tables.values() if each.name == "bag"} == {f"public.bag.{oid}"}


def test_tables_without_changes_are_left_alone(server: Server, tmp_path: Path) -> None:
    _run(server, ";\n".join(f"CREATE TABLE k{n} (id int PRIMARY KEY);\nINSERT INTO k{n} VALUES (1)" for n in range(5)))
    lake = Lake.open(LocalStore(tmp_path))
    _apply(server, lake)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("public.*/_delta_log/*")}
    server.say("INSERT INTO k3 VALUES (2)")
    assert _apply(server, Lake.open(LocalStore(tmp_path))) == {"public.k3": (1, 1, 0)}
    after = {path: path.stat().st_mtime_ns for path in tmp_path.glob("public.*/_delta_log/*")}
    assert {path.parent.parent.name for path, _ in after.items() ^ before.items()} == {"public.k3"}


@pytest.mark.parametrize(("format", "commit"), COMMITS)
@pytest.mark.parametrize("after", [1, *(pytest.param(each, marks=pytest.mark.marathon) for each in (0, 2))])
def test_killed_between_tables(
    server: Server, store: Store, after: int, format: str, commit: tuple[object, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was committed counts, once."""
    _run(server, FIRST)
    _apply(server, Lake.open(store, format=format))
    _run(server, SECOND)
    interrupt_after(monkeypatch, *commit, after)
    with pytest.raises(KeyboardInterrupt):
        _apply(server, Lake.open(store))
    monkeypatch.undo()
    _run(server, "UPDATE t SET name = 'later' WHERE id = 1")
    lake = Lake.open(store)
    _apply(server, lake)
    _check_equal(server, lake)


@pytest.mark.parametrize("format", FORMATS)
def test_two_runs_meet(server: Server, store: Store, format: str) -> None:
    """One is told, and going on from what the other did brings it to the same."""
    _run(server, FIRST)
    one, other = Lake.open(store, format=format), Lake.open(store, format=format)
    _apply(server, one)
    with pytest.raises(Overtaken):
        other.apply(open_pipeline(server.data_dir, "postgres"))
    other.reread()
    _run(server, SECOND)
    _apply(server, other)
    _check_equal(server, other)
    with pytest.raises(Overtaken):
        _apply(server, one)
    one.reread()
    assert _apply(server, one) == {}


def test_somebody_gathers_and_removes_files(server: Server, tmp_path: Path) -> None:
    """While a lake is open: files that it would read are gone, and the next run reads those that hold their rows now."""
    lake = Lake.open(LocalStore(tmp_path))
    _run(server, FIRST)
    _apply(server, lake)
    _run(server, "INSERT INTO t SELECT n, 'more' FROM generate_series(9000, 9010) n")
    _apply(server, lake)
    assert lake.catalog is not None
    for table in lake.catalog.tables.values():
        if table.version >= 0:
            gather(tmp_path / table.folder)
    _run(server, "UPDATE t SET name = name || '?'")
    with pytest.raises(Overtaken, match="has a version"):
        _apply(server, lake)
    lake.reread()
    _apply(server, lake)
    _check_equal(server, lake)


def test_what_is_refused(server: Server, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "lake")
    lake = Lake.open(store)
    server.say("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    _apply(server, lake)
    behind = Lsn.parse(server.flush_lsn())
    server.say("INSERT INTO t VALUES (2)")
    later = Lsn.parse(server.flush_lsn())
    server.say("INSERT INTO t VALUES (3)")
    with pytest.raises(MissingHistory, match="at hand only from"):
        lake.apply(open_pipeline(server.data_dir, "postgres", start_lsn=later))
    server.say("CREATE DATABASE other")
    with pytest.raises(UsageError, match="is of database"):
        lake.apply(open_pipeline(server.data_dir, "other"))
    data = (tmp_path / "lake/_tailrace/catalog").read_bytes()
    (tmp_path / "lake/_tailrace/catalog").write_bytes(data[:-9] + b"x" + data[-8:])
    with pytest.raises(Exception, match="catalog of a lake"):
        Lake.open(store)
    (tmp_path / "lake/_tailrace/catalog").write_bytes(data)
    assert behind < later
    again = Lake.open(store)
    assert _apply(server, again) == {"public.t": (2, 2, 0)}
    (tmp_path / "lake/public.t").rename(tmp_path / "away")
    server.say("INSERT INTO t VALUES (4)")
    with pytest.raises(MissingHistory, match="has no table any more"):
        _apply(server, Lake.open(store))


def test_an_identity_that_came_too_late(server: Server, tmp_path: Path) -> None:
    """Which row an UPDATE was of that came before it, nobody knows; rows that were only inserted before it are no matter."""
    server.say(
        "CREATE TABLE fine (a int NOT NULL)", "INSERT INTO fine VALUES (1)", "ALTER TABLE fine ADD PRIMARY KEY (a)",
        "UPDATE fine SET a = 3",
    )  # fmt: skip
    lake = Lake.open(LocalStore(tmp_path))
    assert _apply(server, lake) == {"public.fine": (2, 1, 1)}
    server.say(
        "CREATE TABLE late (a int NOT NULL)",
        "INSERT INTO late VALUES (1)",
        "UPDATE late SET a = 3",
        "ALTER TABLE late ADD PRIMARY KEY (a)",
    )
    with pytest.raises(InsufficientLogging, match='cannot update table "late" because it does not have a replica identity'):
        _apply(server, lake)
    server.say("TRUNCATE late", "INSERT INTO late VALUES (5)")
    lake.reread()
    _apply(server, lake)
    assert lake.catalog is not None
    (oid,) = (oid for oid, each in lake.catalog.tables.items() if each.name == "late")
    assert _rows(lake, oid)["a"].to_pylist() == [5]
