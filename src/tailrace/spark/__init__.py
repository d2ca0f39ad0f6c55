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


def schema_events(spark: SparkSession, source: str, **options: str) -> DataFrame:
    """What became of the tables of `database` in the log at `source`, or, with `table`, of those that were ever called so: a row for each, with
    commit_lsn, lsn, commit_timestamp, xid (with its epoch), oid, table, event, column, before and after, in commit order.

    What stands before the log is told by an event `known`, at the LSN from where on it is. Executors scan; `catalog` and `window` are as in a read.
    Raises UsageError for a table that there never was.
    """
    from tailrace.spark.past import schema_events_of  # noqa: PLC0415 - pyspark

    return schema_events_of(spark, source, options)
