"""A log that grows, read from one position on: what is new, as often as it is asked for.

In: a data directory whose server may be running, its pg_wal, or an archive into which segments come. Out: indexes, each of them whole: where the log
ends today another stretch begins tomorrow, at that very record.

A walsender sends what has been flushed; files may be ahead of that by what the server has written and not yet synced (docs/guides/keep_a_slot.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tailrace.errors import CorruptWal, MissingHistory
from tailrace.model import Lsn
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import AS_SUITS, Scanning, cut_at, scanned_stretches
from tailrace.plan.carried import Carried
from tailrace.plan.whole_log import check_follows
from tailrace.storage.segments import Segments
from tailrace.storage.source import Source
from tailrace.storage.spool import seal
from tailrace.storage.tail import Tail, tail_at
from tailrace.wal.index import Index
from tailrace.wal.merge import ended_here
from tailrace.window import Weight

_PATIENCE = 3.0
"""How many seconds what looks like damage must stay so. A server that writes, or somebody who copies segments, may be half-way."""
_MOMENT = 0.05
_TRUSTED = 5.0
"""For how many seconds a tail that stays the same is believed, whatever a file system makes of times."""


class WalRemoved(MissingHistory):
    """The log begins behind what is needed of it: that does not come back."""


def open_patiently(path: Path, needed_from: Lsn, check: Callable[[Segments], None]) -> Source:
    """The source, once it passes `check`: raised is only what stays so for a while."""
    doubt = Doubt()
    while True:
        try:
            return _open(path, needed_from, check)
        except (CorruptWal, MissingHistory) as error:
            doubt.bear(error)
            time.sleep(_MOMENT)


def _open(path: Path, needed_from: Lsn, check: Callable[[Segments], None]) -> Source:
    try:
        source = Source.open(path, needed_from, for_catalogs=False)
    except FileNotFoundError as error:  # a file that was just being removed; or somebody removes the whole directory
        raise MissingHistory(
            f'could not open file "{error.filename}": {error.strerror}', sqlstate="58P01", file=str(error.filename)
        ) from error
    check(source.segments)
    return source


@dataclass(slots=True)
class Doubt:
    """What looks like damage, and since when."""

    told: str = ""
    since: float = 0.0

    def bear(self, error: CorruptWal | MissingHistory) -> None:
        """Raise it again, if it has been the same for long enough."""
        told, now = str(error), time.monotonic()
        if self.told != told:
            self.told, self.since = told, now
        elif now - self.since > _PATIENCE:
            raise error


def _any_line(segments: Segments) -> None:
    """Whatever timeline it is."""


@dataclass(slots=True)
class Followed:
    """What is new at `lsn`, where the last look ended, behind the record at `last` (0: nobody knows which). `needed_from` says from where the log
    must stay readable. `check` is asked of a log that was opened again whether it is still the one that was read."""

    path: Path
    lsn: Lsn
    needed_from: Lsn
    source: Source
    check: Callable[[Segments], None] = _any_line
    last: Lsn = Lsn(0)  # noqa: RUF009 - immutable
    _doubt: Doubt = field(default_factory=Doubt, repr=False)
    _quiet: tuple[Lsn, Tail, float] | None = field(default=None, repr=False)

    @classmethod
    def behind(cls, carried: Carried, path: Path, source: Source) -> Followed:
        """What comes after what is carried."""
        return cls(path, carried.lsn, carried.restart_lsn, source, last=carried.last)

    def look(self, runner: Runner, how: Scanning = AS_SUITS) -> Iterator[tuple[Source, Index]]:
        """The stretches that were not there before. Raises CorruptWal where the log is damaged, and MissingHistory where it is away, if it stays so;
        WalRemoved where it no longer has what is needed."""
        at, tail = self.lsn, self._tail()
        if tail is not None and self._quiet is not None:
            quiet_at, seen, when = self._quiet
            if (quiet_at, seen) == (at, tail) and time.monotonic() - when < _TRUSTED:
                return
        self._quiet = None
        try:
            source = self.source = self._again()
            segments = source.segments
            size = how.size_for(runner, max(0, segments.stop_lsn - self.lsn))
            for part in scanned_stretches(segments, runner, cut_at(self.lsn, segments.stop_lsn, size), how):
                if whole := up_to_its_end(part):
                    _check_goes_on(whole, self.last)
                    self.last = whole.last if whole.records else self.last
                    self.lsn = whole.stretch.stop
                    yield source, whole
        except WalRemoved:
            raise
        except (CorruptWal, MissingHistory) as error:
            self._doubt.bear(error)
            return
        self._doubt = Doubt()
        seal(segments, self.lsn)
        if self.lsn == at and tail is not None:
            self._quiet = at, tail, time.monotonic()

    @property
    def in_doubt(self) -> bool:
        """Whether the last look met what looks like damage, or like something that is away, and was too early to say."""
        return bool(self._doubt.told)

    def back_to(self, lsn: Lsn, last: Lsn) -> None:
        """What comes behind is new again."""
        self.lsn, self.last = lsn, last

    def _tail(self) -> Tail | None:
        """As it is before anything is read: what comes later makes it another."""
        return tail_at(self.path, self.source.segments, self.lsn, self.last or None)

    def _again(self) -> Source:
        """The source as it is now."""
        if not self.path.is_dir():
            raise MissingHistory(f'could not open directory "{self.path}": No such file or directory', sqlstate="58P01")
        for attempt in (1, 2):
            source = _open(self.path, self.needed_from, self.check)
            if self.needed_from >= source.segments.first_lsn:
                return source
            time.sleep(_MOMENT if attempt == 1 else 0)  # a listing may be made while files are renamed
        segments = source.segments
        raise WalRemoved(
            f"requested WAL segment {segments.name_at(self.needed_from)} has already been removed",
            context=f"LSN {self.needed_from}",
            lsn=self.needed_from,
        )


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
