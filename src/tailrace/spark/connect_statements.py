"""Who carries out what a statement asks of a source and a state location: this process or, for a client of Spark Connect, a task on its server.

In: views and calls of one statement. Out: their rows, and what is left to do once the statement has its result. A task cannot hold a slot for its
client from one job to the next. So what moves a slot is done in two: the first looks, as a peek does; the second moves the slot from where the first
found it to where the rows end, and refuses if it stands elsewhere by then.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.pipeline.runner import LocalRunner
from tailrace.replication.waiting import finish
from tailrace.spark.connected import in_one_task
from tailrace.spark.pickling import pack, unpack
from tailrace.sql.functions.calls import Call
from tailrace.sql.functions.carrying_out import CarryingOut
from tailrace.sql.functions.changes import acquired_slot
from tailrace.sql.functions.outcome import Outcome
from tailrace.sql.functions.runs_once import FROM
from tailrace.sql.functions.signatures import functions_of
from tailrace.sql.place import Place
from tailrace.sql.views.relations import Relations

_THREADS = 2
_TEMPORARY = 2
"""Which argument of the functions that make slots says that one is temporary."""
_MAKE_SLOTS = ("pg_create_logical_replication_slot", "pg_copy_logical_replication_slot")
_ADVANCE = "pg_replication_slot_advance"
Step = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """Of one statement: views and catalogs by name, these of the moment `as_of` (None: where the log ends), and calls, in their order."""

    relations: Sequence[str]
    calls: Sequence[Call]
    parameters: Mapping[str, str]
    as_of: Lsn | None


@dataclass(frozen=True, slots=True)
class Told:
    """`rows` are of each call; `steps` are to be taken in order once the statement has its result."""

    tables: Mapping[str, pa.Table]
    rows: Sequence[pa.Table]
    steps: Sequence[Step]


class Carrier(Protocol):
    @property
    def major(self) -> int: ...

    def carry_out(self, asked: Asked, held: ExitStack) -> Told:
        """Raises UsageError, and whatever reading the log raises. `held` is let go of when the statement has ended."""
        ...

    def close(self) -> None: ...


@dataclass
class Here:
    """In this process."""

    place: Place

    @property
    def major(self) -> int:
        return self.place.major

    def carry_out(self, asked: Asked, held: ExitStack) -> Told:
        tables, outcomes = _carried_out(self.place, asked, held)
        steps = [each.settle for each in outcomes] + [each.confirm for each in outcomes]
        return Told(tables, [each.rows for each in outcomes], [step for step in steps if step is not None])

    def close(self) -> None:
        self.place.end()


@dataclass
class OnServer:
    """In tasks of a Connect server; both paths are its own."""

    spark: SparkSession
    source: str
    database: str
    state: str

    @cached_property
    def major(self) -> int:
        return int(in_one_task(self.spark, partial(_major, self._where)))

    def carry_out(self, asked: Asked, held: ExitStack) -> Told:
        if not asked.relations and not asked.calls:
            return Told({}, [], [])
        for call in asked.calls:
            if call.function.name in _MAKE_SLOTS and call.arguments[_TEMPORARY]:
                hint = "No session outlives a statement on the server."
                raise UsageError("temporary slots are not supported on Spark Connect", hint=hint, sqlstate="0A000")
        written = tuple(_written(call) for call in asked.calls)
        looked = partial(_looked, self._where, tuple(asked.relations), written, dict(asked.parameters), asked.as_of)
        tables, rows, later, warned = in_one_task(self.spark, looked)
        for text in warned:
            warnings.warn(text, stacklevel=4)
        return Told(tables, rows, [partial(in_one_task, self.spark, partial(_moved, self._where, later))] if later else [])

    def close(self) -> None:
        """Nothing is kept there."""

    @property
    def _where(self) -> tuple[str, str, str]:
        return self.source, self.database, self.state


def _carried_out(place: Place, asked: Asked, held: ExitStack) -> tuple[dict[str, pa.Table], list[Outcome]]:
    relations = Relations(place, asked.as_of)
    carrying = CarryingOut(place, dict(asked.parameters), held)
    return {name: relations.table(name) for name in asked.relations}, [carrying.carry_out(call) for call in asked.calls]


# -- on the server -----------------------------------------------------------------------------------------------------------------------

_Written = tuple[str, list[Any], list[Any] | None]
"""A call on its way: the function's name, arguments (calls among them), and options."""


def _written(call: Call) -> _Written:
    return (
        call.function.name,
        [_Inner(_written(each)) if isinstance(each, Call) else each for each in call.arguments],
        call.options,
    )


@dataclass(frozen=True, slots=True)
class _Inner:
    written: _Written


def _read(written: _Written, major: int) -> Call:
    name, arguments, options = written
    given: list[object] = [_read(each.written, major) if isinstance(each, _Inner) else each for each in arguments]
    return Call(functions_of(major)[name], None, FROM, given, options)


def _place(where: tuple[str, str, str], warn: Callable[[str], None]) -> Place:
    source, database, state = where
    if not Path(source).is_dir():
        raise UsageError(f'source directory "{source}" does not exist', context="on the server of Spark Connect")
    return Place(Path(source), database, Path(state), _runner, warn)


def _runner(size: int) -> LocalRunner:
    return LocalRunner(_THREADS)


def _major(where: tuple[str, str, str]) -> int:
    return _place(where, warnings.warn).major


def _looked(
    where: tuple[str, str, str], relations: Sequence[str], written: Sequence[_Written], parameters: dict[str, str], as_of: Lsn | None
) -> tuple[dict[str, pa.Table], list[pa.Table], list[bytes], list[str]]:  # fmt: skip
    """The first task: rows, what the second has to do, and warnings. Slots stand where they stood."""
    warned: list[str] = []
    place = _place(where, warned.append)
    calls = [_read(each, place.major) for each in written]
    with ExitStack() as held:
        stood = {str(each.arguments[0]): place.slot(str(each.arguments[0])).confirmed_flush_lsn for each in calls if _takes(each)}
        tables, outcomes = _carried_out(place, Asked(relations, calls, parameters, as_of), held)
        settled = [_settling(call, outcome) for call, outcome in zip(calls, outcomes, strict=True) if outcome.settle]
        confirmed = [
            pack(partial(_confirm, str(call.arguments[0]), stood[str(call.arguments[0])], outcome.told))
            for call, outcome in zip(calls, outcomes, strict=True)
            if outcome.confirm
        ]
    return tables, [each.rows for each in outcomes], settled + confirmed, warned


def _takes(call: Call) -> bool:
    return call.function.is_set and call.function.moves and call.arguments[0] is not None


def _settling(call: Call, outcome: Outcome) -> bytes:
    """What makes a slot or an origin travels; what has to own a slot for it owns it anew."""
    name, arguments, options = _written(call)
    if name == _ADVANCE:
        return pack(partial(_again, (name, [arguments[0], outcome.rows.column(1)[0].as_py()], options)))
    if name == "pg_drop_replication_slot":
        return pack(partial(_again, (name, arguments, options)))
    assert outcome.settle is not None
    return pack(partial(_settle, outcome.settle))


def _moved(where: tuple[str, str, str], later: Sequence[bytes]) -> None:
    """The second task."""
    place = _place(where, warnings.warn)
    for each in later:
        unpack(each)(place)


def _settle(settle: Step, place: Place) -> None:
    settle()


def _again(written: _Written, place: Place) -> None:
    with ExitStack() as held:
        outcome = CarryingOut(place, {}, held).carry_out(_read(written, place.major))
        assert outcome.settle is not None
        outcome.settle()


def _confirm(name: str, stood: Lsn, told: Lsn, place: Place) -> None:
    """Move a slot from there to here; raises UsageError (55000) if somebody else has moved it."""
    with acquired_slot(place, place.slot(name)) as acquired:
        now = acquired.slot.confirmed_flush_lsn
        if now != stood:
            raise UsageError(
                f'replication slot "{name}" was moved from {stood} to {now} while the statement ran',
                hint="Its rows were given to somebody else, too. Repeat the statement.", sqlstate="55000",
            )  # fmt: skip
        finish(acquired.reach(told))
        acquired.confirm(told)
