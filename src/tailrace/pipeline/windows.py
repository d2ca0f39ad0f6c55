"""A log decoded window by window: each is scanned, planned and decoded with what was carried from those before, and then forgotten.

    carried ─► window: scan ─► fates, catalogs, plan ─► lines, changes
       ▲                              │
       └──────── carried' ◄───────────┘

Whatever the cuts, the same comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.model import Lsn
from tailrace.pipeline import Pipeline, check_holds, opened
from tailrace.pipeline.asked import Asked
from tailrace.pipeline.catalogs import Catalogs, followed_catalogs, know_catalogs, with_full_xids
from tailrace.pipeline.first_pass import read_through
from tailrace.pipeline.given import GivenLsn, GivenState, lsn_of, state_of
from tailrace.pipeline.runner import LocalRunner, Runner
from tailrace.pipeline.scanning import AS_SUITS, Scanning
from tailrace.plan.carried import Carried, carried_from, ended_in
from tailrace.plan.consistency import consistency
from tailrace.plan.decodable import check_decodable
from tailrace.plan.demand import OF_TABLES, Demand
from tailrace.storage.allocator import give_back
from tailrace.storage.index_pile import IndexPile
from tailrace.storage.source import Source
from tailrace.transactions.fates import NEVER
from tailrace.transactions.scanned_log import Earlier, ScannedLog
from tailrace.wal.index import Index
from tailrace.window import WindowSize, windows


def step(source: Source, runner: Runner, carried: Carried, indexes: Sequence[Index], asked: Asked) -> tuple[Carried, Pipeline]:
    """The window of these stretches, which follow on what was carried; and what is carried on from there."""
    window = planned(source, runner, carried, indexes, asked)
    return carried_from(window.log, window.catalogs.state, carried, asked.horizon), window


def planned(source: Source, runner: Runner, carried: Carried, indexes: Sequence[Index], asked: Asked) -> Pipeline:
    """The window alone."""
    log, catalogs = _followed(source, runner, carried, indexes, asked.demand)
    start = Lsn(max(asked.start, carried.lsn))
    return Pipeline.planned(source, runner, log, catalogs, replace(asked, start=start))


def carry(
    source: Source, runner: Runner, carried: Carried, indexes: Sequence[Index], horizon: int = int(NEVER)
) -> Carried:  # fmt: skip
    """What is carried on from the end of these stretches, and what the catalogs were from `horizon` on; nothing of them is decoded."""
    log, catalogs = _followed(source, runner, carried, indexes, OF_TABLES)
    return carried_from(log, catalogs.state, carried, Lsn(horizon))


def _followed(
    source: Source, runner: Runner, carried: Carried, indexes: Sequence[Index], demand: Demand
) -> tuple[ScannedLog, Catalogs]:  # fmt: skip
    segments = source.segments
    log = ScannedLog.of(indexes, carried.next_xid, segments.segment_size, earlier=carried.earlier, two_phase=demand.two_phase)
    return log, followed_catalogs(segments, runner, log, carried.state, carried.known_from)


def begin(
    source: Source, runner: Runner, indexes: Sequence[Index], database: str, captured: CatalogState | None,
    *, start_lsn: Lsn | None, upto_lsn: Lsn | None, demand: Demand,
) -> tuple[Carried, Asked]:  # fmt: skip
    """What is known where the first window begins: from a captured state, or from the whole log, since a data directory tells of its end alone. Of
    the indexes outlines will do (`transactions/outline.py`)."""
    log = with_full_xids(source, indexes, captured, demand.two_phase)
    level = source.control.wal_level if source.control else None
    check_decodable(log, start_lsn or 0, upto_lsn or int(NEVER), level)
    unread, consistent = consistency(log)
    if captured is None:
        known = know_catalogs(source, runner, log, database, None)
        state, known_from = known.state, known.known_from
    else:
        state, known_from = captured, captured.needs_wal_from
    first = indexes[0].stretch.start
    next_xid = (int(first), int(log.clock.next_at(np.array([first], np.int64))[0]))
    earlier = Earlier(
        open_at_start=dict.fromkeys(sorted(unread), 0), ended=ended_in(state.versions, log.fates) if captured is None else None
    )
    asked = Asked(
        start=start_lsn if start_lsn is not None else consistent,
        upto=upto_lsn if upto_lsn is not None else Lsn(2**63 - 1),
        demand=demand,
        is_strict=start_lsn is not None,
    )
    return Carried(first, next_xid, earlier, state, known_from), asked


def open_windows(
    source: str | Path | Source, database: str, *, runner: Runner | None = None, catalog: GivenState = None, start_lsn: GivenLsn = None,
    upto_lsn: GivenLsn = None, scanning: Scanning = AS_SUITS, demand: Demand = OF_TABLES,
) -> Iterator[Pipeline]:  # fmt: skip
    """What `open_pipeline` opens at once, window by window: whatever the length of the log, memory is needed for one of them. All of the log has been
    read once, and refused if it is damaged, before the first one comes."""
    runner = runner or LocalRunner()
    since, upto, captured = lsn_of(start_lsn), lsn_of(upto_lsn), state_of(catalog)
    source, scan_from = opened(source, database, captured)
    first = read_through(source, runner, scan_from, scanning, captured)
    check_holds(source, first.outlines, since)
    carried, asked = begin(source, runner, first.outlines, database, captured, start_lsn=since, upto_lsn=upto, demand=demand)
    del first.outlines
    yield from one_ahead(stepped(source, runner, carried, first.pile, first.pile.take, asked, scanning.window or runner.window))


def stepped(
    source: Source, runner: Runner, carried: Carried, pile: IndexPile, take: Callable[[int], Index], asked: Asked, size: WindowSize
) -> Iterator[Pipeline]:  # fmt: skip
    """The windows of a pile of indexes, which `take` gives by their numbers."""
    for numbers in windows(range(len(pile)), pile.weights.__getitem__, size):
        if carried.lsn >= asked.upto:
            return
        indexes = [take(number) for number in numbers]
        if numbers[-1] == len(pile) - 1:
            yield planned(source, runner, carried, indexes, asked)
            return
        carried, window = step(source, runner, carried, indexes, asked)
        asked = replace(asked, streamed=window.blocks.after)
        yield window
        del window, indexes
        give_back()


def one_ahead(items: Iterator[Pipeline]) -> Iterator[Pipeline]:
    """While a window is decoded, the next is planned: planning is one thread's work."""
    with ThreadPoolExecutor(1) as ahead:
        coming = ahead.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = ahead.submit(next, items, None)
            yield item
            del item
