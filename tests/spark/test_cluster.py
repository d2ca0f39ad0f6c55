"""On a standalone Spark cluster, of a master and two workers that are processes of their own, comes out what comes out in this process.

The driver is a process of its own as well, and is asked to call the functions below that take a session; nothing of this file can be imported there,
let alone by a worker. Each test looks at where its tasks ran.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle

from support.acquired import acquired
from support.cases import DBNAME, Case, all_cases, open_case
from support.decoding import check, check_equal, decode
from support.servers import Server
from support.slots import TAILRACE, create_both, ours, theirs
from support.spark_cluster import QUICK_START, Cluster, lost_executors, tasks_by_executor
from support.spark_driver import Driver
from support.together import together
from support.waiting import until
from tailrace.pipeline import Runner
from tailrace.replication.slot_location import SlotLocation
from tailrace.window import WindowSize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

cloudpickle.register_pickle_by_value(sys.modules[__name__])

LOCAL = {"master": "local[2]"}
MB = 1 << 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started:
        yield started
    assert started.left_behind() == []


@pytest.fixture(scope="module")
def driver(cluster: Cluster) -> Iterator[Driver]:
    with Driver() as started:
        yield started


@pytest.fixture
def settings(cluster: Cluster) -> Mapping[str, str]:
    """Of a session on both workers."""
    return {"master": cluster.url, "spark.executor.defaultJavaOptions": QUICK_START, **cluster.settings()}


# -- the command line --------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.marathon
def test_the_command_works_where_the_environment_says(cluster: Cluster, driver: Driver, tmp_path: Path) -> None:
    """With nothing configured but the master. Its source is named as it is called from where the command stands, which workers do not."""
    driver.call(LOCAL, _executors)  # the workers have room for one application
    case = open_case("xact", 16, "with_slot", tmp_path)
    before = set(cluster.executor_folders())
    done = subprocess.run(
        [TAILRACE, "decode", os.path.relpath(case.data_dir), "--database", DBNAME, "--start-lsn", case.meta["start_lsn"]],
        env=os.environ | {"MASTER": cluster.url}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check(case, done.stdout)
    assert {folder.parents[1] for folder in set(cluster.executor_folders()) - before} == set(cluster.home.glob("worker-*"))


# -- a DataFrame -------------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.marathon
def test_a_dataframe_is_that_of_a_local_session(driver: Driver, settings: Mapping[str, str], tmp_path: Path) -> None:
    case = open_case("hot", 18, "with_slot", tmp_path)
    source = os.path.relpath(case.data_dir)
    options = {"source": source, "database": "app", "table": "public.h", "startLsn": case.meta["start_lsn"]}
    local = driver.call(LOCAL, _rows, options)
    there = driver.call(settings, _rows, options)
    assert len(local.value) > 10
    assert there.value == local.value
    assert set(local.tasks) == {"driver"}
    assert there.tasks
    assert "driver" not in there.tasks


def _rows(spark: SparkSession, options: Mapping[str, str]) -> list[dict[str, Any]]:
    frame = spark.read.format("tailrace").options(**options).load()
    return [row.asDict(recursive=True) for row in frame.orderBy("commit_lsn", "lsn", "sequence").collect()]


# -- text --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.marathon
@pytest.mark.parametrize("story", sorted({story for story, _, _ in all_cases()}))
def test_golden(driver: Driver, settings: Mapping[str, str], story: str, tmp_path: Path) -> None:
    cases = [open_case(*each, tmp_path / "-".join(map(str, each))) for each in all_cases() if each[0] == story]
    tried = [(case, captured) for case in cases for captured in (False, True)]
    texts = driver.call(settings, _decoded, tried)
    assert len(texts.value) == len(tried) >= 6
    for (case, _), text in zip(tried, texts.value, strict=True):
        check(case, text)
    assert set(texts.tasks) == set(driver.call(settings, _executors).value)


def _decoded(spark: SparkSession, tried: Sequence[tuple[Case, bool]]) -> list[str]:
    from tailrace.spark.jobs import SparkRunner  # noqa: PLC0415 - tests that need no Spark import none

    tasks = [partial(decode, case, captured=captured) for case, captured in tried]
    return [text.result() for text in together(SparkRunner(spark), tasks)]


def _executors(spark: SparkSession) -> list[str]:
    """Those at hand, without the driver."""
    return sorted(set(tasks_by_executor(spark)) - set(lost_executors(spark)) - {"driver"})


# -- a slot ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.soak
def test_a_slot_gives_what_the_servers_gives(driver: Driver, settings: Mapping[str, str], tmp_path: Path) -> None:
    """Over a running server, whose WAL is copied before workers read it; each time the consumer is another one."""
    with Server(16) as server:
        server.say("CREATE TABLE t (id serial PRIMARY KEY, v text)")
        create_both(server, "mine", tmp_path / "state")
        for turn in range(2):
            server.say(
                f"INSERT INTO t (v) SELECT 'turn {turn}' FROM generate_series(1, 500)",
                f"UPDATE t SET v = v || '!' WHERE id % {turn + 2} = 0",
                f"ALTER TABLE t ADD c{turn} int DEFAULT {turn}",
            )
            taken = driver.call(settings, _consumed, tmp_path / "state")
            check_equal(taken.value, theirs(server))
            assert taken.value.count("\n") > 500
            assert taken.tasks
            assert "driver" not in taken.tasks


def _consumed(spark: SparkSession, state: Path) -> str:
    from tailrace.spark.jobs import SparkRunner  # noqa: PLC0415

    with acquired(SlotLocation.open(state), "mine", SparkRunner(spark)) as consumer:
        taken: str = ours(consumer)
    return taken


# -- a stream ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.soak
@pytest.mark.marathon
def test_a_stream_has_every_change_once(driver: Driver, settings: Mapping[str, str], tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    with Server(16) as server:
        server.say("CREATE TABLE t (id serial PRIMARY KEY, v text)", "CREATE TABLE u (a int, b numeric)")
        create_both(server, "mine", tmp_path / "state")
        for turn in range(2):
            server.say(
                f"INSERT INTO t (v) SELECT 'turn {turn}' FROM generate_series(1, 800)",
                "UPDATE t SET v = v || '!' WHERE id % 5 = 0",
                f"INSERT INTO u VALUES ({turn}, 1.5)",
                f"ALTER TABLE u ADD c{turn} int DEFAULT {turn}",
                "DELETE FROM t WHERE id % 11 = 0",
            )
            streamed = driver.call(settings, _streamed, tmp_path)
            rows += streamed.value
            assert streamed.tasks
            assert "driver" not in streamed.tasks
        expected = [row.split("\t", 2)[2] for row in theirs(server).splitlines() if "\ttable " in row]
    rows.sort(key=lambda row: (row["commit_lsn"], row["lsn"], row["sequence"]))
    told = [f"table {row['schema']}.{row['table']}: {row['kind'].upper()}" for row in rows]
    assert told == [":".join(line.split(":")[:2]) for line in expected]
    assert len(told) > 1600


def _streamed(spark: SparkSession, home: Path) -> list[dict[str, Any]]:
    """What there is for now, in batches of a megabyte."""
    rows: list[dict[str, Any]] = []

    def take(batch: DataFrame, number: int) -> None:
        rows.extend(batch.toArrow().to_pylist())

    stream = spark.readStream.format("tailrace").options(state=str(home / "state"), slot="mine", maxBytesPerTrigger="1MB").load()
    writer = stream.writeStream.foreachBatch(take).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(home / "checkpoint")).start()
    try:
        query.awaitTermination(300)
    finally:
        query.stop()
    return rows


# -- a worker that is killed -------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.soak
def test_a_worker_killed_in_a_window_changes_nothing(
    cluster: Cluster, driver: Driver, settings: Mapping[str, str], tmp_path: Path
) -> None:
    """In the second of several windows, one task among others says which process it is in and waits, for ever: until that process is killed, and
    everything of its worker with it. Spark gives what was lost to the other worker, and goes on."""
    held = tmp_path / "held"
    with Server(16) as server:
        server.say("CREATE TABLE t (id serial PRIMARY KEY, v text)")
        create_both(server, "mine", tmp_path / "state")
        for turn in range(10):
            server.say(f"INSERT INTO t (v) SELECT repeat('turn {turn} ', 40) || g FROM generate_series(1, 4000) g")
        before = driver.call(settings, _executors).value
        driver.ask(settings, _consumed_with_a_task_held, tmp_path / "state", held)
        until(lambda: held.exists() and held.read_text().endswith("\n"))
        cluster.kill_worker_of(int(held.read_text()))
        taken = driver.answer()
        text, windows, held_at, lost = taken.value
        check_equal(text, theirs(server))
    assert len(before) == 2
    assert len(lost) == 1
    assert held_at == 2 < windows
    assert set(taken.tasks) == set(before)
    cluster.complete()
    until(lambda: len(driver.call(settings, _executors).value) == 2)


def _consumed_with_a_task_held(spark: SparkSession, state: Path, held: Path) -> tuple[str, int, int, set[str]]:
    """What a consumer took, and what happened meanwhile: how many windows there were, in which of them a task was held, which executors were lost."""
    from tailrace.spark.jobs import SparkRunner  # noqa: PLC0415

    lost = set(lost_executors(spark))
    runner = Holding(SparkRunner(spark), held)
    with acquired(SlotLocation.open(state), "mine", runner, WindowSize(wal_bytes=4 * MB)) as consumer:
        text = ours(consumer)
    return text, runner.windows, runner.held_at, set(lost_executors(spark)) - lost


@dataclass
class Holding:
    """A runner that holds one task of the second window that it decodes."""

    runner: Runner
    held: Path
    windows: int = 0
    held_at: int = 0

    @property
    def window(self) -> WindowSize:
        return self.runner.window

    def stretch_bytes(self, size: int) -> int:
        return MB

    def run(self, work: Callable[[Any], Any], items: Sequence[Any], *, heavy: bool = False) -> Iterator[Any]:
        """Results that are heavy are those of decoding."""
        self.windows += heavy
        if not heavy or self.held_at or self.windows < 2:
            return self.runner.run(work, items, heavy=heavy)
        self.held_at = self.windows
        return self.runner.run(_held(work, len(items) // 2, self.held), list(enumerate(items)), heavy=heavy)


def _held(work: Callable[[Any], Any], which: int, held: Path) -> Callable[[tuple[int, Any]], Any]:
    """`work`, but the first process to be given the item of that number does nothing more."""

    def waiting(item: tuple[int, Any]) -> Any:
        if item[0] == which:
            try:
                with held.open("x") as file:
                    file.write(f"{os.getpid()}\n")
            except FileExistsError:
                return work(item[1])
            while True:
                time.sleep(1)
        return work(item[1])

    return waiting
