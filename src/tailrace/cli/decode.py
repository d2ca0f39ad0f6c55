"""`tailrace decode`: what happened, as PostgreSQL's SQL functions would print it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tailrace.cli.choice import On
from tailrace.cli.engine import runner_for, warn_if_none_kept
from tailrace.cli.progress import Progress, counted, warn
from tailrace.model import Lsn
from tailrace.pipeline.open_log import open_windows
from tailrace.pipeline.pipeline import Pipeline
from tailrace.pipeline.scanning import Scanning
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import OutputPlugin, shut_down
from tailrace.plugins.printing import RowPrinter, as_psql, few_at_a_time
from tailrace.publications.publishing.entry_timeline import Definitions
from tailrace.publications.subscription import publications_in
from tailrace.replication.slot_plugin import started_plugin
from tailrace.sources.captured import read_captured
from tailrace.sources.source import Source
from tailrace.storage.index_store import IndexStore
from tailrace.storage.state_location import StateLocation
from tailrace.types.style import TextStyle
from tailrace.window import WindowSize


def print_changes(
    source: str, database: str, plugin: str, options: dict[str, str | None], *, parameters: dict[str, str], style: TextStyle, two_phase: bool,
    publication: list[str] | None, state: Path | None, catalog: str | None, start: Lsn | None, upto: Lsn | None, index: Path | None,
    window: WindowSize | None, on: On,
) -> None:  # fmt: skip
    """Decode the log with the plugin, and print what it gives."""
    captured = read_captured(catalog) if catalog else None
    location = StateLocation.open(state, warn=warn) if state else None
    with counted("rows") as progress:
        opened = Source.open(source, captured.needs_wal_from if captured else None, database=database, tell=progress.tell)
        chosen = started_plugin(
            plugin, options, parameters, opened.segments.major, unknown_types=style.unknown_types, two_phase=two_phase
        )
        with shut_down(chosen):
            if publication:
                chosen.choose(publications_in(publication))
            begin = captured.needs_wal_from if captured else opened.segments.first_lsn
            runner = runner_for(on, opened.segments.stop_lsn - begin, progress.tell)
            scanning = Scanning(store=IndexStore(index, warn) if index else None, window=window)
            windows = open_windows(
                opened, database, runner=runner, catalog=captured, start_lsn=start, upto_lsn=upto, scanning=scanning, demand=chosen.demand,
            )  # fmt: skip
            progress.begin = start or begin
            _write_windows(windows, chosen, location, progress, upto)
            warn_if_none_kept(scanning.store, opened.segments.system)


def _write_windows(
    windows: Iterator[Pipeline], plugin: OutputPlugin, location: StateLocation | None, progress: Progress, upto: Lsn | None
) -> None:  # fmt: skip
    """What the plugin makes of each, with the publications that the location has."""
    said: set[str] = set()
    defined: Definitions | None = None
    reached = progress.begin
    for window in windows:
        if window.warning and window.warning not in said:
            said.add(window.warning)
            warn(window.warning)
        if location is not None and defined is None:
            state = window.catalogs.state
            defined = location.publications.read(state.system, state.database, state.database_name).in_order
            plugin.context.definitions = defined
        progress.end = _end_of_log(window) if upto is None else min(upto, _end_of_log(window))
        for lines in window.lines(plugin):
            write_lines(lines, plugin)
            reached = lines.position_behind(reached)
            progress.add(len(lines), reached)
            del lines  # or they would be kept while the next are made
    sys.stdout.buffer.flush()


def _end_of_log(window: Pipeline) -> Lsn:
    """Where the log ends, as far as this window knows: in the last segment, or at its end."""
    segments, end = window.source.segments, window.log.end
    return end if end > segments.stop_lsn - segments.segment_size else segments.stop_lsn


def write_lines(lines: Lines, plugin: OutputPlugin, printed: RowPrinter = as_psql) -> None:
    """Write lines to standard output."""
    for few in few_at_a_time(lines):
        sys.stdout.buffer.write(printed(few, plugin).data)
