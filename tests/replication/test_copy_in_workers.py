"""Spark's workers copy tables under the driver's snapshot; what they cannot copy, the driver does."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from support.command import ran
from support.own_database import servers_with_databases
from support.servers import Server
from support.storm import begin, different, storm
from support.waiting import until
from tailrace.copy_feed import CopyPiece, LeftPart
from tailrace.lake.reading import read_table
from tailrace.replication.copy_in_workers import CopyInWorkers
from tailrace.storage.local_store import LocalStore

pytestmark = [pytest.mark.postgres, pytest.mark.spark]
SETTINGS = {"wal_keep_size": "500MB", "max_prepared_transactions": "10"}
MANY = "INSERT INTO plain SELECT n, repeat('x', 900), n FROM generate_series(10000, 89999) n"
"""Three parts of a table."""

running, server = servers_with_databases(SETTINGS)
Found = list[tuple[CopyPiece, object]]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Found:
    """What workers gave, by part."""
    noted: Found = []
    run = CopyInWorkers.run

    def noting(self: CopyInWorkers, work: Callable[[CopyPiece], Any], pieces: Sequence[CopyPiece]) -> Generator[Any]:
        for piece, result in zip(pieces, run(self, work, pieces), strict=True):
            noted.append((piece, result))
            yield result

    monkeypatch.setattr(CopyInWorkers, "run", noting)
    return noted


def _before_workers(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """It happens once the driver has its snapshot and locks."""
    run = CopyInWorkers.run

    def later(self: CopyInWorkers, work: Callable[[CopyPiece], Any], pieces: Sequence[CopyPiece]) -> Generator[Any]:
        happens()
        yield from run(self, work, pieces)

    monkeypatch.setattr(CopyInWorkers, "run", later)


def _mirrored(server: Server, home: Path, *more: str) -> str:
    where = ("--database", server.dbname, "--to", home / "lake", "--state", home / "state", "--on", "spark")
    done = ran("mirror", server.dsn(), *where, *more)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("strategy", ["rows", "pages"])
def test_under_a_storm(spark: SparkSession, server: Server, found: Found, tmp_path: Path, strategy: str) -> None:
    """Whose DDL and TRUNCATE wait for the driver's sessions, now and then with a worker's behind them."""
    begin(server)
    server.say(MANY)
    with storm(server, 5):
        _mirrored(server, tmp_path, "--copy-strategy", strategy)
    assert len(found) >= 6  # three parts of one table, and three tables of one
    left = [each.why for _, each in found if isinstance(each, LeftPart)]
    assert len(left) < len(found)
    assert set(left) <= {"canceling statement due to lock timeout"}
    _mirrored(server, tmp_path)
    assert different(server, LocalStore(tmp_path / "lake")) == []


def test_who_waits_for_the_driver(
    spark: SparkSession, server: Server, found: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ALTER TABLE waits for the driver's sessions, and workers' would wait behind it."""
    begin(server)
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    alters = threading.Thread(target=server.say, args=("ALTER TABLE plain ADD late int DEFAULT 7",))

    def altered() -> None:
        alters.start()
        until(lambda: int(server.value(waits)) > 0)

    _before_workers(monkeypatch, altered)
    told = _mirrored(server, tmp_path)
    alters.join()
    assert "the driver copies what a worker could not: canceling statement due to lock timeout" in told
    assert sum(isinstance(each, LeftPart) for _, each in found) == 1
    server.say("UPDATE plain SET n = 1 WHERE id = 1")
    _mirrored(server, tmp_path)
    assert different(server, LocalStore(tmp_path / "lake")) == []


def test_no_connection_is_free(
    spark: SparkSession, server: Server, found: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(server)
    taken = list[Any]()

    def shut() -> None:
        with suppress(psycopg.OperationalError):
            while True:
                taken.append(server.connect())

    _before_workers(monkeypatch, shut)
    told = _mirrored(server, tmp_path)
    for each in taken:
        each.close()
    assert "the driver copies what a worker could not" in told
    assert all(isinstance(each, LeftPart) for _, each in found)
    assert different(server, LocalStore(tmp_path / "lake")) == []


def test_a_worker_is_killed(
    spark: SparkSession, server: Server, found: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(server)
    run, driver = CopyInWorkers.run, os.getpid()

    def killed(self: CopyInWorkers, work: Callable[[CopyPiece], Any], pieces: Sequence[CopyPiece]) -> Generator[Any]:
        yield from run(self, partial(_in_the_driver_alone, driver, work), pieces)

    monkeypatch.setattr(CopyInWorkers, "run", killed)
    assert "the driver copies what a worker could not: " in _mirrored(server, tmp_path)
    assert all(isinstance(each, LeftPart) for _, each in found)
    assert different(server, LocalStore(tmp_path / "lake")) == []


def _in_the_driver_alone(driver: int, work: Callable[[CopyPiece], Any], piece: CopyPiece) -> Any:
    if os.getpid() != driver:
        os.kill(os.getpid(), signal.SIGKILL)
    return work(piece)


@pytest.mark.parametrize("layout", ["mirror", "history"])
def test_what_does_not_fit(spark: SparkSession, server: Server, found: Found, tmp_path: Path, layout: str) -> None:
    """It goes into quarantine, in whichever process it is found."""
    server.say(
        "CREATE TABLE odd (id int PRIMARY KEY, at timestamp)",
        "INSERT INTO odd VALUES (1, '2020-01-01'), (2, '294270-01-01'), (3, NULL)",
    )
    told = _mirrored(server, tmp_path, "--on-error", "quarantine", "--layout", layout)
    assert "1 change of table public.odd went into quarantine" in told
    assert sorted(read_table(tmp_path / "lake/public.odd")["id"].to_pylist()) == [1, 3]
    assert len(found) == 1


def test_it_stops_meanwhile(
    spark: SparkSession, server: Server, found: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What workers wrote is no table, and the next run copies all."""
    begin(server)

    def stopped() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)

    _before_workers(monkeypatch, stopped)
    assert "awaits the rest of the copy of its tables" in _mirrored(server, tmp_path, "--follow")
    monkeypatch.undo()
    _mirrored(server, tmp_path)
    assert different(server, LocalStore(tmp_path / "lake")) == []
