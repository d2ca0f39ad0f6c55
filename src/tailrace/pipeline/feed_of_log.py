"""What a log tells of itself as a feed, whether it was planned at once (`pipeline.py`) or is planned window by window
(`log_feed.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from tailrace.catalog.history.history import History
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.feed import Decoder, FeedSpan, decode_piece
from tailrace.model import Lsn, Relation
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.tables_of_log import TablesOfLog
from tailrace.plan.pieces import Piece
from tailrace.publications.subscription import Subscription, publication_names, shown_relation
from tailrace.storage.source import Source
from tailrace.storage.state_location import definitions_in
from tailrace.transactions.fates import NEVER
from tailrace.types.style import TextStyle
from tailrace.wal.log_fingerprint import Difference, LogFingerprint, difference, fingerprint_before

Result = TypeVar("Result")
Log_co = TypeVar("Log_co", covariant=True)
TEXT_STYLE = TextStyle()


class Bounds(NamedTuple):
    """Transactions that commit in `[start, upto)` are decoded of a log that ends at `end`."""

    start: Lsn
    upto: Lsn
    end: Lsn


class _Log(Protocol[Log_co]):
    """What each of the two has of its own. `to` is whom it is published to: nobody, if all of its changes are given."""

    @property
    def source(self) -> Source: ...

    @property
    def runner(self) -> Runner: ...

    @property
    def to(self) -> Subscription | None: ...

    @property
    def bounds(self) -> Bounds: ...

    @property
    def state(self) -> CatalogState: ...

    @property
    def history(self) -> History: ...

    @property
    def span(self) -> FeedSpan: ...

    def published_to(self, to: Subscription) -> Log_co: ...


class FeedOfLog(TablesOfLog):
    """The part of `Feed` that both have in common."""

    @property
    def span(self: _Log[Log_co]) -> FeedSpan:
        segments, (start, upto, end) = self.source.segments, self.bounds
        names = self.to.names if self.to is not None else ()
        return FeedSpan(
            segments.system, segments.timeline, start, Lsn(min(int(upto), int(end), int(NEVER) - 1)), self.state.database, names
        )

    def publishing(
        self: _Log[Log_co], publication: str | Sequence[str], state: str | Path | None = None, style: TextStyle = TEXT_STYLE
    ) -> Log_co:  # fmt: skip
        """As a feed, what these publications publish, and no more: names, or a list of them in one text as pgoutput takes it.
        Those that are defined in the state location `state` count beside the source's own. Filters are evaluated with the
        settings of `style`. What the server would end a stream with is raised where changes are decoded. Raises UsageError for
        what is no list of names, or no state location."""
        definitions = definitions_in(state, self.state.system, self.state.database) if state else ()
        return self.published_to(Subscription(publication_names(publication), definitions, style))

    def shown(self: _Log[Log_co], relation: Relation) -> Relation | None:
        """The relation with the columns that are published of it; None if nothing is."""
        return relation if self.to is None else shown_relation(self.history, relation, self.to, int(self.span.stop))

    def fingerprint_before(self: _Log[Log_co], lsn: Lsn) -> LogFingerprint | None:
        segments = self.source.segments
        return fingerprint_before(segments.read, segments.identity, lsn, segments.first_lsn)

    def difference(self: _Log[Log_co], fingerprint: LogFingerprint) -> Difference | None:
        segments = self.source.segments
        return difference(fingerprint, segments.read, segments.identity, segments.first_lsn)

    @property
    def decoder(self: _Log[Log_co]) -> Decoder:
        return partial(decode_piece, self.source.segments.read)

    def run(self: _Log[Log_co], work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Iterator[Result]:
        return self.runner.run(work, pieces)
