"""Who reads what a statement asks of a source and a state location: this process or, for a client of Spark Connect, a task on
its server.

In: views and calls of one statement. Out: their rows, and what settles the statement once it has its result. A task cannot hold
a slot for its client from one job to the next: there the calls are carried out in one task, and settled in another, which
refuses if a slot does not stand any more where the first found it (`sql.functions.settlement`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.pipeline import LocalRunner
from tailrace.replication.server_location import log_to_read
from tailrace.sources.dsn import is_dsn
from tailrace.sources.named import existing
from tailrace.spark.pickling import pack, unpack
from tailrace.spark.spark_connect import in_one_task
from tailrace.sql.functions.calls import FunctionCall
from tailrace.sql.functions.settlement import Settlement, StatementSlots, settle
from tailrace.sql.functions.statement_calls import StatementCalls
from tailrace.sql.parameters import Parameters
from tailrace.sql.source_database import SourceDatabase
from tailrace.sql.views.relations import Relations

_THREADS = 2
_TEMPORARY = 2
"""Which argument of the functions that make slots says that one is temporary."""
_MAKE_SLOTS = ("pg_create_logical_replication_slot", "pg_copy_logical_replication_slot")


@dataclass(frozen=True, slots=True)
class StatementInputs:
    """Of one statement: views and catalogs by name, these of the moment `as_of` (None: where the log ends), and calls, in their
    order."""

    relations: Sequence[str]
    calls: Sequence[FunctionCall]
    parameters: Mapping[str, str]
    as_of: Lsn | None


@dataclass(frozen=True, slots=True)
class InputRows:
    """Rows of relations, and of each call. `settle` is to be called once the statement has its result."""

    tables: Mapping[str, pa.Table]
    rows: Sequence[pa.Table]
    settle: Callable[[], None]


class InputReader(Protocol):
    @property
    def major(self) -> int: ...

    def read(self, inputs: StatementInputs, held: ExitStack) -> InputRows:
        """Raises UsageError, and whatever reading the log raises. `held` is let go of when the statement has ended."""
        ...

    def close(self) -> None: ...


@dataclass
class ReadHere:
    """Reads in this process."""

    database: SourceDatabase

    @property
    def major(self) -> int:
        return self.database.major

    def read(self, inputs: StatementInputs, held: ExitStack) -> InputRows:
        slots = StatementSlots(self.database, held)
        tables, rows, settlements = _read(inputs, slots)
        return InputRows(tables, rows, partial(settle, settlements, slots))

    def close(self) -> None:
        self.database.end_session()


@dataclass
class ReadOnServer:
    """In tasks of a Connect server; both paths are its own."""

    spark: SparkSession
    source: str
    database: str
    state: str

    @cached_property
    def major(self) -> int:
        return int(in_one_task(self.spark, partial(_major, self._where)))

    def read(self, inputs: StatementInputs, held: ExitStack) -> InputRows:
        if not inputs.relations and not inputs.calls:
            return InputRows({}, [], lambda: None)
        for call in inputs.calls:
            if call.function.name in _MAKE_SLOTS and call.arguments[_TEMPORARY]:
                hint = "No session outlives a statement on the server."
                raise UsageError("temporary slots are not supported on Spark Connect", hint=hint, sqlstate="0A000")
        travelling = replace(inputs, relations=tuple(inputs.relations), calls=[_without_node(call) for call in inputs.calls])
        tables, rows, settlements, warned = in_one_task(self.spark, partial(_read_in_task, self._where, pack(travelling)))
        for text in warned:
            warnings.warn(text, stacklevel=4)
        in_task = partial(in_one_task, self.spark, partial(_settle_in_task, self._where, settlements))
        return InputRows(tables, rows, in_task if settlements else lambda: None)

    def close(self) -> None:
        """Nothing is kept there."""

    @property
    def _where(self) -> tuple[str, str, str]:
        return self.source, self.database, self.state


def _read(
    inputs: StatementInputs, slots: StatementSlots
) -> tuple[dict[str, pa.Table], list[pa.Table], list[Settlement]]:  # fmt: skip
    relations = Relations(slots.database, Parameters(as_of=inputs.as_of))
    calls = StatementCalls(slots, inputs.parameters)
    tables = {name: relations.table(name) for name in inputs.relations}
    outcomes = [calls.carry_out(call) for call in inputs.calls]
    settlements = [*(each.settles for each in outcomes), *(each.confirms for each in outcomes)]
    return tables, [each.rows for each in outcomes], [each for each in settlements if each is not None]


# -- on the server -----------------------------------------------------------------------------------------------------------


def _without_node(call: FunctionCall) -> FunctionCall:
    """A call that travels: where it stands in its statement is known by its client."""
    arguments = [_without_node(each) if isinstance(each, FunctionCall) else each for each in call.arguments]
    return replace(call, node=None, arguments=arguments)


def _database(where: tuple[str, str, str], warn: Callable[[str], None]) -> SourceDatabase:
    source, database, state = where
    if not is_dsn(source):
        try:
            existing(source)
        except UsageError as error:
            error.context = "on the server of Spark Connect"
            raise
    return SourceDatabase(log_to_read(source, Path(state), warn), database, Path(state), _runner, warn)


def _runner(size: int) -> LocalRunner:
    return LocalRunner(_THREADS)


def _major(where: tuple[str, str, str]) -> int:
    return _database(where, warnings.warn).major


def _read_in_task(
    where: tuple[str, str, str], inputs: bytes
) -> tuple[dict[str, pa.Table], list[pa.Table], list[bytes], list[str]]:  # fmt: skip
    """The first task: rows, what the second has to do, and warnings. Slots stand where they stood."""
    warned: list[str] = []
    with ExitStack() as held:
        tables, rows, settlements = _read(unpack(inputs), StatementSlots(_database(where, warned.append), held))
    return tables, rows, [pack(each) for each in settlements], warned


def _settle_in_task(where: tuple[str, str, str], settlements: Sequence[bytes]) -> None:
    """Carry out what a statement left to do, in a second task."""
    with ExitStack() as held:
        settle(map(unpack, settlements), StatementSlots(_database(where, warnings.warn), held))
