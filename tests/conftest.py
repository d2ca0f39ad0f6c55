"""Fixtures that several folders of tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for the whole run, on two cores, where a failed task is tried again."""
    from tailrace.spark.session import session  # noqa: PLC0415 - tests that need no Spark start no JVM

    started = session("local[2,2]", app="tailrace tests")
    yield started
    started.stop()
