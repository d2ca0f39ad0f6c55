"""`tailrace slot get | peek | receive | advance`: what slots give, with the manual's verbs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tailrace.cli.choice import On
from tailrace.cli.decode import write_lines
from tailrace.cli.engine import runner_for
from tailrace.cli.new_slot import NewSlot
from tailrace.cli.progress import Progress, counted, warn
from tailrace.cli.slot_rows import write_slot
from tailrace.model import Lsn
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import shut_down
from tailrace.plugins.printing import as_json_rows, as_lines, as_psql
from tailrace.replication.acquired import Consumer, consuming, consuming_new
from tailrace.replication.output_file import output_to
from tailrace.replication.receiving import receive_into
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.slot_plugin import plugin_of
from tailrace.replication.writers import Writer, writer_named
from tailrace.slots.slot import Slot
from tailrace.storage.segment_files import open_segments
from tailrace.storage.source import wal_of
from tailrace.window import WindowSize


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of `get` and `peek`."""

    upto: Lsn | None
    upto_nchanges: int
    options: dict[str, str | None]
    parameters: dict[str, str]
    window: WindowSize | None
    on: On
    as_json: bool


@dataclass(frozen=True, slots=True)
class Engine:
    """How much to decode at once, and where."""

    window: WindowSize | None
    on: On


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
    with counted("rows") as progress, _consuming(location, name, Engine(asked.window, asked.on), progress.tell) as consumer:
        plugin = plugin_of(consumer, asked.options, asked.parameters)
        plugin.context.upto_nchanges = asked.upto_nchanges
        with shut_down(plugin):
            at: Lsn | None = None
            told = consumer.read_upto
            for window in consumer.take(plugin.demand, asked.upto):
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
def _consuming(location: SlotLocation, name: str, engine: Engine, tell: Callable[[str], None]) -> Iterator[Consumer]:
    runner = runner_for(engine.on, _backlog(location.slot(name)), tell)
    with consuming(location, name, runner, engine.window) as consumer:
        yield consumer


def _backlog(slot: Slot) -> int:
    """How many bytes of WAL the slot has not seen, to the end of the last segment."""
    return max(0, open_segments(wal_of(slot.source)).stop_lsn - slot.confirmed_flush_lsn)


def receive(
    name: str, state: Path, engine: Engine, destination: Destination, *, new: NewSlot | None, if_not_exists: bool,
    options: dict[str, str | None], parameters: dict[str, str], upto: Lsn | None, fsync_interval: float, tries_again: bool,
) -> None:  # fmt: skip
    """Write what the slot gives as it comes. It is created first if it is `new`, and not there already where that may be (`if_not_exists`)."""
    progress = Progress("rows", shown=False)
    with _received(name, state, new, engine, if_not_exists, progress.tell) as consumer:
        printing = plugin_of(consumer, options, parameters)
        with shut_down(printing), _writing(destination, consumer.slot) as writer:
            receive_into(consumer, printing, writer, upto=upto, fsync_interval=fsync_interval, tries_again=tries_again)


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


@contextmanager
def _received(
    name: str, state: Path, new: NewSlot | None, engine: Engine, if_not_exists: bool, tell: Callable[[str], None]
) -> Iterator[Consumer]:  # fmt: skip
    """The consumer of the slot, which is created if it is `new`."""
    if new is None or (if_not_exists and _exists(name, state)):
        with _consuming(SlotLocation.open(state, warn=warn), name, engine, tell) as consumer:
            yield consumer
        return
    location, slot, place = new.placed(state, engine.on, engine.window)
    runner = runner_for(engine.on, 0, tell)
    with consuming_new(location, slot, place, runner, engine.window) as consumer:
        yield consumer


def _exists(name: str, state: Path) -> bool:
    if not state.is_dir() or not any(state.iterdir()):
        return False
    return any(slot.name == name for slot in SlotLocation.open(state, warn=warn).slots())


def advance(name: str, state: Path, upto: Lsn | None, engine: Engine, *, as_json: bool) -> None:
    """Move the slot, and print where it stands."""
    location = SlotLocation.open(state, warn=warn)
    with _consuming(location, name, engine, lambda _: None) as consumer:
        stands = consumer.advance(upto)
    write_slot(location, name, f"{name}\t{stands}", as_json=as_json)
