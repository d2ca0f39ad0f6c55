"""The changes of a log as a `Feed` that is planned window by window: what tables and DataFrames of long logs are made from.

In: what `open_pipeline` takes. Out: `LogFeed`. What tables are at the end of the range, and which of them changed, is found out for the whole range
before anything is decoded, so an outlet decides the same whatever the cuts; only planning and decoding, which need the memory, go by windows, and
so go over the catalogs and plans once more. A log of one window is planned once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

from tailrace.catalog.history.history import History
from tailrace.catalog.rows.catalog_rows import spans_of
from tailrace.feed import CommittedTruncation, Decoder, FeedPart, FeedSpan, decode_piece
from tailrace.model import Lsn, Relation
from tailrace.pipeline import Pipeline, check_holds, opened
from tailrace.pipeline.asked import Asked
from tailrace.pipeline.catalogs import Catalogs
from tailrace.pipeline.first_pass import read_through
from tailrace.pipeline.given import GivenLsn, GivenState, lsn_of, state_of
from tailrace.pipeline.runner import LocalRunner, Runner
from tailrace.pipeline.scanning import AS_SUITS, Scanning
from tailrace.pipeline.subscribing import TEXT_STYLE, subscription
from tailrace.pipeline.tables_of_log import TablesOfLog
from tailrace.pipeline.windows import begin, carry, one_ahead, stepped
from tailrace.plan.carried import Carried
from tailrace.plan.demand import OF_TABLES, Demand
from tailrace.plan.pieces import Piece
from tailrace.publications.subscription import Subscription, shown_relation
from tailrace.storage.index_pile import IndexPile
from tailrace.storage.source import Source
from tailrace.transactions.fates import NEVER, fates_of
from tailrace.types.style import TextStyle
from tailrace.wal.stood import Difference, Stood, difference, stood_before
from tailrace.window import WindowSize, windows

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Log:
    """A log that was read once: `pile` has its indexes, up to `end`; `first` is what is known where it begins. If `knows_all`, that is all that
    the catalogs ever were in it, as a data directory tells."""

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


class LogFeed(TablesOfLog):
    """Changes of the transactions that `asked` names; of those what is published `to` somebody. It can be read as often as wanted."""

    def __init__(self, log: _Log, asked: Asked, to: Subscription | None = None) -> None:
        self._log = log
        self._asked = asked
        self._to = to

    def publishing(
        self, publication: str | Sequence[str], state: str | Path | None = None, style: TextStyle = TEXT_STYLE
    ) -> LogFeed:  # fmt: skip
        """What these publications publish, as `Pipeline.publishing` has it."""
        return LogFeed(self._log, self._asked, subscription(self._log.first.state, publication, state, style))

    def stood_before(self, lsn: Lsn) -> Stood | None:
        segments = self._log.source.segments
        return stood_before(segments.read, segments.identity, lsn, segments.first_lsn)

    def difference(self, stood: Stood) -> Difference | None:
        segments = self._log.source.segments
        return difference(stood, segments.read, segments.identity, segments.first_lsn)

    def shown(self, relation: Relation) -> Relation | None:
        """The relation with the columns that are published of it; None if nothing is."""
        return relation if self._to is None else shown_relation(self.history, relation, self._to, int(self.span.stop))

    @property
    def span(self) -> FeedSpan:
        segments = self._log.source.segments
        stop = min(int(self._asked.upto), int(self._log.end), int(NEVER) - 1)
        names = self._to.names if self._to is not None else ()
        return FeedSpan(segments.system, segments.timeline, self._asked.start, Lsn(stop), self._log.first.state.database, names)

    @property
    def demand(self) -> Demand:
        return self._asked.demand

    @property
    def most_bytes(self) -> int:
        return self._log.size.wal_bytes

    @property
    def decoder(self) -> Decoder:
        return partial(decode_piece, self._log.source.segments.read)

    @cached_property
    def history(self) -> History:
        """From the whole log, also from what follows the range."""
        log, carried = self._log, self._log.first
        if not log.knows_all:
            for numbers in windows(range(len(log.pile)), log.pile.weights.__getitem__, log.size):
                # Nothing is forgotten: the range may begin anywhere.
                carried = carry(log.source, log.runner, carried, [log.pile.read(number) for number in numbers], 0)
        fates = fates_of((), elsewhere=carried.earlier.ended)
        spans = spans_of(carried.state.versions, fates, carried.state.status)
        return Catalogs(carried.state, spans, carried.known_from).history(self.demand.search_path)

    @property
    def catalogs_from(self) -> Lsn:
        """From where on every version of a catalog row is known: what a captured state has forgotten was over when it was captured."""
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
        planned = stepped(log.source, log.runner, log.first, log.pile, log.pile.read, self._asked, log.size)
        return one_ahead(planned if self._to is None else _published(planned, self._to))

    def parts(self, oids: frozenset[int], since: int = 0) -> Iterator[FeedPart]:
        only = self._overview.only
        for window in self.windows() if only is None else [only]:
            yield from window.parts(oids, since)

    def run(self, work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Iterator[Result]:
        return self._log.runner.run(work, pieces)

    def with_rewrites(self) -> LogFeed:
        return LogFeed(self._log, replace(self._asked, demand=replace(self.demand, rewrites=True)), self._to)

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


def open_feed(
    source: str | Path | Source, database: str, *, runner: Runner | None = None, catalog: GivenState = None, start_lsn: GivenLsn = None,
    upto_lsn: GivenLsn = None, scanning: Scanning = AS_SUITS, demand: Demand = OF_TABLES,
) -> LogFeed:  # fmt: skip
    """The changes that `open_pipeline` opens at once, to be planned window by window (`scanning.window`). All of the log has been read once, and
    refused if it is damaged."""
    runner = runner or LocalRunner()
    since, upto, captured = lsn_of(start_lsn), lsn_of(upto_lsn), state_of(catalog)
    source, scan_from = opened(source, database, captured)
    read = read_through(source, runner, scan_from, scanning, captured)
    check_holds(source, read.outlines, since)
    carried, asked = begin(source, runner, read.outlines, database, captured, start_lsn=since, upto_lsn=upto, demand=demand)
    size = scanning.window or runner.window
    return LogFeed(
        _Log(source, runner, read.pile, carried, captured is None, Lsn(max(part.next_lsn for part in read.outlines)), size), asked
    )
