"""The window that a slot is given next: where it begins (`WindowPlace`), what is planned there (`NextWindow`), and what the slot remembers of it once
it was given (`Given`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from tailrace.dataclass import dataclass
from tailrace.model import Lsn, Stretch
from tailrace.pipeline.decoding_range import DecodingRange
from tailrace.pipeline.following import weight_of
from tailrace.pipeline.pipeline import Pipeline
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import scan_stretch
from tailrace.pipeline.windows import step
from tailrace.plan.carried import Carried
from tailrace.plan.demand import Demand
from tailrace.replication.window_statistics import statistics_of
from tailrace.slots.statistics import SlotStatistics
from tailrace.sources.source import Source
from tailrace.storage.segments import Segments
from tailrace.transactions.blocks import Streamed, StreamedByXid
from tailrace.wal.index import Index
from tailrace.window import Weight, WindowSize


@dataclass(frozen=True, slots=True)
class Limit:
    """How far to go, and in which steps: transactions that commit at `upto` or later are left for another time; windows are of
    this size, instead of what the slot was acquired with, and none goes on behind `cut`."""

    upto: Lsn | None = None
    window: WindowSize | None = None
    cut: Lsn | None = None


NO_LIMIT = Limit()


def is_full(window: Pipeline, size: WindowSize) -> bool:
    """Whether it ends where memory ends, and not where the log does."""
    kept = sum(len(part.kept.data) for part in window.log.scanned)
    wal_bytes, ends = window.span.stop - window.span.start, len(window.plan.transactions)
    return 2 * wal_bytes >= size.wal_bytes or 2 * ends >= size.ends or 2 * kept >= size.kept_bytes


@dataclass(frozen=True, slots=True)
class WindowPlace:
    """Equal for slots that are to be given the same next: of the same log and database, at the same LSN, knowing the same of what lies before it, and
    asking for the same. `start` is from where on transactions are wanted; `streamed`, what was given of those in progress."""

    system: int
    timeline: int
    database: int
    lsn: Lsn
    last: Lsn
    known_from: Lsn
    restart_lsn: Lsn
    waits_for: tuple[int, ...]
    start: Lsn
    streamed: tuple[tuple[int, Streamed], ...]
    demand: Demand
    size: WindowSize

    @property
    def log(self) -> tuple[int, int, int]:
        """What has to be the same for where a window ends to be of use to others."""
        return self.system, self.timeline, self.database

    @classmethod
    def of(
        cls, segments: Segments, database: int, carried: Carried, start: Lsn, streamed: StreamedByXid, demand: Demand, size: WindowSize
    ) -> Self:  # fmt: skip
        return cls(
            segments.system, segments.timeline, database, carried.lsn, carried.last, carried.known_from, carried.restart_lsn,
            tuple(carried.waits_for), max(start, carried.lsn), tuple(sorted(streamed.items())), demand, size,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Given:
    """A window that was given, which ends at `upto`; and what is carried on from there, if it was given whole."""

    upto: Lsn
    carried: Carried
    is_whole: bool
    streamed: StreamedByXid
    statistics: SlotStatistics


@dataclass(frozen=True, slots=True)
class NextWindow:
    """A window, of a source as it was then, whose last stretch ends at `stop`; what it is for its slot; and what it takes to keep it."""

    source: Source
    window: Pipeline
    given: Given
    stop: Lsn
    weight: Weight

    @classmethod
    def of(cls, runner: Runner, carried: Carried, parts: Sequence[tuple[Source, Index]], wanted: DecodingRange) -> Self:
        """Plan the window of these stretches, which begins where `carried` ends."""
        source, last = parts[-1]
        carried, window = step(source, runner, carried, [part for _, part in parts], wanted)
        statistics = statistics_of(window.plan, window.blocks.before)
        given = Given(Lsn(min(carried.lsn, wanted.upto)), carried, carried.lsn <= wanted.upto, window.blocks.after, statistics)
        return cls(source, window, given, last.stretch.stop, sum(map(weight_of, parts), Weight(0, 0, 0)))

    @classmethod
    def empty(cls, source: Source, runner: Runner, carried: Carried, wanted: DecodingRange) -> Self:
        """One without a record, where `carried` ends."""
        nothing = scan_stretch(source.segments, (), Stretch(carried.lsn, carried.lsn))
        return cls.of(runner, carried, [(source, nothing)], wanted)
