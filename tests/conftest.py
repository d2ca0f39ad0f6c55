"""Fixtures that several folders of tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session", autouse=True)
def _spool_of_our_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """WAL of servers that are read while they run does not stay in the user's cache."""
    os.environ.setdefault("TAILRACE_SPOOL", str(tmp_path_factory.mktemp("spool")))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for the whole run, on two cores, where a failed task is tried again."""
    from tailrace.spark.session import session  # noqa: PLC0415 - tests that need no Spark start no JVM

    started = session("local[2,2]", app="tailrace tests")
    yield started
    started.stop()
