"""A log that grows, read from one position on: what is new, as often as it is asked for.

In: a data directory whose server may be running, its pg_wal, or an archive, also one in a store, into which segments come. Out: indexes, each of them
whole: where the log ends today another stretch begins tomorrow, at that very record. Where there is nothing, `NothingNew` says
when to look again: nobody waits here (`replication.waiting` does).

A walsender sends what has been flushed; files may be ahead of that by what the server has written and not yet synced
(docs/guides/keep_a_slot.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import field, replace
from pathlib import Path
from typing import TypeVar

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal, MissingHistory
from tailrace.model import Lsn, Stretch
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import AS_SUITS, Scanning, cut_at, scan_stretch, scanned_stretches
from tailrace.plan.carried import Carried
from tailrace.plan.whole_log import begins_with_zeros, check_follows, ended_before
from tailrace.sources.log_growth import LogEnd, StoredEnd, StoredTail, Tail, end_of
from tailrace.sources.source import Source
from tailrace.sources.source_name import SourceName, is_stored, path_of
from tailrace.storage.segments import Segments
from tailrace.storage.spool import seal
from tailrace.wal.index import Index
from tailrace.wal.merge import ended_here
from tailrace.window import Weight

POLL = 0.05
"""Seconds between two looks at a log in which nothing is new."""
LIST_EVERY = 2.0
"""The same where each look is a listing of a store, which takes its time and is paid for. Segments come there when they are whole."""
PAUSES = 3
"""Looks that follow one another begin so many times as far apart as one takes: it costs the same whether it finds one transaction or a hundred."""
_PATIENCE = 3.0
"""How many seconds what looks like damage must stay so. A server that writes, or somebody who copies segments, may be half-way."""
_TRUSTED = 5.0
"""For how many seconds a tail that stays the same is believed, whatever a file system makes of times."""
_LISTING_TRUSTED = 300.0
"""The same of what a store lists, which has the tags of objects."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class NothingNew:
    """The log has no more for now. It is to be looked at again at `again_at` (of time.monotonic), or sooner once the `tail` at
    its `end`, as it was before this look, is another; or once whoever receives the log at `path` has more than there was at
    `since`, when this look began. But never before `not_before`. One that is `in_doubt` has met what looks like damage, or like
    something that is away, and it is too early to say. Of an archive in a store the tail is compared by who looks again, and
    believed until `believed_until`."""

    again_at: float
    end: LogEnd | StoredEnd | None = None
    tail: Tail | StoredTail | None = None
    in_doubt: bool = False
    path: Path | None = None
    since: float = 0.0
    not_before: float = 0.0
    believed_until: float = 0.0

    @classmethod
    def for_a_moment(cls, source: SourceName = "", *, in_doubt: bool = False) -> NothingNew:
        """Nothing tells sooner than another look whether there is more."""
        return cls(time.monotonic() + (LIST_EVERY if is_stored(source) else POLL), in_doubt=in_doubt)

    @classmethod
    def until_listed(cls, end: StoredEnd, tail: StoredTail | None) -> NothingNew:
        """Of a look at an archive in a store. One in which nothing was new has a tail."""
        now = time.monotonic()
        return cls(now + LIST_EVERY, end if tail else None, tail, believed_until=now + _LISTING_TRUSTED)

    @classmethod
    def after_look(cls, path: Path, since: float, end: LogEnd | None = None, tail: Tail | None = None) -> NothingNew:
        """Of a look that began then. One in which nothing was new has a tail, and is believed for longer."""
        now = time.monotonic()
        not_before = min(since + PAUSES * (now - since), now + POLL)
        again_at = max(not_before, now + (POLL if tail is None else _TRUSTED))
        return cls(again_at, end, tail, path=path, since=since, not_before=not_before, believed_until=again_at)


Steps = Generator[NothingNew, None, Result]
"""Work that may have to wait for a log, taken step by step: whoever takes a step gets what is to be waited for, or the result
at the end."""


class WalRemoved(MissingHistory):
    """The log begins behind what is needed of it: that does not come back."""


def open_source(name: SourceName, needed_from: Lsn, check: Callable[[Segments], object]) -> Steps[Source]:
    """The source, once it passes `check`: raised is only what stays so for a while."""
    doubt = Doubt()
    while True:
        try:
            return _open(name, needed_from, check)
        except (CorruptWal, MissingHistory) as error:
            yield doubt.bear(error, name)


def _open(name: SourceName, needed_from: Lsn, check: Callable[[Segments], object]) -> Source:
    try:
        source = Source.open(name, needed_from, for_catalogs=False)
    except FileNotFoundError as error:  # a file that was just being removed; or somebody removes the whole directory
        raise MissingHistory(
            f'could not open file "{error.filename}": {error.strerror}', sqlstate="58P01", file=str(error.filename)
        ) from error
    check(source.segments)
    return source


@dataclass(slots=True)
class Doubt:
    """What looks like damage, and since when."""

    met: str = ""
    since: float = 0.0

    def bear(self, error: CorruptWal | MissingHistory, source: SourceName = "") -> NothingNew:
        """When to look again; or raise the error, if it has been the same for long enough. WAL that is not listed is believed
        to be removed at the second look, since a listing may be made while files are renamed."""
        met, now = str(error), time.monotonic()
        patience = POLL / 2 if isinstance(error, WalRemoved) else _PATIENCE
        if self.met != met:
            self.met, self.since = met, now
        elif now - self.since > patience:
            raise error
        return NothingNew.for_a_moment(source, in_doubt=True)


def _any_line(segments: Segments) -> None:
    """Accept a log of any timeline."""


@dataclass(slots=True)
class FollowedLog:
    """What is new of a log, by its `name`, at `lsn`, where the last look ended, behind the record at `last` (0: nobody knows
    which). `needed_from` says from where the log must stay readable. `check` is asked of a log that was opened again whether it
    is still the one that was read. `nothing_new` is what the last look ended with."""

    name: SourceName
    lsn: Lsn
    needed_from: Lsn
    source: Source
    check: Callable[[Segments], object] = _any_line
    last: Lsn = Lsn(0)
    nothing_new: NothingNew = field(default_factory=NothingNew.for_a_moment)
    _doubt: Doubt = field(default_factory=Doubt, repr=False)

    @classmethod
    def behind(cls, carried: Carried, name: SourceName, source: Source) -> FollowedLog:
        """What comes after what is carried."""
        return cls(name, carried.lsn, carried.restart_lsn, source, last=carried.last)

    def look(self, runner: Runner, how: Scanning = AS_SUITS, cut: Lsn | None = None) -> Iterator[tuple[Source, Index]]:
        """The stretches that were not there before, as far as `cut`. Raises CorruptWal where the log is damaged, and MissingHistory where it is
        away, if it stays so; WalRemoved where it no longer has what is needed."""
        # As it is before anything is read: what comes later makes it another.
        since = time.monotonic()
        end = end_of(self.name, self.source.segments, self.lsn, self.last or None)
        tail = end.tail()
        before, self.nothing_new = self.nothing_new, NothingNew.for_a_moment(self.name)
        if tail is not None and (before.end, before.tail) == (end, tail) and time.monotonic() < before.believed_until:
            self.nothing_new = replace(before, again_at=max(before.again_at, self.nothing_new.again_at))
            return
        try:
            source = self.source = self._again()
            segments = source.segments
            size = how.size_for(runner, max(0, segments.stop_lsn - self.lsn))
            for part in scanned_stretches(segments, runner, _cut(cut_at(self.lsn, segments.stop_lsn, size), cut), how):
                if part.stretch.start == self.lsn and self._is_not_written(segments, part):
                    break
                if whole := up_to_its_end(part):
                    _check_goes_on(whole, self.last)
                    self.last = whole.last if whole.records else self.last
                    self.lsn = whole.stretch.stop
                    yield source, whole
                    if self.lsn == cut:
                        return
        except (CorruptWal, MissingHistory) as error:
            self.nothing_new = self._doubt.bear(error, self.name)
            return
        self._doubt = Doubt()
        seal(segments, self.lsn)
        found_nothing = self.lsn == end.lsn
        if isinstance(end, StoredEnd):
            self.nothing_new = NothingNew.until_listed(end, tail if found_nothing and isinstance(tail, StoredTail) else None)
        else:
            known = (end, tail) if found_nothing and tail is not None else ()
            self.nothing_new = NothingNew.after_look(path_of(self.name), since, *known)

    def _is_not_written(self, segments: Segments, part: Index) -> bool:
        """Whether there are zeros where the log ended, at the end of a page. A record that switches to another segment leaves zeros, too."""
        if not begins_with_zeros(part):
            return False
        if self.last // segments.segment_size != (self.lsn - 1) // segments.segment_size:
            return True
        last = scan_stretch(segments, (), Stretch(self.last, Lsn(self.last + 1)))
        return not ended_before(part, last).sealed

    def back_to(self, lsn: Lsn, last: Lsn) -> None:
        """What comes behind is new again."""
        self.lsn, self.last = lsn, last

    def _again(self) -> Source:
        """The source as it is now."""
        if not is_stored(self.name) and not path_of(self.name).is_dir():
            raise MissingHistory(f'could not open directory "{self.name}": No such file or directory', sqlstate="58P01")
        source = _open(self.name, self.needed_from, self.check)
        if self.needed_from < source.segments.first_lsn:
            raise WalRemoved(
                f"requested WAL segment {source.segments.name_at(self.needed_from)} has already been removed",
                context=f"LSN {self.needed_from}",
                lsn=self.needed_from,
            )
        return source


def _cut(stretches: list[Stretch], cut: Lsn | None) -> list[Stretch]:
    """The same, and none lies on both sides of the cut."""
    if cut is None:
        return stretches
    return [
        part
        for each in stretches
        for part in ([Stretch(each.start, cut), Stretch(cut, each.stop)] if each.start < cut < each.stop else [each])
    ]


def weight_of(news: tuple[Source, Index]) -> Weight:
    """What a stretch that `look` gives costs a window."""
    return Weight.of(news[1])


def _check_goes_on(part: Index, last: Lsn) -> None:
    """Raise if the record before is another than the one that was read."""
    try:
        check_follows(part, last)
    except CorruptWal as error:
        error.hint = (
            "What was read of this log before has been written anew since, as after a crash that lost what was not yet on disk."
        )
        raise


def up_to_its_end(part: Index) -> Index | None:
    """The index as one of the stretch up to where the log ends in it; None if it has no record by then."""
    return ended_here(part) if part.sealed or part.records else None
