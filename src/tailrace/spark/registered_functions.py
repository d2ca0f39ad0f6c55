"""The functions of the manual's SQL interface, registered with a Spark session.

Those that peek are table functions, which Spark may call as often as it likes. Those that move a slot refuse, since Spark calls again what it
retries, shows or joins; `spark.statement_session` carries them out. Positions are numbers, as in all rows here.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf

from tailrace.errors import UsageError
from tailrace.majors import NEWEST
from tailrace.pipeline.runner import LocalRunner
from tailrace.replication.server_location import log_to_read
from tailrace.spark.workers import settle
from tailrace.sql.functions.settlement import StatementSlots
from tailrace.sql.functions.signatures import NEED_A_SERVER, functions_of
from tailrace.sql.functions.statement_calls import StatementCalls
from tailrace.sql.parameters import Parameters
from tailrace.sql.source_database import SourceDatabase
from tailrace.sql.spark_sql.calls import call_with

_ACTIVE = "55006"
_PATIENCE, _PAUSE = 30.0, 0.05
"""How long a call waits for a slot that is active, in seconds: Spark may run the calls of a query at the same time."""
_THREADS = 2


def register_slot_functions(spark: SparkSession, source: str, database: str, state: str) -> None:
    """Register all of them under their names, for this source and state location: those that were registered before are replaced."""
    hint = "Call it with tailrace.spark.sql(spark, …), which carries it out once."
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Arrow optimization")  # which wants pandas
        for function in functions_of(NEWEST).values():
            peeks = function.is_set and not function.moves
            kind = "binary" if function.columns[-1][1] == "bytea" else "string"
            made = _peeking(function.name, source, database, state) if peeks else _refusing(function.name, hint)
            schema = f"lsn bigint, xid bigint, data {kind}" if peeks else None
            spark.udtf.register(function.name, udtf(made, returnType=schema))
            told = "Call it in FROM." if peeks else hint
            spark.udf.register(function.name, _refusing_value(function.name, told), "string")
    for name in sorted(NEED_A_SERVER):
        spark.udf.register(name, _refusing_value(name, "It needs a server."), "string")


def _refusal(name: str, hint: str) -> UsageError:
    return UsageError(f"{name} cannot be called by Spark, which may run it again, or not at all", hint=hint, sqlstate="0A000")


def _refusing_value(name: str, hint: str) -> Callable[..., Any]:
    def refuse(*arguments: Any, **named: Any) -> None:
        raise _refusal(name, hint)

    return refuse


def _refusing(name: str, hint: str) -> type:
    """Refuses while the statement is analyzed: before anything runs, and where nothing would, as in EXPLAIN."""

    class Refusing:
        @staticmethod
        def analyze(*arguments: Any, **named: Any) -> Any:
            raise _refusal(name, hint)

        def eval(self, *arguments: Any, **named: Any) -> Iterator[tuple[Any, ...]]:
            raise _refusal(name, hint)

    return Refusing


def _peeking(name: str, source: str, database: str, state: str) -> type:
    class Peeking:
        def eval(self, *arguments: Any, **named: Any) -> Iterator[tuple[Any, ...]]:
            log = log_to_read(source, Path(state), _warn)
            table = peeked(name, SourceDatabase(log, database, Path(state), _runner, _warn), arguments, named)
            settle()
            for batch in table.to_batches(max_chunksize=4096):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    return Peeking


def peeked(name: str, database: SourceDatabase, arguments: tuple[Any, ...], named: dict[str, Any]) -> pa.Table:
    """The rows of one call. Raises UsageError as the server does, and whatever reading the log raises."""
    functions = functions_of(database.major)
    call = call_with(functions[name], functions, arguments, named)
    until = time.monotonic() + _PATIENCE
    while True:
        with ExitStack() as held:
            try:
                return spark_table(StatementCalls(StatementSlots(database, held), Parameters().of_plugin).carry_out(call).rows)
            except UsageError as error:
                if error.sqlstate != _ACTIVE or time.monotonic() > until:
                    raise
        time.sleep(_PAUSE)


def spark_table(table: pa.Table) -> pa.Table:
    """With the types that Spark has: it knows no unsigned numbers."""
    wide = {pa.uint64(): pa.int64(), pa.uint32(): pa.int64(), pa.list_(pa.uint32()): pa.list_(pa.int64())}
    schema = pa.schema([(field.name, wide.get(field.type, field.type)) for field in table.schema])
    return table.cast(schema)


def _runner(size: int) -> LocalRunner:
    return LocalRunner(_THREADS)


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=2)
