"""Changes that cannot be applied go into quarantine, all others go on, and a replay applies what can be applied by then, in order, once."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lake.test_lake import _rows
from support.own_database import own_database
from support.s3_servers import SeaweedFS
from support.sampling import some_of
from support.servers import Server
from support.stopped_runs import interrupt_after
from tailrace.demo.compare import compare_rows
from tailrace.errors import InsufficientLogging, Overtaken, TailraceError, UsageError
from tailrace.lake.catalog import StoredCatalog
from tailrace.lake.delta.table import DeltaVersion
from tailrace.lake.formats import FORMATS
from tailrace.lake.lake import Lake
from tailrace.lake.quarantine import Quarantine
from tailrace.lake.replay import replay
from tailrace.model import Lsn
from tailrace.pipeline import open_pipeline
from tailrace.storage.local_store import LocalStore
from tailrace.storage.open_store import open_store
from tailrace.storage.store import Store
from tailrace.types.registry import ArrowStyle

pytestmark = pytest.mark.postgres
TEXT = ArrowStyle(numeric="text", arrays="text", times="text")
LAYOUTS = ("mirror", "changes", "history")


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server(18, test_decoding=False) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    """In a database of its own."""
    with own_database(running) as server:
        yield server


@pytest.fixture(params=["directory", pytest.param("s3", marks=pytest.mark.soak)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "directory":
        return LocalStore(tmp_path / "lake")
    seaweedfs: SeaweedFS = request.getfixturevalue("seaweedfs")
    return open_store(f"{seaweedfs.url}/{tmp_path.name}", seaweedfs.options)


_format = ["delta"]


@pytest.fixture(params=FORMATS)
def each_format(request: pytest.FixtureRequest) -> Iterator[None]:
    """Lakes are of this format."""
    _format[:] = [request.param]
    yield
    _format[:] = ["delta"]


def _opened(store: Store, layout: str = "mirror", style: ArrowStyle = ArrowStyle(), on_error: str = "quarantine") -> Lake:  # noqa: B008 (frozen)
    return Lake.open(store, style, layout=layout, format=_format[0], on_error=on_error)


def _apply(server: Server, lake: Lake, upto: Lsn | None = None) -> dict[str, int]:
    """What was put aside of each table."""
    start = lake.catalog.complete if lake.catalog else None
    lake.apply(open_pipeline(server.data_dir, server.dbname, start_lsn=start, upto_lsn=upto))
    return {each.table: each.changes for each in lake.quarantine_news}


def _oid(server: Server, name: str) -> int:
    return int(server.value(f"SELECT '{name}'::regclass::oid"))


def _counted(lake: Lake) -> dict[int, int]:
    """How many changes are in quarantine, by table: all that lie there count."""
    counts = Counter[int]()
    for (oid, batch), count in lake.quarantine.counts().items():
        names = lake.names_of(oid)
        assert names is not None
        assert batch in names.all
        counts[oid] += count
    return dict(counts)


def _kept(lake: Lake) -> list[dict[str, Any]]:
    return [row for part in lake.quarantine.rows() for row in part.sort_by("lsn").to_pylist()]


def _is_equal(server: Server, lake: Lake, name: str, key: tuple[str, ...]) -> None:
    with server.connect() as connection:
        found = compare_rows(connection, name, _rows(lake, _oid(server, name)), key)
        assert found.equal, found


# -- one row -----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "good", "bad", "reason"), [
    ("numeric(10,2)", "1.5", "'NaN'", 'column "v": numeric NaN does not fit decimal128(10, 2)'),
    ("numeric(38,0)", "1", "'NaN'", 'column "v": numeric NaN does not fit decimal128(38, 0)'),
    ("timestamp", "'2020-01-01'", "'294270-01-01'", 'column "v": timestamp out of range'),
    ("int[]", "'{1}'", "'{{1,2},{3,4}}'", 'column "v": a integer[] of several dimensions'),
])  # fmt: skip
def test_one_row_among_thousands(server: Server, store: Store, kind: str, good: str, bad: str, reason: str) -> None:
    server.say(
        f"CREATE TABLE t (id int PRIMARY KEY, v {kind}, s text)",
        "CREATE TABLE other (id int PRIMARY KEY)",
        f"INSERT INTO t SELECT n, CASE WHEN n = 777 THEN {bad}::{kind} ELSE {good} END, 'ä' FROM generate_series(1, 3000) n",
        "INSERT INTO other VALUES (1)",
    )
    with pytest.raises(UsageError):
        _apply(server, _opened(store, on_error="stop"))
    lake = _opened(store)
    assert _apply(server, lake) == {"public.t": 1}
    oid = _oid(server, "t")
    assert _counted(lake) == {oid: 1}
    assert len(_rows(lake, oid)) == 2999
    _is_equal(server, lake, "other", ("id",))
    (row,) = _kept(lake)
    assert (row["table"], row["kind"], row["old"]) == ("public.t", "insert", None)
    assert row["reason"].startswith(reason)
    assert '"id": "777"' in row["new"]
    assert '"s": "ä"' in row["new"]
    (done,) = replay(lake)
    assert (done.applied, done.left) == (0, 1)
    assert done.reason.startswith(reason)
    # Its column is converted, and then holds it.
    (done,) = replay(_opened(store, style=TEXT))
    assert (done.applied, done.left) == (1, 0)
    lake.reread()
    assert _counted(lake) == {}
    rows = {row["id"]: row["v"] for row in _rows(lake, oid).to_pylist()}
    with server.connect() as connection:
        assert rows == dict(connection.execute("SELECT id, v::text FROM t").fetchall())
    server.say(f"INSERT INTO t VALUES (3001, {bad}, 'later')")
    assert _apply(server, lake) == {}
    assert len(_rows(lake, oid)) == 3001


@pytest.mark.usefixtures("each_format")
def test_put_right_at_the_source(server: Server, store: Store) -> None:
    """What follows a change of the same row waits with it; the last says what the row is, and those before need not be applied."""
    server.say(
        "CREATE TABLE t (id int PRIMARY KEY, v numeric(10,2), s text)", "CREATE TABLE f (id int PRIMARY KEY, v numeric(10,2))",
        "ALTER TABLE f REPLICA IDENTITY FULL", "INSERT INTO t VALUES (1, 1, 'one'), (2, 2, 'two')", "INSERT INTO f VALUES (1, 1), (2, 2)",
    )  # fmt: skip
    lake = _opened(store)
    _apply(server, lake)
    server.say(
        "UPDATE t SET v = 'NaN' WHERE id = 1", "UPDATE f SET v = 'NaN' WHERE id = 1", "INSERT INTO t VALUES (3, 'NaN', 'three')"
    )
    assert _apply(server, lake) == {"public.t": 2, "public.f": 1}
    server.say("UPDATE t SET s = 'uno' WHERE id = 1", "UPDATE t SET v = 20, s = 'due' WHERE id = 2")
    _apply(server, lake)
    assert {row["id"]: row["s"] for row in _rows(lake, _oid(server, "t")).to_pylist()} == {1: "one", 2: "due"}
    server.say("UPDATE t SET v = 3 WHERE id = 1", "UPDATE f SET v = 3 WHERE id = 1", "DELETE FROM t WHERE id = 3")
    _apply(server, lake)
    assert [(each.table, each.applied, each.needless, each.left) for each in replay(lake)] == [
        ("public.t", 2, 3, 0), ("public.f", 1, 1, 0),
    ]  # fmt: skip
    assert _counted(lake) == {}
    for name in ("t", "f"):
        _is_equal(server, lake, name, ("id",))


@pytest.mark.parametrize("kills", [(0, 2), (1, 1)], ids=["before", "between"])
def test_some_of_them(server: Server, store: Store, kills: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be applied yet stays, and nothing else does, wherever a replay is killed."""
    server.say("CREATE TABLE t (id int PRIMARY KEY, v numeric(10,2))", "INSERT INTO t VALUES (1, 'NaN'), (2, 'NaN'), (3, 3)")
    _apply(server, _opened(store))
    server.say("UPDATE t SET v = 5 WHERE id = 2")
    _apply(server, _opened(store))
    oid = _oid(server, "t")
    for calls in kills:
        interrupt_after(monkeypatch, DeltaVersion, "commit_actions", calls)
        with pytest.raises(KeyboardInterrupt):
            replay(_opened(store))
        monkeypatch.undo()
    lake = _opened(store)
    replay(lake)
    assert _counted(lake) == {oid: 1}
    assert {row["id"]: row["v"] for row in _rows(lake, oid).to_pylist()} == {2: Decimal(5), 3: Decimal(3)}
    (done,) = replay(lake)
    assert (done.applied, done.left) == (0, 1)
    server.say("DELETE FROM t WHERE id = 1")
    _apply(server, lake)
    (done,) = replay(lake)
    assert (done.applied, done.needless, done.left) == (1, 1, 0)
    _is_equal(server, lake, "t", ("id",))


def test_discarded(server: Server, store: Store) -> None:
    """What is asked for explicitly: the change that does not fit is given up, and what says all of the row behind it is not."""
    server.say(
        "CREATE TABLE t (id int PRIMARY KEY, v numeric(10,2))", "INSERT INTO t VALUES (1, 1), (2, 'NaN'), (3, 'NaN')",
    )  # fmt: skip
    lake = _opened(store)
    _apply(server, lake)
    server.say("UPDATE t SET v = 5 WHERE id = 2", "UPDATE t SET v = 'NaN' WHERE id = 1")
    _apply(server, lake)
    with pytest.raises(UsageError, match="does not exist"):
        replay(lake, ["public.none"], discard=True)
    (done,) = replay(lake, ["t"], discard=True)
    assert (done.applied, done.needless, done.discarded, done.left) == (1, 1, 2, 0)
    assert _counted(lake) == {}
    assert sorted(map(tuple, (row.values() for row in _rows(lake, _oid(server, "t")).to_pylist()))) == [
        (1, Decimal(1)), (2, Decimal(5)),
    ]  # fmt: skip


def test_rows_that_were_all_replaced(server: Server, tmp_path: Path) -> None:
    """By TRUNCATE, or ALTER TABLE: what was in quarantine of before is nobody's any more; the first of the rows written anew may not fit."""
    lake = _opened(LocalStore(tmp_path))
    server.say("CREATE TABLE t (id int PRIMARY KEY, v numeric(10,2))", "INSERT INTO t VALUES (1, 'NaN'), (2, 2)")
    assert _apply(server, lake) == {"public.t": 1}
    server.say("TRUNCATE t", "INSERT INTO t VALUES (1, 1), (3, 'NaN')")
    assert _apply(server, lake) == {"public.t": 1}
    assert [row["new"] for row in _kept(lake)] == ['{"id": "3", "v": "NaN"}']
    server.say("TRUNCATE t", "INSERT INTO t VALUES (1, 'NaN'), (2, 2)", "ALTER TABLE t ALTER v TYPE numeric(12,3)")
    assert _apply(server, lake) == {"public.t": 1}
    assert [row["new"] for row in _kept(lake)] == ['{"id": "1", "v": "NaN"}']
    assert _rows(lake, _oid(server, "t")).to_pylist() == [{"id": 2, "v": Decimal("2.000")}]
    server.say("TRUNCATE t", "INSERT INTO t VALUES (1, 'NaN')", "ALTER TABLE t ALTER v TYPE numeric(14,4)")
    assert _apply(server, lake) == {"public.t": 1}
    assert len(_rows(lake, _oid(server, "t"))) == 0
    server.say("UPDATE t SET v = 1")
    _apply(server, lake)
    replay(lake)
    _is_equal(server, lake, "t", ("id",))
    assert _counted(lake) == {}


def test_columns_that_come_and_go_meanwhile(server: Server, tmp_path: Path) -> None:
    lake = _opened(LocalStore(tmp_path))
    server.say(
        "CREATE TABLE t (id int PRIMARY KEY, gone text, v numeric(10,2))", "INSERT INTO t VALUES (1, 'x', 'NaN'), (2, 'y', 2)"
    )
    _apply(server, lake)
    server.say(
        "ALTER TABLE t DROP gone",
        "ALTER TABLE t ADD more int DEFAULT 7",
        "ALTER TABLE t RENAME v TO w",
        "INSERT INTO t VALUES (3, 3)",
    )
    _apply(server, lake)
    server.say("ALTER TABLE t RENAME TO u", "INSERT INTO u VALUES (4, 4)")
    _apply(server, lake)
    (done,) = replay(_opened(lake.store, style=TEXT))
    assert (done.table, done.applied) == ("public.u", 1)
    lake.reread()
    assert sorted(tuple(row.values()) for row in _rows(lake, _oid(server, "u")).to_pylist()) == [
        (1, "NaN", 7), (2, "2.00", 7), (3, "3.00", 7), (4, "4.00", 7),
    ]  # fmt: skip


EVERY_TYPE = """
CREATE TYPE mood AS ENUM ('sad', 'so so');
CREATE DOMAIN price AS numeric(10,2);
CREATE TYPE pair AS (a int, b text);
CREATE TABLE t (id int PRIMARY KEY, v numeric(10,2), dom price, b bool, i2 smallint, i8 bigint, f4 real, f8 float8, n numeric, t text,
    vc varchar(9), c char(4), by bytea, d date, ts timestamp, tz timestamptz, tm time, iv interval, u uuid, j json, jb jsonb, m mood, p pair,
    ia int[], ta text[], r int4range, ip inet, bits bit(5), long text, o regclass);
ALTER TABLE t ALTER long SET STORAGE EXTERNAL;
INSERT INTO t VALUES (1, 1, 1.5, true, 2, 3, 0.1, 0.2, 1e40, 'ä''"\\', 'v', 'c', '\\x00ff', '2020-02-29', '2020-01-01 01:02:03.4',
    '2020-01-01 00:00+02', '01:02', '1 mon 2 days', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a": 1}', '{"b": [1, null]}', 'so so', '(1,"x y")',
    '{1,NULL,3}', '{"a,b",NULL}', '[1,5)', '10.0.0.0/8', B'10101', repeat('long', 3000), 'pg_class');
INSERT INTO t (id) VALUES (2)
"""


@pytest.mark.usefixtures("each_format")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_value_comes_back(server: Server, tmp_path: Path, layout: str) -> None:
    """Of any type, nulls, and what a record left out since it had not changed."""
    server.say(*EVERY_TYPE.strip().split(";\n"))
    lake, whole = _opened(LocalStore(tmp_path / "lake"), layout), _opened(LocalStore(tmp_path / "whole"), layout, TEXT)
    _apply(server, lake)
    server.say(
        "UPDATE t SET v = 'NaN'", "UPDATE t SET i8 = 4", "ALTER TABLE t ADD later text DEFAULT 'given'", "UPDATE t SET id = id + 10",
        "INSERT INTO t SELECT id - 8, v FROM t",
    )  # fmt: skip
    _apply(server, lake)
    _apply(server, whole)
    oid = _oid(server, "t")
    assert _counted(lake) == {oid: 8}
    (done,) = replay(_opened(lake.store, layout, TEXT))
    assert (done.applied, done.left) == (8, 0)
    lake.reread()
    assert _contents(lake, oid) == _contents(whole, oid)


def test_another_encoding(running: Server, tmp_path: Path) -> None:
    before = running.dbname
    running.sql("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    running.dbname = "latin"
    try:
        running.say("CREATE TABLE t (id text PRIMARY KEY, v numeric(10,2))", "INSERT INTO t VALUES (chr(228), 'NaN'), ('b', 1)")
        lake = _opened(LocalStore(tmp_path))
        _apply(running, lake)
        assert [row["new"] for row in _kept(lake)] == ['{"id": "ä", "v": "NaN"}']
        running.say("UPDATE t SET v = 2")
        _apply(running, lake)
        assert sum(_counted(lake).values()) == 2
        replay(lake)
        assert sorted(row["id"] for row in _rows(lake, _oid(running, "t")).to_pylist()) == ["b", "ä"]
    finally:
        running.dbname = before


def test_a_partitioned_table_as_one(server: Server, tmp_path: Path) -> None:
    """Published as its root, with leaves whose columns lie otherwise."""
    server.say(
        "CREATE TABLE p (id int PRIMARY KEY, v numeric(10,2)) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF p FOR VALUES FROM (0) TO (10)", "CREATE TABLE high (v numeric(10,2), gone int, id int NOT NULL)",
        "ALTER TABLE high DROP gone", "ALTER TABLE p ATTACH PARTITION high FOR VALUES FROM (10) TO (20)",
        "CREATE PUBLICATION pub FOR TABLE p WITH (publish_via_partition_root)", "INSERT INTO p VALUES (1, 1), (2, 'NaN'), (11, 11), (12, 'NaN')",
    )  # fmt: skip

    def apply(lake: Lake) -> list[int]:
        start = lake.catalog.complete if lake.catalog else None
        feed = open_pipeline(server.data_dir, server.dbname, start_lsn=start).publishing(["pub"])
        lake.apply(feed)
        return [each.changes for each in lake.quarantine_news]

    lake = _opened(LocalStore(tmp_path / "lake"))
    assert apply(lake) == [2]
    assert {row["table"] for row in _kept(lake)} == {"public.p"}
    server.say("UPDATE p SET v = 20 WHERE id = 12", "UPDATE p SET id = 13 WHERE id = 2")
    assert apply(lake) == [3]  # the row moves from leaf to leaf
    (done,) = replay(lake, ["p"])
    assert (done.applied, done.needless, done.left) == (2, 2, 1)
    assert {row["id"]: row["v"] for row in _rows(lake, _oid(server, "p")).to_pylist()} == {
        1: Decimal(1),
        11: Decimal(11),
        12: Decimal(20),
    }
    (done,) = replay(_opened(lake.store, style=TEXT))
    lake.reread()
    assert {row["id"]: row["v"] for row in _rows(lake, _oid(server, "p")).to_pylist()} == {
        1: "1.00", 11: "11.00", 12: "20.00", 13: "NaN",
    }  # fmt: skip


# -- a whole table -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("each_format")
def test_rows_that_cannot_be_told_apart(server: Server, store: Store) -> None:
    """The table stays where it is; the others go on; a replay does not guess, and what replaces all rows lets it go on."""
    server.say("CREATE TABLE h (a int)", "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO h VALUES (1), (2)")
    lake = _opened(store)
    _apply(server, lake)
    server.say("UPDATE h SET a = 3 WHERE a = 1", "INSERT INTO t VALUES (1)")
    with pytest.raises(InsufficientLogging) as told:
        _apply(server, _opened(store, on_error="stop"))
    assert told.value.hint.endswith("REPLICA IDENTITY FULL, ALTER a_column TYPE its_type USING coalesce(a_column, a_column).")
    lake.reread()
    assert _apply(server, lake) == {"public.h": 1}
    oid = _oid(server, "h")
    assert lake.catalog is not None
    assert (held := lake.catalog.tables[oid].held) is not None
    assert held.message == 'cannot update table "h" because it does not have a replica identity and publishes updates'
    _is_equal(server, lake, "t", ("id",))
    server.say("ALTER TABLE h ADD PRIMARY KEY (a)", "INSERT INTO h VALUES (4)", "INSERT INTO t VALUES (2)")
    stopping = _opened(store, on_error="stop")  # what is held stays so, whatever the policy
    assert _apply(server, stopping) == {"public.h": 1}
    assert _counted(stopping) == {oid: 2}
    (done,) = replay(stopping)
    assert (done.left, done.applied) == (2, 0)
    assert "did not have a replica identity" in done.reason
    assert sorted(row["a"] for row in _rows(lake, oid).to_pylist()) == [1, 2]
    server.say("ALTER TABLE h ALTER a TYPE int USING coalesce(a, a)", "UPDATE h SET a = 5 WHERE a = 4")
    assert _apply(server, stopping) == {}
    assert _counted(stopping) == {}
    for name, key in (("h", ("a",)), ("t", ("id",))):
        _is_equal(server, stopping, name, key)


def test_rows_that_could_not_be_told_apart_at_first(server: Server, tmp_path: Path) -> None:
    """The table has a replica identity by the end of the window, and had none before: it is held all the same, and the others go on."""
    server.say("CREATE TABLE h (a int)", "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO h VALUES (1), (2)")
    lake = _opened(LocalStore(tmp_path))
    _apply(server, lake)
    server.say("UPDATE h SET a = 3 WHERE a = 1", "ALTER TABLE h REPLICA IDENTITY FULL", "UPDATE h SET a = 4 WHERE a = 3")
    server.say("INSERT INTO t VALUES (1)")
    assert _apply(server, lake) == {"public.h": 2}
    assert lake.catalog is not None
    oid = _oid(server, "h")
    assert lake.catalog.tables[oid].held is not None
    _is_equal(server, lake, "t", ("id",))
    assert sorted(row["a"] for row in _rows(lake, oid).to_pylist()) == [1, 2]
    server.say("ALTER TABLE h ALTER a TYPE int USING a + 0")
    assert _apply(server, lake) == {}
    assert _counted(lake) == {}
    _is_equal(server, lake, "h", ("a",))


def test_a_table_is_discarded_to_go_on(server: Server, tmp_path: Path) -> None:
    """Its changes that cannot be applied are given up, and rows that came are not."""
    server.say("CREATE TABLE h (a int)", "INSERT INTO h VALUES (1)")
    lake = _opened(LocalStore(tmp_path))
    _apply(server, lake)
    server.say("UPDATE h SET a = 3", "INSERT INTO h VALUES (4)")
    _apply(server, lake)
    (done,) = replay(lake, discard=True)
    assert (done.applied, done.discarded, done.left) == (1, 1, 0)
    server.say("INSERT INTO h VALUES (5)")
    assert _apply(server, lake) == {}
    assert sorted(row["a"] for row in _rows(lake, _oid(server, "h")).to_pylist()) == [1, 4, 5]
    assert _counted(lake) == {}


def test_a_table_that_no_lake_can_have(server: Server, tmp_path: Path) -> None:
    """Held before it is made; a replay makes it once its columns have other names."""
    server.say('CREATE TABLE t (id int PRIMARY KEY, a int, "A" int)', "INSERT INTO t VALUES (1, 2, 3)")
    lake = _opened(LocalStore(tmp_path))
    assert _apply(server, lake) == {"public.t": 1}
    server.say('ALTER TABLE t RENAME "A" TO b', "INSERT INTO t VALUES (4, 5, 6)", "UPDATE t SET b = 9 WHERE id = 1")
    assert _apply(server, lake) == {"public.t": 2}
    (done,) = replay(lake)
    assert (done.applied, done.left) == (3, 0)
    _is_equal(server, lake, "t", ("id",))
    server.say("UPDATE t SET b = 10")
    assert _apply(server, lake) == {}
    _is_equal(server, lake, "t", ("id",))
    assert _counted(lake) == {}


@pytest.mark.usefixtures("each_format")
def test_a_replay_while_the_columns_are_still_none_of_a_lake(server: Server, store: Store) -> None:
    server.say("CREATE TABLE t (id int PRIMARY KEY, a int)", "INSERT INTO t VALUES (1, 1)")
    lake = _opened(store)
    assert _apply(server, lake) == {}
    server.say('ALTER TABLE t ADD "A" int', "INSERT INTO t VALUES (2, 2, 2)")
    assert _apply(server, lake) == {"public.t": 1}
    before = lake.opened(lake.catalog.tables[_oid(server, "t")]).version if lake.catalog is not None else None
    for _ in range(2):
        (done,) = replay(lake)
        assert (done.applied, done.left) == (0, 1)
        assert done.reason == 'columns a and "A" are one to readers of a lake'
    assert lake.catalog is not None
    assert lake.catalog.tables[_oid(server, "t")].held is not None
    assert lake.opened(lake.catalog.tables[_oid(server, "t")]).version == before
    with pytest.raises(UsageError, match="are one to readers of a lake"):
        replay(lake, discard=True)
    server.say('ALTER TABLE t RENAME "A" TO b', "UPDATE t SET b = 9 WHERE id = 1")
    _apply(server, lake)
    (done,) = replay(lake)
    assert (done.applied, done.left) == (2, 0)
    _is_equal(server, lake, "t", ("id",))


def test_a_type_that_does_not_hold_what_history_has(server: Server, tmp_path: Path) -> None:
    lake = _opened(LocalStore(tmp_path), "history")
    server.say("CREATE TABLE t (id int PRIMARY KEY, v int)", "CREATE TABLE u (id int PRIMARY KEY)", "INSERT INTO t VALUES (1, 1)")
    _apply(server, lake)
    server.say("ALTER TABLE t ALTER v TYPE text", "INSERT INTO t VALUES (2, 'two')", "INSERT INTO u VALUES (1)")
    assert set(_apply(server, lake)) == {"public.t"}
    oid = _oid(server, "t")
    assert lake.catalog is not None
    assert (held := lake.catalog.tables[oid].held) is not None
    assert held.sqlstate == "42804"
    (done,) = replay(lake)
    assert done.left
    assert "cannot read values" in done.reason
    assert len(_rows(lake, oid)) == 1


def test_a_history_whose_rows_are_replaced(server: Server, tmp_path: Path) -> None:
    """What waits is told before what replaces it: the table is held until that can be told, and then goes on."""
    lake, whole = _opened(LocalStore(tmp_path / "lake"), "history"), _opened(LocalStore(tmp_path / "whole"), "history", TEXT)
    server.say("CREATE TABLE t (id int PRIMARY KEY, v numeric(10,2))", "INSERT INTO t VALUES (1, 'NaN'), (2, 2)")
    _apply(server, lake)
    server.say("TRUNCATE t", "INSERT INTO t VALUES (1, 1)")
    _apply(server, lake)
    oid = _oid(server, "t")
    assert lake.catalog is not None
    assert lake.catalog.tables[oid].held is not None
    server.say("UPDATE t SET v = 'NaN'", "ALTER TABLE t ALTER v TYPE numeric(12,2) USING v + 0", "INSERT INTO t VALUES (3, 3)")
    _apply(server, lake)
    replay(_opened(lake.store, "history", TEXT))
    lake.reread()
    assert lake.catalog is not None
    assert lake.catalog.tables[oid].held is None
    server.say("UPDATE t SET v = 4 WHERE id = 3")
    assert _apply(server, lake) == {}
    _apply(server, whole)
    assert _contents(lake, oid) == _contents(whole, oid)
    assert _counted(lake) == {}


def test_a_dropped_table_and_what_is_kept_of_it(server: Server, tmp_path: Path) -> None:
    lake = _opened(LocalStore(tmp_path))
    server.say(
        "CREATE TABLE t (id int PRIMARY KEY, v numeric(10,2))",
        "CREATE TABLE h (a int)",
        "INSERT INTO t VALUES (1, 'NaN')",
        "INSERT INTO h VALUES (1)",
    )
    _apply(server, lake)
    server.say("UPDATE h SET a = 2")
    _apply(server, lake)
    oids = _oid(server, "t"), _oid(server, "h")
    server.say("DROP TABLE t, h", "CREATE TABLE more (id int)", "INSERT INTO more VALUES (1)")
    _apply(server, lake)
    assert lake.catalog is not None
    assert all(lake.catalog.tables[oid].dropped is not None for oid in oids)
    assert _counted(lake) == dict.fromkeys(oids, 1)
    assert [each.discarded for each in replay(lake, discard=True)] == [1, 1]
    assert _counted(lake) == {}


# -- whatever happens ----------------------------------------------------------------------------------------------------------------------------


TABLES = ("CREATE TABLE t (id int PRIMARY KEY, v numeric(10,2), s text)", "CREATE TABLE bag (a int, v numeric(10,2))",
          "ALTER TABLE bag REPLICA IDENTITY FULL")  # fmt: skip


def _steps(chance: random.Random, count: int) -> list[str]:
    """Statements, some of which put in values that no decimal holds."""

    def value() -> str:
        return "'NaN'" if chance.random() < 0.15 else str(chance.randrange(9))

    def some() -> int:
        return chance.randrange(6)

    def moved(old: int, new: int) -> str:
        return f"UPDATE t SET id = {new} WHERE id = {old} AND NOT EXISTS (SELECT FROM t WHERE id = {new})"

    kinds: list[Callable[[], str]] = [
        lambda: f"INSERT INTO t VALUES ({some()}, {value()}, 'i') ON CONFLICT (id) DO UPDATE SET v = excluded.v",
        lambda: f"UPDATE t SET v = {value()} WHERE id = {some()}",
        lambda: f"UPDATE t SET s = s || 'x' WHERE id = {some()}",
        lambda: moved(some(), some()),
        lambda: f"DELETE FROM t WHERE id = {some()}",
        lambda: f"INSERT INTO bag VALUES ({some()}, {value()})",
        lambda: f"UPDATE bag SET v = {value()} WHERE ctid IN (SELECT ctid FROM bag WHERE a = {some()} LIMIT 1)",
        lambda: f"DELETE FROM bag WHERE ctid IN (SELECT ctid FROM bag WHERE a = {some()} LIMIT 1)",
    ]
    return [chance.choice(kinds)() for _ in range(count)]


def _contents(lake: Lake, oid: int) -> Counter[str]:
    """Rows as text, numerics of any scale the same."""

    def shown(value: Any) -> Any:
        if isinstance(value, dict):
            return tuple((name, shown(each)) for name, each in value.items())
        return str(value) if isinstance(value, Decimal) else value

    return Counter(repr({name: shown(value) for name, value in row.items()}) for row in _rows(lake, oid).to_pylist())


@pytest.mark.usefixtures("each_format")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.marathon)])
def test_a_walk(server: Server, tmp_path: Path, layout: str, seed: int) -> None:
    """Windows and replays anywhere: in the end the tables are what they are where everything fitted from the beginning, and nothing that is
    in the lake meanwhile is older than what was there before."""
    chance = random.Random(f"{layout} {seed}")
    lake = _opened(LocalStore(tmp_path / "lake"), layout)
    whole = _opened(LocalStore(tmp_path / "whole"), layout, TEXT)
    server.say(*TABLES)
    for _ in range(8):
        server.say(*_steps(chance, chance.randrange(1, 12)))
        _apply(server, lake)
        if chance.random() < 0.4:
            replay(lake)
        if layout == "mirror" and lake.catalog is not None and _oid(server, "t") in lake.catalog.tables:
            waiting = {key for row in _kept(lake) if row["table"] == "public.t" for key in _ids(row)}
            with server.connect() as connection:
                there = connection.execute("SELECT id, v, s FROM t").fetchall()
            mine = {tuple(row.values()) for row in _rows(lake, _oid(server, "t")).to_pylist()}
            assert {row for row in mine if row[0] not in waiting} == {row for row in there if row[0] not in waiting}
    _apply(server, whole)
    assert whole.quarantine_news == []
    done = replay(_opened(lake.store, layout, TEXT))
    assert not any(each.left for each in done)
    lake.reread()
    assert _counted(lake) == {}
    for name in ("t", "bag"):
        oid = _oid(server, name)
        assert _contents(lake, oid) == _contents(whole, oid)


def _ids(row: dict[str, Any]) -> list[int]:
    return [int(each.split('"')[3]) for each in (row["new"], row["old"]) if each]


def _beginning(server: Server, store: Store, layout: str) -> None:
    """A lake, and a window ahead of it with all sorts of trouble."""
    server.say(
        *TABLES, "CREATE TABLE h (a int)", "INSERT INTO t SELECT n, n, 's' FROM generate_series(1, 20) n",
        "INSERT INTO bag VALUES (1, 1), (1, 1), (2, 2)", "INSERT INTO h VALUES (1)",
    )  # fmt: skip
    _apply(server, _opened(store, layout))
    server.say(
        "UPDATE t SET v = 'NaN' WHERE id = 5", "UPDATE t SET s = 'later' WHERE id IN (5, 6)", "INSERT INTO bag VALUES (7, 'NaN'), (8, 8)",
        "UPDATE h SET a = 2", "DELETE FROM bag WHERE ctid IN (SELECT ctid FROM bag WHERE a = 1 LIMIT 1)",
    )  # fmt: skip


OWNERS = {"table": DeltaVersion, "catalog": StoredCatalog}
KILLED = [
    pytest.param(owner, layout, id=f"{owner}-{layout}")
    for layout, owners in zip(LAYOUTS, ("table catalog", "catalog table") * 2, strict=False)
    for owner in owners.split()
]


@pytest.mark.parametrize(("owner", "layout"), some_of(KILLED, 2))
def test_killed_at_each_commit(server: Server, tmp_path: Path, layout: str, owner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what applies a window and of what replays: no change is lost, and none is kept or applied twice."""
    store = LocalStore(tmp_path / "lake")
    _beginning(server, store, layout)
    name = "commit_actions" if owner == "table" else "replaced"

    def killed_until_done(act: Callable[[Lake], object], style: ArrowStyle = ArrowStyle()) -> int:  # noqa: B008 (frozen)
        for calls in range(20):
            interrupt_after(monkeypatch, OWNERS[owner], name, calls)
            try:
                act(_opened(store, layout, style))
                return calls
            except KeyboardInterrupt:
                pass
            finally:
                monkeypatch.undo()
        raise AssertionError

    kills = killed_until_done(lambda lake: _apply(server, lake))
    assert kills or owner == "catalog"
    lake = _opened(store, layout)
    keyed = 3 if layout != "changes" else 1 + 1
    if layout == "changes":
        assert _counted(lake) == {_oid(server, "t"): keyed, _oid(server, "bag"): 1}
    else:
        assert _counted(lake) == {_oid(server, "t"): 2, _oid(server, "bag"): 1, _oid(server, "h"): 1}
    killed_until_done(lambda lake: replay(lake, ["t", "bag"]), TEXT)
    lake.reread()
    assert set(_counted(lake)) <= {_oid(server, "h")}
    whole = _opened(LocalStore(tmp_path / "whole"), layout, TEXT)
    _apply(server, whole)
    for table in ("t", "bag"):
        assert _contents(lake, _oid(server, table)) == _contents(whole, _oid(server, table))


def test_a_run_that_sees_no_trouble_is_quicker(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One has put a row into quarantine, and before it commits to the table another applies that row: it is in the table, and not in
    quarantine."""
    store = LocalStore(tmp_path)
    server.say(*TABLES, "INSERT INTO t VALUES (1, 1, 's')")
    _apply(server, _opened(store))
    server.say("UPDATE t SET v = 'NaN' WHERE id = 1", "INSERT INTO t VALUES (2, 2, 's')")
    slow = _opened(store)
    interrupt_after(monkeypatch, DeltaVersion, "commit_actions", 1)
    with pytest.raises(KeyboardInterrupt):
        _apply(server, slow)
    monkeypatch.undo()
    assert sum(slow.quarantine.counts().values()) == 1
    quick = _opened(store, style=TEXT)
    assert _apply(server, quick) == {}
    assert _counted(quick) == {}
    slow.reread()
    assert _apply(server, slow) == {}
    _is_equal_as_text(server, slow)


def _is_equal_as_text(server: Server, lake: Lake) -> None:
    with server.connect() as connection:
        there = connection.execute("SELECT id, v::text, s FROM t").fetchall()
    assert sorted(there) == sorted(tuple(row.values()) for row in _rows(lake, _oid(server, "t")).to_pylist())


@pytest.mark.usefixtures("each_format")
@pytest.mark.parametrize("layout", ["mirror", *(pytest.param(each, marks=pytest.mark.marathon) for each in LAYOUTS[1:])])
def test_two_runs_and_a_replay_at_once(server: Server, store: Store, layout: str, tmp_path: Path) -> None:
    """Windows of different lengths, and replays in between: each change is there once."""
    chance = random.Random(layout)
    server.say(*TABLES)
    ends = []
    for _ in range(6):
        server.say(*_steps(chance, 8))
        ends.append(Lsn.parse(server.flush_lsn()))
    failures: list[BaseException] = []

    def run(act: Callable[[Lake], object], until: Callable[[Lake], bool]) -> None:
        try:
            lake = _opened(store, layout)
            while not until(lake):
                with contextlib.suppress(Overtaken):
                    act(lake)
                lake.reread()
        except BaseException as error:
            failures.append(error)

    def is_done(lake: Lake) -> bool:
        return bool(failures) or (lake.catalog is not None and lake.catalog.complete >= ends[-1])

    def some(every: int) -> Callable[[Lake], object]:
        def act(lake: Lake) -> object:
            complete = lake.catalog.complete if lake.catalog else Lsn(0)
            behind = [end for end in ends if end > complete]
            return _apply(server, lake, behind[min(every, len(behind)) - 1]) if behind else None

        return act

    acts = [some(1), some(2), lambda lake: replay(lake) if lake.catalog else None]
    threads = [threading.Thread(target=run, args=(act, is_done)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    lake = _opened(store, layout, TEXT)
    assert not any(each.left for each in replay(lake))
    lake.reread()
    lake.quarantine.tidy(lake.names_of, ends[-1])
    assert _counted(lake) == {}
    whole = _opened(LocalStore(tmp_path / "whole"), layout, TEXT)
    _apply(server, whole, ends[-1])
    for table in ("t", "bag"):
        assert _contents(lake, _oid(server, table)) == _contents(whole, _oid(server, table))


# -- the table itself ------------------------------------------------------------------------------------------------------------------------------


def test_many_batches_become_one(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.lake.quarantine._MANY_BATCHES", 2)
    monkeypatch.setattr("tailrace.lake.quarantine._MANY_FILES", 3)
    server.say(*TABLES)
    lake = _opened(LocalStore(tmp_path))
    for n in range(8):
        server.say(f"INSERT INTO t VALUES ({n}, 'NaN', 's')")
        assert _apply(server, lake) == {"public.t": 1}
        assert _counted(lake) == {_oid(server, "t"): n + 1}
    names = lake.names_of(_oid(server, "t"))
    assert names is not None
    assert len(names.names) <= 3
    (done,) = replay(_opened(lake.store, style=TEXT))
    assert done.applied == 8


def test_others_can_read_it(server: Server, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    server.say(*TABLES, "INSERT INTO t VALUES (1, 'NaN', 's')")
    lake = _opened(LocalStore(tmp_path))
    _apply(server, lake)
    rows = pa.table(deltalake.DeltaTable(tmp_path / "_tailrace/quarantine").to_pyarrow_table()).to_pylist()
    assert [(row["table"], row["kind"], row["new"]) for row in rows] == [
        ("public.t", "insert", '{"id": "1", "v": "NaN", "s": "s"}')
    ]


def test_no_quarantine_without_trouble(server: Server, tmp_path: Path) -> None:
    server.say(*TABLES, "INSERT INTO t VALUES (1, 1, 's')")
    lake = _opened(LocalStore(tmp_path))
    assert _apply(server, lake) == {}
    assert replay(lake) == []
    assert not (tmp_path / "_tailrace/quarantine").exists()
    assert Quarantine.of(lake.store).counts() == {}
    with pytest.raises(TailraceError, match='invalid value for parameter "on_error"'):
        _opened(lake.store, on_error="ignore")
