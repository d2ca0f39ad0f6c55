"""A window that is large is applied by workers, from files to files: to the same as in memory, and nothing of what they wrote in vain stays."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lake.test_lake import _rows, store  # noqa: F401  # a fixture
from support.sampling import some_of
from support.servers import Server
from tailrace.demo.compare import compare_rows
from tailrace.feed import Feed
from tailrace.lake.files import edit_tasks
from tailrace.lake.files.data_files import DataFiles, is_ours
from tailrace.lake.files.workers import HERE, Run, Workers, run_here
from tailrace.lake.formats import FORMATS
from tailrace.lake.lake import Lake
from tailrace.model import Lsn
from tailrace.pipeline import open_pipeline
from tailrace.storage.local_store import LocalStore
from tailrace.storage.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.postgres

KEYS = {"plain": ("id",), "worded": ("name", "part"), "long": ("id",), "bag": (), "kinds": ("at",)}
TABLES = (
    "CREATE TABLE plain (id bigint PRIMARY KEY, v text, n numeric(12,2))",
    "CREATE TABLE worded (name text, part int, v float8, PRIMARY KEY (name, part))",
    "CREATE TABLE long (id int PRIMARY KEY, n int, big text STORAGE EXTERNAL)",
    "CREATE TABLE bag (a int, b text, c int[])",
    "ALTER TABLE bag REPLICA IDENTITY FULL",
    "CREATE TABLE kinds (at timestamp PRIMARY KEY, d date, f float8)",
)
FIRST = (
    "INSERT INTO plain SELECT g, 'first', g FROM generate_series(1, 3000) g",
    "INSERT INTO worded SELECT 'name ' || g % 40, g, g FROM generate_series(1, 1500) g",
    "INSERT INTO long SELECT g, 0, repeat(md5(g::text), 100) FROM generate_series(1, 60) g",
    "INSERT INTO bag SELECT g % 9, 'b' || g % 4, ARRAY[g % 3, NULL] FROM generate_series(1, 900) g",
    "INSERT INTO kinds SELECT '2026-01-01'::timestamp + g * interval '1 h', '2026-01-01'::date + g, g FROM generate_series(1, 500) g",
)
SECOND = (
    "UPDATE plain SET v = 'second' WHERE id % 3 = 0",
    "UPDATE plain SET id = id + 10000 WHERE id % 10 = 1",
    "DELETE FROM plain WHERE id BETWEEN 1000 AND 1100 OR id > 12500",
    "INSERT INTO plain SELECT g, 'again', g FROM generate_series(1001, 1050) g",
    "UPDATE plain SET v = 'third', n = n + 1 WHERE id % 7 = 0",
    "UPDATE worded SET v = -v WHERE part % 5 = 0",
    "UPDATE worded SET name = 'moved' WHERE part % 11 = 0",
    "DELETE FROM worded WHERE part > 1300",
    *("UPDATE long SET n = n + 1",) * 4,
    "UPDATE long SET id = id + 100 WHERE id % 6 = 0",
    "UPDATE long SET n = n + 1 WHERE id > 100",
    "UPDATE long SET big = repeat('new', 1000) WHERE id % 7 = 0",
    "UPDATE long SET n = n + 1",
    "DELETE FROM bag WHERE ctid IN (SELECT ctid FROM bag WHERE a = 1 LIMIT 30)",
    "UPDATE bag SET b = NULL WHERE a = 2",
    "UPDATE bag SET b = 'back' WHERE b IS NULL",
    "INSERT INTO bag SELECT 1, 'b1', ARRAY[1, NULL] FROM generate_series(1, 20)",
    "DELETE FROM bag WHERE a = 1 AND b = 'b1'",
    "UPDATE kinds SET d = NULL, f = 'NaN' WHERE f BETWEEN 10 AND 20",
    "INSERT INTO kinds VALUES ('2036-01-01', NULL, '-Infinity') ON CONFLICT DO NOTHING",
    "UPDATE kinds SET at = at - interval '10000 days' WHERE f > 450",
    "DELETE FROM kinds WHERE f = 5",
)


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server(18, test_decoding=False) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.say("DROP SCHEMA public CASCADE", "CREATE SCHEMA public", *TABLES)
    return running


def _apart(work: Any, items: Any) -> Iterator[Any]:
    """What another process would get, and give."""
    packed = pickle.dumps(work)
    for item in items:
        yield pickle.loads(pickle.dumps(pickle.loads(packed)(pickle.loads(pickle.dumps(item)))))


def _all_large(monkeypatch: pytest.MonkeyPatch, run: Run = _apart, *, are_elsewhere: bool = True) -> None:
    """From now on every window is, and is cut into many chunks."""
    workers = Workers(run, are_elsewhere=are_elsewhere, large_bytes=1, chunk_bytes=60_000, large_files=1)
    monkeypatch.setattr(Workers, "of", lambda feed: workers)


class Following:
    """A lake that begins here."""

    def __init__(self, server: Server, store: Store, format: str = "delta") -> None:  # noqa: F811
        self.server, self.store, self.format = server, store, format
        self.start = Lsn.parse(server.flush_lsn())

    def feed(self, **more: Any) -> Feed:
        catalog = Lake.open(self.store).catalog
        return open_pipeline(self.server.data_dir, "postgres", start_lsn=catalog.complete if catalog else self.start, **more)

    def apply(self, **more: Any) -> Lake:
        lake = Lake.open(self.store, format=self.format, stages_here=not more)
        lake.apply(self.feed(**more))
        return lake

    def check_equal(self, lake: Lake) -> None:
        assert lake.catalog is not None
        with self.server.connect() as connection:
            for oid, each in lake.catalog.tables.items():
                found = compare_rows(connection, each.name, _rows(lake, oid), KEYS[each.name])
                assert found.equal, (each.name, found)

    def check_no_strays(self, lake: Lake) -> None:
        """In the tables' folders are those files that some version of the table had, and no others."""
        assert lake.catalog is not None
        for table in lake.catalog.tables.values():
            there = {
                each.name for each in self.store.list(f"{table.folder}/") if is_ours(each.name.removeprefix(f"{table.folder}/"))
            }
            log = b"".join(
                self.store.read(each.name)
                for each in self.store.list(f"{table.folder}/_delta_log/")
                if each.name.endswith("json")
            )
            assert {name for name in there if name.rpartition("/")[2].encode() not in log and "_dv/" not in name} == set()


@pytest.mark.parametrize("format", FORMATS)
def test_as_in_memory(server: Server, store: Store, format: str, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    followed = Following(server, store, format)
    with monkeypatch.context() as patch:
        _all_large(patch)
        for script in (FIRST, SECOND):
            server.say(*script)
            followed.check_equal(followed.apply())
    server.say(*SECOND)
    followed.check_equal(followed.apply())


@pytest.mark.parametrize("room", [1 << 20, 3000, 0])
def test_threads_that_share_the_keys_they_read(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:  # fmt: skip
    """Whether there is room for all of them, for some, or for none."""
    followed = Following(server, LocalStore(tmp_path / "lake"))
    _all_large(monkeypatch, run_here, are_elsewhere=False)
    monkeypatch.setattr(edit_tasks, "_AT_HAND", room)
    for script in (FIRST, SECOND):
        server.say(*script)
        followed.check_equal(followed.apply())


def test_rows_that_come_go_and_come_again(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunk after chunk meets the same few keys."""
    dice = random.Random(7)
    followed = Following(server, LocalStore(tmp_path / "lake"))
    _all_large(monkeypatch)
    for _ in range(3):
        script = []
        for _ in range(300):
            here = dice.randrange(60)
            script.append(
                dice.choice(
                    (
                        f"INSERT INTO plain VALUES ({here}, repeat('x', 300), {here}) ON CONFLICT (id) DO UPDATE SET n = plain.n + 1",
                        f"DELETE FROM plain WHERE id = {here}",
                        f"UPDATE plain SET id = id + 1 WHERE id = {here} AND NOT EXISTS (SELECT FROM plain WHERE id = {here} + 1)",
                        f"INSERT INTO bag VALUES ({here % 3}, 'x', NULL)",
                        f"DELETE FROM bag WHERE ctid IN (SELECT ctid FROM bag WHERE a = {here % 3} LIMIT 2)",
                    )
                )
            )  # fmt: skip
        server.say(*script)
        followed.check_equal(followed.apply())


def test_other_columns_and_other_types(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows are written anew, by workers, before the changes come."""
    followed = Following(server, LocalStore(tmp_path / "lake"))
    _all_large(monkeypatch)
    server.say(*FIRST)
    followed.apply()
    server.say(
        "ALTER TABLE plain RENAME v TO w", "ALTER TABLE plain ADD late int DEFAULT 7", "UPDATE plain SET w = 'x' WHERE id < 9"
    )
    server.say("TRUNCATE worded", "INSERT INTO worded VALUES ('a', 1, 2)")
    followed.check_equal(followed.apply())


class Killed(Exception):
    """What becomes of a task whose worker dies."""


def test_nothing_stays_of_workers_that_die(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    followed = Following(server, LocalStore(tmp_path / "lake"))
    server.say(*FIRST)
    for step in range(4):  # as the first chunk is done, another, as keys are looked for, as files are written

        def dies(work: Any, items: Any, step: int = step) -> Iterator[Any]:
            for number, done in enumerate(_apart(work, items)):
                if number == step:
                    raise Killed
                yield done

        with monkeypatch.context() as patch:
            _all_large(patch, dies)
            with pytest.raises(Killed):
                followed.apply()
            assert [path for path in (tmp_path / "lake").rglob("part-*") if path.is_file()] == []
    _all_large(monkeypatch)
    followed.check_equal(followed.apply())


@pytest.mark.parametrize("format", some_of([pytest.param(each, id=each) for each in FORMATS], len(FORMATS)))
def test_work_that_is_done_twice(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    """As Spark does it where a worker has died, or is slow: what the first has written goes."""

    def twice(work: Any, items: Any) -> Iterator[Any]:
        list(_apart(work, items))
        return _apart(work, items)

    followed = Following(server, LocalStore(tmp_path / "lake"), format)
    _all_large(monkeypatch, twice)
    for script in (FIRST, SECOND):
        server.say(*script)
        lake = followed.apply()
        followed.check_equal(lake)
        if format == "delta":
            followed.check_no_strays(lake)


def test_what_is_small_is_done_here() -> None:
    assert not HERE.are_elsewhere
    assert HERE.should_rewrite([1, HERE.large_files])
    assert not HERE.should_rewrite([1, HERE.large_files + 1])
    assert not HERE.should_rewrite([1])
    elsewhere = Workers(_apart, are_elsewhere=True)
    assert elsewhere.should_rewrite([elsewhere.large_files])
    assert not elsewhere.should_rewrite([elsewhere.large_files - 1])
    assert not elsewhere.should_rewrite([])


@pytest.mark.spark
@pytest.mark.soak  # jobs of Spark's, one behind the other
def test_the_driver_of_spark_holds_no_rows(
    server: Server,
    store: Store,  # noqa: F811
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It neither reads nor writes a file of rows while its workers do."""
    from tailrace.spark.jobs import SparkRunner  # noqa: PLC0415 - pyspark

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("in the driver")

    followed = Following(server, store)
    runner = SparkRunner(spark)
    server.say(*FIRST[:2])
    with monkeypatch.context() as patch:
        patch.setattr(
            Workers, "of", lambda feed: Workers(feed.run, are_elsewhere=True, large_bytes=1, chunk_bytes=300_000, large_files=1)
        )
        patch.setattr(DataFiles, "write", never)
        patch.setattr(DataFiles, "rows", never)
        followed.apply(runner=runner)
        server.say(*SECOND[:7])
        lake = followed.apply(runner=runner)
    followed.check_equal(lake)
