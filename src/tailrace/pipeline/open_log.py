"""A log opened, with what is to be decoded of it: planned at once, window by window, or as a feed.

In: a source as a user names it, a database, and what is wanted. Out: `OpenedLog`, and what it gives. The three public openers
take the same, as does whoever looks for the place where a slot can begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory
from tailrace.model import Lsn
from tailrace.pipeline.arguments import GivenLsn, GivenState, lsn_of, state_of
from tailrace.pipeline.catalogs import know_catalogs, with_full_xids
from tailrace.pipeline.decoding_range import DecodingRange
from tailrace.pipeline.first_pass import FirstPass, read_through
from tailrace.pipeline.log_feed import LogFeed, ReadLog
from tailrace.pipeline.pipeline import Pipeline
from tailrace.pipeline.runner import LocalRunner, Runner
from tailrace.pipeline.scanning import AS_SUITS, Scanning, scanned
from tailrace.pipeline.windows import one_ahead, stepped
from tailrace.plan.carried import Carried, ended_in
from tailrace.plan.consistency import consistency
from tailrace.plan.decodable import check_decodable
from tailrace.plan.demand import OF_TABLES, Demand
from tailrace.plan.whole_log import check_reaches
from tailrace.sources.source import Source
from tailrace.storage.begun_segment import as_written
from tailrace.transactions.commit_or_abort import NEVER
from tailrace.transactions.scanned_log import Earlier, ScannedLog
from tailrace.wal.index import Index


class HowToOpen(TypedDict, total=False):
    """What is wanted of a log, each of it if it is told: see `open_log`."""

    runner: Runner | None
    catalog: GivenState
    start_lsn: GivenLsn
    upto_lsn: GivenLsn
    scanning: Scanning
    demand: Demand


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """A log of which transactions of `database` are decoded that commit from `start_lsn` on and before `upto_lsn`; without the
    two, from where transactions are whole, and to the end."""

    source: Source
    database: str
    runner: Runner
    captured: CatalogState | None
    start_lsn: Lsn | None
    upto_lsn: Lsn | None
    scanning: Scanning
    demand: Demand

    def at_once(self) -> Pipeline:
        """Scan the whole log, and plan it in memory."""
        indexes = list(self.scanned())
        self.check_holds(indexes, self.start_lsn)
        log = with_full_xids(self.source, indexes, self.captured, self.demand.two_phase)
        catalogs = know_catalogs(self.source, self.runner, log, self.database, self.captured)
        return Pipeline.planned(self.source, self.runner, log, catalogs, self._range(log, consistency(log)[1]))

    def windows(self) -> Iterator[Pipeline]:
        """The same, window by window: whatever the length of the log, memory is needed for one of them. All of the log has
        been read once, and refused if it is damaged, before the first one comes."""
        first, carried, wanted = self._begun()
        del first.outlines
        size = self.scanning.window or self.runner.window
        yield from one_ahead(stepped(self.source, self.runner, carried, first.pile, first.pile.take, wanted, size))

    def feed(self) -> LogFeed:
        """The same as a feed, which is gone over as often as wanted."""
        first, carried, wanted = self._begun()
        size = self.scanning.window or self.runner.window
        end = Lsn(max(part.next_lsn for part in first.outlines))
        return LogFeed(ReadLog(self.source, self.runner, first.pile, carried, self.captured is None, end, size), wanted)

    def scanned(self) -> Iterator[Index]:
        """The index of each stretch, one after the other; what is stored is not scanned again."""
        return scanned(self.source.segments, self.runner, self._scan_from, self.scanning)

    def read_through(self) -> FirstPass:
        """The first pass over all of the log."""
        return read_through(self.source, self.runner, self._scan_from, self.scanning, self.captured)

    def begin(self, indexes: Sequence[Index]) -> tuple[Carried, DecodingRange]:
        """What is known where the first window begins: from a captured state, or from the whole log, since a data directory
        tells of its end alone. Of the indexes outlines will do (`transactions/outline.py`)."""
        log = with_full_xids(self.source, indexes, self.captured, self.demand.two_phase)
        unread, consistent = consistency(log)
        wanted = self._range(log, consistent)
        if self.captured is None:
            known = know_catalogs(self.source, self.runner, log, self.database, None)
            state, known_from = known.state, known.known_from
        else:
            state, known_from = self.captured, self.captured.needs_wal_from
        first = indexes[0].stretch.start if indexes else state.lsn
        next_xid = (int(first), int(log.clock.next_at(np.array([first], np.int64))[0]))
        ended = ended_in(state.versions, log.outcomes) if self.captured is None else None
        earlier = Earlier(open_at_start=dict.fromkeys(sorted(unread), 0), ended=ended)
        return Carried(first, next_xid, earlier, state, known_from), wanted

    def check_holds(self, indexes: Sequence[Index], lsn: Lsn | None) -> None:
        """Raise where the log ends before its control file says, or `lsn` lies outside."""
        check_reaches(indexes, self.source.control)
        if lsn is not None and not indexes[0].stretch.start <= lsn <= indexes[-1].next_lsn:
            raise MissingHistory(
                f"start LSN {lsn} is outside of the WAL at hand",
                hint=f"It reaches from {indexes[0].first} to {indexes[-1].next_lsn}.",
                lsn=lsn,
            )

    def _begun(self) -> tuple[FirstPass, Carried, DecodingRange]:
        first = self.read_through()
        self.check_holds(first.outlines, self.start_lsn)
        return first, *self.begin(first.outlines)

    def _range(self, log: ScannedLog, consistent: Lsn) -> DecodingRange:
        """What to decode, if `consistent` is from where transactions are whole. Raises where wal_level was too low for it."""
        level = self.source.control.wal_level if self.source.control else None
        check_decodable(log, self.start_lsn or 0, self.upto_lsn or int(NEVER), level)
        start = consistent if self.start_lsn is None else self.start_lsn
        upto = Lsn(NEVER) if self.upto_lsn is None else self.upto_lsn
        since = Lsn(0) if self.captured is None else self.captured.needs_wal_from
        return DecodingRange(start, upto, self.demand, is_strict=self.start_lsn is not None, asked_from=since)

    @property
    def _scan_from(self) -> Lsn | None:
        """Where the scan begins; None: at the first record at hand."""
        return self.captured.needs_wal_from if self.captured is not None else None


def open_log(
    source: str | Path | Source, database: str, *, runner: Runner | None = None, catalog: GivenState = None, start_lsn: GivenLsn = None,
    upto_lsn: GivenLsn = None, scanning: Scanning = AS_SUITS, demand: Demand = OF_TABLES,
) -> OpenedLog:  # fmt: skip
    """`source` is a data directory, a base backup, a pg_wal or an archive, or a server by its connection string, of which what it
    has now is received; for WAL alone `catalog` is needed, a captured state or its file. The positions are those of `tailrace
    decode`, and may be text. The log is scanned as `scanning` says, by threads of this process unless there is another `runner`,
    and planned as an outlet demands it (`plugin.demand`; tables of changes ask for the default). Raises where the state does not
    fit the source, or needs WAL that it lacks. What somebody receives into an archive meanwhile is left for another time."""
    captured = state_of(catalog)
    scan_from = captured.needs_wal_from if captured is not None else None
    source = source if isinstance(source, Source) else Source.open(source, scan_from, database=database)
    source = replace(source, segments=as_written(source.segments))
    segments = source.segments
    if captured is not None:
        captured.check_fits(database, segments.system, segments.major, segments.timeline, segments.history)
        if captured.needs_wal_from < segments.first_lsn:
            raise MissingHistory(
                f"the catalog state needs WAL from {captured.needs_wal_from}, the source begins at {segments.first_lsn}",
                lsn=captured.needs_wal_from,
            )
    return OpenedLog(source, database, runner or LocalRunner(), captured, lsn_of(start_lsn), lsn_of(upto_lsn), scanning, demand)


def open_pipeline(source: str | Path | Source, database: str, **how: Unpack[HowToOpen]) -> Pipeline:
    """A log that is scanned and planned at once: see `open_log` for what it takes."""
    return open_log(source, database, **how).at_once()


def open_windows(source: str | Path | Source, database: str, **how: Unpack[HowToOpen]) -> Iterator[Pipeline]:
    """What `open_pipeline` opens at once, window by window (`scanning.window`)."""
    return open_log(source, database, **how).windows()


def open_feed(source: str | Path | Source, database: str, **how: Unpack[HowToOpen]) -> LogFeed:
    """The changes that `open_pipeline` opens at once, to be planned window by window (`scanning.window`). All of the log has
    been read once, and refused if it is damaged."""
    return open_log(source, database, **how).feed()
