"""What verbs run their stages on: threads of this process, or Spark."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from tailrace.river import LocalRunner, Runner
from tailrace.river.choice import On, choose
from tailrace.spark.configured import configured_master, spark_is_installed

OnOption = Annotated[On, typer.Option("--on", help="Where to work: in this process, on Spark, or where it is likely faster.")]


def runner_for(asked: On, size: int, tell: Callable[[str], None]) -> Runner:
    """This process, or Spark on this machine (or wherever it is configured to run), for `size` bytes of WAL. `tell` hears which, and why."""
    choice = choose(size, os.cpu_count() or 1, configured_master(), asked, installed=spark_is_installed())
    tell(str(choice))
    if not choice.on_spark:
        return LocalRunner()
    from tailrace.spark.jobs import SparkRunner  # noqa: PLC0415 - in this process, pyspark is not even imported
    from tailrace.spark.session import session  # noqa: PLC0415

    with _jvm_kept_quiet():
        return SparkRunner(session())


@contextmanager
def _jvm_kept_quiet() -> Iterator[None]:
    """Java greets on the standard error that it inherits. It gets a file instead, which is shown only if Spark does not start."""
    sys.stderr.flush()
    ours = os.dup(2)
    with tempfile.TemporaryFile() as greetings:
        os.dup2(greetings.fileno(), 2)
        try:
            yield
        except BaseException:
            greetings.seek(0)
            os.write(ours, greetings.read())
            raise
        finally:
            os.dup2(ours, 2)
            os.close(ours)
