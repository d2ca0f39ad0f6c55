"""The changes of a log as a `Feed` that is planned window by window: what tables and DataFrames of long logs are made from.

In: a log that was read once. Out: `LogFeed`. What tables are at the end of the range, and which of them changed, is found out for
the whole range before anything is decoded, so an outlet decides the same whatever the cuts; only planning and decoding, which
need the memory, go by windows, and so go over the catalogs and plans once more. A log of one window is planned once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Self

from tailrace.catalog.history.history import History
from tailrace.catalog.rows.catalog_rows import spans_of
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.dataclass import dataclass
from tailrace.feed import FeedPart
from tailrace.model import Lsn, Relation
from tailrace.pipeline.catalogs import Catalogs
from tailrace.pipeline.decoding_range import DecodingRange
from tailrace.pipeline.pipeline import Pipeline
from tailrace.pipeline.planned_log import Bounds, PlannedLog
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.windows import carry, one_ahead, stepped
from tailrace.plan.carried import Carried
from tailrace.plan.demand import Demand
from tailrace.plan.events import CommittedTruncation
from tailrace.publications.subscription import Subscription
from tailrace.sources.source import Source
from tailrace.storage.index_pile import IndexPile
from tailrace.transactions.commit_or_abort import outcomes_of
from tailrace.window import WindowSize, windows


@dataclass(frozen=True, slots=True)
class ReadLog:
    """A log that was read once: `pile` has its indexes, up to `end`; `first` is what is known where it begins. If `knows_all`,
    that is all that the catalogs ever were in it, as a data directory tells."""

    source: Source
    runner: Runner
    pile: IndexPile
    first: Carried
    knows_all: bool
    end: Lsn
    size: WindowSize


@dataclass(slots=True)
class _Overview:
    """What planning all windows has shown. `only` is the window, if there is but one."""

    relations: tuple[Relation, ...]
    truncations: tuple[CommittedTruncation, ...]
    stretches: int
    warnings: tuple[str, ...]
    only: Pipeline | None


class LogFeed(PlannedLog):
    """Changes of the transactions that are `wanted`; of those what is published `to` somebody. It can be read as often as wanted."""

    def __init__(self, log: ReadLog, wanted: DecodingRange, to: Subscription | None = None) -> None:
        self._log, self._wanted, self.to = log, wanted, to
        self.source, self.runner = log.source, log.runner

    @property
    def bounds(self) -> Bounds:
        return Bounds(self._wanted.start, self._wanted.upto, self._log.end)

    @property
    def state(self) -> CatalogState:
        return self._log.first.state

    def published_to(self, to: Subscription) -> Self:
        return type(self)(self._log, self._wanted, to)

    @property
    def demand(self) -> Demand:
        return self._wanted.demand

    @cached_property
    def history(self) -> History:  # type: ignore[override]  # computed when it is first asked for
        """From the whole log, also from what follows the range."""
        log, carried = self._log, self._log.first
        if not log.knows_all:
            for numbers in windows(range(len(log.pile)), log.pile.weights.__getitem__, log.size):
                # Nothing is forgotten: the range may begin anywhere.
                carried = carry(log.source, log.runner, carried, [log.pile.read(number) for number in numbers], 0)
        outcomes = outcomes_of((), elsewhere=carried.earlier.ended)
        spans = spans_of(carried.state.versions, outcomes, carried.state.status)
        return Catalogs(carried.state, spans, carried.known_from).history(self.demand.search_path)

    @property
    def catalogs_from(self) -> Lsn:
        """From where on every version of a catalog row is known: what a captured state has forgotten was over when it was
        captured."""
        log = self._log
        return log.first.known_from if log.knows_all else max(log.first.known_from, log.first.state.lsn)

    @property
    def relations(self) -> tuple[Relation, ...]:
        return self._overview.relations

    @property
    def truncations(self) -> Sequence[CommittedTruncation]:
        return self._overview.truncations

    @property
    def stretches(self) -> int:
        return self._overview.stretches

    @property
    def warning(self) -> str:
        """What in this log is passed over, empty if nothing is."""
        return "; ".join(self._overview.warnings)

    def windows(self) -> Iterator[Pipeline]:
        """The range, planned window by window."""
        log = self._log
        planned = stepped(log.source, log.runner, log.first, log.pile, log.pile.read, self._wanted, log.size)
        return one_ahead(planned if self.to is None else _published(planned, self.to))

    def parts(self, oids: frozenset[int], since: int = 0) -> Iterator[FeedPart]:
        only = self._overview.only
        for window in self.windows() if only is None else [only]:
            yield from window.parts(oids, since)

    def with_rewrites(self) -> Self:
        return type(self)(self._log, replace(self._wanted, demand=replace(self.demand, rewrites=True)), self.to)

    @cached_property
    def _overview(self) -> _Overview:
        relations: dict[Relation, None] = {}
        warnings: dict[str, None] = {}
        truncations: list[CommittedTruncation] = []
        stretches, only = 0, None
        for number, window in enumerate(self.windows()):
            relations.update(dict.fromkeys(window.relations))
            truncations += window.truncations
            stretches += window.stretches
            if window.warning:
                warnings[window.warning] = None
            only = None if number else window
        return _Overview(tuple(relations), tuple(truncations), stretches, tuple(warnings), only)


def _published(windows: Iterator[Pipeline], to: Subscription) -> Iterator[Pipeline]:
    for window in windows:
        yield window.published_to(to)
        del window
