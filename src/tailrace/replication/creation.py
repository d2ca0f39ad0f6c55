"""Where a slot can begin: a place in the log from which every transaction that commits is read whole, and the catalogs are known
(`SnapBuildFindSnapshot`). It is the end of the log, or, if a past moment is asked for, the first such place that is not before that.

PostgreSQL waits until all transactions have ended that were running; here only those are waited for whose beginning no log at hand holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.errors import MissingHistory, UsageError, count_of
from tailrace.model import PAGE_SIZE, STRETCH_BYTES, Lsn, Stretch
from tailrace.pipeline import check_holds, opened
from tailrace.pipeline.capture import capture
from tailrace.pipeline.first_pass import read_through
from tailrace.pipeline.following import Followed, up_to_its_end
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import AS_SUITS, scan_stretch
from tailrace.pipeline.windows import begin, carry
from tailrace.plan.carried import Carried
from tailrace.plan.demand import OF_TABLES
from tailrace.replication.from_mark import known_at_end
from tailrace.replication.same_log import stood_in
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.timelines import timeline_at
from tailrace.storage.index_pile import IndexPile
from tailrace.storage.segment_files import open_segments
from tailrace.storage.segments import Segments
from tailrace.storage.source import Source, wal_of
from tailrace.transactions.epochs import LOW_WORD
from tailrace.wal import xact
from tailrace.wal.index import Index
from tailrace.window import Weight, WindowSize, windows

_POLL = 0.1

Tell = Callable[[Sequence[int]], None]
"""Is told for which transactions (full xids) is waited."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A past one, as it was asked for: an LSN; or a time, in microseconds since 2000, which stands for the first commit that is not before it."""

    text: str
    lsn: Lsn | None = None
    time: int = 0

    def place_in(self, part: Index) -> Lsn | None:
        """Where it is in a stretch; None if that lies before it."""
        if self.lsn is not None:
            return self.lsn if self.lsn < part.stretch.stop else None
        ends = part.ends
        later = ends.lsn[np.isin(ends.kind, (xact.COMMIT, xact.COMMIT_PREPARED)) & (ends.time >= self.time)]
        return Lsn(int(later.min())) if len(later) else None


def consistent_place(
    path: Path, database: str, runner: Runner, tell: Tell, *, catalog: CatalogState | None = None, window: WindowSize | None = None,
    moment: Moment | None = None, location: SlotLocation | None = None,
) -> Carried:  # fmt: skip
    """What is known at the end of the log, or at the moment; a location that has slots of the database knows most of it already. Raises
    MissingHistory where the log at hand does not reach there; and where a transaction is open that the log does not hold from its beginning, and no
    server writes that could end it."""
    if moment and catalog is None:
        raise UsageError(
            "a slot that begins in the past needs a catalog state of before",
            hint="Give one that was captured earlier (--catalog).",
        )
    source = Source.open(path, catalog.needs_wal_from if catalog else None)
    if location and catalog is None and (carried := known_at_end(location, database, source, path, runner)):
        return _settled(carried, source.segments)
    state = catalog or capture(source, runner, database)
    source, scan_from = opened(source, database, state)
    first = read_through(source, runner, scan_from, AS_SUITS, state)
    carried, asked = begin(source, runner, first.outlines, database, state, start_lsn=None, upto_lsn=None, demand=OF_TABLES)
    if moment:
        _check_not_before(path, runner, moment, carried.known_from, oldest=Lsn(max(carried.known_from, asked.start)))
        check_holds(source, first.outlines, moment.lsn)
    del first.outlines
    log = _Log(source, runner, first.pile)
    size = window or runner.window
    carried = _over(source, runner, carried, log.upto(moment.place_in if moment else _nowhere), size)
    if moment and not log.found and carried.lsn != moment.lsn:
        raise MissingHistory(
            f"no transaction commits at {moment.text} or later", hint=f"The log at hand ends at {carried.lsn}.", lsn=carried.lsn
        )
    while carried.waits_for and not log.is_read:
        carried = _over(source, runner, carried, log.upto(partial(_behind_ends, carried.waits_for)), size)
    if carried.waits_for:
        carried = _waited(path, source, runner, carried, tell)
    return _settled(carried, source.segments)


def _check_not_before(path: Path, runner: Runner, moment: Moment, known_from: Lsn, *, oldest: Lsn) -> None:
    """Raise MissingHistory where the moment lies before all that can be read: what tables were is not known there, so nothing that commits from there
    to `known_from` could ever be given. A time lies before that if something committed between the two."""
    if moment.lsn is None:
        since = Lsn(max(0, known_from - known_from % PAGE_SIZE - STRETCH_BYTES))
        segments = open_segments(wal_of(path), since)
        start = max(segments.first_lsn, since)
        if start >= known_from:
            return
        (part,) = runner.run(partial(scan_stretch, segments, ()), [Stretch(start, known_from)])
        is_before = moment.place_in(part) is not None
    else:
        is_before = moment.lsn < known_from
    if is_before:
        raise MissingHistory(
            f"what tables were at {moment.text} is not known: the catalog state was captured later",
            hint=f"The oldest LSN that is possible with it is {oldest}. Give a catalog state that was captured earlier (--catalog).",
            lsn=oldest,
        )


def _settled(carried: Carried, segments: Segments) -> Carried:
    """On the timeline on which all that it is made of can be read."""
    reached = max(carried.lsn, carried.state.lsn)
    stood = stood_in(segments, carried.lsn, carried.restart_lsn)
    return replace(carried, state=replace(carried.state, timeline=timeline_at(segments, reached)), stood=stood)


@dataclass(slots=True)
class _Log:
    """The stretches that a first pass has read, each given once. `found` says whether the place that was asked for last was there."""

    source: Source
    runner: Runner
    pile: IndexPile
    found: bool = False
    _next: int = 0
    _rest: Index | None = None

    @property
    def is_read(self) -> bool:
        return self._rest is None and self._next == len(self.pile)

    def upto(self, place_in: Callable[[Index], Lsn | None]) -> Iterator[Index]:
        """What lies before the first place that is found; all there is, if none is. A record that begins before it comes whole."""
        self.found = False
        while not self.found and not self.is_read:
            part, self._rest = self._rest, None
            if part is None:
                part = self.pile.take(self._next)
                self._next += 1
            at = place_in(part)
            self.found = at is not None
            head, self._rest = (part, None) if at is None else self._cut(part, at)
            if head is not None:
                yield head

    def _cut(self, part: Index, at: Lsn) -> tuple[Index | None, Index | None]:
        """The stretch up to the first record that does not begin before `at`, and from there on."""
        start, stop = part.stretch
        if at <= start:
            return None, part
        if at >= stop:
            return part, None
        head = self._scanned(start, at)
        cut = head.next_lsn if head.records else part.first if part.records else stop
        if cut >= min(stop, part.next_lsn):
            return part, None
        return replace(head, stretch=Stretch(start, cut), next_lsn=cut), self._scanned(cut, stop)

    def _scanned(self, start: Lsn, stop: Lsn) -> Index:
        (part,) = self.runner.run(partial(scan_stretch, self.source.segments, ()), [Stretch(start, stop)])
        return part


def _nowhere(part: Index) -> None:
    """The end of the log."""


def _behind_ends(xids: Sequence[int], part: Index) -> Lsn:
    """Where the last of these that ends in the stretch has ended; else the stretch's end, by which more may be known of them."""
    ends = part.ends
    low = np.array(xids, np.int64) & LOW_WORD
    theirs = ends.lsn[np.isin(ends.xid.astype(np.int64) & LOW_WORD, low) & (ends.kind != xact.PREPARE)]
    return Lsn(int(theirs.max()) + 1) if len(theirs) else part.stretch.stop


def _over(source: Source, runner: Runner, carried: Carried, parts: Iterable[Index], size: WindowSize) -> Carried:
    """What is carried on from the end of these stretches."""
    for several in windows(parts, Weight.of, size):
        whole = [part for each in several if (part := up_to_its_end(each)) is not None]
        if whole:
            carried = carry(source, runner, carried, whole)
    return carried


def _waited(path: Path, source: Source, runner: Runner, carried: Carried, tell: Tell) -> Carried:
    followed = Followed.behind(carried, path, source)
    told: list[int] = []
    while carried.waits_for:
        if source.directory is None or source.directory.is_abandoned:
            raise MissingHistory(
                f"no consistent point: {count_of(len(carried.waits_for), 'transaction', 'are')} open whose beginning this log does not hold",
                hint="Create the slot with a catalog state that was captured earlier (--catalog), or give older WAL.",
                context=f"transaction {carried.waits_for[0] & 0xFFFFFFFF}, at {carried.lsn}",
                lsn=carried.lsn,
            )
        if carried.waits_for != told:
            tell(told := carried.waits_for)
        parts = list(followed.look(runner))
        if not parts:
            time.sleep(_POLL)
            continue
        carried = carry(followed.source, runner, carried, [part for _, part in parts])
        followed.needed_from = carried.restart_lsn
    return carried
