"""A log as a `Feed`: what both of those have in common that plan one, `pipeline.Pipeline` at once and `log_feed.LogFeed` window by window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from tailrace.catalog.history.dropped_and_retyped import identity_lost, retypes
from tailrace.catalog.history.history import History
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.feed import ChangesOf, FeedSpan, FeedTable
from tailrace.model import Lsn, Relation
from tailrace.past.tables_at_end import defined_anew, table_at_end, tables_at_end
from tailrace.piece_changes import Decoder, changes_of_piece, decode_piece
from tailrace.pipeline.runner import Runner
from tailrace.plan.demand import OF_TABLES, Demand
from tailrace.plan.events import CommittedTruncation
from tailrace.plan.pieces import Piece
from tailrace.publications.subscription import Subscription, publication_names, shown_relation, stored_columns
from tailrace.sources.source import Source
from tailrace.storage.state_location import definitions_in
from tailrace.transactions.commit_or_abort import NEVER
from tailrace.types.style import TextStyle
from tailrace.wal.log_fingerprint import Difference, LogFingerprint, difference, fingerprint_before

Result = TypeVar("Result")
TEXT_STYLE = TextStyle()


class Bounds(NamedTuple):
    """Transactions that commit in `[start, upto)` are decoded of a log that ends at `end`."""

    start: Lsn
    upto: Lsn
    end: Lsn


class PlannedLog(ABC):
    """`to` is the subscription that it is published to: None, if all of its changes are given."""

    source: Source
    runner: Runner
    history: History
    to: Subscription | None

    @property
    @abstractmethod
    def bounds(self) -> Bounds: ...

    @property
    @abstractmethod
    def state(self) -> CatalogState: ...

    @property
    @abstractmethod
    def demand(self) -> Demand: ...

    @property
    @abstractmethod
    def relations(self) -> Sequence[Relation]:
        """Every version of a relation that has changes, and maybe others of the same stretches."""

    @property
    @abstractmethod
    def truncations(self) -> Sequence[CommittedTruncation]: ...

    @abstractmethod
    def published_to(self, to: Subscription) -> Self:
        """As a feed, what these publications publish, for who knows the definitions."""

    @abstractmethod
    def with_rewrites(self) -> Self:
        """The same log, with the rows that ALTER TABLE wrote anew, if it may have done so."""

    @property
    def span(self) -> FeedSpan:
        segments, (start, upto, end) = self.source.segments, self.bounds
        names = self.to.names if self.to is not None else ()
        return FeedSpan(
            segments.system, segments.timeline, start, Lsn(min(int(upto), int(end), int(NEVER) - 1)), self.state.database, names
        )

    def publishing(
        self, publication: str | Sequence[str], state: str | Path | None = None, style: TextStyle = TEXT_STYLE
    ) -> Self:
        """As a feed, what these publications publish, and no more: names, or a list of them in one text as pgoutput takes it.
        Those that are defined in the state location `state` count beside the source's own. Filters are evaluated with the
        settings of `style`. What the server would end a stream with is raised where changes are decoded. Raises UsageError for
        what is no list of names, or no state location."""
        definitions = definitions_in(state, self.state.system, self.state.database) if state else ()
        return self.published_to(Subscription(publication_names(publication), definitions, style))

    def for_tables(self, outlet: str, *, rewrites: bool = False) -> Self:
        """The same changes, and with `rewrites` the rows that ALTER TABLE wrote anew."""
        OF_TABLES.check_met(self.demand, outlet)
        return self.with_rewrites() if rewrites else self

    def tables(self, names: Sequence[tuple[str, str]] = ()) -> Mapping[int, FeedTable]:
        """By oid, each table that may have changes, and those of these names, as they are where the span ends."""
        return tables_at_end(self.history, (self.span.start, self.span.stop), self.relations, self.truncations, names)

    def table(self, oid: int) -> FeedTable | None:
        """A table that need not have any."""
        return table_at_end(self.history, (self.span.start, self.span.stop), oid)

    def defined_anew(self, oids: Collection[int]) -> Collection[int]:
        """Of these tables at least those that were dropped, renamed, altered or commented on in the span."""
        return defined_anew(self.history, oids, self.span.start)

    def retypes(self, oid: int) -> Sequence[tuple[str, Lsn]]:
        """The columns of a table that were given another type, and the commits that did so, in order."""
        return retypes(self.history, oid)

    def identity_lost(self, oid: int) -> Lsn | None:
        """The last commit that took a table's replica identity, or gave it another; None if none is known."""
        return identity_lost(self.history, oid)

    def shown(self, relation: Relation) -> Relation | None:
        """The relation with the columns that are published of it, or that are stored, if nothing is asked of publications; None if no change of it
        is published."""
        if self.to is None:
            return stored_columns(relation)
        return shown_relation(self.history, relation, self.to, int(self.span.stop))

    def would_show(self, relation: Relation) -> bool:
        """Whether changes of it come out of the feed, or would, if the table were logged."""
        return self.shown(replace(relation, persistence="p")) is not None

    def fingerprint_before(self, lsn: Lsn) -> LogFingerprint | None:
        segments = self.source.segments
        return fingerprint_before(segments.read, segments.identity, lsn, segments.first_lsn)

    def difference(self, fingerprint: LogFingerprint) -> Difference | None:
        segments = self.source.segments
        return difference(fingerprint, segments.read, segments.identity, segments.first_lsn)

    @property
    def decoder(self) -> Decoder:
        """The function that decodes pieces in workers."""
        return partial(decode_piece, self.source.segments.read)

    @property
    def changes(self) -> ChangesOf:
        """The function that gives the typed changes of a piece in workers."""
        return partial(changes_of_piece, self.decoder)

    def run(self, work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Iterator[Result]:
        return self.runner.run(work, pieces)

    @property
    def works_elsewhere(self) -> bool:
        return self.runner.works_elsewhere
