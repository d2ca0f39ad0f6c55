"""Spark: the outlets, and the runner that has executors do the work. Nothing here imports pyspark before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def changes(spark: SparkSession, source: str, **options: str) -> DataFrame:
    """The committed changes in the log at `source`: what `spark.read.format("tailrace")` gives for these options, with the log scanned by executors.

    Spark plans a read in one process, which can start no job, and so scans alone. Here what is not indexed yet is scanned as a job first, into the
    directory `index` (below the user's cache, if none is named) of this machine; the plan is then made from there. Executors must be able to read
    `source`. Raises as the read does.
    """
    from tailrace.spark.indexed import indexed_changes  # noqa: PLC0415 - pyspark

    return indexed_changes(spark, source, options)
