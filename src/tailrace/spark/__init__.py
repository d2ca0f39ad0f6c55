"""Spark: the outlets, and the runner that has executors do the work. Nothing here imports pyspark before it is used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tailrace.spark.sql_statements import SqlSession


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


def register(spark: SparkSession, source: str, database: str, state: str) -> None:
    """Register the functions of the manual's SQL interface with a session: `pg_logical_slot_peek_changes` and its binary kin as table functions, for
    slots of the state location `state`, with columns lsn and xid (numbers) and data; `pg_lsn` and `pg_lsn_out` for positions as text. Those that
    move slots are refused there: `sql` carries them out. Executors must be able to read both paths, and to lock files in `state`. Needs the
    extra `sql`.
    """
    from tailrace.spark.slot_functions import register_functions  # noqa: PLC0415 - pyspark

    register_functions(spark, str(Path(source).absolute()), database, str(Path(state).absolute()))


def sql_session(spark: SparkSession, source: str, database: str, state: str) -> SqlSession:
    """A session whose `sql(text)` takes Spark SQL that calls functions of the manual's SQL interface, and names its views. Each call is carried
    out once, on the driver, which must be able to read `source` and `state`; the rows of the result are at hand before a slot moves. `register` is
    done, too. Close it, or use it in a `with`: it ends temporary slots. Raises UsageError if there is no such source.
    """
    from tailrace.spark.sql_statements import session_on  # noqa: PLC0415 - pyspark

    return session_on(spark, source, database, state)


def sql(spark: SparkSession, text: str, *, source: str, database: str, state: str) -> DataFrame:
    """The result of one statement in a session of its own."""
    with sql_session(spark, source, database, state) as session:
        return session.sql(text)
