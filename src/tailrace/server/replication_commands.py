"""The commands of a replication connection, carried out (`exec_replication_command` in `replication/walsender.c`).

In: a command of `wire.replication_grammar`, and the session. Out: a `Result` for what gives rows; a stream runs here until it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from tailrace.client.source_session import SourceSession
from tailrace.errors import MissingHistory, UsageError
from tailrace.majors import FAILOVER_SLOTS, LONG_TIMELINES, supports
from tailrace.model import Lsn
from tailrace.pipeline.following import Steps
from tailrace.plugins.output_plugin import OutputPlugin, shut_down
from tailrace.plugins.registry import OURS
from tailrace.replication import service
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.service import NewSlot
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.slot_plugin import no_hint_of_plugins, plugin_of
from tailrace.replication.waiting import finish_async
from tailrace.server.client_session import ClientSession
from tailrace.server.results import describe, show, text_result
from tailrace.server.shared_windows import BEGINS, kind_of_stream
from tailrace.server.slot_snapshots import EXPORT, NOTHING, check_snapshot, with_snapshot
from tailrace.server.walsender import WalSender
from tailrace.settings import def_get_boolean
from tailrace.slots.create_command import CreateReplicationSlot
from tailrace.slots.slot import Slot, check_failover
from tailrace.sources.named import files_of
from tailrace.sources.source_name import absolute
from tailrace.sql.result import Result
from tailrace.types import oids
from tailrace.wire import replication_grammar as grammar
from tailrace.wire.error_fields import WARNING

_NOT_HERE = "A tailrace server gives what slots decode. Connect to the PostgreSQL server itself for this."
_WHILE_ACTIVE = 0.1
"""Seconds between two looks at a slot that is to be dropped once nobody has it."""
_ACTIVE = "55006"
_TEXT = oids.TEXT


async def run_command(command: grammar.ReplicationCommand, session: ClientSession) -> Result:
    """Its result; the columns of one that gives none are None."""
    match command:
        case grammar.IdentifySystemCmd():
            return await _identify_system(session)
        case grammar.VariableShowCmd():
            return show(command.name, session.parameters)
        case grammar.ReadReplicationSlotCmd():
            return await session.in_thread(_read_slot, command.slot, session)
        case grammar.CreateReplicationSlotCmd():
            return await _create(command, session)
        case grammar.AlterReplicationSlotCmd():
            return await _alter(command, session)
        case grammar.DropReplicationSlotCmd():
            return await _drop(command, session)
        case grammar.StartReplicationCmd():
            return await _start(command, session)
        case grammar.TimeLineHistoryCmd():
            return await _timeline_history(command.timeline, session)
        case grammar.BaseBackupCmd():
            raise _not_here("BASE_BACKUP")
        case grammar.UploadManifestCmd():
            raise _not_here("UPLOAD_MANIFEST")


def _not_here(what: str) -> UsageError:
    return UsageError(f"{what} is not supported by this server", hint=_NOT_HERE, sqlstate="0A000")


# -- what there is ---------------------------------------------------------------------------------------------------------


async def _identify_system(session: ClientSession) -> Result:
    instance = session.instance
    timeline, end = await session.in_thread(instance.end_of_log, session.database())
    columns = [
        ("systemid", _TEXT), ("timeline", oids.INT8 if supports(instance.major, LONG_TIMELINES) else oids.INT4),
        ("xlogpos", _TEXT), ("dbname", _TEXT),
    ]  # fmt: skip
    name = None if session.is_physical else session.client.database
    return text_result(columns, [[str(instance.system), str(timeline), str(end), name]], "IDENTIFY_SYSTEM")


def _read_slot(name: str, session: ClientSession) -> Result:
    """Of physical slots, of which there are none."""
    _check_slot(name, session)
    if _slot_named(name, session):
        raise UsageError("cannot use READ_REPLICATION_SLOT with a logical replication slot", sqlstate="0A000")
    columns = [("slot_type", _TEXT), ("restart_lsn", _TEXT), ("restart_tli", oids.INT8)]
    return text_result(columns, [[None, None, None]], "READ_REPLICATION_SLOT")


async def _timeline_history(timeline: int, session: ClientSession) -> Result:
    """Its columns are told before its file is looked for, as on the server."""
    name = f"{timeline:08X}.history"
    result = text_result([("filename", _TEXT), ("content", _TEXT)], [[name, ""]], "TIMELINE_HISTORY")
    content = await session.in_thread(lambda: files_of(session.instance.settings.source).history(name))
    if content is None:
        session.link.send(describe(result.columns or []))
        raise MissingHistory(f'could not open file "pg_wal/{name}": No such file or directory', sqlstate="58P01")
    return text_result([("filename", _TEXT), ("content", _TEXT)], [[name, content]], "TIMELINE_HISTORY")


# -- slots -----------------------------------------------------------------------------------------------------------------


async def _create(command: grammar.CreateReplicationSlotCmd, session: ClientSession) -> Result:
    options = _create_options(command, session)
    if not command.plugin:
        raise _not_here("CREATE_REPLICATION_SLOT … PHYSICAL")
    session.check_database_connection()
    session.role.privileges.check_slot(command.slot)
    database = session.database()
    wanted = CreateReplicationSlot(
        name=command.slot, source=absolute(session.instance.settings.source), database=database.name,
        plugin=command.plugin, two_phase=options.two_phase, temporary=command.temporary,
    )  # fmt: skip
    location = await session.in_thread(lambda: database.location)
    segments = await session.in_thread(database.segments)
    runner = await session.in_thread(session.instance.runner_for, segments.stop_lsn - segments.first_lsn)
    steps = service.create(wanted, location, runner, database.warn)
    log, source = session.instance.snapshots.log, None
    async with session.for_as_long_as_the_client_waits():
        with no_hint_of_plugins():
            new = await finish_async(steps, session.instance.threads)
        if log is not None and options.snapshot != NOTHING:
            new, source = await with_snapshot(new, log, session, is_wanted=options.is_snapshot_named)
    name = await session.in_thread(_made, new, location, source, options.snapshot, session)
    if source is None and not options.is_snapshot_named:
        hint = "There is no server here that could hold one. Create the slot with SNAPSHOT 'nothing' to say that none is wanted."
        session.notice(WARNING, "no snapshot is exported", sqlstate="01000", hint=hint)
    columns = [("slot_name", _TEXT), ("consistent_point", _TEXT), ("snapshot_name", _TEXT), ("output_plugin", _TEXT)]
    row = [new.slot.name, str(new.slot.confirmed_flush_lsn), name, new.slot.plugin]
    return text_result(columns, [row], "CREATE_REPLICATION_SLOT")


def _made(new: NewSlot, location: SlotLocation, source: SourceSession | None, action: str, session: ClientSession) -> str | None:
    """The slot is there from now on, and its snapshot used, or exported under the name."""
    if source is None:
        session.slots.make(new, location)
        return None
    try:
        session.exported = session.instance.snapshots.export(source, session.client.pid) if action == EXPORT else ""
        session.slots.make(new, location)
    except BaseException:
        session.withdraw_snapshot()
        source.let_go()
        raise
    if not session.exported:
        session.block.source, session.block.has_queried = source, True
    return session.exported or None


class _CreateOptions:
    """What the options of CREATE_REPLICATION_SLOT ask for."""

    two_phase = False
    snapshot = EXPORT
    is_snapshot_named = False


def _create_options(command: grammar.CreateReplicationSlotCmd, session: ClientSession) -> _CreateOptions:
    """As parseCreateReplSlotOptions reads them, and refused where nobody here can do it."""
    made, seen, major = _CreateOptions(), set(), session.instance.major
    for name, value in command.options:
        is_known = name in ("snapshot", "two_phase", "reserve_wal") or (name == "failover" and supports(major, FAILOVER_SLOTS))
        if not is_known:
            raise UsageError(f"unrecognized option: {name}", sqlstate="XX000")
        if name in seen or (name == "reserve_wal") == bool(command.plugin):
            raise UsageError("conflicting or redundant options", sqlstate="42601")
        seen.add(name)
        if name == "snapshot":
            made.snapshot, made.is_snapshot_named = str(value), True
        elif name == "two_phase":
            made.two_phase = def_get_boolean(name, value)
        elif name == "failover":
            check_failover(failover=def_get_boolean(name, value), temporary=command.temporary)
    if command.plugin:
        check_snapshot(made.snapshot, session)
        if made.is_snapshot_named and made.snapshot != NOTHING and session.instance.snapshots.log is None:
            raise UsageError(
                f"CREATE_REPLICATION_SLOT ... (SNAPSHOT '{made.snapshot}') is not supported by this server", sqlstate="0A000",
                hint="The log is read from files, and no server is there that could hold a snapshot. Use SNAPSHOT 'nothing' (NOEXPORT_SNAPSHOT), "
                "or serve the server's log: tailrace serve 'host=… dbname=…'.",
            )  # fmt: skip
    return made


def _check_slot(name: str, session: ClientSession) -> None:
    """Raise UsageError (42501) for one that the role may not use, by its name or its database."""
    privileges = session.role.privileges
    privileges.check_slot(name)
    slot = _slot_named(name, session) if privileges.databases is not None else None
    if slot is not None:
        privileges.check_database(slot.database)


def _slot_named(name: str, session: ClientSession) -> Slot | None:
    location = session.database().found
    return next((slot for slot in location.slots() if slot.name == name), None) if location is not None else None


async def _alter(command: grammar.AlterReplicationSlotCmd, session: ClientSession) -> Result:
    await session.in_thread(_check_slot, command.slot, session)
    two_phase: bool | None = None
    for name, value in command.options:
        if name == "failover":
            check_failover(failover=def_get_boolean(name, value))
        elif name == "two_phase":
            two_phase = def_get_boolean(name, value)
        else:
            raise UsageError(f"unrecognized option: {name}", sqlstate="XX000")

    def alter() -> None:
        location = session.database().location
        with location.owned(command.slot) as slot:
            if two_phase is not None and two_phase != slot.two_phase:
                since = slot.confirmed_flush_lsn if two_phase else Lsn(0)
                location.save(replace(slot, two_phase=two_phase, two_phase_at=since))

    await session.in_thread(alter)
    return Result(tag="ALTER_REPLICATION_SLOT")


async def _drop(command: grammar.DropReplicationSlotCmd, session: ClientSession) -> Result:
    await session.in_thread(_check_slot, command.slot, session)

    def drop() -> None:
        if command.slot in session.slots:
            session.slots.drop(command.slot)
        else:
            service.drop(session.database().location, command.slot)

    async with session.for_as_long_as_the_client_waits():
        while True:
            try:
                await session.in_thread(drop)
                return Result(tag="DROP_REPLICATION_SLOT")
            except UsageError as error:
                if not command.wait or error.sqlstate != _ACTIVE:
                    raise
            await asyncio.sleep(_WHILE_ACTIVE)


# -- streams ---------------------------------------------------------------------------------------------------------------


async def _start(command: grammar.StartReplicationCmd, session: ClientSession) -> Result:
    await session.in_thread(_check_slot, command.slot, session)
    if not command.is_logical:
        if await session.in_thread(_slot_named, command.slot, session):
            raise UsageError("cannot use a logical replication slot for physical replication", sqlstate="55000")
        raise _not_here("START_REPLICATION … PHYSICAL")
    session.check_database_connection()
    session.client.kind = BEGINS
    try:
        async with _acquired(command.slot, session) as acquired:
            make_plugin = partial(_plugin, acquired, command, session)
            plugin = await session.in_thread(make_plugin)
            with shut_down(plugin):
                start = max(command.start, acquired.slot.confirmed_flush_lsn)
                await session.in_thread(acquired.go_to, start)
                session.client.kind = kind_of_stream(acquired.slot, plugin, dict(command.options))
                sender = _sender(session, acquired, plugin, make_plugin)
                try:
                    await session.while_streaming(sender, acquired.slot.name)
                finally:
                    if not sender.others():
                        session.instance.forget_shared()
    finally:
        session.client.kind = ""
    return Result(tag="START_REPLICATION")


def _sender(
    session: ClientSession, acquired: AcquiredSlot, plugin: OutputPlugin, make_plugin: Callable[[], OutputPlugin]
) -> WalSender:  # fmt: skip
    instance, client = session.instance, session.client

    def others() -> list[str]:
        streams = (each for each in instance.clients if (each.stream is not None or each.kind == BEGINS) and each is not client)
        return [each.kind for each in streams if each.database == client.database]

    plans = instance.plans if plugin.name in OURS else None
    timeout = session.parameters.sender_timeout
    return WalSender(
        session.link, acquired, plugin, make_plugin, instance.in_thread, timeout, instance.shared, instance.freed, plans, client.kind, others
    )  # fmt: skip


@asynccontextmanager
async def _acquired(name: str, session: ClientSession) -> AsyncIterator[AcquiredSlot]:
    """The slot, until the block ends."""
    database, instance = session.database(), session.instance

    def acquire() -> Steps[AcquiredSlot]:
        location = database.location
        slot = database.slot(name, location)
        if slot.database != database.name:
            raise UsageError(f'replication slot "{name}" was not created in this database', sqlstate="55000")
        runner = instance.runner_for(slot.backlog(instance.segments().stop_lsn))
        return session.slots.acquire(slot, location, runner)

    acquired = await finish_async(await session.in_thread(acquire), instance.threads)
    try:
        yield acquired
    finally:
        await asyncio.shield(session.in_thread(acquired.release))


def _plugin(acquired: AcquiredSlot, command: grammar.StartReplicationCmd, session: ClientSession) -> OutputPlugin:
    names = [name for name, _ in command.options]
    slot = acquired.slot
    if slot.plugin == "pgoutput" and len(set(names)) < len(names):
        where = f'slot "{slot.name}", output plugin "{slot.plugin}", in the startup callback'
        raise UsageError("conflicting or redundant options", context=where, sqlstate="42601")
    with no_hint_of_plugins():
        plugin = plugin_of(acquired, dict(command.options), session.parameters.of_text.of_plugin, command.start)
    session.role.privileges.check_publications(plugin.wants.publication_names)
    return plugin
