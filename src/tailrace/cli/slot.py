"""`tailrace slot`: replication slots, kept outside of the server, with the manual's verbs and columns (pg_replication_slots)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from tailrace.catalog.statefile import read_state
from tailrace.cli.decode import parse_lsn, parse_pairs, write_lines
from tailrace.cli.engine import OnOption, WindowOption, runner_for
from tailrace.cli.progress import Progress, counted, warn
from tailrace.cli.tables import JsonOption, Listing, write_json, write_listing
from tailrace.errors import TailraceError
from tailrace.model import Lsn
from tailrace.pipeline import Source
from tailrace.pipeline.choice import On
from tailrace.pipeline.consumer import Consumer, consuming
from tailrace.pipeline.receiving import receive_into
from tailrace.pipeline.slot_creation import consistent_place
from tailrace.plugins.ordering import Lines
from tailrace.plugins.plugin import OutputPlugin
from tailrace.plugins.registry import plugin_named
from tailrace.slots.slot import Slot, WalStatus, check_name, wal_status
from tailrace.storage.output_file import output_to
from tailrace.storage.segment_files import open_segments
from tailrace.storage.slot_location import SlotLocation
from tailrace.storage.source import wal_of
from tailrace.window import WindowSize, parse_size

app = typer.Typer(help="Replication slots.", no_args_is_help=True)
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
) -> None:
    """Create a slot at the end of the log, or as soon as what is open there is known from its beginning."""
    check_name(name)
    options = parse_pairs(option)
    segments = Source.open(source).segments
    plugin_named(plugin).startup(options, segments.major)
    location = SlotLocation.open_or_create(state, segments.system, warn=warn)
    captured = read_state(catalog.read_bytes(), str(catalog)) if catalog else None
    with counted("records") as progress:
        runner = runner_for(on, segments.stop_lsn - segments.first_lsn, progress.tell)
        place = consistent_place(source.absolute(), database, runner, _waits, catalog=captured)
    location.create_slot(
        Slot(
            name=name, plugin=plugin, options=options, database=database, database_oid=place.state.database, system=segments.system,
            timeline=place.state.timeline, source=str(source.absolute()), two_phase=two_phase, two_phase_at=place.lsn, temporary=False,
            restart_lsn=place.restart_lsn, confirmed_flush_lsn=place.lsn, inactive_since=int(time.time() * 1e6),
        ),
        place,
    )  # fmt: skip
    sys.stdout.write(f"{name}\t{place.lsn}\n")


def _waits(xids: Sequence[int]) -> None:
    """Where PostgreSQL logs for how many it waits (`snapbuild.c`)."""
    named = ", ".join(str(xid & 0xFFFFFFFF) for xid in xids[:_NAMED]) + (", …" if len(xids) > _NAMED else "")
    warn(f"waiting for transactions to end whose beginning is not in the log at hand: {named}")


@app.command()
def ls(state: StateOption, as_json: JsonOption = False) -> None:
    """List the slots, with the columns of pg_replication_slots."""
    location = SlotLocation.open(state, warn=warn)
    rows = [_row(location, slot) for slot in location.slots()]
    if as_json:
        write_json(rows)
        return
    shown = ("slot_name", "plugin", "database", "active_pid", "restart_lsn", "confirmed_flush_lsn", "wal_status")
    write_listing(Listing(shown, [tuple("" if row[name] is None else row[name] for name in shown) for row in rows]))


@app.command()
def show(name: NameArgument, state: StateOption, as_json: JsonOption = False) -> None:
    """Show all that is known of one slot."""
    location = SlotLocation.open(state, warn=warn)
    row = _row(location, location.slot(name))
    if as_json:
        write_json(row)
        return
    write_listing(Listing(("column", "value"), [(key, _shown(value)) for key, value in row.items()]))


def _shown(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _row(location: SlotLocation, slot: Slot) -> dict[str, Any]:
    """As pg_replication_slots has it, as far as it applies; and the source and the plugin's options."""
    status = _status_of(slot, location.settings.max_slot_wal_keep_size)
    pid = location.active_pid(slot.name)
    since = (
        datetime.fromtimestamp(slot.inactive_since / 1e6, UTC).isoformat(sep=" ") if slot.inactive_since and pid is None else None
    )
    return {
        "slot_name": slot.name, "plugin": slot.plugin, "slot_type": "logical", "datoid": slot.database_oid, "database": slot.database,
        "temporary": slot.temporary, "active": pid is not None, "active_pid": pid, "restart_lsn": str(slot.restart_lsn),
        "confirmed_flush_lsn": str(slot.confirmed_flush_lsn), "wal_status": status.wal_status, "safe_wal_size": status.safe_wal_size,
        "two_phase": slot.two_phase, "two_phase_at": str(slot.two_phase_at) if slot.two_phase else None, "inactive_since": since,
        "invalidation_reason": slot.invalidation_reason or None, "source": slot.source, "options": slot.options,
    }  # fmt: skip


def _status_of(slot: Slot, keep_size: int) -> WalStatus:
    """What is known of it without a source is whether it is lost."""
    try:
        segments = open_segments(wal_of(slot.source))
    except (OSError, TailraceError) as error:
        warn(f'replication slot "{slot.name}": {error}')
        return WalStatus("lost" if slot.invalidation_reason else "unknown", None)
    return wal_status(slot, available_from=segments.first_lsn, flushed=segments.stop_lsn, max_slot_wal_keep_size=keep_size)


UptoLsn = Annotated[str, typer.Option(help="Give transactions that commit before here.")]
UptoChanges = Annotated[int, typer.Option(help="Give no further transaction once there are so many rows.")]


@app.command()
def get(
    name: NameArgument, state: StateOption, upto_lsn: UptoLsn = "", upto_nchanges: UptoChanges = 0, option: PluginOptions = None,
    window: WindowOption = "", on: OnOption = On.AUTO,
) -> None:  # fmt: skip
    """Print what is new, and confirm it: the slot does not give it again (pg_logical_slot_get_changes)."""
    _changes(name, state, _Asked(upto_lsn, upto_nchanges, option, window, on), confirms=True)


@app.command()
def peek(
    name: NameArgument, state: StateOption, upto_lsn: UptoLsn = "", upto_nchanges: UptoChanges = 0, option: PluginOptions = None,
    window: WindowOption = "", on: OnOption = On.AUTO,
) -> None:  # fmt: skip
    """Print what is new, and leave the slot as it is (pg_logical_slot_peek_changes)."""
    _changes(name, state, _Asked(upto_lsn, upto_nchanges, option, window, on), confirms=False)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of `get` and `peek`, as they were given."""

    upto_lsn: str
    upto_nchanges: int
    option: list[str] | None
    window: str
    on: On


def _changes(name: str, state: Path, asked: _Asked, *, confirms: bool) -> None:
    location = SlotLocation.open(state, warn=warn)
    upto = parse_lsn(asked.upto_lsn)
    with counted("rows") as progress, _consuming(location, name, asked.window, asked.on, progress.tell) as consumer:
        plugin = _plugin_of(consumer, parse_pairs(asked.option))
        at: Lsn | None = None
        for window in consumer.take(plugin.demand, upto):
            if window.warning:
                warn(window.warning)
            for lines in window.lines(plugin):
                if asked.upto_nchanges and (enough := _enough(lines, asked.upto_nchanges - progress.total)):
                    write_lines(lines.first(enough), plugin)
                    at = Lsn(int(lines.lsn[enough - 1]))
                    break
                write_lines(lines, plugin)
                progress.add(len(lines))
            if at is not None:
                break
        sys.stdout.flush()
        if consumer.gap:
            warn(consumer.gap)
        if confirms:
            consumer.confirm(consumer.read_upto if at is None else at)


def _enough(lines: Lines, wanted: int) -> int:
    """How many of the rows to give so that no transaction is cut and there are as many as wanted, or more; 0 if that takes what follows as well."""
    ends = lines.ends[lines.ends >= wanted]
    return int(ends[0]) if len(ends) else 0


@contextmanager
def _consuming(
    location: SlotLocation, name: str, window: str, on: On, tell: Callable[[str], None]
) -> Iterator[Consumer]:  # fmt: skip
    runner = runner_for(on, _backlog(location.slot(name)), tell)
    with consuming(location, name, runner, WindowSize(parse_size(window)) if window else None) as consumer:
        yield consumer


def _backlog(slot: Slot) -> int:
    """How many bytes of WAL the slot has not seen, to the end of the last segment."""
    return max(0, open_segments(wal_of(slot.source)).stop_lsn - slot.confirmed_flush_lsn)


def _plugin_of(consumer: Consumer, options: dict[str, str | None]) -> OutputPlugin:
    """Options given now stand before those the slot was created with."""
    slot = consumer.slot
    plugin = plugin_named(slot.plugin)
    plugin.two_phase, plugin.two_phase_since = slot.two_phase, int(slot.two_phase_at)
    plugin.startup({**slot.options, **options}, consumer.major)
    return plugin


@app.command()
def receive(
    name: NameArgument, state: StateOption,
    file: Annotated[str, typer.Option("-f", "--file", help="File to write to, - for standard output.")],
    option: PluginOptions = None,
    endpos: Annotated[str, typer.Option(help="End when all that commits before here has been written.")] = "",
    fsync_interval: Annotated[float, typer.Option("-F", "--fsync-interval", help="Seconds between syncs of the file.")] = 10.0,
    no_loop: Annotated[bool, typer.Option("-n", "--no-loop", help="End where the source cannot be read, instead of trying again.")] = False,
    window: WindowOption = "", on: OnOption = On.AUTO,
) -> None:  # fmt: skip
    """Write what the slot gives as it comes, like pg_recvlogical --start: into a file every line exactly once. SIGHUP opens the file anew."""
    location = SlotLocation.open(state, warn=warn)
    upto = parse_lsn(endpos)
    progress = Progress("rows", shown=False)
    with _consuming(location, name, window, on, progress.tell) as consumer:
        plugin = _plugin_of(consumer, parse_pairs(option))
        with output_to(file, consumer.slot) as output:
            receive_into(consumer, plugin, output, upto=upto, fsync_interval=fsync_interval, tries_again=not no_loop)


@app.command()
def advance(
    name: NameArgument, state: StateOption,
    upto_lsn: Annotated[str, typer.Argument(help="Where the slot is to stand.", metavar="LSN")],
    on: OnOption = On.AUTO,
) -> None:  # fmt: skip
    """Move a slot forward without giving what lies between (pg_replication_slot_advance)."""
    location = SlotLocation.open(state, warn=warn)
    upto = parse_lsn(upto_lsn)
    with _consuming(location, name, "", on, lambda _: None) as consumer:
        sys.stdout.write(f"{name}\t{consumer.advance(upto)}\n")


@app.command()
def copy(
    name: NameArgument, new: Annotated[str, typer.Argument(help="Name of the copy.", metavar="NEW")], state: StateOption
) -> None:
    """Make another slot that stands where this one does (pg_copy_logical_replication_slot)."""
    copied = SlotLocation.open(state, warn=warn).copy(name, new)
    sys.stdout.write(f"{new}\t{copied.confirmed_flush_lsn}\n")


@app.command()
def rename(
    name: NameArgument, new: Annotated[str, typer.Argument(help="The new name.", metavar="NEW")], state: StateOption
) -> None:
    """Give a slot another name."""
    SlotLocation.open(state, warn=warn).rename(name, new)


@app.command()
def drop(name: NameArgument, state: StateOption) -> None:
    """Remove a slot (pg_drop_replication_slot)."""
    location = SlotLocation.open(state, warn=warn)
    location.drop(name)
    location.prune()
