"""Lakes that keep every change, and lakes that keep every version of a row: on any store, exactly once, whatever becomes of the table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lake.test_lake import COMMITS, _rows, _run, store  # noqa: F401  # a fixture
from support.servers import Server
from support.stopped_runs import interrupt_after
from tailrace.errors import InsufficientLogging, UsageError
from tailrace.lake.changelog import append_changes
from tailrace.lake.delta.snapshot import DeltaSnapshot
from tailrace.lake.formats import FORMATS, format_named
from tailrace.lake.lake import Lake
from tailrace.lake.layouts.history import is_closed
from tailrace.lake.reading import read_table
from tailrace.model import Lsn
from tailrace.pipeline import open_feed, open_pipeline
from tailrace.storage.local_store import LocalStore
from tailrace.storage.store import Store

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server(18, test_decoding=False) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.say("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return running


class Followed:
    """A lake that begins here, and what is in its tables."""

    def __init__(self, server: Server, store: Store, layout: str, format: str = "delta") -> None:  # noqa: F811
        self.server, self.store, self.layout, self.format = server, store, layout, format
        self.start = Lsn.parse(server.flush_lsn())

    def apply(self) -> Lake:
        lake = Lake.open(self.store, layout=self.layout, format=self.format)
        start = lake.catalog.complete if lake.catalog else self.start
        lake.apply(open_pipeline(self.server.data_dir, "postgres", start_lsn=start))
        return lake

    def run(self, *script: str) -> Lake:
        """Each a transaction."""
        self.server.say(*script)
        return self.apply()


def _table(lake: Lake, name: str) -> pa.Table:
    """The last table of that name."""
    assert lake.catalog is not None
    return _rows(lake, max(oid for oid, each in lake.catalog.tables.items() if each.name == name and each.version >= 0))


def _folder(lake: Lake, name: str) -> Path:
    """Of a lake in a directory."""
    assert lake.catalog is not None
    (folder,) = (each.folder for each in lake.catalog.tables.values() if each.name == name and each.version >= 0)
    assert isinstance(lake.store, LocalStore)
    return lake.store.folder / folder


def _versions(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    """The rows, and for each version the numbers of the commits from which and up to which it is valid."""
    rows = _table(lake, name).to_pylist()
    commits = sorted({row[column] for row in rows for column in ("valid_from_lsn", "valid_to_lsn")} - {None})
    at = {None: None} | {lsn: number for number, lsn in enumerate(commits)}
    for row in rows:
        assert row["valid_from"] <= (row["valid_to"] or row["valid_from"])
        assert (row["valid_to"] is None) == (row["valid_to_lsn"] is None)
    found = [(*list(row.values())[:-4], at[row["valid_from_lsn"]], at[row["valid_to_lsn"]]) for row in rows]
    return sorted(found, key=repr)


# -- history ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
def test_versions_of_rows(server: Server, store: Store, format: str) -> None:  # noqa: F811
    """Each transaction makes one version of a row at most; what it inserts and deletes is none."""
    follow = Followed(server, store, "history", format)
    lake = follow.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    assert _versions(lake, "t") == [(1, "a", 0, None), (2, "b", 0, None), (3, "c", 0, None)]
    lake = follow.run(
        "UPDATE t SET v = 'a2' WHERE id = 1",
        "UPDATE t SET v = 'a3' WHERE id = 1",
        "BEGIN; UPDATE t SET v = 'x' WHERE id = 2; UPDATE t SET v = 'b2' WHERE id = 2; INSERT INTO t VALUES (9); DELETE FROM t WHERE id = 9; COMMIT",
        "DELETE FROM t WHERE id = 3",
        "UPDATE t SET id = 4 WHERE id = 1",
    )
    assert _versions(lake, "t") == [
        (1, "a", 0, 1), (1, "a2", 1, 2), (1, "a3", 2, 5), (2, "b", 0, 3), (2, "b2", 3, None), (3, "c", 0, 4), (4, "a3", 5, None),
    ]  # fmt: skip
    before = _versions(lake, "t")
    assert _versions(follow.apply(), "t") == before
    lake = follow.run("TRUNCATE t", "INSERT INTO t VALUES (2, 'again')")
    assert _versions(lake, "t")[3:] == [(2, "again", 7, None), (2, "b", 0, 3), (2, "b2", 3, 6), (3, "c", 0, 4), (4, "a3", 5, 6)]
    lake = follow.run("DROP TABLE t")
    assert lake.catalog is not None
    (table,) = lake.catalog.tables.values()
    assert table.dropped is not None
    assert (2, "again", 7, None) in _versions(lake, "t")


def test_times_are_of_commits(server: Server, tmp_path: Path) -> None:
    server.say("CREATE TABLE t (id int PRIMARY KEY)")
    follow = Followed(server, LocalStore(tmp_path), "history")
    before = server.value("SELECT clock_timestamp()")
    server.say("INSERT INTO t VALUES (1)")
    between = server.value("SELECT clock_timestamp()")
    lake = follow.run("TRUNCATE t")
    (row,) = _table(lake, "t").to_pylist()
    assert before <= row["valid_from"] <= between <= row["valid_to"] <= server.value("SELECT clock_timestamp()")


@pytest.mark.parametrize("format", FORMATS)
def test_columns_come_and_go(server: Server, store: Store, format: str) -> None:  # noqa: F811
    """No value is lost: what was dropped stays, whether that was seen at once or later; a default is in all versions before it."""
    follow = Followed(server, store, "history", format)
    lake = follow.run(
        "CREATE TABLE t (id int PRIMARY KEY, a text, b int)", "INSERT INTO t VALUES (1, 'one', 10)", "UPDATE t SET b = 11"
    )
    lake = follow.run(
        "ALTER TABLE t ADD c int DEFAULT 7", "UPDATE t SET c = 8, a = 'last'", "ALTER TABLE t DROP a", "ALTER TABLE t RENAME b TO bee",
        "UPDATE t SET bee = 12",
    )  # fmt: skip
    table = _table(lake, "t").drop_columns(["valid_from", "valid_to", "valid_from_lsn", "valid_to_lsn"])
    assert sorted(table.to_pylist(), key=lambda row: row["bee"] * 10 + row["c"]) == [
        {"id": 1, "a": "one", "bee": 10, "c": 7},
        {"id": 1, "a": "one", "bee": 11, "c": 7},
        {"id": 1, "a": "last", "bee": 11, "c": 8},
        {"id": 1, "a": None, "bee": 12, "c": 8},
    ]
    lake = follow.run("ALTER TABLE t ADD a int", "UPDATE t SET a = 5", "ALTER TABLE t ALTER a TYPE bigint USING a * 5000000000")
    table = _table(lake, "t")
    assert table.schema.names[:5] == ["id", "a_dropped_2", "bee", "c", "a"]
    assert sorted((row["a"] or 0, row["valid_to"] is None) for row in table.to_pylist())[-3:] == [
        (0, False),
        (5, False),
        (25_000_000_000, True),
    ]
    with pytest.raises(UsageError, match="cannot read values") as caught:
        follow.run("ALTER TABLE t ALTER c TYPE text", "INSERT INTO t VALUES (2)")
    assert "one type" in str(caught.value)
    assert "Column c was given another type" in str(caught.value)
    assert _table(Lake.open(store), "t") == table


def test_values_that_are_not_sent_again(server: Server, tmp_path: Path) -> None:
    follow = Followed(server, LocalStore(tmp_path), "history")
    wide = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 300) n)"
    lake = follow.run(
        "CREATE TABLE t (id int PRIMARY KEY, n int, w text)", f"INSERT INTO t VALUES (1, 0, {wide})", "UPDATE t SET n = 1"
    )
    lake = follow.run("UPDATE t SET n = 2", "BEGIN; UPDATE t SET id = 2; UPDATE t SET n = 3; COMMIT", "UPDATE t SET n = 4")
    versions = _versions(lake, "t")
    assert [(key, n) for key, n, *_ in versions] == [(1, 0), (1, 1), (1, 2), (2, 3), (2, 4)]
    assert {len(w) for _, _, w, *_ in versions} == {9600}


@pytest.mark.parametrize("format", FORMATS)
def test_rows_without_a_key(server: Server, tmp_path: Path, format: str) -> None:
    """Of equal rows the oldest goes; without a replica identity PostgreSQL's own refusal comes."""
    follow = Followed(server, LocalStore(tmp_path), "history", format)
    lake = follow.run("CREATE TABLE bag (v int)", "ALTER TABLE bag REPLICA IDENTITY FULL", "INSERT INTO bag VALUES (1), (1)")
    lake = follow.run(
        "INSERT INTO bag VALUES (1)", "DELETE FROM bag WHERE ctid = (SELECT max(ctid) FROM bag)", "INSERT INTO bag VALUES (2)",
        "UPDATE bag SET v = 3 WHERE v = 2", "UPDATE bag SET v = 1 WHERE ctid = (SELECT min(ctid) FROM bag)",
    )  # fmt: skip
    assert _versions(lake, "bag") == [(1, 0, 2), (1, 0, None), (1, 1, None), (2, 3, 4), (3, 4, None)]
    with pytest.raises(InsufficientLogging, match='cannot delete from table "none" because it does not have a replica identity'):
        follow.run("CREATE TABLE none (v int)", "INSERT INTO none VALUES (1)", "DELETE FROM none")


def test_files_of_current_rows_are_apart(server: Server, tmp_path: Path) -> None:
    """Look-ups leave out files of versions that have ended; files in which others put both together are looked through."""
    follow = Followed(server, LocalStore(tmp_path), "history")
    follow.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t SELECT n, 0 FROM generate_series(1, 1000) n")
    lake = follow.run("UPDATE t SET v = id WHERE id <= 10", "DELETE FROM t WHERE id = 5")
    folder = _folder(lake, "t")
    snapshot = DeltaSnapshot.read(LocalStore(folder))
    closed = [file for file in snapshot.files.values() if is_closed(file)]
    rows = _table(lake, "t").to_pylist()
    assert (
        sum(json.loads(file.statistics)["numRecords"] for file in closed)
        == sum(row["valid_to"] is not None for row in rows)
        == 11
    )
    for file in snapshot.files.values():
        said = json.loads(file.statistics)
        assert said["nullCount"]["valid_to_lsn"] in (0, said["numRecords"])
    for name in (file.path for file in closed):
        (folder / name).rename(tmp_path / name)
    follow.run("UPDATE t SET v = -1 WHERE id BETWEEN 8 AND 12")  # closed files are not there, and nobody asks for them
    for name in (file.path for file in closed):
        (tmp_path / name).rename(folder / name)
    before = _versions(lake, "t")
    assert len([each for each in before if each[3] is None]) == 999
    assert (8, -1, 3, None) in before
    write_deltalake(folder, read_table(folder), mode="overwrite")  # in one file
    after = [(*each[:3], 4) if each == (8, -1, 3, None) else each for each in before]
    assert _versions(follow.run("DELETE FROM t WHERE id = 8"), "t") == sorted(after, key=repr)


def test_what_is_refused(server: Server, tmp_path: Path) -> None:
    store = LocalStore(tmp_path)  # noqa: F811
    follow = Followed(server, store, "history")
    follow.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    with pytest.raises(UsageError, match="has layout history, not mirror"):
        Lake.open(store, layout="mirror")
    with pytest.raises(UsageError, match='unrecognized layout of a lake "snapshots"'):
        Lake.open(store, layout="snapshots")
    assert Lake.open(store).layout.name == "history"
    with pytest.raises(UsageError, match="column valid_from has a name that a history gives"):
        follow.run("CREATE TABLE contracts (id int PRIMARY KEY, valid_from date)", "INSERT INTO contracts VALUES (1)")
    server.say("ALTER TABLE contracts RENAME valid_from TO starts")
    assert _versions(follow.apply(), "contracts") == [(1, None, 0, None)]


@pytest.mark.parametrize(("format", "commit"), COMMITS)
@pytest.mark.parametrize("layout", ["changes", "history"])
@pytest.mark.parametrize("after", [1, pytest.param(0, marks=pytest.mark.marathon)])
def test_killed_between_tables(
    server: Server, tmp_path: Path, layout: str, after: int, format: str, commit: tuple[object, str], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Whatever was committed counts, once; nothing lies there that is not the table's."""
    follows = [Followed(server, LocalStore(tmp_path / name), layout, format) for name in ("whole", "killed")]
    made = (f"CREATE TABLE {name} (id int PRIMARY KEY, v int);\nINSERT INTO {name} VALUES (1)" for name in "ab")
    _run(server, ";\n".join(made))
    for follow in follows:
        follow.apply()
    _run(server, "UPDATE a SET v = 1;\nUPDATE b SET v = 1;\nUPDATE b SET v = 2")
    interrupt_after(monkeypatch, *commit, after)
    with pytest.raises(KeyboardInterrupt):
        follows[1].apply()
    monkeypatch.undo()
    _run(server, "UPDATE a SET v = 9")
    whole, killed = (follow.apply() for follow in follows)
    for name in ("a", "b"):
        assert _sorted(_table(whole, name)) == _sorted(_table(killed, name))
        folder = _folder(killed, name)
        files = {file.path for file in format_named(format).none(LocalStore(folder)).refreshed().open().files}
        if layout == "changes":
            assert {file.relative_to(folder).as_posix() for file in folder.rglob("*.parquet")} == files


# -- changes ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
def test_changes_are_as_append_changes_writes_them(
    server: Server,
    store: Store,  # noqa: F811
    format: str,
    tmp_path: Path,
) -> None:
    follow = Followed(server, store, "changes", format)
    scripts = (
        ["CREATE TABLE t (id int PRIMARY KEY, v int)", "CREATE TABLE gone (id int)", "INSERT INTO t VALUES (1, 1)", "INSERT INTO gone VALUES (1)"],
        ["ALTER TABLE t ADD more text", "UPDATE t SET more = 'x'", "DROP TABLE gone", "ALTER TABLE t ALTER v TYPE bigint", "DELETE FROM t"],
        ["CREATE TABLE short (id int)", "INSERT INTO short VALUES (1)", "DROP TABLE short"],
    )  # fmt: skip
    for script in scripts:
        lake = follow.run(*script)
        assert _sorted(_table(follow.apply(), "t")) == _sorted(_table(lake, "t"))
    append_changes(open_feed(server.data_dir, "postgres", start_lsn=follow.start), tmp_path / "log")
    for name in ("t", "gone", "short"):
        expected = read_table(tmp_path / "log" / f"public.{name}")
        assert _sorted(_table(lake, name)) == _sorted(expected)
        assert _table(lake, name).schema.names == expected.schema.names
    assert lake.catalog is not None
    assert {each.name for each in lake.catalog.tables.values() if each.dropped is not None} == {"gone", "short"}


def test_changes_keep_what_was_dropped(server: Server, tmp_path: Path) -> None:
    follow = Followed(server, LocalStore(tmp_path), "changes")
    lake = follow.run(
        "CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 5)", "ALTER TABLE t DROP v", "DELETE FROM t"
    )
    assert [row["new"] for row in _sorted(_table(lake, "t"))] == [{"id": 1, "v": 5}, None]


def _sorted(table: pa.Table) -> list[dict[str, Any]]:
    names = [name for name in ("commit_lsn", "lsn", "sequence", "valid_from_lsn", "id") if name in table.schema.names]
    return sorted(table.to_pylist(), key=lambda row: tuple(row[name] for name in names))
