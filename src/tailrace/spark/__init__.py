"""Spark: the outlets, and the runner that has executors do the work. Nothing here imports pyspark before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


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


def lsn_text(lsn: Column | str) -> Column:
    """A position (bigint; a column, or the name of one) as PostgreSQL prints a pg_lsn: 0/16B3748. NULL stays NULL."""
    from tailrace.spark.lsn import text_of  # noqa: PLC0415 - pyspark

    return text_of(lsn)


def lsn_value(text: Column | str) -> Column:
    """A position as the bigint that DataFrames have for it, to compare with: of a text such as "0/16B3748", or of a column of such texts.

    Raises UsageError (22P02) for a text that is none; a value of a column that is none fails its query with the same message.
    """
    from tailrace.spark.lsn import value_of  # noqa: PLC0415 - pyspark

    return value_of(text)


def register(spark: SparkSession) -> None:
    """Make the SQL functions lsn_text(bigint) and lsn_value(string) of this session: temporary ones, written in SQL, so that Connect has them too."""
    from tailrace.spark.lsn import register_functions  # noqa: PLC0415 - pyspark

    register_functions(spark)
