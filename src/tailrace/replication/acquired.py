"""A slot's consumer: it takes what is new, says what it has, and comes back later (`pg_logical_slot_get_changes`, `START_REPLICATION`).

In: a slot that the caller owns. Out: windows of what it has not confirmed, one after the other; what is confirmed is on disk when `confirm` returns.
From where planning goes on is written down as a mark now and then, so that a restart need not read the log from the slot's beginning.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path

from tailrace.errors import MissingHistory, UsageError
from tailrace.model import Lsn, Stretch
from tailrace.pipeline import Pipeline
from tailrace.pipeline.asked import Asked
from tailrace.pipeline.following import Followed, WalRemoved, open_patiently, weight_of
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import scan_stretch
from tailrace.pipeline.windows import carry, step
from tailrace.plan.carried import Carried
from tailrace.plan.decodable import ends_for
from tailrace.plan.demand import Demand
from tailrace.replication.from_mark import sharing
from tailrace.replication.same_log import check_same, fitting_mark, stood_in
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.timelines import check_line, check_taken, timeline_at
from tailrace.slots.slot import WAL_REMOVED, Slot
from tailrace.storage.segments import Segments
from tailrace.storage.source import Source
from tailrace.transactions.blocks import StreamedByXid
from tailrace.transactions.fates import NEVER
from tailrace.wal.index import Index
from tailrace.wal.stood import Stood
from tailrace.window import WindowSize, windows

MARK_EVERY = 64 << 20
"""Bytes of WAL between two marks of a consumer that goes on."""
_WORTH_A_MARK = 1 << 20
_MOMENT = 0.1


@contextmanager
def consuming(
    location: SlotLocation, name: str, runner: Runner, window: WindowSize | None = None
) -> Iterator[Consumer]:  # fmt: skip
    """The consumer of a slot, which is nobody else's until the block ends. Raises UsageError (55006) while it is."""
    with location.owned(name) as slot, _consumer_of(location, slot, runner, window) as consumer:
        yield consumer


@contextmanager
def consuming_new(
    location: SlotLocation, slot: Slot, place: Carried, runner: Runner, window: WindowSize | None = None
) -> Iterator[Consumer]:  # fmt: skip
    """The same of a slot that begins here, at `place`, and that nobody else has had; one that is temporary is dropped where the block ends."""
    with location.created(slot, place) as created, _consumer_of(location, created, runner, window) as consumer:
        yield consumer


@contextmanager
def consuming_owned(location: SlotLocation, slot: Slot, runner: Runner, window: WindowSize | None = None) -> Iterator[Consumer]:
    """The same of a slot that the caller owns already, and goes on to own."""
    with _consumer_of(location, slot, runner, window) as consumer:
        yield consumer


@contextmanager
def _consumer_of(location: SlotLocation, slot: Slot, runner: Runner, window: WindowSize | None) -> Iterator[Consumer]:
    if slot.invalidation_reason:
        raise _lost(slot)
    source = open_patiently(Path(slot.source), slot.restart_lsn, partial(_check_slot, location, slot))
    if slot.restart_lsn < source.segments.first_lsn:
        location.save(replace(slot, invalidation_reason=WAL_REMOVED))
        raise _lost(slot)
    if not _is_same(location, slot, source.segments):
        location.warn(
            f'replication slot "{slot.name}" has confirmed {slot.confirmed_flush_lsn}, and the log begins behind the record before that by '
            "now: nobody can tell whether it is the one that was read"
        )
    carried = fitting_mark(location, slot.database_oid, slot.confirmed_flush_lsn, source.segments)
    followed = Followed.behind(carried, Path(slot.source), source)
    consumer = Consumer(location, slot, runner, window or runner.window, carried, followed)
    try:
        yield consumer
    finally:
        consumer.rest()


@dataclass(slots=True)
class Consumer:
    """`slot` is as it was saved last; what commits before `read_upto` has been taken, or was confirmed before. Of transactions in progress
    `streamed` has been taken; a new consumer takes them from their beginning again, as on the server."""

    location: SlotLocation
    slot: Slot
    runner: Runner
    window: WindowSize
    _carried: Carried
    _followed: Followed
    read_upto: Lsn = field(init=False)
    _marked: Lsn = field(init=False)
    _marked_on: int = field(init=False)
    streamed: StreamedByXid = field(default_factory=dict)
    _at_confirmed: Carried | None = None
    _ahead: list[tuple[Source, Index]] = field(default_factory=list)
    """What `batch` has seen, and nobody has taken."""
    _stood: dict[Lsn, Stood | None] = field(default_factory=dict)
    """By positions that were taken, and are not confirmed yet."""

    def __post_init__(self) -> None:
        self._marked = self._carried.lsn
        self._marked_on = self._carried.state.timeline
        self._followed.check = self._check
        self.read_upto = self.slot.confirmed_flush_lsn

    @property
    def major(self) -> int:
        """Of the server whose log it is."""
        return self._followed.source.segments.major

    @property
    def gap(self) -> str:
        """What is missing where the log ends for now, though there is more behind; empty if nothing is. It may be on its way."""
        segments = self._followed.source.segments
        if not segments.gaps:
            return ""
        missing, present = segments.gaps[0]
        name = Path(segments.name_at(missing * segments.segment_size)).name
        return f'WAL segment {name} is missing, but "{segments.by_number[present].path}" is there: the log ends at {segments.stop_lsn} for now'

    @property
    def written_upto(self) -> Lsn:
        """No record that was at hand when the source was opened begins here or behind."""
        segments = self._followed.source.segments
        last = segments.by_number[segments.stop_lsn // segments.segment_size - 1]
        if last.settled is None:
            return segments.stop_lsn
        return Lsn(segments.stop_lsn - segments.segment_size + last.settled + len(last.filling))

    def go_to(self, lsn: Lsn) -> None:
        """What commits before `lsn` counts as taken, and nothing else, though it is not confirmed: a query's checkpoint says so."""
        if lsn < self.slot.confirmed_flush_lsn:
            raise UsageError(
                f'replication slot "{self.slot.name}" has confirmed {self.slot.confirmed_flush_lsn}, which is behind {lsn}',
                hint="Somebody else consumed it. Begin with a new slot, and a new checkpoint.",
                sqlstate="55000",
                lsn=lsn,
            )
        if lsn < self.read_upto:
            self._ahead = []
            self._carried = fitting_mark(
                self.location, self.slot.database_oid, self.slot.confirmed_flush_lsn, self._followed.source.segments
            )
            self._followed.back_to(self._carried.lsn, self._carried.last)
            self.streamed = {}
        self.read_upto = lsn

    def batch(self, size: WindowSize) -> Lsn:
        """Where what can be taken next ends, if it is to be one window of this size; `read_upto` if nothing is new. `look(demand, upto)` gives it."""
        for parts in windows(self._news(), weight_of, size):
            indexes = [part for _, part in parts]
            if indexes[-1].next_lsn > self.read_upto:
                self._ahead = parts
                # The stretch behind, by which a window is known to be full, is new again.
                last = next((part.last for part in reversed(indexes) if part.records), self._carried.last)
                self._followed.back_to(indexes[-1].stretch.stop, last)
                return Lsn(indexes[-1].next_lsn)
            self._carried = carry(parts[-1][0], self.runner, self._carried, indexes)
        return self.read_upto

    def stood_at(self, lsn: Lsn) -> Stood | None:
        """What stands in the log before `lsn`, up to which it was taken; None where it begins there, or is not at hand any more. Raises where it is
        another log by now than the one that was read last."""
        if lsn not in self._stood:
            known = [each for each in self._stood.values() if each is not None]
            self.check_stood(known[-1] if known else self.slot.stood)
            try:
                self._stood[lsn] = stood_in(self._followed.source.segments, lsn, self.slot.restart_lsn)
            except MissingHistory:  # an archive is being cleaned up
                return None
        return self._stood[lsn]

    def check_stood(self, stood: Stood | None, whose: str = "") -> None:
        """Raise unless the log is the one of which somebody who took all up to there remembers this; in words `whose` memory it is, if not the
        slot's."""
        self._check_same(self._followed.source.segments, stood, "been given all before" if whose else "given all before", whose)

    def look(self, demand: Demand, upto: Lsn | None = None) -> Iterator[Pipeline]:
        """What is new, window by window; nothing if nothing is. Transactions that commit at `upto` or later are left for another time. A window is
        taken once the next one is asked for."""
        asked = Asked(self.read_upto, Lsn(NEVER - 1) if upto is None else upto, demand, is_strict=True, streamed=self.streamed)
        try:
            for parts in self._windows(asked.upto):
                source, indexes = parts[-1][0], [part for _, part in parts]
                if indexes[-1].next_lsn <= asked.start:  # confirmed before, so that it is only planned
                    self._carried = carry(source, self.runner, self._carried, indexes)
                else:
                    carried, window = step(source, self.runner, self._carried, indexes, asked)
                    yield window
                    self.read_upto = min(carried.lsn, asked.upto)
                    self.stood_at(self.read_upto)
                    if carried.lsn > asked.upto:
                        return
                    self._carried = carried
                    self.streamed = window.blocks.after
                    asked = replace(asked, streamed=self.streamed)
                self._followed.needed_from = self._carried.restart_lsn
        finally:
            self._followed.back_to(self._carried.lsn, self._carried.last)

    def take(self, demand: Demand, upto: Lsn | None = None) -> Iterator[Pipeline]:
        """As `look`, for who looks once: what seems damaged, or away, is looked at until that is certain, and is raised then."""
        yield from self.look(demand, upto)
        while self._followed.in_doubt and (upto is None or self.read_upto < upto):
            time.sleep(_MOMENT)
            yield from self.look(demand, upto)

    def confirm(self, lsn: Lsn) -> None:
        """What commits before `lsn` will not come again, even after a crash."""
        self.read_upto = max(lsn, self.read_upto)
        if self._carried.lsn <= lsn:
            self._at_confirmed = self._carried
        marked = self._mark(MARK_EVERY)
        if lsn > self.slot.confirmed_flush_lsn or self.slot.stood is None:
            lsn = max(lsn, self.slot.confirmed_flush_lsn)
            timeline = timeline_at(self._followed.source.segments, lsn)
            stood = self.stood_at(lsn) or self.slot.stood
            self.slot = replace(self.slot, confirmed_flush_lsn=lsn, timeline=timeline, stood=stood)
            self._stood = {at: each for at, each in self._stood.items() if at >= lsn}
        self.location.save(self.slot)
        if marked:
            self.location.prune()

    def give_prepared(self) -> Lsn:
        """From what is confirmed on, transactions come at PREPARE; where that is."""
        self.slot = replace(self.slot, two_phase=True, two_phase_at=self.slot.confirmed_flush_lsn)
        self.location.save(self.slot)
        return self.slot.two_phase_at

    def advance(self, upto: Lsn | None) -> Lsn:
        """Confirm what commits before `upto`, or all there is, without having taken it; where the slot then stands. Raises UsageError for a position
        that it has passed (`pg_replication_slot_advance`)."""
        if upto is not None and upto < self.slot.confirmed_flush_lsn:
            raise UsageError(
                f"cannot advance replication slot to {upto}, minimum is {self.slot.confirmed_flush_lsn}",
                sqlstate="55000",
                lsn=upto,
            )
        while self._advanced(upto):
            time.sleep(_MOMENT)
        return self.slot.confirmed_flush_lsn

    def reach(self, upto: Lsn) -> Lsn:
        """Where `advance` would get, which then needs no more than to `confirm` it."""
        while True:
            for parts in self._windows(upto):
                carried = carry(parts[-1][0], self.runner, self._carried, [part for _, part in parts])
                if carried.lsn > upto:
                    self._followed.back_to(self._carried.lsn, self._carried.last)
                    return upto
                self._carried = carried
            if not self._followed.in_doubt:
                return max(self._carried.lsn, self.slot.confirmed_flush_lsn)
            time.sleep(_MOMENT)

    def _advanced(self, upto: Lsn | None) -> bool:
        """Whether to look again, since what was met looks like damage and may be none."""
        for parts in self._windows(upto):
            carried = carry(parts[-1][0], self.runner, self._carried, [part for _, part in parts])
            if upto is not None and carried.lsn > upto:
                self._followed.back_to(self._carried.lsn, self._carried.last)
                self.confirm(upto)
                return False
            self._carried = carried
            self.confirm(carried.lsn)
        return self._followed.in_doubt

    def rest(self) -> None:
        """The consumer goes away for a while."""
        marked = self._mark(_WORTH_A_MARK)
        self.slot = replace(self.slot, inactive_since=int(time.time() * 1e6))
        self.location.save(self.slot)
        if marked:
            self.location.prune()

    def _mark(self, distance: int) -> bool:
        """Write down where planning can go on, if that is so far behind the last place. The slot is not saved with it."""
        carried = self._at_confirmed
        if carried is None:
            return False
        timeline = timeline_at(self._followed.source.segments, carried.lsn)
        if carried.lsn - self._marked < distance and timeline == self._marked_on:
            return False
        stood = self.stood_at(carried.lsn)
        self.location.save_mark(replace(carried, state=replace(carried.state, timeline=timeline), stood=stood))
        self._marked, self._marked_on = carried.lsn, timeline
        self.slot = replace(self.slot, restart_lsn=carried.restart_lsn)
        return True

    def _windows(self, upto: Lsn | None) -> Iterator[list[tuple[Source, Index]]]:
        """What is new, up to the stretch in which `upto` lies. That one is a window of its own, since it will have to be planned again."""
        for parts in windows(self._news(upto), weight_of, self.window):
            if upto is not None and len(parts) > 1 and parts[-1][1].next_lsn > upto:
                yield parts[:-1]
                yield parts[-1:]
            else:
                yield parts

    def _news(self, upto: Lsn | None = None) -> Iterator[tuple[Source, Index]]:
        """What is new, up to the stretch in which `upto` lies. Where decoding ends for the slot, so does what is new; who looks again from there on
        has the error. Raises MissingHistory (55000) once WAL that the slot needs is gone; it then is lost for good."""
        ahead, self._ahead = self._ahead, []
        taken = self.read_upto
        try:
            for source, part in chain(
                ahead, self._followed.look(self.runner, sharing(self.location, self._followed.source.segments))
            ):
                slot = self.slot
                end = ends_for([part], slot.database_oid, slot.database, slot.confirmed_flush_lsn)
                if end is not None and (upto is None or upto > end.at):
                    self._followed.back_to(part.stretch.start, part.previous)
                    if taken >= end.at:
                        raise end.error
                    if part.first < end.at:
                        before = scan_stretch(source.segments, (), Stretch(part.stretch.start, end.at))
                        self._followed.back_to(end.at, before.last)
                        yield source, before
                    return
                yield source, part
                if upto is not None and part.next_lsn >= upto:
                    return
        except WalRemoved as error:
            self.slot = replace(self.slot, invalidation_reason=WAL_REMOVED)
            self.location.save(self.slot)
            raise _lost(self.slot) from error

    def _check(self, segments: Segments) -> None:
        """Raise where the log has taken another way than what was read of it."""
        _check_slot(self.location, self.slot, segments)
        before = timeline_at(self._followed.source.segments, self.read_upto)
        check_taken(self.slot, segments, before, self.read_upto, "read")
        if (stood := self._stood.get(self.read_upto)) is not None:
            self._check_same(segments, stood, "read")

    def _check_same(self, segments: Segments, stood: Stood | None, done: str, whose: str = "") -> bool:
        slot = self.slot
        return check_same(
            whose or f'replication slot "{slot.name}"', segments, stood, slot.restart_lsn, done, self.location, slot.database_oid
        )


def _check_slot(location: SlotLocation, slot: Slot, segments: Segments) -> None:
    """Raise unless the log goes on from where the slot is, and is the one that was read up to there."""
    check_line(slot, segments)
    _is_same(location, slot, segments)


def _is_same(location: SlotLocation, slot: Slot, segments: Segments) -> bool:
    """Raise where the log is another one than was read. False where the record before what is confirmed is gone, so that nobody can tell."""
    whose = f'replication slot "{slot.name}"'
    return check_same(whose, segments, slot.stood, slot.restart_lsn, "confirmed", location, slot.database_oid)


def _lost(slot: Slot) -> MissingHistory:
    return MissingHistory(
        f'can no longer access replication slot "{slot.name}"',
        hint="Drop the slot, and create it again: it then begins where the log is now.",
        context=f'the slot was invalidated due to "{WAL_REMOVED}": it needs WAL from {slot.restart_lsn}',
        sqlstate="55000",
        lsn=slot.restart_lsn,
    )
