"""`tailrace slot`: replication slots, kept outside of the server, with the manual's verbs and columns (pg_replication_slots)."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.choice import On
from tailrace.cli.decode import SetOption, parse_lsn, parse_pairs, parse_parameters, write_lines
from tailrace.cli.engine import OnOption, WindowOption
from tailrace.cli.new_slot import captured, new_slot
from tailrace.cli.progress import counted, warn
from tailrace.cli.receive import receive
from tailrace.cli.slot_options import NameArgument, PluginOptions, RowsAsJson, StateOption, acquired, window_size
from tailrace.cli.slot_rows import row_of, shown, write_slot
from tailrace.cli.tables import JsonOption, Listing, write_json, write_listing
from tailrace.errors import UsageError
from tailrace.plugins.output_plugin import shut_down
from tailrace.plugins.printing import as_json_rows, as_psql
from tailrace.replication import service
from tailrace.replication.get_changes import NewChanges
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.slot_plugin import plugin_of
from tailrace.replication.waiting import finish
from tailrace.slots.create_command import CreateReplicationSlot, PastMoment
from tailrace.slots.location import format_settings

app = typer.Typer(help="Replication slots.", no_args_is_help=True, add_completion=False)


@app.command()
def create(
    name: NameArgument,
    source: Annotated[
        Path, typer.Argument(help="Data directory, running or stopped, its pg_wal, or a directory of archived segments.")
    ],
    database: Annotated[str, typer.Option(help="Database whose changes the slot gives.")],
    state: StateOption,
    plugin: Annotated[str, typer.Option(help="Output plugin.")] = "test_decoding",
    option: PluginOptions = None,
    catalog: Annotated[Path | None, typer.Option(help="Captured catalog state, for WAL alone.")] = None,
    two_phase: Annotated[bool, typer.Option("--two-phase", help="Give prepared transactions at PREPARE TRANSACTION.")] = False,
    on: OnOption = On.AUTO,
    window: WindowOption = "",
    as_json: JsonOption = False,
    at: Annotated[
        str,
        typer.Option(help="Begin in the past: at this LSN, or with the first commit not before this time.", metavar="LSN|TIME"),
    ] = "",
) -> None:
    """Create a slot at the end of the log, or at a past LSN or time; or as soon after that as what is open there is known from
    its beginning."""
    command = CreateReplicationSlot(
        name=name, source=str(source.absolute()), database=database, plugin=plugin, options=parse_pairs(option), two_phase=two_phase,
        catalog=captured(catalog), moment=parse_moment(at),
    )  # fmt: skip
    location, new = new_slot(command, state, on, window_size(window))
    new.persist(location)
    write_slot(location, name, f"{name}\t{new.slot.confirmed_flush_lsn}", as_json=as_json)


def parse_moment(text: str) -> PastMoment | None:
    """What `--at` says. A time without a zone is of this machine's."""
    if not text or "/" in text:
        lsn = parse_lsn(text)
        return None if lsn is None else PastMoment(text, lsn)
    try:
        since = datetime.fromisoformat(text).astimezone(UTC) - datetime(2000, 1, 1, tzinfo=UTC)
    except ValueError:
        raise UsageError(
            f'invalid input syntax for type timestamp with time zone: "{text}"', hint="Give an LSN, or a time as 2026-05-04 15:00:00+02.",
            sqlstate="22007",
        ) from None  # fmt: skip
    return PastMoment(text, time=since // timedelta(microseconds=1))


@app.command()
def ls(state: StateOption, as_json: JsonOption = False) -> None:
    """List the slots, with the columns of pg_replication_slots."""
    location = SlotLocation.open(state, warn=warn)
    rows = [row_of(location, slot) for slot in location.slots()]
    if as_json:
        write_json(rows)
        return
    columns = ("slot_name", "plugin", "database", "temporary", "active_pid", "restart_lsn", "confirmed_flush_lsn", "wal_status")
    write_listing(Listing(columns, [tuple(shown(row[name]) for name in columns) for row in rows]))


@app.command()
def show(name: NameArgument, state: StateOption, as_json: JsonOption = False) -> None:
    """Show all that is known of one slot."""
    location = SlotLocation.open(state, warn=warn)
    row = row_of(location, location.slot(name))
    if as_json:
        write_json(row)
        return
    write_listing(Listing(("column", "value"), [(key, shown(value)) for key, value in row.items()]))


UptoLsn = Annotated[str, typer.Option(help="Give transactions that commit before here.")]
UptoChanges = Annotated[int, typer.Option(help="Give no further transaction once there are so many rows.")]


@app.command()
def get(
    name: NameArgument, state: StateOption, upto_lsn: UptoLsn = "", upto_nchanges: UptoChanges = 0, option: PluginOptions = None,
    parameter: SetOption = None, window: WindowOption = "", on: OnOption = On.AUTO, as_json: RowsAsJson = False,
) -> None:  # fmt: skip
    """Print what is new, and confirm it: the slot does not give it again (pg_logical_slot_get_changes)."""
    _changes(name, state, _GetOptions(upto_lsn, upto_nchanges, option, parameter, window, on, as_json), confirms=True)


@app.command()
def peek(
    name: NameArgument, state: StateOption, upto_lsn: UptoLsn = "", upto_nchanges: UptoChanges = 0, option: PluginOptions = None,
    parameter: SetOption = None, window: WindowOption = "", on: OnOption = On.AUTO, as_json: RowsAsJson = False,
) -> None:  # fmt: skip
    """Print what is new, and leave the slot as it is (pg_logical_slot_peek_changes)."""
    _changes(name, state, _GetOptions(upto_lsn, upto_nchanges, option, parameter, window, on, as_json), confirms=False)


@dataclass(frozen=True, slots=True)
class _GetOptions:
    """The options of `get` and `peek`, as they were given."""

    upto_lsn: str
    upto_nchanges: int
    option: list[str] | None
    parameter: list[str] | None
    window: str
    on: On
    as_json: bool


def _changes(name: str, state: Path, asked: _GetOptions, *, confirms: bool) -> None:
    location = SlotLocation.open(state, warn=warn)
    upto = parse_lsn(asked.upto_lsn)
    printed = as_json_rows if asked.as_json else as_psql
    with counted("rows") as progress, acquired(location, name, asked.window, asked.on, progress.tell) as slot:
        plugin = plugin_of(slot, parse_pairs(asked.option), parse_parameters(asked.parameter))
        with shut_down(plugin):
            changes = NewChanges(slot, plugin, warn, upto, asked.upto_nchanges)
            for lines in changes:
                write_lines(lines, plugin, printed)
                progress.add(len(lines))
                del lines  # or they would be kept while the next are made
            sys.stdout.flush()
            if confirms:
                slot.confirm(changes.told)


app.command()(receive)


@app.command()
def advance(
    name: NameArgument, state: StateOption,
    upto_lsn: Annotated[str, typer.Argument(help="Where the slot is to stand.", metavar="LSN")],
    on: OnOption = On.AUTO, window: WindowOption = "", as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Move a slot forward without giving what lies between (pg_replication_slot_advance)."""
    location = SlotLocation.open(state, warn=warn)
    upto = parse_lsn(upto_lsn)
    with acquired(location, name, window, on, lambda _: None) as slot:
        stands = finish(slot.advance(upto))
    write_slot(location, name, f"{name}\t{stands}", as_json=as_json)


New = Annotated[str, typer.Argument(help="The new name.", metavar="NEW")]


@app.command()
def copy(name: NameArgument, new: New, state: StateOption, as_json: JsonOption = False) -> None:
    """Make another slot that stands where this one does (pg_copy_logical_replication_slot)."""
    location = SlotLocation.open(state, warn=warn)
    copied = location.copy(name, new)
    write_slot(location, new, f"{new}\t{copied.confirmed_flush_lsn}", as_json=as_json)


@app.command()
def rename(name: NameArgument, new: New, state: StateOption, as_json: JsonOption = False) -> None:
    """Give a slot another name."""
    location = SlotLocation.open(state, warn=warn)
    location.rename(name, new)
    write_slot(location, new, "", as_json=as_json)


@app.command()
def drop(name: NameArgument, state: StateOption, as_json: JsonOption = False) -> None:
    """Remove a slot (pg_drop_replication_slot)."""
    location = SlotLocation.open(state, warn=warn)
    service.drop(location, name)
    if as_json:
        write_json({"slot_name": name, "dropped": True})


@app.command("set")
def set_settings(
    state: StateOption,
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="max_replication_slots or max_slot_wal_keep_size, as postgresql.conf has them.", metavar="NAME=VALUE"),
    ] = None,
    moved: Annotated[
        bool, typer.Option("--moved", help="The location was moved here, or restored, and no other copy of it is used any more.")
    ] = False,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Change settings of a state location, and print what they are."""
    location = SlotLocation.take_over(state, warn=warn) if moved else SlotLocation.open(state, warn=warn)
    now = location.configure(parse_pairs(settings)) if settings else location.settings
    if as_json:
        write_json(asdict(now) | {"system": str(now.system)})
    else:
        write_listing(Listing(("name", "setting"), list(format_settings(now).items())))
