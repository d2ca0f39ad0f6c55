"""The functions of replication origins (`replication/logical/origin.c`), on a state location."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace.model import Lsn
from tailrace.slots.origins import Origins
from tailrace.sql.functions.calls import FunctionCall
from tailrace.sql.functions.outcome import Outcome, one_row
from tailrace.sql.functions.settlement import OriginsChanged, StatementSlots


def create(call: FunctionCall, arguments: list[Any], slots: StatementSlots) -> Outcome:
    """pg_replication_origin_create."""
    (name,), major = arguments, slots.database.major
    _, oid = slots.database.origins.read().created(name, major)
    return Outcome(one_row(call.function, oid), OriginsChanged(lambda now: now.created(name, major)[0]))


def drop(call: FunctionCall, arguments: list[Any], slots: StatementSlots) -> Outcome:
    """pg_replication_origin_drop."""
    return _changed(call, slots, lambda now: now.dropped(arguments[0]))


def advance(call: FunctionCall, arguments: list[Any], slots: StatementSlots) -> Outcome:
    """pg_replication_origin_advance."""
    name, lsn = arguments
    return _changed(call, slots, lambda now: now.advanced(name, Lsn(lsn)))


def oid(call: FunctionCall, arguments: list[Any], slots: StatementSlots) -> Outcome:
    """pg_replication_origin_oid: NULL if there is none of that name."""
    found = slots.database.origins.read().named(arguments[0])
    return Outcome(one_row(call.function, found.oid if found else None))


def progress(call: FunctionCall, arguments: list[Any], slots: StatementSlots) -> Outcome:
    """pg_replication_origin_progress: NULL if it has made none."""
    return Outcome(one_row(call.function, slots.database.origins.read().existing(arguments[0]).remote_lsn))


def _changed(call: FunctionCall, slots: StatementSlots, change: Callable[[Origins], Origins]) -> Outcome:
    change(slots.database.origins.read())  # raises what it would raise
    return Outcome(one_row(call.function, ""), OriginsChanged(change))
