"""`tailrace slot create | ls | show | get | peek | receive | advance | copy | rename | drop | set`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.arguments import database_of, parse_lsn, parse_moment, parse_pairs, parse_parameters, parse_window, source_of
from tailrace.cli.choice import On
from tailrace.cli.loading import loading
from tailrace.cli.verbs.options import (
    JsonOption,
    LiveSourceArgument,
    OnOption,
    PluginOption,
    PluginOptions,
    RestoreCommandOption,
    SetOption,
    SynchronousOption,
    WalCatalogOption,
    WalKeepOption,
    WindowOption,
)
from tailrace.errors import UsageError
from tailrace.storage.location_folder import check_is_location

app = typer.Typer(help="Replication slots.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(help="The slot's name.", metavar="NAME")]
NewNameArgument = Annotated[str, typer.Argument(help="The new name.", metavar="NEW")]
StateOption = Annotated[Path, typer.Option("--state", help="State location: the directory in which slots are kept.")]
RowsAsJson = Annotated[bool, typer.Option("--json", help="Each row as JSON, with its lsn, xid and data.")]
UptoLsn = Annotated[str, typer.Option(help="Give transactions that commit before here.")]
UptoChanges = Annotated[int, typer.Option(help="Give no further transaction once there are so many rows.")]


@app.command()
def create(
    name: NameArgument,
    source: LiveSourceArgument,
    state: StateOption,
    database: Annotated[
        str, typer.Option(help="Database whose changes the slot gives, if the connection string names none.")
    ] = "",
    plugin: PluginOption = "test_decoding",
    option: PluginOptions = None,
    catalog: WalCatalogOption = None,
    two_phase: Annotated[bool, typer.Option("--two-phase", help="Give prepared transactions at PREPARE TRANSACTION.")] = False,
    on: OnOption = On.AUTO,
    window: WindowOption = "",
    as_json: JsonOption = False,
    at: Annotated[
        str,
        typer.Option(help="Begin in the past: at this LSN, or with the first commit not before this time.", metavar="LSN|TIME"),
    ] = "",
    physical_slot: Annotated[
        str,
        typer.Option(
            "--physical-slot",
            help="Of a server: receive its log with this physical replication slot, made if there is none.",
            metavar="SLOT",
        ),
    ] = "",
    restore_command: RestoreCommandOption = "",
    keep: WalKeepOption = "",
) -> None:
    """Create a slot at the end of the log, or at a past LSN or time; or as soon after that as what is open there is known from its beginning."""
    database = database_of(source, database)
    options, size, since = parse_pairs(option), parse_window(window), parse_moment(at)
    with loading():
        from tailrace.cli.new_slot import HowReceived, captured, create, past_moment
    from tailrace.slots.create_command import CreateReplicationSlot

    command = CreateReplicationSlot(
        name=name, source=source_of(source), database=database, plugin=plugin, options=options, two_phase=two_phase,
        catalog=captured(catalog), moment=past_moment(at, since),
    )  # fmt: skip
    create(command, state, on, size, HowReceived(physical_slot, restore_command, keep), as_json=as_json)


@app.command()
def ls(state: StateOption, as_json: JsonOption = False) -> None:
    """List the slots, with the columns of pg_replication_slots."""
    check_is_location(state)
    with loading():
        from tailrace.cli import slots

    slots.ls(state, as_json=as_json)


@app.command()
def show(name: NameArgument, state: StateOption, as_json: JsonOption = False) -> None:
    """Show all that is known of one slot."""
    check_is_location(state)
    with loading():
        from tailrace.cli import slots

    slots.show(name, state, as_json=as_json)


@app.command()
def get(
    name: NameArgument, state: StateOption, upto_lsn: UptoLsn = "", upto_nchanges: UptoChanges = 0, option: PluginOptions = None,
    parameter: SetOption = None, window: WindowOption = "", on: OnOption = On.AUTO, as_json: RowsAsJson = False,
) -> None:  # fmt: skip
    """Print what is new, and confirm it: the slot does not give it again (pg_logical_slot_get_changes)."""
    upto, options, parameters, size = parse_lsn(upto_lsn), parse_pairs(option), parse_parameters(parameter), parse_window(window)
    check_is_location(state)
    with loading():
        from tailrace.cli import slot

    slot.print_new(
        name, state, slot.Asked(upto, upto_nchanges, options, parameters, slot.Engine(size, on), as_json), confirms=True
    )


@app.command()
def peek(
    name: NameArgument, state: StateOption, upto_lsn: UptoLsn = "", upto_nchanges: UptoChanges = 0, option: PluginOptions = None,
    parameter: SetOption = None, window: WindowOption = "", on: OnOption = On.AUTO, as_json: RowsAsJson = False,
) -> None:  # fmt: skip
    """Print what is new, and leave the slot as it is (pg_logical_slot_peek_changes)."""
    upto, options, parameters, size = parse_lsn(upto_lsn), parse_pairs(option), parse_parameters(parameter), parse_window(window)
    check_is_location(state)
    with loading():
        from tailrace.cli import slot

    slot.print_new(
        name, state, slot.Asked(upto, upto_nchanges, options, parameters, slot.Engine(size, on), as_json), confirms=False
    )


@app.command()
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
    synchronous_standby_names: SynchronousOption = None,
    no_loop: Annotated[bool, typer.Option("-n", "--no-loop", help="End where the source cannot be read, instead of trying again.")] = False,
    create_from: Annotated[
        str | None, typer.Option("--create-slot", help="Create the slot first, on this source, as slot create does.", metavar="SOURCE")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="With --create-slot: use the slot if it is there.")] = False,
    temporary: Annotated[bool, typer.Option(help="With --create-slot: drop the slot when this command ends, however it ends.")] = False,
    database: Annotated[str, typer.Option(help="With --create-slot: the slot's database, if the connection string names none.")] = "",
    plugin: Annotated[str, typer.Option(help="With --create-slot: output plugin.")] = "test_decoding",
    catalog: Annotated[str | None, typer.Option(help="With --create-slot: captured catalog state, for WAL alone.")] = None,
    two_phase: Annotated[bool, typer.Option("--two-phase", help="With --create-slot: give prepared transactions at PREPARE.")] = False,
    window: WindowOption = "", on: OnOption = On.AUTO, as_json: RowsAsJson = False,
) -> None:  # fmt: skip
    """Write what the slot gives as it comes, like pg_recvlogical --start: into a file every line exactly once. SIGHUP opens the file anew."""
    if bool(file) == bool(writer) or (writer_option and not writer) or (writer and (as_json or at_end)):
        raise UsageError(
            "give a file or a writer",
            hint="--json, --resume-at-end and -f are of files, --writer-option is of writers.",
            sqlstate="42601",
        )
    if create_from is not None:
        database = database_of(create_from, database)
    elif if_not_exists or temporary or database or catalog or two_phase:
        raise UsageError("options of a new slot need --create-slot", sqlstate="42601")
    upto, options, parameters, size = parse_lsn(endpos), parse_pairs(option), parse_parameters(parameter), parse_window(window)
    with loading():
        from tailrace.cli import slot
        from tailrace.cli.new_slot import captured
    from tailrace.slots.create_command import CreateReplicationSlot
    from tailrace.slots.syncrep import parse_synchronous_standby_names

    parse_synchronous_standby_names(synchronous_standby_names or "")
    command = None if create_from is None or (if_not_exists and slot.exists(name, state)) else CreateReplicationSlot(
        name=name, source=source_of(create_from), database=database, plugin=plugin, options=options, two_phase=two_phase,
        temporary=temporary, catalog=captured(catalog),
    )  # fmt: skip
    slot.receive(
        name, state, slot.Engine(size, on), slot.Destination(file, at_end, writer, parse_pairs(writer_option), as_json), command=command,
        options=options, parameters=parameters, upto=upto, fsync_interval=fsync_interval, tries_again=not no_loop,
        synchronous_standby_names=synchronous_standby_names,
    )  # fmt: skip


@app.command()
def advance(
    name: NameArgument, state: StateOption,
    upto_lsn: Annotated[str, typer.Argument(help="Where the slot is to stand.", metavar="LSN")],
    on: OnOption = On.AUTO, window: WindowOption = "", as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Move a slot forward without giving what lies between (pg_replication_slot_advance)."""
    upto, size = parse_lsn(upto_lsn), parse_window(window)
    check_is_location(state)
    with loading():
        from tailrace.cli import slot

    slot.advance(name, state, upto, slot.Engine(size, on), as_json=as_json)


@app.command()
def copy(name: NameArgument, new: NewNameArgument, state: StateOption, as_json: JsonOption = False) -> None:
    """Make another slot that stands where this one does (pg_copy_logical_replication_slot)."""
    check_is_location(state)
    with loading():
        from tailrace.cli import slots

    slots.copy(name, new, state, as_json=as_json)


@app.command()
def rename(name: NameArgument, new: NewNameArgument, state: StateOption, as_json: JsonOption = False) -> None:
    """Give a slot another name."""
    check_is_location(state)
    with loading():
        from tailrace.cli import slots

    slots.rename(name, new, state, as_json=as_json)


@app.command()
def drop(name: NameArgument, state: StateOption, as_json: JsonOption = False) -> None:
    """Remove a slot (pg_drop_replication_slot)."""
    check_is_location(state)
    with loading():
        from tailrace.cli import slots

    slots.drop(name, state, as_json=as_json)


@app.command("set")
def set_settings(
    state: StateOption,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            help="max_replication_slots, max_slot_wal_keep_size, wal_keep, synchronous_standby_names or restore_command; of a log that is received "
            "primary_conninfo, "
            "primary_slot_name and restore_command; as postgresql.conf has them.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    moved: Annotated[
        bool, typer.Option("--moved", help="The location was moved here, or restored, and no other copy of it is used any more.")
    ] = False,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Change settings of a state location, and print what they are."""
    with loading():
        from tailrace.cli import slots

    slots.set_settings(state, parse_pairs(settings), is_moved=moved, as_json=as_json)
