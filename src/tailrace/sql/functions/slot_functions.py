"""The functions that create, copy, move and drop slots (`replication/slotfuncs.c`), on a state location."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from tailrace.errors import UsageError
from tailrace.majors import NO_TARGET_LSN_STATE, SLOTS_MOVED_FROM_ANY_DATABASE, said_by, supports
from tailrace.model import Lsn
from tailrace.plugins.registry import announce_slot
from tailrace.replication.creation import consistent_place
from tailrace.replication.slot_location import new_identity
from tailrace.slots.slot import Slot, check_name
from tailrace.sql.functions.calls import Call
from tailrace.sql.functions.changes import consumer_of
from tailrace.sql.functions.outcome import Outcome, one_row
from tailrace.sql.place import Place

_NAMED = 5
_NO_SUCH_FILE = "58P01"


def create(call: Call, arguments: list[Any], place: Place, held: ExitStack) -> Outcome:
    """pg_create_logical_replication_slot: where it begins is found now, and the slot made when the statement has its result."""
    name, plugin, temporary, two_phase, *rest = arguments
    failover = bool(rest and rest[0])
    check_name(name)
    if failover and temporary:
        raise UsageError("cannot enable failover for a temporary replication slot", sqlstate="0A000")
    if failover:
        raise UsageError(
            "failover slots are not supported outside of the server",
            hint="A state location can be kept wherever a standby's failover finds it.",
            sqlstate="0A000",
        )
    location = place.location
    location.check_free(name, place.major)
    segments = place.segments()
    _announce(plugin, name, {}, segments.major)
    runner = place.runner_for(segments.stop_lsn - segments.first_lsn)

    def waits(xids: Any) -> None:
        named = ", ".join(str(xid & 0xFFFFFFFF) for xid in xids[:_NAMED]) + (", …" if len(xids) > _NAMED else "")
        place.warn(f"waiting for transactions to end whose beginning is not in the log at hand: {named}")

    begin = consistent_place(place.path.absolute(), place.database, runner, waits, location=location)
    slot = Slot(
        name=name, plugin=plugin, options={}, database=place.database, database_oid=begin.state.database, system=segments.system,
        timeline=begin.state.timeline, source=str(place.path.absolute()), two_phase=two_phase, two_phase_at=begin.lsn,
        temporary=temporary, restart_lsn=begin.restart_lsn, confirmed_flush_lsn=begin.lsn, inactive_since=int(time.time() * 1e6),
        identity=new_identity(), stood=begin.stood,
    )  # fmt: skip

    def made() -> None:
        if temporary:
            keep_temporary(place, slot, begin)
        else:
            location.create_slot(slot, begin)

    return Outcome(one_row(call.function, name, int(begin.lsn)), settle=made)


def keep_temporary(place: Place, slot: Slot, mark: Any) -> None:
    """Owned until the session ends."""
    stack = ExitStack()
    location = place.location
    stack.enter_context(location.created(slot, mark))
    place.temporary[slot.name] = stack
    place.owned_by[slot.name] = location


def _announce(plugin: str, slot: str, options: Mapping[str, str | None], major: int) -> None:
    """Raises UsageError as the server does for a plugin that is not there."""
    try:
        announce_slot(plugin, slot, options, major)
    except UsageError as error:
        if error.sqlstate == _NO_SUCH_FILE:
            error.hint = ""
        raise


def drop(call: Call, arguments: list[Any], place: Place, held: ExitStack) -> Outcome:
    """pg_drop_replication_slot."""
    (name,) = arguments
    slot = place.slot(name)
    if name not in place.temporary:
        held.enter_context(place.location.owned(slot.name))

    def dropped() -> None:
        if name in place.temporary:
            place.temporary.pop(name).close()
        else:
            held.close()
            place.location.drop(name)
        place.location.prune()

    return Outcome(one_row(call.function, ""), settle=dropped)


def copy(call: Call, arguments: list[Any], place: Place, held: ExitStack) -> Outcome:
    """pg_copy_logical_replication_slot: the new one stands where the old one does; two_phase is not copied."""
    name, new, temporary, plugin = arguments
    location = place.location
    slot = place.slot(name)
    check_name(new)
    location.check_free(new, place.major)
    if slot.invalidation_reason:
        raise UsageError(f'cannot copy invalidated replication slot "{name}"', sqlstate="55000")
    if slot.database != place.database:  # the server's would be one of this database
        raise UsageError(
            f'cannot copy replication slot "{name}" of another database outside of the server',
            hint=f'Copy it in database "{slot.database}", or create one in this.',
            sqlstate="0A000",
        )
    copied = replace(
        slot, name=new, temporary=slot.temporary if temporary is None else temporary, plugin=plugin or slot.plugin,
        options=slot.options if plugin in (None, slot.plugin) else {}, two_phase=False, identity=new_identity(),
        inactive_since=int(time.time() * 1e6),
    )  # fmt: skip

    _announce(copied.plugin, new, copied.options, place.major)

    def made() -> None:
        if copied.temporary:
            keep_temporary(place, copied, None)
        else:
            location.create_slot(copied)

    return Outcome(one_row(call.function, new, int(slot.confirmed_flush_lsn)), settle=made)


def advance(call: Call, arguments: list[Any], place: Place, held: ExitStack) -> Outcome:
    """pg_replication_slot_advance."""
    name, upto = arguments
    if upto == 0:
        raise UsageError("invalid target WAL LSN", sqlstate=said_by(place.major, NO_TARGET_LSN_STATE))
    slot = place.slot(name)
    if slot.database != place.database and not supports(place.major, SLOTS_MOVED_FROM_ANY_DATABASE):
        raise UsageError(f'replication slot "{name}" was not created in this database', sqlstate="55000")
    consumer = held.enter_context(consumer_of(place, slot))
    if upto < slot.confirmed_flush_lsn:
        raise UsageError(
            f"cannot advance replication slot to {Lsn(upto)}, minimum is {slot.confirmed_flush_lsn}", sqlstate="55000"
        )
    stands = consumer.reach(Lsn(upto))
    return Outcome(one_row(call.function, name, int(stands)), settle=lambda: consumer.confirm(stands))
