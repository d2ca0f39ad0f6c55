"""Whether a session is a client of Spark Connect, whose files are its server's, and how work gets there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tailrace.errors import UsageError
from tailrace.sources.dsn import is_dsn
from tailrace.sources.source_name import absolute, is_stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")


def is_client(spark: SparkSession) -> bool:
    """Asked of the session itself: a process may have been configured otherwise since."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def path_of(spark: SparkSession, path: str) -> str:
    """A path as executors are told it: a relative one is the driver's; a connection string is one everywhere, and so is a URL. Raises UsageError for
    a path that a server cannot know."""
    if is_dsn(path) or is_stored(path):
        return path
    if not is_client(spark):
        return absolute(path)
    if not path.startswith("/"):
        raise UsageError(f'"{path}" is not an absolute path', hint="With Spark Connect, paths are the server's own.")
    return path


def in_one_task(spark: SparkSession, work: Callable[[], Result]) -> Result:
    """What a function gives that is called in a task, once; or what it raises, as it was raised there."""
    from tailrace.spark.jobs import SparkRunner  # noqa: PLC0415 - pyspark

    (result,) = SparkRunner(spark, known_cores=1).run(partial(_call, work), [None])
    return result


def _call(work: Callable[[], Result], item: None) -> Result:
    return work()
