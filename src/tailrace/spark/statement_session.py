"""The manual's SQL interface in Spark SQL: a session whose `sql` calls its functions, each exactly once.

In: a statement in Spark SQL. The calls that it makes are carried out on the driver; their rows, and those of the interface's views, stand in their
place as temporary views, and Spark computes the rest. Out: a DataFrame whose rows are at hand. Only when they are has a slot moved: a statement that
is refused, fails or is cancelled has moved nothing.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tailrace.catalog.rows.layouts import tracked_columns
from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.pipeline import LocalRunner, Runner
from tailrace.replication.server_location import log_to_read
from tailrace.spark.jobs import SparkRunner
from tailrace.spark.lsn import register_functions
from tailrace.spark.registered_functions import register_slot_functions, spark_table
from tailrace.spark.spark_connect import is_client, path_of
from tailrace.spark.statement_inputs import InputReader, ReadHere, ReadOnServer, StatementInputs
from tailrace.sql.functions.calls import FunctionCall
from tailrace.sql.functions.runs_once import FROM, TARGET, not_constant
from tailrace.sql.functions.signatures import NEED_A_SERVER, SqlFunction, functions_of
from tailrace.sql.functions.statement_calls import check_slots
from tailrace.sql.parameters import Parameters
from tailrace.sql.source_database import SourceDatabase
from tailrace.sql.spark_sql.calls import call_written
from tailrace.sql.spark_sql.grammar import SparkStatement
from tailrace.sql.spark_sql.queries import ELSEWHERE, FoundName, check_runs_once, found_in
from tailrace.sql.views.view_columns import views_of

_FEW_BYTES = 256 << 20
"""Up to here decoding in this process is done before a job of Spark's would be."""
_SET = re.compile(r"\s*(SET|RESET)\s+([\w.]+)\s*(?:(?:=|\bTO\b)\s*(.*?))?\s*;?\s*", re.IGNORECASE | re.DOTALL)
_ESCAPED = "spark.sql.parser.escapedStringLiterals"


@dataclass
class SqlSession:
    """On a source, one of its databases, and a state location: paths on the driver's machine, which with Spark Connect is the server's. The functions
    are registered with `spark` as well. Its temporary slots end when it is closed."""

    spark: SparkSession
    reader: InputReader
    parameters: Parameters = field(default_factory=Parameters)

    def sql(self, text: str) -> DataFrame:
        """The result of one statement, computed. Raises UsageError for what is refused, and what Spark raises; then no slot has moved, and
        temporary ones are gone, as on the server (`PostgresMain`)."""
        try:
            return self._carried_out(text)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the temporary slots. The session may go on, without them."""
        self.reader.close()

    def _carried_out(self, text: str) -> DataFrame:
        changed = self._parameter(text)
        if changed is not None:
            self.parameters = changed
            return self.spark.createDataFrame([], "key string, value string")
        major = self.reader.major
        functions = functions_of(major)
        escapes = str(self.spark.conf.get(_ESCAPED, "false")).lower() != "true"
        relations = views_of(major).keys() | tracked_columns(major).keys()
        statement = SparkStatement.of(text, escapes=escapes)
        found = found_in(statement, {*functions, *NEED_A_SERVER}, relations.__contains__)
        calls = [None if each.arguments is None else _call(each, functions, statement) for each in found]
        check_slots([call for call in calls if call is not None])
        if not any(calls) and all(each.arguments is not None for each in found):
            return self.spark.sql(text)
        return self._computed(text, found, calls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _parameter(self, text: str) -> Parameters | None:
        """What SET and RESET of a parameter of the interface makes of those; None for another statement. Spark's own stay Spark's."""
        match = _SET.fullmatch(text)
        if match is None or not self.parameters.knows(match[2]):
            return None
        if match[1].upper() == "RESET":
            return self.parameters.under(match[2], None)
        return self.parameters.under(match[2], match[3].strip("'\"")) if match[3] else None

    def _computed(self, text: str, found: Sequence[FoundName], calls: Sequence[FunctionCall | None]) -> DataFrame:
        names = sorted({each.name for each in found if each.arguments is None})
        inputs = StatementInputs(
            names, [call for call in calls if call is not None], self.parameters.of_plugin, self.parameters.as_of
        )
        with ExitStack() as held, _Views(self.spark) as views:
            read = self.reader.read(inputs, held)
            rows = iter(read.rows)
            pieces, end = [], 0
            for each, call in zip(found, calls, strict=True):
                if each.arguments is None:
                    instead = _named(views.made(spark_table(read.tables[each.name])), each)
                elif call is None:
                    continue
                else:
                    instead = _instead(each, call, next(rows), views)
                pieces += [text[end : each.start], instead]
                end = each.end
            result = self._at_hand("".join([*pieces, text[end:]]))
            read.settle()
        return result

    def _at_hand(self, text: str) -> DataFrame:
        """What Spark makes of a text, with all of its rows here: no part of it is ever computed again."""
        computed = self.spark.sql(text)
        schema = computed.schema
        return self.spark.createDataFrame(computed.toArrow(), schema) if len(schema) else computed


class _Views:
    """Temporary views, for the length of a statement."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._names = spark, list[str]()

    def made(self, table: pa.Table) -> str:
        name = f"_tailrace_{uuid4().hex}"
        # Of no rows Spark Connect would not take Arrow's word for the types.
        schema = None if len(table) else from_arrow_schema(table.schema)
        self._spark.createDataFrame(table, schema).createOrReplaceTempView(name)
        self._names.append(name)
        return name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for name in self._names:
            self._spark.catalog.dropTempView(name)


def _call(found: FoundName, functions: Mapping[str, SqlFunction], statement: SparkStatement) -> FunctionCall | None:
    """The call that it is; None for what is left to the functions that are registered: peeks with arguments that are no
    constants, and all that stands in another statement than a query."""
    function = functions.get(found.name)
    if function is None:
        if found.name in NEED_A_SERVER:
            raise UsageError(f"function {found.name} needs a server", sqlstate="0A000").in_text(found.start + 1)
        return None
    check_runs_once(found, function)
    if found.where == ELSEWHERE or found.is_lateral:
        return None
    assert found.arguments is not None
    try:
        call = call_written(function, functions, found.arguments, statement)
    except UsageError as error:
        raise error.in_text(found.start + 1) from None
    if call is None and not (function.is_set and not function.moves):
        raise not_constant(function).in_text(found.start + 1)
    return call


def _named(view: str, found: FoundName) -> str:
    return f"{view} AS {found.name}" if found.is_bare else view


def _instead(found: FoundName, call: FunctionCall, rows: pa.Table, views: _Views) -> str:
    """What stands in the place of a call: a table in FROM, else the value."""
    if found.where == FROM:
        return _named(views.made(spark_table(rows)), found)
    values = {name: _literal(value) for name, value in spark_table(rows).to_pylist()[0].items()}
    if not call.function.is_record:
        value = next(iter(values.values()))
    elif all(each is None for each in rows.to_pylist()[0].values()):
        value = "CAST(NULL AS STRUCT<" + ", ".join(f"{name}: {_kind(kind)}" for name, kind in call.function.columns) + ">)"
    else:
        value = "named_struct(" + ", ".join(f"'{name}', {each}" for name, each in values.items()) + ")"
    return f"{value} AS {found.name}" if found.where == TARGET and found.is_bare else value


def _kind(kind: str) -> str:
    return "BIGINT" if kind in ("pg_lsn", "oid", "xid") else "STRING"


def _literal(value: Any) -> str:
    """Names of slots and positions: nothing in them needs to be escaped."""
    if value is None:
        return "NULL"
    return f"CAST({value} AS BIGINT)" if isinstance(value, int) else f"'{value}'"


def session_on(spark: SparkSession, source: str, database: str, state: str) -> SqlSession:
    """A session, with the functions registered. Raises UsageError if there is no such source."""
    path, where = path_of(spark, source), path_of(spark, state)
    reader = ReadOnServer(spark, path, database, where) if is_client(spark) else _here(spark, path, database, where)
    _ = reader.major
    register_functions(spark)
    register_slot_functions(spark, path, database, where)
    return SqlSession(spark, reader)


def _here(spark: SparkSession, source: str, database: str, state: str) -> ReadHere:
    def runner_for(size: int) -> Runner:
        return LocalRunner() if size < _FEW_BYTES else SparkRunner(spark)

    def warn(text: str) -> None:
        warnings.warn(text, stacklevel=3)

    return ReadHere(SourceDatabase(log_to_read(source, Path(state), warn), database, Path(state), runner_for, warn))
