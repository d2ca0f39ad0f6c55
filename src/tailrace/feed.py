"""What an outlet of typed changes asks for: a `Feed`, wherever its changes come from.

Lake tables and DataFrames are made from a feed and know nothing of what is behind it; `pipeline.Pipeline`, which has planned a log at once, is one,
and `pipeline.log_feed.LogFeed`, which plans it window by window, another.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from tailrace.catalog.history import History
from tailrace.decode import Batch, Reader, decode
from tailrace.model import Lsn, Relation
from tailrace.plan.demand import Demand
from tailrace.plan.events import Truncation
from tailrace.plan.pieces import Piece
from tailrace.publications.publishing.published_pieces import PublishedPiece, published_batches
from tailrace.wal.stood import Difference, Stood

Result = TypeVar("Result")
Decoder = Callable[[Piece, Container[int] | None], Iterator[Batch]]
"""Decodes the changes of these relations (by oid; None: of all) of a piece. A batch's ordinals count the piece's `facts`."""


@dataclass(frozen=True, slots=True)
class Span:
    """The transactions of one system, timeline and database (by oid) that commit in `[start, stop)`. What runs are made of, and positions are
    compared in. Of all their changes, or of what these `publications` publish."""

    system: int
    timeline: int
    start: Lsn
    stop: Lsn
    database: int
    publications: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """What to decode of a part of the span. It is of so many `stretches`, also those without any of it."""

    pieces: Sequence[Piece]
    stretches: int


@dataclass(frozen=True, slots=True)
class CommittedTruncation:
    """A TRUNCATE, and when its transaction commits."""

    commit_lsn: Lsn
    truncation: Truncation


class Feed(Protocol):
    """Committed changes of one database: which there are is known, and each piece of them can be decoded anywhere."""

    @property
    def span(self) -> Span: ...

    @property
    def demand(self) -> Demand: ...

    @property
    def relations(self) -> tuple[Relation, ...]:
        """Every version of a relation that has changes, and maybe others of the same stretches."""
        ...

    @property
    def truncations(self) -> Sequence[CommittedTruncation]: ...

    @property
    def history(self) -> History:
        """What tables were, at any moment of the span, as who touched no catalog saw it."""
        ...

    def stood_before(self, lsn: Lsn) -> Stood | None:
        """By what the log is known again as this one, up to there; None if that cannot be told."""
        ...

    def difference(self, stood: Stood) -> Difference | None:
        """How the log differs from the one in which that stood; None if it does not."""
        ...

    def shown(self, relation: Relation) -> Relation | None:
        """The relation with those of its columns that come out of the feed, where the span ends; None if none of its changes do."""
        ...

    @property
    def stretches(self) -> int:
        """Of how many stretches all parts are."""
        ...

    @property
    def most_bytes(self) -> int:
        """How much an outlet should take into memory at once, about."""
        ...

    @property
    def decoder(self) -> Decoder:
        """Travels to workers, once a job."""
        ...

    def parts(self, oids: frozenset[int], since: int = 0) -> Iterator[Part]:
        """What to decode for the changes of these relations that commit at or after `since`. Those of a part commit before those of the next."""
        ...

    def run(self, work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Iterator[Result]:
        """`work` on each piece, wherever the feed's workers are; results in the order of the pieces."""
        ...

    def with_rewrites(self) -> Feed:
        """The same changes, and the rows that ALTER TABLE wrote anew."""
        ...


def decode_piece(read: Reader, piece: Piece, oids: Container[int] | None) -> Iterator[Batch]:
    """The `Decoder` of pieces of WAL, which `read` reads; of published pieces what is published."""
    batches = published_batches(read, piece, oids) if isinstance(piece, PublishedPiece) else decode(piece.plan, read, oids)
    for batch in batches:
        yield replace(batch, ordinal=np.searchsorted(piece.ordinals, batch.ordinal))
