"""`tailrace slot get | peek | receive | advance`: what slots give, with the manual's verbs."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tailrace.cli.choice import On
from tailrace.cli.decode import write_lines
from tailrace.cli.engine import runner_for
from tailrace.cli.new_slot import new_slot
from tailrace.cli.progress import Progress, counted, warn
from tailrace.cli.signals import handling
from tailrace.cli.slot_rows import write_slot
from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.plugins.output_plugin import shut_down
from tailrace.plugins.printing import as_json_rows, as_lines, as_psql
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.get_changes import NewChanges
from tailrace.replication.output_file import output_to
from tailrace.replication.receiving import Outage, receive_into
from tailrace.replication.retention import receiving_log, retention_of
from tailrace.replication.service import acquire
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.slot_plugin import plugin_of
from tailrace.replication.waiting import Waiter, finish
from tailrace.replication.writers import Writer, writer_named
from tailrace.slots.create_command import CreateReplicationSlot
from tailrace.slots.slot import Slot
from tailrace.sources.named import files_of
from tailrace.sources.received_log import ReceivedLog
from tailrace.storage.segment_files import open_segments
from tailrace.storage.segments import UnfinishedCopy
from tailrace.window import WindowSize


@dataclass(frozen=True, slots=True)
class Engine:
    """How much to decode at once, and where."""

    window: WindowSize | None
    on: On


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of `get` and `peek`."""

    upto: Lsn | None
    upto_nchanges: int
    options: dict[str, str | None]
    parameters: dict[str, str]
    engine: Engine
    as_json: bool


@dataclass(frozen=True, slots=True)
class Destination:
    """What `receive` writes to: the writer of that name, or, if there is none, the file."""

    file: str
    at_end: bool
    writer: str
    writer_options: dict[str, str | None]
    as_json: bool


def print_new(name: str, state: Path, asked: Asked, *, confirms: bool) -> None:
    """Print what is new in the slot."""
    location = SlotLocation.open(state, warn=warn)
    printed = as_json_rows if asked.as_json else as_psql
    _catch_up(location, name)
    with counted("rows") as progress, _acquired(location, name, asked.engine, progress.tell) as slot:
        plugin = plugin_of(slot, asked.options, asked.parameters)
        with shut_down(plugin):
            progress.begin, progress.end = slot.read_upto, asked.upto
            changes = NewChanges(slot, plugin, warn, asked.upto, asked.upto_nchanges)
            for lines in changes:
                write_lines(lines, plugin, printed)
                progress.add(len(lines), changes.told)
                del lines  # or they would be kept while the next are made
            sys.stdout.flush()
            if confirms:
                slot.confirm(changes.told)
    _clean_up(slot.slot.source)


def receive(
    name: str, state: Path, engine: Engine, destination: Destination, *, command: CreateReplicationSlot | None,
    options: dict[str, str | None], parameters: dict[str, str], upto: Lsn | None, fsync_interval: float, tries_again: bool,
    synchronous_standby_names: str | None,
) -> None:  # fmt: skip
    """Write what the slot gives as it comes. It is created first if there is a `command` for that. The location is told which slots a server is to
    wait for, if that is said."""
    waiter, tell = Waiter(), Progress("rows", shown=False).tell
    outage = Outage(warn, waiter) if tries_again else None
    with (
        _created_or_acquired(name, state, command, engine, tell, outage) as slot,
        _hangups(waiter.wake) as came,
        _receiving(slot, synchronous_standby_names, waiter.wake) as check,
    ):
        printing = plugin_of(slot, options, parameters)

        def is_to_reopen() -> bool:
            check()
            return came()

        with shut_down(printing), _writing(destination, slot.slot) as writer:
            receive_into(
                slot, printing, writer, upto=upto, fsync_interval=fsync_interval, tries_again=tries_again, waiter=waiter, is_to_reopen=is_to_reopen,
            )  # fmt: skip


@contextmanager
def _receiving(slot: AcquiredSlot, standbys: str | None, on_failure: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Within the block the log of a server that is connected to comes in; gives what raises the error that ended that."""
    if standbys is not None:
        slot.location.configure({"synchronous_standby_names": standbys})
    log = ReceivedLog.of(slot.slot.source)
    if log is None:
        yield lambda: None
        return
    with receiving_log(log, lambda _: None, on_failure, warn) as reception:
        yield reception.check


def _catch_up(location: SlotLocation, name: str) -> None:
    """Have at hand what a server that is connected to has by now."""
    if (log := ReceivedLog.of(location.slot(name).source)) is not None:
        log.catch_up(warn)


def _clean_up(source: str) -> None:
    """Remove what no slot needs any more of a log that is received."""
    if (log := ReceivedLog.of(source)) is not None:
        retention_of(log, warn).clean_up_after()


@contextmanager
def _hangups(tell: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Within the block SIGHUP ends nothing: `tell` is called when it comes, and what this gives says whether one came since it
    was asked last."""
    arrived: list[int] = []

    def came(number: int, frame: object) -> None:
        arrived.append(number)
        tell()

    def has_come() -> bool:
        has, arrived[:] = bool(arrived), []
        return has

    with handling({signal.SIGHUP: came}):
        yield has_come


@contextmanager
def _writing(destination: Destination, slot: Slot) -> Iterator[Writer]:
    """The writer, begun, or one to the file."""
    if not destination.writer:
        printed = as_json_rows if destination.as_json else as_lines
        with output_to(destination.file, slot, printed, at_end=destination.at_end) as output:
            yield output
        return
    writer = writer_named(destination.writer, {key: value or "" for key, value in destination.writer_options.items()})
    try:
        writer.begin(slot)
        yield writer
    finally:
        writer.close()


def _acquired(location: SlotLocation, name: str, engine: Engine, tell: Callable[[str], None]) -> AcquiredSlot:
    """The slot, to be released at the end of a `with` block."""
    slot = location.slot(name)
    backlog = slot.backlog(open_segments(files_of(slot.source)).stop_lsn)
    return finish(acquire(location, name, runner_for(engine.on, backlog, tell), engine.window))


def _created_or_acquired(
    name: str, state: Path, command: CreateReplicationSlot | None, engine: Engine, tell: Callable[[str], None], outage: Outage | None
) -> AcquiredSlot:  # fmt: skip
    """The slot, which is created if there is a command for that; with an `outage` once the source can be read."""
    if command is not None:
        location, new = new_slot(command, state, engine.on, engine.window)
        return finish(new.acquire(location, runner_for(engine.on, 0, tell), engine.window))
    while True:
        try:
            return _acquired(SlotLocation.open(state, warn=warn), name, engine, tell)
        except UnfinishedCopy as error:
            if outage is None:
                raise
            outage.wait(error)


def exists(name: str, state: Path) -> bool:
    """Whether there is such a slot, and a state location at all."""
    if not state.is_dir() or not any(state.iterdir()):
        return False
    return any(slot.name == name for slot in SlotLocation.open(state, warn=warn).slots())


def advance(name: str, state: Path, upto: Lsn | None, engine: Engine, *, as_json: bool) -> None:
    """Move the slot, and print where it stands."""
    location = SlotLocation.open(state, warn=warn)
    _catch_up(location, name)
    with _acquired(location, name, engine, lambda _: None) as slot:
        stands = finish(slot.advance(upto))
    _clean_up(slot.slot.source)
    write_slot(location, name, f"{name}\t{stands}", as_json=as_json)
