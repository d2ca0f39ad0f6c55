"""Spark: the outlets, and the runner that has executors do the work. Nothing here imports pyspark before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tailrace.spark.statement_session import SqlSession


def changes(spark: SparkSession, source: str, **options: str) -> DataFrame:
    """The committed changes in the log at `source`: what `spark.read.format("tailrace")` gives for these options, with the log scanned by executors.

    Spark plans a read in one process, which can start no job, and so scans alone. Here what is not indexed yet is scanned as a job first, into the
    directory `index` (below the user's cache, if none is named) of this machine; the plan is then made from there. Executors must be able to read
    `source`. Raises as the read does.
    """
    from tailrace.spark.indexed_changes import indexed_changes  # noqa: PLC0415 - pyspark

    return indexed_changes(spark, source, options)


def schema_events(spark: SparkSession, source: str, **options: str) -> DataFrame:
    """What became of the tables of `database` in the log at `source`, or, with `table`, of those that were ever called so: a row for each, with
    commit_lsn, lsn, commit_timestamp, xid (with its epoch), oid, table, event, column, before and after, in commit order.

    What stands before the log is told by an event `known`, at the LSN from where on it is. Executors scan; `catalog` and `window` are as in a read.
    Raises UsageError for a table that there never was.
    """
    from tailrace.spark.schema_event_rows import schema_events_of  # noqa: PLC0415 - pyspark

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


def register(spark: SparkSession, source: str = "", database: str = "", state: str = "") -> None:
    """Make the SQL functions lsn_text(bigint) and lsn_value(string) of this session: temporary ones, written in SQL, so that Connect has them too.

    With a `source`, one of its databases and a state location, those of the manual's SQL interface as well: `pg_logical_slot_peek_changes` and its
    binary kin as table functions, with columns lsn and xid (bigint) and data. Those that move slots are refused there: `sql` carries them out.
    Executors must be able to read both paths, and to lock files in `state`. Needs the extra `sql`. Raises UsageError if one of three is missing.
    """
    from tailrace.spark.lsn import register_functions  # noqa: PLC0415 - pyspark

    register_functions(spark)
    if not (source or database or state):
        return
    if not (source and database and state):
        raise UsageError("source, database and state are needed for the functions of the SQL interface")
    from tailrace.spark.registered_functions import register_slot_functions  # noqa: PLC0415 - needs the extra sql
    from tailrace.spark.spark_connect import path_of  # noqa: PLC0415 - pyspark

    register_slot_functions(spark, path_of(spark, source), database, path_of(spark, state))


def sql_session(spark: SparkSession, source: str, database: str, state: str) -> SqlSession:
    """A session whose `sql(text)` takes Spark SQL that calls functions of the manual's SQL interface, and names its views. Each call is carried
    out once, on the driver, which must be able to read `source` and `state`, or by a Connect server, whose paths they are; the rows of the result are
    at hand before a slot moves. `register` is done, too. Close it, or use it in a `with`: it ends temporary slots. Raises UsageError if there is no
    such source.
    """
    from tailrace.spark.statement_session import session_on  # noqa: PLC0415 - pyspark

    return session_on(spark, source, database, state)


def sql(spark: SparkSession, text: str, *, source: str, database: str, state: str) -> DataFrame:
    """The result of one statement in a session of its own."""
    with sql_session(spark, source, database, state) as session:
        return session.sql(text)
