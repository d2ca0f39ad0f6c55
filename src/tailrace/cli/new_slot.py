"""A slot that does not exist yet, for the verbs that create one.

In: what the command line says of it. Out: the state location, which is made if there is none, and the slot, which is not yet
there.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.cli.choice import On
from tailrace.cli.engine import runner_for
from tailrace.cli.progress import Progress, counted, warn
from tailrace.cli.slot_rows import write_slot
from tailrace.client.catalog_files import NotLetIn, ServerFiles
from tailrace.client.restore_command import RestoreCommand
from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.model import Lsn, timestamptz_of
from tailrace.replication import service
from tailrace.replication.retention import begin_anew, leave, receiving_log
from tailrace.replication.server_location import log_of_server
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.waiting import finish
from tailrace.slots.create_command import CreateReplicationSlot, PastMoment
from tailrace.slots.slot import check_name
from tailrace.slots.wal_keep import parse_wal_keep
from tailrace.sources.captured import read_captured
from tailrace.sources.dsn import has_password, is_dsn
from tailrace.sources.named import directory_of, restore_with
from tailrace.sources.received_log import ReceivedLog
from tailrace.sources.source import Source
from tailrace.storage.server_settings import setting_of
from tailrace.window import WindowSize


@dataclass(frozen=True, slots=True)
class HowReceived:
    """Of a server that is connected to: with which physical slot, what fetches WAL that it has removed, and what is kept beyond what slots need;
    empty for what is not said."""

    physical_slot: str = ""
    restore_command: str = ""
    keep: str = ""

    def check(self) -> None:
        """Raise UsageError for what is none of these."""
        if self.physical_slot:
            check_name(self.physical_slot)
        RestoreCommand.parse(self.restore_command)
        parse_wal_keep(self.keep)


AS_BEFORE = HowReceived()


def create(
    command: CreateReplicationSlot, state: Path, on: On, window: WindowSize | None, how: HowReceived = AS_BEFORE, *, as_json: bool
) -> None:  # fmt: skip
    """Create the slot, and print where it begins."""
    location, new = new_slot(command, state, on, window, how)
    new.persist(location)
    write_slot(location, command.name, f"{command.name}\t{new.slot.confirmed_flush_lsn}", as_json=as_json)


def past_moment(text: str, since: Lsn | datetime | None) -> PastMoment | None:
    """A past moment to begin at, which the command line has as `text`."""
    if isinstance(since, datetime):
        return PastMoment(text, time=timestamptz_of(since))
    return None if since is None else PastMoment(text, since)


def new_slot(
    command: CreateReplicationSlot, state: Path, on: On, window: WindowSize | None, how: HowReceived = AS_BEFORE
) -> tuple[SlotLocation, service.NewSlot]:
    """Where it can begin may have to be waited for. A location is made only for a slot that can be created."""
    check_name(command.name)
    how.check()
    if is_dsn(command.source):
        return _new_slot_of_server(command, state, on, window, how)
    if how.physical_slot or how.keep:
        raise UsageError(
            "the log is in files, and nothing is received",
            hint="--physical-slot and --keep are for a server that is connected to.", sqlstate="42601",
        )  # fmt: skip
    restore_with(command.source, how.restore_command)
    segments = Source.open(command.source, command.catalog.needs_wal_from if command.catalog else None).segments
    location = None if _is_nothing(state) else open_or_make(state, segments.system)
    with counted("records") as progress:
        runner = runner_for(on, segments.stop_lsn - segments.first_lsn, progress.tell)
        new = finish(service.create(command, location, runner, warn, window))
        if location is None:
            location = open_or_make(state, segments.system, progress)
        if how.restore_command:
            location.configure({"restore_command": how.restore_command})
    _warn_of_recycling(command.source)
    return location, new


def _new_slot_of_server(
    command: CreateReplicationSlot, state: Path, on: On, window: WindowSize | None, how: HowReceived
) -> tuple[SlotLocation, service.NewSlot]:
    """The same on the log of a server that is reached by a connection: from now on that is received into the state location."""
    dsn = command.source
    if command.catalog is not None or command.moment is not None:
        raise UsageError(
            "a slot on a server that is connected to begins now",
            hint="--catalog and --at are for logs in files: receive the log (tailrace wal receive), and create the slot on that directory.",
            sqlstate="0A000",
        )
    with suppress(NotLetIn), ServerFiles.connected(dsn, command.database):
        pass  # what is wrong with it is said before anything is made
    if has_password(dsn):
        warn(
            "the password in the connection string is used now, and not kept\n"
            "HINT:  Put it into ~/.pgpass, a line for the database and one for the log (database replication), or give it in PGPASSWORD."
        )
    with counted("records") as progress:
        if _is_nothing(state):
            progress.tell(f'"{state}" is a new state location')
        before = ReceivedLog.in_location(state)
        has_slot = before is not None and bool(before.server.slot)
        server = log_of_server(dsn, state, warn, how.physical_slot, how.restore_command)
        runner = runner_for(on, 0, progress.tell)
        try:
            if how.keep:
                server.location.configure({"wal_keep": how.keep})
            begin_anew(server.log, server.location)
            with receiving_log(server.log, progress.tell, warn=warn) as reception:
                reception.wait(server.flushed)
                here = replace(command, source=str(server.log.directory))
                return server.location, finish(service.create(here, server.location, runner, warn, window))
        except BaseException:
            if not has_slot:
                leave(server.log, server.location, warn)
            raise


def captured(catalog: str | None) -> CatalogState | None:
    return read_captured(catalog) if catalog else None


def open_or_make(state: Path, system: int, progress: Progress | None = None) -> SlotLocation:
    """The state location; who made it by a slip of the pen is told that it is new."""
    is_new = _is_nothing(state)
    location = SlotLocation.open_or_create(state, system, warn=warn)
    if is_new:
        (progress or Progress("")).tell(f'"{state}" is a new state location')
    return location


def _is_nothing(state: Path) -> bool:
    """Whether a location would have to be made there."""
    return not state.exists() or (state.is_dir() and not any(state.iterdir()))


def _warn_of_recycling(source: str) -> None:
    """A server knows nothing of the slot, and recycles the WAL that it needs with the next checkpoints, unless it is told to
    keep some."""
    directory = directory_of(source)
    if directory is None or not directory.is_running:
        return
    try:
        kept = setting_of(directory.path, "wal_keep_size")
    except OSError:
        return  # somewhere else, or another user's
    if kept is None or re.fullmatch(r"0+\s*[A-Za-z]*", kept):
        warn(
            f'wal_keep_size is 0 on the server of "{source}": it removes WAL at its checkpoints, though the slot may still need it\n'
            "HINT:  Set wal_keep_size to more than is written while nobody consumes the slot, or create the slot on an archive of the server's WAL."
        )
