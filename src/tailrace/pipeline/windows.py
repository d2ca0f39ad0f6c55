"""A log decoded window by window: each is scanned, planned and decoded with what was carried from those before, and then
forgotten.

    carried ─► window: scan ─► outcomes, catalogs, plan ─► lines, changes
       ▲                              │
       └──────── carried' ◄───────────┘

Whatever the cuts, the same comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tailrace.catalog.history.history import History
from tailrace.catalog.rows.catalog_rows import spans_of
from tailrace.model import Lsn
from tailrace.pipeline.catalogs import Catalogs, followed_catalogs
from tailrace.pipeline.decoding_range import DecodingRange
from tailrace.pipeline.pipeline import Pipeline
from tailrace.pipeline.runner import Runner
from tailrace.plan.carried import Carried, carried_from
from tailrace.plan.demand import OF_TABLES, Demand
from tailrace.sources.source import Source
from tailrace.storage.allocator import give_back
from tailrace.storage.index_pile import IndexPile
from tailrace.threads import Threads
from tailrace.transactions.commit_or_abort import NEVER, outcomes_of
from tailrace.transactions.scanned_log import ScannedLog
from tailrace.types.style import SEARCH_PATH
from tailrace.wal.index import Index
from tailrace.window import WindowSize, windows


def step(
    source: Source, runner: Runner, carried: Carried, indexes: Sequence[Index], wanted: DecodingRange
) -> tuple[Carried, Pipeline]:
    """Plan the window of these stretches, which begins where `carried` ends; and what is carried on from its end."""
    window = planned(source, runner, carried, indexes, wanted)
    return carried_from(window.log, window.catalogs.state, carried, wanted.horizon), window


def planned(source: Source, runner: Runner, carried: Carried, indexes: Sequence[Index], wanted: DecodingRange) -> Pipeline:
    """Plan that window, without what is carried on."""
    log, catalogs = _followed(source, runner, carried, indexes, wanted.demand)
    start = Lsn(max(wanted.start, carried.lsn))
    return Pipeline.planned(source, runner, log, catalogs, replace(wanted, start=start))


def carry(
    source: Source, runner: Runner, carried: Carried, indexes: Sequence[Index], horizon: int = int(NEVER)
) -> Carried:  # fmt: skip
    """What is carried on from the end of these stretches, and what the catalogs were from `horizon` on; nothing of them is
    decoded."""
    log, catalogs = _followed(source, runner, carried, indexes, OF_TABLES)
    return carried_from(log, catalogs.state, carried, Lsn(horizon))


def history_at(carried: Carried, search_path: tuple[str, ...] = SEARCH_PATH) -> History:
    """The catalogs at the LSN where the next window begins."""
    state = carried.state
    spans = spans_of(state.versions, outcomes_of((), elsewhere=carried.earlier.ended), state.status)
    return Catalogs(state, spans, carried.known_from).history(search_path)


def _followed(
    source: Source, runner: Runner, carried: Carried, indexes: Sequence[Index], demand: Demand
) -> tuple[ScannedLog, Catalogs]:  # fmt: skip
    segments = source.segments
    log = ScannedLog.of(indexes, carried.next_xid, segments.segment_size, earlier=carried.earlier, two_phase=demand.two_phase)
    return log, followed_catalogs(segments, runner, log, carried.state, carried.known_from)


def stepped(
    source: Source, runner: Runner, carried: Carried, pile: IndexPile, take: Callable[[int], Index], wanted: DecodingRange, size: WindowSize
) -> Iterator[Pipeline]:  # fmt: skip
    """The windows of a pile of indexes, which `take` gives by their numbers."""
    for numbers in windows(range(len(pile)), pile.weights.__getitem__, size):
        if carried.lsn >= wanted.upto:
            return
        indexes = [take(number) for number in numbers]
        if numbers[-1] == len(pile) - 1:
            yield planned(source, runner, carried, indexes, wanted)
            return
        carried, window = step(source, runner, carried, indexes, wanted)
        wanted = replace(wanted, streamed=window.blocks.after)
        yield window
        del window, indexes
        give_back()


def one_ahead(items: Iterator[Pipeline]) -> Iterator[Pipeline]:
    """While a window is decoded, the next is planned: planning is one thread's work."""
    with Threads(1) as ahead:
        coming = ahead.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = ahead.submit(next, items, None)
            yield item
            del item
