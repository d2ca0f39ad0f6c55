"""A call of the interface, carried out: which function is which, and what every strict one does with NULL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tailrace.errors import UsageError
from tailrace.sql.functions import origin_functions, slot_functions
from tailrace.sql.functions.calls import FunctionCall
from tailrace.sql.functions.changes import changes
from tailrace.sql.functions.outcome import Outcome, nulls, one_row
from tailrace.sql.functions.settlement import StatementSlots

_FUNCTIONS: dict[str, Callable[[FunctionCall, list[Any], StatementSlots], Outcome]] = {
    "pg_create_logical_replication_slot": slot_functions.create,
    "pg_drop_replication_slot": slot_functions.drop,
    "pg_copy_logical_replication_slot": slot_functions.copy,
    "pg_replication_slot_advance": slot_functions.advance,
    "pg_replication_origin_create": origin_functions.create,
    "pg_replication_origin_drop": origin_functions.drop,
    "pg_replication_origin_advance": origin_functions.advance,
    "pg_replication_origin_oid": origin_functions.oid,
    "pg_replication_origin_progress": origin_functions.progress,
}


class StatementCalls:
    """The calls of one statement; `slots` has what must be let go of when the statement has ended, however it ended."""

    def __init__(self, slots: StatementSlots, parameters: Mapping[str, str]) -> None:
        self.slots, self.parameters = slots, parameters
        self._end: int | None = None

    def carry_out(self, call: FunctionCall) -> Outcome:
        """Raises UsageError, and whatever reading the log raises."""
        function = call.function
        arguments = [self._value(each) for each in call.arguments]
        if function.strict and any(
            value is None and argument.default is not None for value, argument in zip(arguments, function.arguments, strict=True)
        ):
            return Outcome(nulls(function))
        if function.name.startswith("pg_current_wal_"):
            return Outcome(one_row(function, self._end_of_log()))
        if function.is_set:
            return changes(call, arguments, self.slots, self.parameters)
        if function.name.startswith("pg_replication_origin_"):
            self.slots.database.privileges.check_function(function.name)
        return _FUNCTIONS[function.name](call, arguments, self.slots)

    def _value(self, argument: object) -> object:
        return self.carry_out(argument).rows.column(0)[0].as_py() if isinstance(argument, FunctionCall) else argument

    def _end_of_log(self) -> int:
        """One value for the whole statement."""
        if self._end is None:
            self._end = int(self.slots.database.end_of_log())
        return self._end


def check_slots(calls: list[FunctionCall]) -> None:
    """Raise UsageError where a slot that is moved is named twice: the second would have to see what the first did."""
    moved = [str(call.arguments[0]) for call in calls if call.function.moves and call.arguments]
    for call in calls:
        name = str(call.arguments[0]) if call.arguments else ""
        if call.arguments and moved.count(name) > (1 if call.function.moves else 0):
            raise UsageError(
                f'"{name}" is moved and used again in one statement', hint="Use a statement for each.", sqlstate="0A000"
            ).in_text(call.position)
