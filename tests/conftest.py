"""Fixtures that several folders of tests share."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.command import Run, run_in
from support.memory_folder import memory_folder
from support.sampling import COMPARED, MATRIX, sampled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.s3_servers import SeaweedFS, Versitygw

_IN_MEMORY = pytest.StashKey[Path | None]()
_LAST = -200
"""Of what ends with a process, behind multiprocessing's own folder (-100), which is in that one."""


def pytest_configure(config: pytest.Config) -> None:
    """A shell that starts a run in the background has SIGINT ignored, and what the run starts would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Workers of a run inherit its TMPDIR.
    config.stash[_IN_MEMORY] = None if config.option.basetemp else memory_folder()


def pytest_unconfigure(config: pytest.Config) -> None:
    """What a test that failed has left is removed with the rest: give --basetemp to look at it."""
    if folder := config.stash.get(_IN_MEMORY, None):
        Finalize(None, shutil.rmtree, (folder, True), exitpriority=_LAST)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[MATRIX] = sampled(items)
    items.sort(key=_needs)  # a stable order: all else stays as it is


_ONCE_A_RUN = ("spark", "seaweedfs")
"""What takes long to start, and is one for all tests of a worker."""


def _needs(item: pytest.Item) -> int:
    """Tests that need these come first: so one worker gets them, and the others start nothing. (Each begins with a share of the list, and who is done
    takes from the end of another's.)"""
    needed = {*getattr(item, "fixturenames", ()), *(mark.name for mark in item.iter_markers())}
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        needed |= {value for value in item.callspec.params.values() if isinstance(value, str)}
    return next((number for number, name in enumerate(_ONCE_A_RUN) if name in needed), len(_ONCE_A_RUN))


def pytest_sessionfinish() -> None:
    """In each process of a run: which kernels it has met, if that is asked for (`support/kernels_met.py`)."""
    if folder := os.environ.get("TAILRACE_KERNELS_MET"):
        from support import kernels_met  # noqa: PLC0415 - who does not ask loads no kernel for it

        kernels_met.note(Path(folder))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How much of the product of `test_every_way.py` was there, in all processes."""
    reports = [each for several in terminalreporter.stats.values() for each in several if isinstance(each, pytest.TestReport)]
    ended = [each for each in reports if each.when == "teardown"]
    counts = [count for report in ended for name, count in report.user_properties if name == COMPARED]
    if counts:
        terminalreporter.write_line(f"{sum(counts)} {COMPARED}")


@pytest.fixture(scope="session", autouse=True)
def _spool_of_our_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """WAL of servers that are read while they run does not stay in the user's cache."""
    os.environ.setdefault("TAILRACE_SPOOL", str(tmp_path_factory.mktemp("spool")))


@pytest.fixture
def tailrace(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """The command line, run in this process."""
    return run_in(monkeypatch, capfd)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for the whole run, on two cores, where a failed task is tried again."""
    from tailrace.spark.session import session  # noqa: PLC0415 - tests that need no Spark start no JVM

    started = session("local[2,2]", app="tailrace tests")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[SeaweedFS]:
    """A server of S3's protocol, with one bucket."""
    from support.s3_servers import SeaweedFS  # noqa: PLC0415

    with SeaweedFS() as server:
        yield server


@pytest.fixture(scope="session")
def versitygw() -> Iterator[Versitygw]:
    """Another, which is built first: for tests of the matrix."""
    from support.s3_servers import Versitygw  # noqa: PLC0415

    with Versitygw() as server:
        yield server
