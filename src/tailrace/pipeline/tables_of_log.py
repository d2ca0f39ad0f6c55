"""What a feed says of tables, where it is made of a log: from the catalogs that the log tells of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from tailrace.catalog.history.dropped_and_retyped import retypes
from tailrace.catalog.history.history import History
from tailrace.feed import CommittedTruncation, FeedSpan, FeedTable
from tailrace.model import Lsn, Relation
from tailrace.past.tables_at_end import table_at_end, tables_at_end
from tailrace.plan.demand import OF_TABLES, Demand


class PlannedLog(Protocol):
    """A log of which it is known what tables were in it, and which of them changed."""

    @property
    def span(self) -> FeedSpan: ...
    @property
    def demand(self) -> Demand: ...
    @property
    def history(self) -> History: ...
    @property
    def relations(self) -> Sequence[Relation]:
        """Every version of a relation that has changes, and maybe others of the same stretches."""
        ...

    @property
    def truncations(self) -> Sequence[CommittedTruncation]: ...
    def with_rewrites(self: Log) -> Log: ...


Log = TypeVar("Log", bound=PlannedLog)


class TablesOfLog:
    """The part of a `Feed` that a log says of tables."""

    def for_tables(self: Log, outlet: str, *, rewrites: bool = False) -> Log:
        """The same changes, and with `rewrites` the rows that ALTER TABLE wrote anew."""
        OF_TABLES.check_met(self.demand, outlet)
        return self.with_rewrites() if rewrites else self

    def tables(self: PlannedLog, names: Sequence[tuple[str, str]] = ()) -> Mapping[int, FeedTable]:
        """By oid, each table that may have changes, and those of these names, as they are where the span ends."""
        return tables_at_end(self.history, self.span.stop, self.relations, self.truncations, names)

    def table(self: PlannedLog, oid: int) -> FeedTable | None:
        """A table that need not have any."""
        return table_at_end(self.history, self.span.stop, oid)

    def retypes(self: PlannedLog, oid: int) -> Sequence[tuple[str, Lsn]]:
        """The columns of a table that were given another type, and the commits that did so, in order."""
        return retypes(self.history, oid)
