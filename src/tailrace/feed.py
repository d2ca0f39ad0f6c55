"""A `Feed` gives committed changes, typed, to an outlet (a lake table, a DataFrame), wherever they come from.

An outlet knows nothing of what is behind its feed; `pipeline.Pipeline`, which has planned a
log at once, is one, and `pipeline.log_feed.LogFeed`, which plans it window by window, another.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np

from tailrace.dataclass import dataclass
from tailrace.decode import Batch, Reader, decode
from tailrace.model import Lsn, Relation
from tailrace.plan.events import Truncation
from tailrace.plan.pieces import Piece
from tailrace.publications.publishing.published_pieces import PublishedPiece, published_batches
from tailrace.wal.log_fingerprint import Difference, LogFingerprint

Result = TypeVar("Result")
Decoder = Callable[[Piece, Container[int] | None], Iterator[Batch]]
"""Decodes a piece: the changes of these relations (by oid; None: of all). The ordinals of a batch are indexes into the piece's `facts`."""


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
    """The pieces to decode of a part of the span. `stretches` counts the stretches of WAL in that part, for progress; some may have no piece."""

    pieces: Sequence[Piece]
    stretches: int


@dataclass(frozen=True, slots=True)
class CommittedTruncation:
    """A TRUNCATE, and when its transaction commits."""

    commit_lsn: Lsn
    truncation: Truncation


@dataclass(frozen=True, slots=True)
class FeedTable:
    """A table of the source where the span ends, or as it was last before the commit at `dropped` dropped it. Its rows were
    written anew by rewrites into the relations `rewrites` (by oid: what ALTER TABLE calls transient heaps), and removed by
    TRUNCATEs: each (commit LSN, LSN)."""

    relation: Relation
    dropped: Lsn | None = None
    rewrites: frozenset[int] = frozenset()
    truncations: tuple[tuple[Lsn, Lsn], ...] = ()


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
        """How many stretches of WAL all parts have together."""
        ...

    @property
    def most_bytes(self) -> int:
        """How much an outlet should take into memory at once, about."""
        ...

    @property
    def decoder(self) -> Decoder:
        """The function that decodes pieces in workers; it is sent to them once a job."""
        ...

    def parts(self, oids: frozenset[int], since: int = 0) -> Iterator[FeedPart]:
        """What to decode for the changes of these relations that commit at or after `since`. Those of a part commit before those
        of the next."""
        ...

    def run(self, work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Iterator[Result]:
        """`work` on each piece, wherever the feed's workers are; results in the order of the pieces."""
        ...


def decode_piece(read: Reader, piece: Piece, oids: Container[int] | None) -> Iterator[Batch]:
    """The `Decoder` of pieces of WAL, which `read` reads; of published pieces what is published."""
    batches = published_batches(read, piece, oids) if isinstance(piece, PublishedPiece) else decode(piece.plan, read, oids)
    for batch in batches:
        yield replace(batch, ordinal=np.searchsorted(piece.ordinals, batch.ordinal))
