"""`AcquiredSlot` is a slot in use: it decodes what is new window by window, and confirms what its consumer has (`replication/logical/logical.c`).

In: a slot of a state location, which nobody else can acquire meanwhile. Out: windows of what its consumer has not confirmed, one after the other.
Only `confirm` moves confirmed_flush_lsn, when the consumer asks for it, and the slot's file is synced when it returns. Now and then a mark is
saved, from which planning can go on: who acquires the slot next need not read the log from restart_lsn on.

Nothing here waits, and nothing knows of signals or threads: `poll` gives a window, or says what to wait for (`replication.waiting`). One thing at a
time is asked of an `AcquiredSlot`, from whichever thread. So a server with an event loop polls, decodes and confirms in threads, and awaits an
`AsyncWaiter` in between; it polls again when the client has taken the window: a slow one holds back itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import field, replace
from itertools import chain
from types import TracebackType
from typing import Self

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal, MissingHistory, UsageError
from tailrace.model import Lsn, Stretch
from tailrace.pipeline.decoding_range import DecodingRange
from tailrace.pipeline.following import FollowedLog, NothingNew, Steps, WalRemoved, weight_of
from tailrace.pipeline.pipeline import Pipeline
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import scan_stretch
from tailrace.pipeline.windows import carry
from tailrace.plan.carried import Carried
from tailrace.plan.decodable import ends_for
from tailrace.plan.demand import Demand
from tailrace.replication.from_mark import sharing
from tailrace.replication.look_at_log import LookAtLog, Windows
from tailrace.replication.next_window import NO_LIMIT, Given, Limit, NextWindow, WindowPlace
from tailrace.replication.same_log import check_same, check_slot, fingerprint_in, fitting_mark, slot_in_words
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.timelines import check_taken, timeline_at
from tailrace.slots.slot import WAL_REMOVED, Slot, invalidated
from tailrace.sources.source import Source
from tailrace.sources.source_name import is_stored, path_of
from tailrace.storage.segments import Segments
from tailrace.storage.synchronous_slots import is_synchronous
from tailrace.storage.wakeup import force_reply
from tailrace.transactions.blocks import StreamedByXid
from tailrace.transactions.commit_or_abort import NEVER
from tailrace.wal.index import Index
from tailrace.wal.log_fingerprint import LogFingerprint
from tailrace.window import WindowSize, windows

MARK_EVERY = 64 << 20
"""Bytes of WAL between two marks of a slot whose owner goes on."""
_WORTH_A_MARK = 1 << 20


@dataclass(slots=True)
class AcquiredSlot:
    """`slot` is as it was saved last; what commits before `read_upto` has been taken, or was confirmed before. Of transactions
    in progress `streamed` has been taken; who acquires the slot next takes them from their beginning again, as on the server."""

    location: SlotLocation
    slot: Slot
    runner: Runner
    window: WindowSize
    _held: ExitStack
    _carried: Carried
    _log: FollowedLog
    read_upto: Lsn = field(init=False)
    _marked: Lsn = field(init=False)
    _marked_on: int = field(init=False)
    streamed: StreamedByXid = field(default_factory=dict)
    _at_confirmed: Carried | None = None
    _ahead: list[tuple[Source, Index]] = field(default_factory=list)
    """What `end_of_batch` has seen, and nobody has taken."""
    _fingerprints: dict[Lsn, LogFingerprint | None] = field(default_factory=dict)
    """By positions that were taken, and are not confirmed yet."""
    _look: LookAtLog | None = None
    _given: Given | None = None

    def __post_init__(self) -> None:
        self._marked = self._carried.lsn
        self._marked_on = self._carried.state.timeline
        self._log.check = self._check
        self.read_upto = self.slot.confirmed_flush_lsn

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.release()

    @property
    def major(self) -> int:
        """The major of the server that wrote the log."""
        return self._segments.major

    @property
    def gap(self) -> str:
        """What is missing where the log ends for now (`Segments.gap`)."""
        return self._segments.gap

    @property
    def written_upto(self) -> Lsn:
        """No record that was at hand when the source was opened begins here or behind."""
        return self._segments.written_upto

    def given_upto(self, nothing: NothingNew) -> Lsn:
        """Up to where all was given, or passed over, once a look found nothing. Less than `read_upto` if that is ahead of the log (`go_to`)."""
        seen = self._carried.lsn if nothing.end is None else max(nothing.end.lsn, self._carried.lsn)
        return Lsn(min(self.read_upto, max(seen, self.slot.confirmed_flush_lsn)))

    @property
    def _segments(self) -> Segments:
        return self._log.source.segments

    # -- what is new ---------------------------------------------------------------------------------------------------------------------

    def poll(self, demand: Demand, limit: Limit = NO_LIMIT) -> Pipeline | NothingNew:
        """The next window of what is new; the one before counts as taken then. Who stops amid a window confirms as far as it
        got, and releases."""
        self._take_given()
        upto = Lsn(NEVER - 1) if limit.upto is None else limit.upto
        if self.read_upto >= upto:
            self._end_look()
            return NothingNew(0.0)  # nothing to wait for
        found = self.next_window(demand, limit)
        return found if isinstance(found, NothingNew) else self.give(found)

    def place(self, demand: Demand, size: WindowSize) -> WindowPlace:
        """Where the next window begins; the one before counts as taken."""
        self._take_given()
        return WindowPlace.of(self._segments, self.slot.database_oid, self._carried, self.read_upto, self.streamed, demand, size)

    def next_window(self, demand: Demand, limit: Limit, nothing: NothingNew | None = None) -> NextWindow | NothingNew:
        """It, planned and not given. As long as the log still ends as `nothing` has it, nobody looks for more."""
        if nothing is not None:
            self._log.nothing_new = nothing
        if self._look is None or self._look.limit != limit:
            self._end_look()
            self._look = LookAtLog(limit, self._windows(limit))
        upto = Lsn(NEVER - 1) if limit.upto is None else limit.upto
        try:
            for parts in self._look.rest():
                if parts[-1][1].next_lsn > self.read_upto:
                    wanted = DecodingRange(self.read_upto, upto, demand, is_strict=True, streamed=self.streamed)
                    return NextWindow.of(self.runner, self._carried, parts, wanted)
                # confirmed before, so that it is only planned
                self._carried = carry(parts[-1][0], self.runner, self._carried, [part for _, part in parts])
                self._log.needed_from = self._carried.restart_lsn
        except BaseException:
            self._end_look()
            raise
        self._end_look()
        return self._log.nothing_new if limit.cut is None else self.next_window(demand, replace(limit, cut=None))

    def empty_window(self, demand: Demand) -> Pipeline:
        """Where the log ends, once a look has found nothing new there: what the catalogs are, and no transaction."""
        wanted = DecodingRange(self.read_upto, Lsn(NEVER - 1), demand, is_strict=True, streamed=self.streamed)
        return NextWindow.empty(self._log.source, self.runner, self._carried, wanted).window

    def looking_ahead(self) -> AbstractContextManager[None]:
        """Within the block, in which the window that was given is made use of, the log of the next is read. Nothing is asked of the slot there."""
        return nullcontext() if self._look is None or self._given is None else self._look.reading_ahead()

    def goes_on_with(self, planned: NextWindow) -> bool:
        """Whether this slot can be given what was planned for another at this place; where its log seems to be away, it has to look itself."""
        if planned.source is not self._log.source:
            try:
                self._check(planned.source.segments)
            except (CorruptWal, MissingHistory):
                return False
        self._end_look()
        self._log.source = planned.source
        self._log.back_to(planned.given.carried.lsn, planned.given.carried.last)
        return True

    def give(self, planned: NextWindow) -> Pipeline:
        self._given = planned.given
        return replace(planned.window, runner=self.runner)

    def _take_given(self) -> None:
        given, self._given = self._given, None
        if given is None:
            return
        self.read_upto = max(self.read_upto, given.upto)
        self.slot = replace(self.slot, statistics=self.slot.statistics + given.statistics)
        self.fingerprint_at(self.read_upto)
        if given.is_whole:
            self._carried, self.streamed = given.carried, given.streamed
            self._log.needed_from = self._carried.restart_lsn
        else:
            self._end_look()

    def _end_look(self) -> None:
        """Forget the windows that were planned and not taken: they are planned again."""
        given, self._given = self._given, None
        if self._look is not None:
            self._look.windows.close()
            self._look = None
        elif given is None:
            return
        self._log.back_to(self._carried.lsn, self._carried.last)

    def end_of_batch(self, size: WindowSize) -> Lsn:
        """Where what can be taken next ends, if it is to be one window of this size; `read_upto` if nothing is new. To poll up
        to there gives it."""
        self._end_look()
        for parts in windows(self._news(), weight_of, size):
            indexes = [part for _, part in parts]
            if indexes[-1].next_lsn > self.read_upto:
                self._ahead = parts
                # The stretch behind, by which a window is known to be full, is new again.
                last = next((part.last for part in reversed(indexes) if part.records), self._carried.last)
                self._log.back_to(indexes[-1].stretch.stop, last)
                return Lsn(indexes[-1].next_lsn)
            self._carried = carry(parts[-1][0], self.runner, self._carried, indexes)
        return self.read_upto

    def _windows(self, limit: Limit) -> Windows:
        """What is new, up to the stretch in which the limit lies. That one is a window of its own, since it will have to be
        planned again."""
        for parts in windows(self._news(limit.upto, limit.cut), weight_of, limit.window or self.window):
            if limit.upto is not None and len(parts) > 1 and parts[-1][1].next_lsn > limit.upto:
                yield parts[:-1]
                yield parts[-1:]
            else:
                yield parts

    def _news(self, upto: Lsn | None = None, cut: Lsn | None = None) -> Iterator[tuple[Source, Index]]:
        """What is new, up to the stretch in which `upto` lies, or up to `cut`. Where decoding ends for the slot, so does what is new; who
        looks again from there on has the error. Raises MissingHistory (55000) once WAL that the slot needs is gone; it then is
        lost for good."""
        ahead, self._ahead = self._ahead, []
        taken = self.read_upto
        try:
            for source, part in chain(ahead, self._log.look(self.runner, sharing(self.location, self._segments), cut)):
                slot = self.slot
                end = ends_for([part], slot.database_oid, slot.database, slot.confirmed_flush_lsn)
                if end is not None and (upto is None or upto > end.at):
                    self._log.back_to(part.stretch.start, part.previous)
                    if taken >= end.at:
                        raise end.error
                    if part.first < end.at:
                        before = scan_stretch(source.segments, (), Stretch(part.stretch.start, end.at))
                        self._log.back_to(end.at, before.last)
                        yield source, before
                    return
                yield source, part
                if upto is not None and part.next_lsn >= upto:
                    return
        except WalRemoved as error:
            self.slot = replace(self.slot, invalidation_reason=WAL_REMOVED)
            self.location.save(self.slot)
            raise invalidated(self.slot) from error

    # -- where it stands -----------------------------------------------------------------------------------------------------------------

    def go_to(self, lsn: Lsn) -> None:
        """What commits before `lsn` counts as taken, and nothing else, though it is not confirmed: a query's checkpoint says so."""
        if lsn < self.slot.confirmed_flush_lsn:
            raise UsageError(
                f'replication slot "{self.slot.name}" has confirmed {self.slot.confirmed_flush_lsn}, which is behind {lsn}',
                hint="Somebody else consumed it. Begin with a new slot, and a new checkpoint.", sqlstate="55000", lsn=lsn,
            )  # fmt: skip
        if lsn != self.read_upto or self._given is not None:
            self._end_look()
        if lsn < self.read_upto:
            self._ahead = []
            self._carried = fitting_mark(self.location, self.slot.database_oid, self.slot.confirmed_flush_lsn, self._segments)
            self._log.back_to(self._carried.lsn, self._carried.last)
            self.streamed = {}
        self.read_upto = lsn

    def confirm(self, lsn: Lsn) -> None:
        """What commits before `lsn` will not come again, even after a crash."""
        if self._given is not None and lsn >= self._given.upto:
            self._take_given()
        if lsn > self.read_upto and self._given is None:
            self._end_look()
        self.read_upto = max(lsn, self.read_upto)
        if self._carried.lsn <= lsn:
            self._at_confirmed = self._carried
        marked = self._mark(MARK_EVERY)
        is_news = lsn > self.slot.confirmed_flush_lsn
        if is_news or self.slot.fingerprint is None:
            lsn = max(lsn, self.slot.confirmed_flush_lsn)
            self._segments.sync(lsn)
            fingerprint, timeline = self.fingerprint_at(lsn) or self.slot.fingerprint, timeline_at(self._segments, lsn)
            self.slot = replace(self.slot, confirmed_flush_lsn=lsn, timeline=timeline, fingerprint=fingerprint)
            self._fingerprints = {at: each for at, each in self._fingerprints.items() if at >= lsn}
        self.location.save(self.slot)
        if is_news and not is_stored(self.slot.source):
            force_reply(path_of(self.slot.source))
        if marked:
            self.location.prune()

    @property
    def is_synchronous(self) -> bool:
        """Whether the server may hold up a COMMIT until this slot confirms it."""
        return is_synchronous(self.location, self.slot.name)

    def give_prepared(self, start: Lsn) -> Lsn:
        """From where a stream starts on, or from what is confirmed, transactions come at PREPARE; where that is (`CreateDecodingContext`)."""
        self.slot = replace(self.slot, two_phase=True, two_phase_at=max(start, self.slot.confirmed_flush_lsn))
        self.location.save(self.slot)
        return self.slot.two_phase_at

    def advance(self, upto: Lsn | None) -> Steps[Lsn]:
        """Confirm what commits before `upto`, or all there is, without having taken it; where the slot then stands. Raises
        UsageError for a position that it has passed (`pg_replication_slot_advance`)."""
        if upto is not None:
            self.check_ahead(upto)
        yield from self._pass_over(upto, confirms=True)
        return self.slot.confirmed_flush_lsn

    def check_ahead(self, upto: Lsn) -> None:
        """Raise UsageError for a position that the slot has passed."""
        if upto < (confirmed := self.slot.confirmed_flush_lsn):
            raise UsageError(f"cannot advance replication slot to {upto}, minimum is {confirmed}", sqlstate="55000", lsn=upto)

    def reach(self, upto: Lsn) -> Steps[Lsn]:
        """Where `advance` would get, which then needs no more than to `confirm` it."""
        return self._pass_over(upto, confirms=False)

    def _pass_over(self, upto: Lsn | None, *, confirms: bool) -> Steps[Lsn]:
        """What looks like damage is looked at until that is certain."""
        self._end_look()
        while True:
            for parts in self._windows(Limit(upto)):
                carried = carry(parts[-1][0], self.runner, self._carried, [part for _, part in parts])
                if is_beyond := upto is not None and carried.lsn > upto:
                    self._log.back_to(self._carried.lsn, self._carried.last)
                else:
                    self._carried = carried
                reached = Lsn(min(carried.lsn, NEVER if upto is None else upto))
                if confirms:
                    self.confirm(reached)
                if is_beyond:
                    return reached
            if not self._log.nothing_new.in_doubt:
                return max(self._carried.lsn, self.slot.confirmed_flush_lsn)
            yield self._log.nothing_new

    def release(self) -> None:
        """The slot is free again, once it is written down how far it is (`ReplicationSlotRelease`)."""
        with self._held:
            self._end_look()
            marked = self._mark(_WORTH_A_MARK)
            self.slot = replace(self.slot, inactive_since=int(time.time() * 1e6))
            self.location.save(self.slot)
            if marked:
                self.location.prune()

    def _mark(self, distance: int) -> bool:
        """Save a mark of what is confirmed, if at least `distance` bytes of WAL lie between it and the mark before, and move the
        slot's `restart_lsn` there; the caller saves the slot. Returns whether it did."""
        if (carried := self._at_confirmed) is None:
            return False
        timeline = timeline_at(self._segments, carried.lsn)
        if carried.lsn - self._marked < distance and timeline == self._marked_on:
            return False
        fingerprint = self.fingerprint_at(carried.lsn)
        self.location.save_mark(replace(carried, state=replace(carried.state, timeline=timeline), fingerprint=fingerprint))
        self._marked, self._marked_on = carried.lsn, timeline
        self.slot = replace(self.slot, restart_lsn=carried.restart_lsn)
        # Once that is written, what lies before may be removed, and this consumer must not ask for it.
        self._log.needed_from = max(self._log.needed_from, carried.restart_lsn)
        return True

    # -- whether it is the same log ------------------------------------------------------------------------------------------------------

    def fingerprint_at(self, lsn: Lsn) -> LogFingerprint | None:
        """What stands in the log before `lsn`, up to which it was taken; None where it begins there, or is not at hand any
        more. Raises where it is another log by now than the one that was read last."""
        if lsn not in self._fingerprints:
            known = [each for each in self._fingerprints.values() if each is not None]
            self.check_fingerprint(known[-1] if known else self.slot.fingerprint)
            try:
                self._fingerprints[lsn] = fingerprint_in(self._segments, lsn, self.slot.restart_lsn)
            except MissingHistory:  # an archive is being cleaned up
                return None
        return self._fingerprints[lsn]

    def check_fingerprint(self, fingerprint: LogFingerprint | None, whose: str = "") -> None:
        """Raise unless the log is the one of which somebody who took all up to there remembers this; in words `whose` memory
        it is, if not the slot's."""
        self._check_same(self._segments, fingerprint, "been given all before" if whose else "given all before", whose)

    def _check(self, segments: Segments) -> None:
        """Raise where the log has taken another way than what was read of it."""
        check_slot(self.location, self.slot, segments)
        before = timeline_at(self._segments, self.read_upto)
        check_taken(self.slot, segments, before, self.read_upto, "read")
        if (fingerprint := self._fingerprints.get(self.read_upto)) is not None:
            self._check_same(segments, fingerprint, "read")

    def _check_same(self, segments: Segments, fingerprint: LogFingerprint | None, done: str, whose: str = "") -> bool:
        slot, whose = self.slot, whose or slot_in_words(self.slot)
        return check_same(whose, segments, fingerprint, slot.restart_lsn, done, self.location, slot.database_oid)
