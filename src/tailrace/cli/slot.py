"""`tailrace slot`: replication slots, kept outside of the server, with the manual's verbs and columns (pg_replication_slots)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from tailrace.cli.choice import On
from tailrace.cli.decode import SetOption, parse_lsn, parse_pairs, parse_parameters, write_lines
from tailrace.cli.engine import OnOption, WindowOption, runner_for
from tailrace.cli.new_slot import NewSlot
from tailrace.cli.progress import Progress, counted, warn
from tailrace.cli.slot_rows import row_of, shown, write_slot
from tailrace.cli.tables import JsonOption, Listing, write_json, write_listing
from tailrace.errors import UsageError
from tailrace.model import PG_EPOCH, Lsn
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import shut_down
from tailrace.plugins.printing import Printed, as_json_rows, as_lines, as_psql
from tailrace.replication.acquired import Consumer, consuming, consuming_new
from tailrace.replication.creation import Moment
from tailrace.replication.output_file import output_to
from tailrace.replication.receiving import receive_into
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.slot_plugin import plugin_of
from tailrace.replication.writers import Writer, writer_named
from tailrace.slots.location import format_settings
from tailrace.slots.slot import Slot
from tailrace.storage.segment_files import open_segments
from tailrace.storage.source import wal_of
from tailrace.window import WindowSize, parse_size

app = typer.Typer(help="Replication slots.", no_args_is_help=True, add_completion=False)
StateOption = Annotated[Path, typer.Option("--state", help="State location: the directory in which slots are kept.")]
NameArgument = Annotated[str, typer.Argument(help="The slot's name.", metavar="NAME")]
_NAMED = 5
PluginOptions = Annotated[list[str] | None, typer.Option("-o", help="Plugin option, NAME=VALUE.")]


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
    """Create a slot at the end of the log, or at a past LSN or time; or as soon after that as what is open there is known from its beginning."""
    wanted = NewSlot(
        name=name, source=source, database=database, plugin=plugin, options=parse_pairs(option), catalog=catalog, two_phase=two_phase,
        moment=parse_moment(at),
    )  # fmt: skip
    location, slot, place = wanted.placed(state, on, _window(window))
    location.create_slot(slot, place)
    write_slot(location, name, f"{name}\t{place.lsn}", as_json=as_json)


def parse_moment(text: str) -> Moment | None:
    """What `--at` says. A time without a zone is of this machine's."""
    if not text or "/" in text:
        lsn = parse_lsn(text)
        return None if lsn is None else Moment(text, lsn)
    try:
        since = datetime.fromisoformat(text).astimezone(UTC) - PG_EPOCH
    except ValueError:
        raise UsageError(
            f'invalid input syntax for type timestamp with time zone: "{text}"', hint="Give an LSN, or a time as 2026-05-04 15:00:00+02.",
            sqlstate="22007",
        ) from None  # fmt: skip
    return Moment(text, time=since // timedelta(microseconds=1))


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


RowsAsJson = Annotated[bool, typer.Option("--json", help="Each row as JSON, with its lsn, xid and data.")]
UptoLsn = Annotated[str, typer.Option(help="Give transactions that commit before here.")]
UptoChanges = Annotated[int, typer.Option(help="Give no further transaction once there are so many rows.")]


@app.command()
def get(
    name: NameArgument, state: StateOption, upto_lsn: UptoLsn = "", upto_nchanges: UptoChanges = 0, option: PluginOptions = None,
    parameter: SetOption = None, window: WindowOption = "", on: OnOption = On.AUTO, as_json: RowsAsJson = False,
) -> None:  # fmt: skip
    """Print what is new, and confirm it: the slot does not give it again (pg_logical_slot_get_changes)."""
    _changes(name, state, _Asked(upto_lsn, upto_nchanges, option, parameter, window, on, as_json), confirms=True)


@app.command()
def peek(
    name: NameArgument, state: StateOption, upto_lsn: UptoLsn = "", upto_nchanges: UptoChanges = 0, option: PluginOptions = None,
    parameter: SetOption = None, window: WindowOption = "", on: OnOption = On.AUTO, as_json: RowsAsJson = False,
) -> None:  # fmt: skip
    """Print what is new, and leave the slot as it is (pg_logical_slot_peek_changes)."""
    _changes(name, state, _Asked(upto_lsn, upto_nchanges, option, parameter, window, on, as_json), confirms=False)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of `get` and `peek`, as they were given."""

    upto_lsn: str
    upto_nchanges: int
    option: list[str] | None
    parameter: list[str] | None
    window: str
    on: On
    as_json: bool


def _changes(name: str, state: Path, asked: _Asked, *, confirms: bool) -> None:
    location = SlotLocation.open(state, warn=warn)
    upto = parse_lsn(asked.upto_lsn)
    printed = as_json_rows if asked.as_json else as_psql
    with counted("rows") as progress, _consuming(location, name, asked.window, asked.on, progress.tell) as consumer:
        plugin = plugin_of(consumer, parse_pairs(asked.option), parse_parameters(asked.parameter))
        plugin.context.upto_nchanges = asked.upto_nchanges
        with shut_down(plugin):
            at: Lsn | None = None
            told = consumer.read_upto
            for window in consumer.take(plugin.demand, upto):
                if window.warning:
                    warn(window.warning)
                for lines in window.lines(plugin):
                    if asked.upto_nchanges and (enough := _enough(lines, asked.upto_nchanges - progress.total)):
                        write_lines(lines.part(0, enough), plugin, printed)
                        at = lines.part(0, enough).position_behind(told)
                        break
                    write_lines(lines, plugin, printed)
                    told = lines.position_behind(told)
                    progress.add(len(lines))
                if at is not None:
                    break
            sys.stdout.flush()
            if consumer.gap:
                warn(consumer.gap)
            if confirms:
                consumer.confirm(consumer.read_upto if at is None else at)


def _enough(lines: Lines, wanted: int) -> int:
    """How many of the rows to give so that no transaction, nor block of one, is cut and there are as many as wanted, or more; 0 if that takes what
    follows as well."""
    ends = np.union1d(lines.ends, lines.stops)
    ends = ends[ends >= wanted]
    return int(ends[0]) if len(ends) else 0


@contextmanager
def _consuming(
    location: SlotLocation, name: str, window: str, on: On, tell: Callable[[str], None]
) -> Iterator[Consumer]:  # fmt: skip
    runner = runner_for(on, _backlog(location.slot(name)), tell)
    with consuming(location, name, runner, _window(window)) as consumer:
        yield consumer


def _window(size: str) -> WindowSize | None:
    return WindowSize(parse_size(size)) if size else None


def _backlog(slot: Slot) -> int:
    """How many bytes of WAL the slot has not seen, to the end of the last segment."""
    return max(0, open_segments(wal_of(slot.source)).stop_lsn - slot.confirmed_flush_lsn)


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
    """Write what the slot gives as it comes, like pg_recvlogical --start: into a file every line exactly once. SIGHUP opens the file anew."""
    if bool(file) == bool(writer) or (writer_option and not writer) or (writer and (as_json or at_end)):
        raise UsageError(
            "give a file or a writer",
            hint="--json, --resume-at-end and -f are of files, --writer-option is of writers.",
            sqlstate="42601",
        )
    upto, options = parse_lsn(endpos), parse_pairs(option)
    new: NewSlot | None = None
    if create_from is not None:
        if not database:
            raise UsageError("no database specified", hint="--create-slot needs --database.", sqlstate="42601")
        new = NewSlot(
            name=name, source=create_from, database=database, plugin=plugin, options=options, catalog=catalog, two_phase=two_phase,
            temporary=temporary,
        )  # fmt: skip
    elif if_not_exists or temporary or database or catalog or two_phase:
        raise UsageError("options of a new slot need --create-slot", sqlstate="42601")
    progress = Progress("rows", shown=False)
    with _received(name, state, new, _Engine(window, on), if_not_exists, progress.tell) as consumer:
        printing = plugin_of(consumer, options, parse_parameters(parameter))
        printed = as_json_rows if as_json else as_lines
        with shut_down(printing), _writing(file, at_end, writer, writer_option, consumer.slot, printed) as destination:
            receive_into(consumer, printing, destination, upto=upto, fsync_interval=fsync_interval, tries_again=not no_loop)


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


@dataclass(frozen=True, slots=True)
class _Engine:
    """Where to decode, and how much at once, as they were given."""

    window: str
    on: On


@contextmanager
def _received(
    name: str, state: Path, new: NewSlot | None, engine: _Engine, if_not_exists: bool, tell: Callable[[str], None]
) -> Iterator[Consumer]:  # fmt: skip
    """The consumer of the slot, which is created if it is `new`."""
    if new is None or (if_not_exists and _exists(name, state)):
        with _consuming(SlotLocation.open(state, warn=warn), name, engine.window, engine.on, tell) as consumer:
            yield consumer
        return
    location, slot, place = new.placed(state, engine.on, _window(engine.window))
    runner = runner_for(engine.on, 0, tell)
    with consuming_new(location, slot, place, runner, _window(engine.window)) as consumer:
        yield consumer


def _exists(name: str, state: Path) -> bool:
    if not state.is_dir() or not any(state.iterdir()):
        return False
    return any(slot.name == name for slot in SlotLocation.open(state, warn=warn).slots())


@app.command()
def advance(
    name: NameArgument, state: StateOption,
    upto_lsn: Annotated[str, typer.Argument(help="Where the slot is to stand.", metavar="LSN")],
    on: OnOption = On.AUTO, window: WindowOption = "", as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Move a slot forward without giving what lies between (pg_replication_slot_advance)."""
    location = SlotLocation.open(state, warn=warn)
    upto = parse_lsn(upto_lsn)
    with _consuming(location, name, window, on, lambda _: None) as consumer:
        stands = consumer.advance(upto)
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
    location.drop(name)
    location.prune()
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
