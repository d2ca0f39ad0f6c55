"""The functions that create, copy, move and drop slots (`replication/slotfuncs.c`), on a state location."""

from __future__ import annotations

from typing import Any

from tailrace.errors import UsageError
from tailrace.majors import NO_TARGET_LSN_STATE, SLOTS_MOVED_FROM_ANY_DATABASE, said_by, supports
from tailrace.model import Lsn
from tailrace.replication import service
from tailrace.replication.slot_plugin import no_hint_of_plugins
from tailrace.slots.create_command import CreateReplicationSlot
from tailrace.slots.slot import check_failover, check_name
from tailrace.sources.source_name import absolute
from tailrace.sql.functions.calls import FunctionCall
from tailrace.sql.functions.outcome import Outcome, one_row
from tailrace.sql.functions.settlement import SlotDropped, SlotMade, SlotMoved, StatementSlots


def create(call: FunctionCall, arguments: list[Any], slots: StatementSlots) -> Outcome:
    """pg_create_logical_replication_slot: where it begins is found now, and the slot made when the statement has its result."""
    name, plugin, temporary, two_phase, *rest = arguments
    _check_new(name, slots)
    check_name(name)
    check_failover(failover=bool(rest and rest[0]), temporary=temporary)
    database = slots.database
    location, segments = database.location, database.segments()
    runner = database.runner_for(segments.stop_lsn - segments.first_lsn)
    command = CreateReplicationSlot(
        name=name,
        source=absolute(database.source),
        database=database.name,
        plugin=plugin,
        two_phase=two_phase,
        temporary=temporary,
    )
    with no_hint_of_plugins():
        new = database.finish(service.create(command, location, runner, database.warn))
    return Outcome(one_row(call.function, name, int(new.slot.confirmed_flush_lsn)), SlotMade(new))


def _check_new(name: str, slots: StatementSlots) -> None:
    """Raise UsageError (42501) where the role may not make a slot of this name."""
    slots.database.privileges.check_replication(slots.database.major)
    slots.database.privileges.check_slot(name)


def drop(call: FunctionCall, arguments: list[Any], slots: StatementSlots) -> Outcome:
    """pg_drop_replication_slot."""
    (name,) = arguments
    slots.database.slot(name)
    if name not in slots.database.temporary:
        slots.own(name)
    return Outcome(one_row(call.function, ""), SlotDropped(name))


def copy(call: FunctionCall, arguments: list[Any], slots: StatementSlots) -> Outcome:
    """pg_copy_logical_replication_slot: the new one stands where the old one does; two_phase is not copied."""
    name, new, temporary, plugin = arguments
    _check_new(new, slots)
    database = slots.database
    slot = database.slot(name)
    if slot.database != database.name:  # the server's would be one of this database
        raise UsageError(
            f'cannot copy replication slot "{name}" of another database outside of the server',
            hint=f'Copy it in database "{slot.database}", or create one in this.',
            sqlstate="0A000",
        )
    with no_hint_of_plugins():
        copied = service.copy(slot, new, database.location, plugin=plugin, temporary=temporary, major=database.major)
    return Outcome(one_row(call.function, new, int(slot.confirmed_flush_lsn)), SlotMade(copied))


def advance(call: FunctionCall, arguments: list[Any], slots: StatementSlots) -> Outcome:
    """pg_replication_slot_advance."""
    name, upto = arguments
    database = slots.database
    if upto == 0:
        raise UsageError("invalid target WAL LSN", sqlstate=said_by(database.major, NO_TARGET_LSN_STATE))
    slot = database.slot(name)
    if slot.database != database.name and not supports(database.major, SLOTS_MOVED_FROM_ANY_DATABASE):
        raise UsageError(f'replication slot "{name}" was not created in this database', sqlstate="55000")
    acquired = slots.acquire(name)
    acquired.check_ahead(Lsn(upto))
    stands = database.finish(acquired.reach(Lsn(upto)))
    return Outcome(one_row(call.function, name, int(stands)), SlotMoved(name, stands))
