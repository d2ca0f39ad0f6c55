"""A `Feed` gives committed changes, typed, to an outlet (a table of a lake), wherever they come from.

In: nothing. Out: which tables there are, and batches of their changes, in which each change has its key in the order of commits: (commit_lsn, lsn,
sequence). An outlet knows nothing of what is behind its feed. `pipeline.Pipeline`, which has planned a log at once, is one, and
`pipeline.log_feed.LogFeed`, which plans it window by window, another; `message_feed.MessageFeed` has messages of pgoutput read back, and
`copy_feed.CopyFeed` the rows of tables as they were copied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError
from tailrace.model import Column, Comments, Lsn, Relation
from tailrace.transactions.seen_transactions import SeenTransactions
from tailrace.wal.log_fingerprint import Difference, LogFingerprint

if TYPE_CHECKING:  # whoever only asks where a slot is loads no types
    from tailrace.types.registry import ArrowStyle

Result = TypeVar("Result")
OrderKey = tuple[int, int, int]
"""(commit LSN, LSN, sequence): where a change stands among all of its table."""


@dataclass(frozen=True, slots=True)
class IntoQuarantine:
    """Which changes of a table go into quarantine as they are (`quarantine/quarantined_rows.py`) rather than to the table: what is `refused`
    since its columns cannot hold it, and, for a reason that is known, `everything` or what stands in some `places`."""

    refused: bool = False
    everything: bool = False
    places: frozenset[OrderKey] = frozenset()
    reason: str = ""
    sqlstate: str = ""


@dataclass(frozen=True, slots=True)
class WantedTable:
    """A table whose changes are wanted: the version to give them as, how, and from which commit on. With `fill_missing`, rows of versions that
    did not have a column yet get the value that ADD COLUMN gave to existing rows; without, they are NULL there. Some may be wanted for the
    `quarantine`."""

    relation: Relation
    style: ArrowStyle
    since: int
    fill_missing: bool = False
    quarantine: IntoQuarantine | None = None
    copied: SeenTransactions | None = None
    """The transactions that a copy of the table has seen: what they changed is not wanted."""


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Changes of one table, in the columns of `tailrace.changes`. `rewrite` is the transient heap of the ALTER TABLE that wrote all its rows anew (0:
    they are changes)."""

    oid: int
    rewrite: int
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class RefusedChanges:
    """Changes of one table that its columns cannot hold: when the first commits and where the last stands."""

    oid: int
    first_commit: int
    last: OrderKey
    error: TailraceError


@dataclass(frozen=True, slots=True)
class QuarantinedChanges:
    """Changes of one table that go into quarantine, in the columns of `quarantine.quarantined_rows`; `rewrite` as in `TableChanges`."""

    oid: int
    rewrite: int
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Publications that were asked for and are not there."""

    names: frozenset[str]


ChangesOf = Callable[[Any, Mapping[int, WantedTable]], Iterator[TableChanges | RefusedChanges | QuarantinedChanges | PassedOver]]
"""Gives what a piece has for the tables that are wanted, by oid; what a table and a rewrite have comes without others' between, but for what
goes into quarantine."""


@dataclass(frozen=True, slots=True)
class FeedSpan:
    """The transactions of one system, timeline and database (by oid) that commit in `[start, stop)`. A run covers one span, and only positions of
    spans of one system, timeline and database can be compared. The feed has all their changes or, if there are `publications`, what these
    publish."""

    system: int
    timeline: int
    start: Lsn
    stop: Lsn
    database: int
    publications: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FeedPart:
    """The pieces of a part of the span. `stretches` counts what that part consists of, for progress; some may have no piece."""

    pieces: Sequence[Any]
    stretches: int


class TableTruncation(NamedTuple):
    """A TRUNCATE: where its transaction commits, where it stands itself, and when the transaction committed (microseconds since 2000)."""

    commit_lsn: Lsn
    lsn: Lsn
    committed: int


@dataclass(frozen=True, slots=True)
class FeedTable:
    """A table of the source where the span ends, or as it was last before the commit at `dropped` dropped it. Its rows were
    written anew by rewrites into the relations `rewrites` (by oid: what ALTER TABLE calls transient heaps), and removed by
    `truncations`. `lost` are columns that were dropped in the span, as they were before; `altered` says whether any column was
    dropped, changed or added. `comments` are None if the feed does not tell of them; `commented` says whether any changed in the span."""

    relation: Relation
    dropped: Lsn | None = None
    rewrites: frozenset[int] = frozenset()
    truncations: tuple[TableTruncation, ...] = ()
    lost: tuple[Column, ...] = ()
    altered: bool = False
    comments: Comments | None = None
    commented: bool = False


class Feed(Protocol):
    """Committed changes of one database: which tables have changes is known, and each piece of the changes can be decoded
    anywhere."""

    @property
    def span(self) -> FeedSpan: ...

    def for_tables(self, outlet: str, *, rewrites: bool = False) -> Feed:
        """The same changes, and with `rewrites` the rows that ALTER TABLE wrote anew. Raises UsageError if what is in the feed
        was chosen for another outlet than tables, as which `outlet` is named."""
        ...

    def tables(self, names: Sequence[tuple[str, str]] = ()) -> Mapping[int, FeedTable]:
        """By oid, each table that may have changes in the span, and those of these names (schema, name)."""
        ...

    def table(self, oid: int) -> FeedTable | None:
        """A table that need not have any; None if nothing is known of it."""
        ...

    def defined_anew(self, oids: Collection[int]) -> Collection[int]:
        """Of these tables at least those that were dropped, renamed, altered or commented on in the span."""
        ...

    def retypes(self, oid: int) -> Sequence[tuple[str, Lsn]]:
        """The columns of a table that were given another type, and the commits that did so, in order."""
        ...

    def identity_lost(self, oid: int) -> Lsn | None:
        """The last commit that took a table's replica identity, or gave it another; None if none is known."""
        ...

    def shown(self, relation: Relation) -> Relation | None:
        """The relation with those of its columns that come out of the feed, where the span ends; None if none of its changes
        do."""
        ...

    def fingerprint_before(self, lsn: Lsn) -> LogFingerprint | None:
        """The fingerprint of what lies before `lsn`, by which the log is known again; None if no record does."""
        ...

    def difference(self, fingerprint: LogFingerprint) -> Difference | None:
        """How the log differs from the one that the fingerprint was taken of; None if it does not."""
        ...

    @property
    def stretches(self) -> int:
        """How many stretches (of WAL, or of what there is) all parts have together."""
        ...

    @property
    def changes(self) -> ChangesOf:
        """The function that gives the changes of a piece in workers; it is sent to them once a job."""
        ...

    def parts(self, oids: frozenset[int], since: int = 0) -> Iterator[FeedPart]:
        """Pieces with the changes of these relations that commit at or after `since`. Those of a part commit before those
        of the next."""
        ...

    def run(self, work: Callable[[Any], Result], pieces: Sequence[Any]) -> Iterator[Result]:
        """`work` on each piece, wherever the feed's workers are; results in the order of the pieces. Both may be of anybody: who makes something of
        changes has more work for workers."""
        ...

    @property
    def works_elsewhere(self) -> bool:
        """Whether that is in other processes, and not in threads of this one."""
        ...


class UnplannedFeed:
    """What feeds have in common behind which there is no log to read: all columns come out, and of what stands in a log nothing is known."""

    def defined_anew(self, oids: Collection[int]) -> Collection[int]:
        return oids

    def retypes(self, oid: int) -> Sequence[tuple[str, Lsn]]:
        return ()

    def identity_lost(self, oid: int) -> Lsn | None:
        return None

    def shown(self, relation: Relation) -> Relation | None:
        return relation

    def fingerprint_before(self, lsn: Lsn) -> LogFingerprint | None:
        return None

    def difference(self, fingerprint: LogFingerprint) -> Difference | None:
        return None

    def run(self, work: Callable[[Any], Result], pieces: Sequence[Any]) -> Iterator[Result]:
        return map(work, pieces)

    @property
    def works_elsewhere(self) -> bool:
        return False
