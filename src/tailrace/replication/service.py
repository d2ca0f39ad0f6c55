"""Slots as PostgreSQL means them: created, copied, dropped and acquired, with the server's errors (`replication/slot.c`,
`slotfuncs.c`).

In: a state location, and what is asked of one of its slots. Out: an `AcquiredSlot`, which gives what is new and says how far its
owner is; or a `NewSlot`, which is there once it is persisted or acquired. The command line, SQL, streams and writers are callers
of this. What may have to wait for a log is taken in steps (`replication.waiting`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory
from tailrace.model import Lsn
from tailrace.pipeline.capture_live import captured_by_server
from tailrace.pipeline.following import FollowedLog, Steps, open_source
from tailrace.pipeline.runner import Runner
from tailrace.plan.carried import Carried
from tailrace.plugins.registry import announce_slot
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.same_log import check_slot, fitting_mark
from tailrace.replication.slot_location import SlotLocation, new_identity
from tailrace.replication.start_point import find_start_point
from tailrace.slots.create_command import CreateReplicationSlot
from tailrace.slots.slot import WAL_REMOVED, Slot, check_name, copy_of, invalidated
from tailrace.sources.named import files_of
from tailrace.sources.received_log import hold_of
from tailrace.sources.source import Source
from tailrace.storage.file_lock import FileLock
from tailrace.storage.location_folder import RECEIVED, is_received
from tailrace.storage.segment_files import arrange
from tailrace.storage.segments import Segments
from tailrace.window import WindowSize


@dataclass(frozen=True, slots=True)
class NewSlot:
    """A slot that `persist` or `acquire` will create. `begins` is what decoding knows at its start point; None where another slot stands, whose
    mark it uses. `hold` keeps what the slot needs of a log that is received, until the slot says so itself."""

    slot: Slot
    begins: Carried | None
    hold: FileLock | None = None

    def persist(self, location: SlotLocation) -> None:
        """Create the slot, and leave it to whoever acquires it first."""
        with self._held():
            location.create_slot(self.slot, self.begins)

    def acquire(self, location: SlotLocation, runner: Runner, window: WindowSize | None = None) -> Steps[AcquiredSlot]:
        """It is there, and has never been anybody else's; one that is temporary is dropped when it is released."""
        held = ExitStack()
        with self._held():
            slot = held.enter_context(location.created(self.slot, self.begins))
        return (yield from _opened(location, slot, held, runner, window))

    @contextmanager
    def _held(self) -> Iterator[None]:
        try:
            yield
        finally:
            if self.hold is not None:
                self.hold.release()


def create(
    command: CreateReplicationSlot, location: SlotLocation | None, runner: Runner, warn: Callable[[str], None],
    window: WindowSize | None = None,
) -> Steps[NewSlot]:  # fmt: skip
    """A slot as the command has it, once it is known where it can begin, which may have to be waited for. Nothing is made
    before that is known; so without a location that is there nothing is known beforehand, either."""
    check_name(command.name)
    hold = hold_of(command.source)
    try:
        new = yield from _created(command, location, runner, warn, window)
    except BaseException:
        if hold is not None:
            hold.release()
        raise
    return replace(new, hold=hold)


def _created(
    command: CreateReplicationSlot, location: SlotLocation | None, runner: Runner, warn: Callable[[str], None], window: WindowSize | None
) -> Steps[NewSlot]:  # fmt: skip
    if command.catalog is None and command.moment is None:
        catalog = captured_by_server(command.source, command.database, runner, warn, to_decode=True)
        command = replace(command, catalog=catalog)
    source = Source.open(command.source, command.catalog.needs_wal_from if command.catalog else None)
    major = source.segments.major
    if location is not None:
        location.check_free(command.name, major)
    if command.plugin:
        announce_slot(command.plugin, command.name, command.options, major)
    begins = yield from find_start_point(command, source, location, runner, window or runner.window, warn)
    return NewSlot(command.slot_at(begins, new_identity(), int(time.time() * 1e6)), begins)


def copy(slot: Slot, new: str, location: SlotLocation, *, plugin: str | None, temporary: bool | None, major: int) -> NewSlot:
    """A slot that stands where this one does (`copy_replication_slot`); two_phase is not copied, nor what another plugin was
    asked for."""
    check_name(new)
    location.check_free(new, major)
    copied = replace(
        copy_of(slot, new, new_identity()), temporary=slot.temporary if temporary is None else temporary,
        plugin=plugin or slot.plugin, options=slot.options if plugin in (None, slot.plugin) else {}, two_phase=False,
        inactive_since=int(time.time() * 1e6),
    )  # fmt: skip
    announce_slot(copied.plugin, new, copied.options, major)
    return NewSlot(copied, None)


def copy_whole(location: SlotLocation, name: str, new: str) -> Slot:
    """The same at once, with all that the slot is, two_phase too, and whoever consumes it. The plugin is started up as for a slot
    that is created, and may refuse it."""
    slot = location.slot(name)
    major = arrange(files_of(slot.source)).major
    location.check_free(new, major)
    if slot.plugin:
        announce_slot(slot.plugin, new, copy_of(slot, new, slot.identity).options, major)
    return location.copy(name, new)


def drop(location: SlotLocation, name: str) -> None:
    """Remove a slot, and what no other one needs; of a server's log that is received, too. Raises UsageError (55006) while somebody has it."""
    location.drop(name)
    location.prune()
    received = location.path / RECEIVED
    if is_received(received):
        from tailrace.replication.retention import leave  # noqa: PLC0415 - most logs are not received, and need no client
        from tailrace.sources.received_log import ReceivedLog  # noqa: PLC0415

        leave(ReceivedLog(received.absolute()), location, location.warn)


def acquire(location: SlotLocation, name: str, runner: Runner, window: WindowSize | None = None) -> Steps[AcquiredSlot]:
    """The slot, which is nobody else's until it is released (`ReplicationSlotAcquire`). Raises UsageError (55006) while it is,
    and MissingHistory (55000) if it is lost."""
    held = ExitStack()
    slot = held.enter_context(location.owned(name))
    return (yield from _opened(location, slot, held, runner, window))


def acquire_own(location: SlotLocation, slot: Slot, runner: Runner) -> Steps[AcquiredSlot]:
    """The same of a slot that the caller owns already, and goes on to own: a temporary one of its session."""
    return _opened(location, slot, ExitStack(), runner, None)


def _opened(
    location: SlotLocation, slot: Slot, held: ExitStack, runner: Runner, window: WindowSize | None
) -> Steps[AcquiredSlot]:  # fmt: skip
    """With its log; `held` is closed when it is released, or if this fails."""
    try:
        if slot.invalidation_reason:
            raise invalidated(slot)
        source = yield from open_source(slot.source, _looked_at_from(slot), partial(check_slot, location, slot))
        if slot.restart_lsn < source.segments.first_lsn:
            location.save(replace(slot, invalidation_reason=WAL_REMOVED))
            raise invalidated(slot)
        if not check_slot(location, slot, source.segments):
            location.warn(
                f'replication slot "{slot.name}" has confirmed {slot.confirmed_flush_lsn}, and the log begins behind the record before that by '
                "now: nobody can tell whether it is the one that was read"
            )
        carried = fitting_mark(location, slot.database_oid, slot.confirmed_flush_lsn, source.segments)
        if carried.restart_lsn < slot.restart_lsn:  # the mark that the slot counts on cannot be used, and this is the one before
            source = yield from open_source(slot.source, carried.restart_lsn, partial(check_slot, location, slot))
            _check_reaches_back(slot, carried.restart_lsn, source.segments)
        log = FollowedLog.behind(carried, slot.source, source)
        return AcquiredSlot(location, slot, runner, window or runner.window, held, carried, log)
    except BaseException:
        held.close()
        raise


def _looked_at_from(slot: Slot) -> Lsn:
    """Where the slot needs the log; or where a segment begins there, the record before that, by which the log is known again."""
    return slot.restart_lsn if slot.fingerprint is None else min(slot.restart_lsn, slot.fingerprint.last)


def _check_reaches_back(slot: Slot, needed_from: Lsn, segments: Segments) -> None:
    """Raise unless the log reaches back to where the mark before the slot's last needs it. The slot is not lost: WAL that was put
    away may be put back."""
    if needed_from < segments.first_lsn:
        missing, first = (segments.name_at(lsn).rpartition("/")[2] for lsn in (needed_from, segments.first_lsn))
        raise MissingHistory(
            f'replication slot "{slot.name}" needs WAL from {needed_from} on, since its last mark cannot be used, and the log begins at '
            f"{segments.first_lsn}",
            hint=f"Put the WAL segments from {missing} up to the one before {first} back; or drop the slot, and create it again: it then "
            "begins where the log is now.",
            lsn=needed_from,
        )
