"""What the verbs of `tailrace slot` have in common: their options, and a slot acquired as these say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.choice import On
from tailrace.cli.engine import runner_for
from tailrace.replication.acquired import Acquired
from tailrace.replication.service import acquire
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.waiting import finish
from tailrace.slots.slot import Slot
from tailrace.storage.segment_files import open_segments
from tailrace.storage.source import wal_of
from tailrace.window import WindowSize, parse_size

StateOption = Annotated[Path, typer.Option("--state", help="State location: the directory in which slots are kept.")]
NameArgument = Annotated[str, typer.Argument(help="The slot's name.", metavar="NAME")]
PluginOptions = Annotated[list[str] | None, typer.Option("-o", help="Plugin option, NAME=VALUE.")]
RowsAsJson = Annotated[bool, typer.Option("--json", help="Each row as JSON, with its lsn, xid and data.")]


def acquired(location: SlotLocation, name: str, window: str, on: On, tell: Callable[[str], None]) -> Acquired:
    """The slot, to be released at the end of a `with` block."""
    return finish(acquire(location, name, runner_for(on, _backlog(location.slot(name)), tell), window_size(window)))


def window_size(size: str) -> WindowSize | None:
    return WindowSize(parse_size(size)) if size else None


def _backlog(slot: Slot) -> int:
    """How many bytes of WAL the slot has not seen, to the end of the last segment."""
    return max(0, open_segments(wal_of(slot.source)).stop_lsn - slot.confirmed_flush_lsn)
