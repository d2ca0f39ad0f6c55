"""`tailrace decode`: what happened, as PostgreSQL's SQL functions would print it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from tailrace.catalog.statefile import read_state
from tailrace.cli.choice import On
from tailrace.cli.engine import OnOption, WindowOption, runner_for, warn_if_none_kept
from tailrace.cli.progress import Progress, counted, warn
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.pipeline import Pipeline, Scanning, Source
from tailrace.pipeline.windows import open_windows
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import OutputPlugin, shut_down
from tailrace.plugins.printing import Printed, as_psql, few_at_a_time
from tailrace.publications.publishing.entry_timeline import Definitions
from tailrace.publications.subscription import publication_names
from tailrace.replication.slot_plugin import started_plugin
from tailrace.storage.index_store import IndexStore
from tailrace.storage.state_location import StateLocation
from tailrace.types.style import PARAMETERS
from tailrace.window import WindowSize, parse_size

_PARAMETERS = (
    f"Parameter of the session, NAME=VALUE. The text of values depends on {', '.join(PARAMETERS)}; from which size on transactions are streamed, on "
    "logical_decoding_work_mem."
)
PublicationOption = Annotated[
    list[str] | None, typer.Option("--publication", help="Give what these publications publish, and no more; may be repeated.", metavar="NAME,…")
]  # fmt: skip
SetOption = Annotated[list[str] | None, typer.Option("--set", help=_PARAMETERS)]


def decode(
    source: Annotated[Path, typer.Argument(help="Data directory, base backup, pg_wal, or directory of archived segments.")],
    database: Annotated[str, typer.Option(help="Database whose changes to decode.")],
    catalog: Annotated[Path | None, typer.Option(help="Captured catalog state.")] = None,
    plugin: Annotated[str, typer.Option(help="Output plugin.")] = "test_decoding",
    option: Annotated[list[str] | None, typer.Option("-o", help="Plugin option, NAME=VALUE.")] = None,
    parameter: SetOption = None,
    unknown_types: Annotated[
        str, typer.Option(help="Values whose type is not known: error, or hex, their stored bytes.")
    ] = "error",
    start_lsn: Annotated[str, typer.Option(help="Show transactions that commit here or later.")] = "",
    upto_lsn: Annotated[str, typer.Option(help="… and before here.")] = "",
    index: Annotated[Path | None, typer.Option(help="Keep indexes here, and use those that are.")] = None,
    two_phase: Annotated[bool, typer.Option("--two-phase", help="Show prepared transactions at PREPARE TRANSACTION.")] = False,
    window: WindowOption = "",
    on: OnOption = On.AUTO,
    publication: PublicationOption = None,
    state: Annotated[
        Path | None, typer.Option(help="State location whose publications count beside the source's own.", file_okay=False)
    ] = None,
) -> None:
    """Print committed changes in commit order: LSN, xid and text, separated by tabs."""
    start, upto = parse_lsn(start_lsn), parse_lsn(upto_lsn)
    options, parameters = parse_pairs(option), parse_parameters(parameter)
    captured = read_state(catalog.read_bytes(), str(catalog)) if catalog else None
    location = StateLocation.open(state, warn=warn) if state else None
    with counted("rows") as progress:
        opened = Source.open(source, captured.needs_wal_from if captured else None)
        chosen = started_plugin(
            plugin, options, parameters, opened.segments.major, unknown_types=unknown_types, two_phase=two_phase
        )
        with shut_down(chosen):
            if publication:
                chosen.choose([name for names in publication for name in publication_names(names)])
            begin = captured.needs_wal_from if captured else opened.segments.first_lsn
            runner = runner_for(on, opened.segments.stop_lsn - begin, progress.tell)
            scanning = Scanning(
                store=IndexStore(index, warn) if index else None, window=WindowSize(parse_size(window)) if window else None
            )
            windows = open_windows(
                opened, database, runner=runner, catalog=captured, start_lsn=start, upto_lsn=upto, scanning=scanning, demand=chosen.demand,
            )  # fmt: skip
            _write_windows(windows, chosen, location, progress)
            warn_if_none_kept(scanning.store, opened.segments.system)


def _write_windows(windows: Iterator[Pipeline], plugin: OutputPlugin, location: StateLocation | None, progress: Progress) -> None:
    """What the plugin makes of each, with the publications that the location has."""
    said: set[str] = set()
    defined: Definitions | None = None
    for window in windows:
        if window.warning and window.warning not in said:
            said.add(window.warning)
            warn(window.warning)
        if location is not None and defined is None:
            state = window.catalogs.state
            defined = location.publications.read(state.system, state.database, state.database_name).in_order
            plugin.context.definitions = defined
        for lines in window.lines(plugin):
            write_lines(lines, plugin)
            progress.add(len(lines))
            del lines  # or they would be kept while the next are made
    sys.stdout.buffer.flush()


def write_lines(lines: Lines, plugin: OutputPlugin, printed: Printed = as_psql) -> None:
    """To standard output."""
    for few in few_at_a_time(lines):
        sys.stdout.buffer.write(printed(few, plugin).data)


def parse_pairs(texts: list[str] | None) -> dict[str, str | None]:
    """Options as they are given: NAME=VALUE, or NAME."""
    return dict(_pair(text) for text in texts or ())


def parse_parameters(texts: list[str] | None) -> dict[str, str]:
    """Parameters as they are given: NAME=VALUE."""
    return {name: value or "" for name, value in map(_pair, texts or ())}


def parse_lsn(text: str) -> Lsn | None:
    """An optional position of the command line."""
    try:
        return Lsn.parse(text) if text else None
    except ValueError as error:
        raise UsageError(str(error), sqlstate="22P02") from None


def _pair(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    return name, value if equals else None
