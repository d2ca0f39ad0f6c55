"""What a session is started with, and how many tasks a runner has room for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tailrace.spark.jobs import SparkRunner
from tailrace.spark.session import settings_for

OF_THIS_MACHINE = {"spark.driver.host", "spark.driver.bindAddress", "spark.python.unix.domain.socket.dir"}


@pytest.mark.parametrize("master", ["spark://there:7077", "yarn", "k8s://https://there", ""])
def test_executors_elsewhere_are_told_nothing_of_this_machine(master: str) -> None:
    told = settings_for(master)
    assert not set(told) & OF_THIS_MACHINE
    assert not [value for value in told.values() if "127.0.0.1" in value or "/" in value]


def test_a_local_session_stays_on_this_machine() -> None:
    local, there = settings_for("local[2]"), settings_for("yarn")
    assert set(local) - set(there) == OF_THIS_MACHINE
    assert local["spark.driver.host"] == "127.0.0.1"


def test_executors_that_come_later_are_given_work() -> None:
    context = SimpleNamespace(defaultParallelism=2)
    spark: Any = SimpleNamespace(sparkContext=context)
    runner = SparkRunner(spark)
    assert runner.cores == 2
    context.defaultParallelism = 40
    assert runner.cores == 40
