"""Find where a new slot can begin: an LSN from which every transaction that commits is decoded from its first record, with its catalogs known
(`DecodingContextFindStartpoint`, `SnapBuildFindSnapshot`). It is the end of the log, or, if a past moment is asked for, the first
such place that is not before that.

PostgreSQL waits until all transactions have ended that were running; here only those are waited for whose beginning no log at
hand holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory, UsageError, count_of
from tailrace.model import PAGE_SIZE, STRETCH_BYTES, Lsn, Stretch
from tailrace.pipeline.capture import capture
from tailrace.pipeline.following import FollowedLog, Steps, up_to_its_end
from tailrace.pipeline.open_log import open_log
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import scan_stretch
from tailrace.pipeline.windows import carry
from tailrace.plan.carried import Carried
from tailrace.replication.from_mark import known_at_end
from tailrace.replication.same_log import fingerprint_in
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.timelines import timeline_at
from tailrace.slots.create_command import CreateReplicationSlot, PastMoment
from tailrace.sources.named import files_of
from tailrace.sources.source import Source
from tailrace.sources.source_name import SourceName
from tailrace.storage.index_pile import IndexPile
from tailrace.storage.location_folder import is_received
from tailrace.storage.segment_files import open_segments
from tailrace.transactions.epochs import LOW_WORD
from tailrace.wal import xact
from tailrace.wal.index import Index
from tailrace.window import Weight, WindowSize, windows

_NAMED = 5


def find_start_point(
    command: CreateReplicationSlot, source: Source, location: SlotLocation | None, runner: Runner, window: WindowSize,
    warn: Callable[[str], None],
) -> Steps[Carried]:  # fmt: skip
    """What is known at the end of the log, or at the moment that the command names; a location that has slots of the database
    knows most of it already. Raises MissingHistory where the log at hand does not reach there; and where a transaction is open
    that the log does not hold from its beginning, and no server writes that could end it."""
    name, database, moment = command.source, command.database, command.moment
    if moment and command.catalog is None:
        raise UsageError(
            "a slot that begins in the past needs a catalog state of before",
            hint="Give one that was captured earlier (--catalog).",
        )
    if location and command.catalog is None and (known := known_at_end(location, database, source, name, runner)):
        return _settled(*known)
    state = command.catalog or capture(source, runner, database)
    opened = open_log(source, database, runner=runner, catalog=state)
    first = opened.read_through()
    carried, whole = opened.begin(first.outlines)
    if moment:
        _check_not_before(name, runner, moment, carried.known_from, oldest=Lsn(max(carried.known_from, whole.start)))
        opened.check_holds(first.outlines, moment.lsn)
    del first.outlines
    log = _PiledStretches(source, runner, first.pile)
    carried = _over(source, runner, carried, log.upto(moment.place_in if moment else _nowhere), window)
    if moment and not log.found and carried.lsn != moment.lsn:
        raise MissingHistory(
            f"no transaction commits at {moment.text} or later", hint=f"The log at hand ends at {carried.lsn}.", lsn=carried.lsn
        )
    while carried.waits_for and not log.is_read:
        carried = _over(source, runner, carried, log.upto(partial(_behind_ends, carried.waits_for)), window)
    carried, source = yield from _await_ends(name, source, runner, carried, warn)
    return _settled(carried, source)


def _check_not_before(name: SourceName, runner: Runner, moment: PastMoment, known_from: Lsn, *, oldest: Lsn) -> None:
    """Raise MissingHistory where the moment lies before all that can be read: what tables were is not known there, so nothing
    that commits from there to `known_from` could ever be given. A time lies before that if something committed between the
    two."""
    if moment.lsn is None:
        since = Lsn(max(0, known_from - known_from % PAGE_SIZE - STRETCH_BYTES))
        segments = open_segments(files_of(name), since)
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


def _settled(carried: Carried, source: Source) -> Carried:
    """On the timeline on which all that it is made of can be read."""
    segments = source.segments
    reached = max(carried.lsn, carried.state.lsn)
    fingerprint = fingerprint_in(segments, carried.lsn, carried.restart_lsn)
    return replace(carried, state=replace(carried.state, timeline=timeline_at(segments, reached)), fingerprint=fingerprint)


@dataclass(slots=True)
class _PiledStretches:
    """The stretches that a first pass has read, each given once. `found` says whether the place that was asked for last was
    there."""

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
    """Accept no place but the end of the log."""


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


def _await_ends(
    name: SourceName, source: Source, runner: Runner, carried: Carried, warn: Callable[[str], None]
) -> Steps[tuple[Carried, Source]]:  # fmt: skip
    """What is carried on from where the last transaction has ended whose beginning the log does not hold; and the source as it is there."""
    log = FollowedLog.behind(carried, name, source)
    named: list[int] = []
    while carried.waits_for:
        is_over = source.directory is None or source.directory.is_abandoned
        if is_over and not is_received(name):
            raise MissingHistory(
                f"no consistent point: {count_of(len(carried.waits_for), 'transaction', 'are')} open whose beginning this log does not hold",
                hint="Create the slot with a catalog state that was captured earlier (--catalog), or give older WAL.",
                context=f"transaction {carried.waits_for[0] & 0xFFFFFFFF}, at {carried.lsn}",
                lsn=carried.lsn,
            )
        if carried.waits_for != named:
            warn(_waiting_for(named := carried.waits_for))
        parts = list(log.look(runner))
        if not parts:
            yield log.nothing_new
            continue
        carried = carry(log.source, runner, carried, [part for _, part in parts])
        log.needed_from = carried.restart_lsn
    return carried, log.source


def _waiting_for(xids: Sequence[int]) -> str:
    """Where PostgreSQL logs for how many it waits (`snapbuild.c`)."""
    named = ", ".join(str(xid & 0xFFFFFFFF) for xid in xids[:_NAMED]) + (", …" if len(xids) > _NAMED else "")
    return f"waiting for transactions to end whose beginning is not in the log at hand: {named}"
