"""What the verbs that tell the past have in common: how they open a log, and times as PostgreSQL prints them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tailrace.cli.choice import On
from tailrace.cli.engine import runner_for, warn_if_none_kept
from tailrace.cli.progress import Progress, warn
from tailrace.pipeline.log_feed import LogFeed
from tailrace.pipeline.open_log import open_feed
from tailrace.pipeline.scanning import Scanning
from tailrace.plan.demand import OF_TABLES, Demand
from tailrace.sources.captured import read_captured
from tailrace.sources.source import Source
from tailrace.storage.index_store import IndexStore
from tailrace.types.style import TextStyle
from tailrace.types.times.text import timestamptz_to_str
from tailrace.window import WindowSize


def open_log(
    source: str, database: str, *, catalog: str | None, index: Path | None, window: WindowSize | None, on: On, progress: Progress,
    demand: Demand = OF_TABLES,
) -> LogFeed:  # fmt: skip
    """The whole log, planned window by window."""
    captured = read_captured(catalog) if catalog else None
    opened = Source.open(source, captured.needs_wal_from if captured else None, database=database, tell=progress.tell)
    begin = captured.needs_wal_from if captured else opened.segments.first_lsn
    runner = runner_for(on, opened.segments.stop_lsn - begin, progress.tell)
    scanning = Scanning(store=IndexStore(index, warn) if index else None, window=window)
    feed = open_feed(opened, database, runner=runner, catalog=captured, scanning=scanning, demand=demand)
    warn_if_none_kept(scanning.store, opened.segments.system)
    return feed


def time_text(microseconds: int) -> str:
    """A time since PG_EPOCH as timestamptz prints it, with TimeZone UTC."""
    (text,) = timestamptz_to_str(np.array([microseconds], np.int64), TextStyle()).to_list()
    return text
