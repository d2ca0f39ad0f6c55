"""`tailrace slot receive`: what a slot gives, as it comes, into a file or to a writer."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.choice import On
from tailrace.cli.decode import SetOption, parse_lsn, parse_pairs, parse_parameters
from tailrace.cli.engine import OnOption, WindowOption, runner_for
from tailrace.cli.new_slot import captured, new_slot
from tailrace.cli.progress import Progress, warn
from tailrace.cli.slot_options import NameArgument, PluginOptions, RowsAsJson, StateOption, acquired, window_size
from tailrace.errors import UsageError
from tailrace.plugins.output_plugin import shut_down
from tailrace.plugins.printing import Printed, as_json_rows, as_lines
from tailrace.replication.acquired import Acquired
from tailrace.replication.output_file import output_to
from tailrace.replication.receiving import receive_into
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.slot_plugin import plugin_of
from tailrace.replication.waiting import Waiter, finish
from tailrace.replication.writers import Writer, writer_named
from tailrace.slots.create_command import CreateReplicationSlot
from tailrace.slots.slot import Slot


@contextmanager
def hangups(tell: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Within the block SIGHUP ends nothing: `tell` is called when it comes, and what this gives says whether one came since it
    was asked last."""
    arrived: list[int] = []

    def came(number: int, frame: object) -> None:
        arrived.append(number)
        tell()

    def has_come() -> bool:
        has, arrived[:] = bool(arrived), []
        return has

    before = signal.signal(signal.SIGHUP, came)
    try:
        yield has_come
    finally:
        signal.signal(signal.SIGHUP, before)


def receive(
    name: NameArgument, state: StateOption,
    file: Annotated[str, typer.Option("-f", "--file", help="File to write to, - for standard output.")] = "",
    at_end: Annotated[
        bool, typer.Option("--resume-at-end", help="Go on where the file ends, though it is not what its position says.")
    ] = False,
    writer: Annotated[str, typer.Option(help="Installed writer to write with, instead of to a file.")] = "",
    writer_option: Annotated[list[str] | None, typer.Option(help="Option of the writer, NAME=VALUE.")] = None,
    option: PluginOptions = None, parameter: SetOption = None,
    endpos: Annotated[str, typer.Option(help="End when all that commits before here has been written.")] = "",
    fsync_interval: Annotated[float, typer.Option("-F", "--fsync-interval", help="Seconds between syncs of the file.")] = 10.0,
    no_loop: Annotated[bool, typer.Option("-n", "--no-loop", help="End where the source cannot be read, instead of trying again.")] = False,
    create_from: Annotated[
        Path | None, typer.Option("--create-slot", help="Create the slot first, on this source, as slot create does.", metavar="SOURCE")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="With --create-slot: use the slot if it is there.")] = False,
    temporary: Annotated[bool, typer.Option(help="With --create-slot: drop the slot when this command ends, however it ends.")] = False,
    database: Annotated[str, typer.Option(help="With --create-slot: database whose changes the slot gives.")] = "",
    plugin: Annotated[str, typer.Option(help="With --create-slot: output plugin.")] = "test_decoding",
    catalog: Annotated[Path | None, typer.Option(help="With --create-slot: captured catalog state, for WAL alone.")] = None,
    two_phase: Annotated[bool, typer.Option("--two-phase", help="With --create-slot: give prepared transactions at PREPARE.")] = False,
    window: WindowOption = "", on: OnOption = On.AUTO, as_json: RowsAsJson = False,
) -> None:  # fmt: skip
    """Write what the slot gives as it comes, like pg_recvlogical --start: into a file every line exactly once. SIGHUP opens
    the file anew."""
    if bool(file) == bool(writer) or (writer_option and not writer) or (writer and (as_json or at_end)):
        raise UsageError(
            "give a file or a writer",
            hint="--json, --resume-at-end and -f are of files, --writer-option is of writers.",
            sqlstate="42601",
        )
    upto, options = parse_lsn(endpos), parse_pairs(option)
    command: CreateReplicationSlot | None = None
    if create_from is not None:
        if not database:
            raise UsageError("no database specified", hint="--create-slot needs --database.", sqlstate="42601")
        command = CreateReplicationSlot(
            name=name, source=str(create_from.absolute()), database=database, plugin=plugin, options=options, two_phase=two_phase,
            temporary=temporary, catalog=captured(catalog),
        )  # fmt: skip
    elif if_not_exists or temporary or database or catalog or two_phase:
        raise UsageError("options of a new slot need --create-slot", sqlstate="42601")
    if command is not None and if_not_exists and _exists(name, state):
        command = None
    waiter, tell = Waiter(), Progress("rows", shown=False).tell
    with _acquired(name, state, command, window, on, tell) as slot, hangups(waiter.wake) as came:
        printing = plugin_of(slot, options, parse_parameters(parameter))
        printed = as_json_rows if as_json else as_lines
        with shut_down(printing), _writing(file, at_end, writer, writer_option, slot.slot, printed) as destination:
            receive_into(
                slot, printing, destination, upto=upto, fsync_interval=fsync_interval, tries_again=not no_loop, waiter=waiter,
                is_to_reopen=came,
            )  # fmt: skip


@contextmanager
def _writing(
    file: str, at_end: bool, name: str, options: list[str] | None, slot: Slot, printed: Printed
) -> Iterator[Writer]:  # fmt: skip
    """The writer of that name, begun, or one to the file."""
    if not name:
        with output_to(file, slot, printed, at_end=at_end) as output:
            yield output
        return
    writer = writer_named(name, {key: value or "" for key, value in parse_pairs(options).items()})
    try:
        writer.begin(slot)
        yield writer
    finally:
        writer.close()


def _acquired(
    name: str, state: Path, command: CreateReplicationSlot | None, window: str, on: On, tell: Callable[[str], None]
) -> Acquired:  # fmt: skip
    """The slot, which is created if there is a command for that."""
    if command is None:
        return acquired(SlotLocation.open(state, warn=warn), name, window, on, tell)
    size = window_size(window)
    location, new = new_slot(command, state, on, size)
    return finish(new.acquire(location, runner_for(on, 0, tell), size))


def _exists(name: str, state: Path) -> bool:
    if not state.is_dir() or not any(state.iterdir()):
        return False
    return any(slot.name == name for slot in SlotLocation.open(state, warn=warn).slots())
