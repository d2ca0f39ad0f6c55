"""What verbs run their stages on: threads of this process, or Spark."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tailrace.cli.choice import On, choose
from tailrace.cli.progress import warn
from tailrace.model import STRETCH_BYTES
from tailrace.pipeline.runner import LocalRunner, Runner
from tailrace.spark.spark_conf import configured_master, spark_is_installed

if TYPE_CHECKING:
    from tailrace.storage.index_store import IndexStore

SHORT_BYTES = 1 << 30
"""Up to here most of Spark's work is its start (`benchmarks/first_contact.py`)."""


def warn_if_none_kept(store: IndexStore | None, system: int) -> None:
    """Only whole stretches have an index that lasts, so of a small log nothing is kept, and the next run scans it again."""
    if store is not None and store.is_empty(system):
        warn(
            f'no index is kept in "{store.directory}": only those of whole stretches of {STRETCH_BYTES >> 20} MB are, and this log has none'
        )


def runner_for(asked: On, size: int, tell: Callable[[str], None]) -> Runner:
    """This process, or Spark on this machine (or wherever it is configured to run), for `size` bytes of WAL. `tell` hears which, and why."""
    choice = choose(size, os.cpu_count() or 1, configured_master(), asked, installed=spark_is_installed())
    tell(str(choice))
    if not choice.on_spark:
        return LocalRunner()
    from tailrace.spark.jobs import SparkRunner  # noqa: PLC0415 - in this process, pyspark is not even imported
    from tailrace.spark.session import session  # noqa: PLC0415

    # Where a session is made in the main thread, PySpark takes Ctrl-C for itself.
    with ThreadPoolExecutor(1) as aside:
        return SparkRunner(aside.submit(session, quiet=True, short=size < SHORT_BYTES).result())
