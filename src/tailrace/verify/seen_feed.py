"""A feed, without the transactions that a snapshot has not seen.

In: a feed of all that commits before some LSN, and what `pg_current_snapshot` said. Out: the same feed with the changes of those transactions alone
that are visible under the snapshot. By LSN it cannot be said: a transaction may have its commit record in the log and be invisible still.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.feed import (
    ChangesOf,
    Feed,
    FeedPart,
    FeedSpan,
    FeedTable,
    PassedOver,
    QuarantinedChanges,
    RefusedChanges,
    Result,
    TableChanges,
    WantedTable,
)
from tailrace.model import Lsn, Relation
from tailrace.transactions.seen_transactions import SeenTransactions
from tailrace.wal.log_fingerprint import Difference, LogFingerprint


@dataclass(frozen=True, slots=True)
class SeenFeed:
    """Tables that a transaction truncates or alters are locked under the snapshot, so of these nothing is left out."""

    feed: Feed
    seen: SeenTransactions

    @property
    def span(self) -> FeedSpan:
        return self.feed.span

    def for_tables(self, outlet: str, *, rewrites: bool = False) -> Feed:
        return SeenFeed(self.feed.for_tables(outlet, rewrites=rewrites), self.seen)

    def tables(self, names: Sequence[tuple[str, str]] = ()) -> Mapping[int, FeedTable]:
        return self.feed.tables(names)

    def table(self, oid: int) -> FeedTable | None:
        return self.feed.table(oid)

    def defined_anew(self, oids: Collection[int]) -> Collection[int]:
        return self.feed.defined_anew(oids)

    def retypes(self, oid: int) -> Sequence[tuple[str, Lsn]]:
        return self.feed.retypes(oid)

    def identity_lost(self, oid: int) -> Lsn | None:
        return self.feed.identity_lost(oid)

    def shown(self, relation: Relation) -> Relation | None:
        return self.feed.shown(relation)

    def fingerprint_before(self, lsn: Lsn) -> LogFingerprint | None:
        return self.feed.fingerprint_before(lsn)

    def difference(self, fingerprint: LogFingerprint) -> Difference | None:
        return self.feed.difference(fingerprint)

    @property
    def stretches(self) -> int:
        return self.feed.stretches

    @property
    def works_elsewhere(self) -> bool:
        return self.feed.works_elsewhere

    @property
    def changes(self) -> ChangesOf:
        return partial(_seen_changes, self.feed.changes, self.seen)

    def parts(self, oids: frozenset[int], since: int = 0) -> Iterator[FeedPart]:
        return self.feed.parts(oids, since)

    def run(self, work: Callable[[Any], Result], pieces: Sequence[Any]) -> Iterator[Result]:
        return self.feed.run(work, pieces)


def _seen_changes(
    changes_of: ChangesOf, seen: SeenTransactions, piece: Any, wanted: Mapping[int, WantedTable]
) -> Iterator[TableChanges | RefusedChanges | QuarantinedChanges | PassedOver]:
    for each in changes_of(piece, wanted):
        yield replace(each, rows=seen.within(each.rows)) if isinstance(each, TableChanges | QuarantinedChanges) else each
