"""What those who look into the past ask of a log: a feed whose windows say which transactions there were
(`pipeline/log_feed.py` is one)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from tailrace.catalog.history.history import History
from tailrace.feed import Feed
from tailrace.model import Lsn, Relation
from tailrace.piece_changes import Decoder
from tailrace.plan import Plan
from tailrace.plan.events import CommittedTruncation
from tailrace.transactions.scanned_log import ScannedLog


class PlannedWindow(Protocol):
    """A part of a log, scanned and planned."""

    @property
    def log(self) -> ScannedLog: ...

    @property
    def plan(self) -> Plan: ...

    @property
    def history(self) -> History: ...

    @property
    def truncations(self) -> Sequence[CommittedTruncation]: ...


class PastLog(Feed, Protocol):
    @property
    def decoder(self) -> Decoder:
        """The function that decodes pieces in workers."""
        ...

    @property
    def history(self) -> History:
        """What tables were, at any moment of the span, as who touched no catalog saw it."""
        ...

    @property
    def relations(self) -> Sequence[Relation]:
        """Every version of a relation that has changes, and maybe others of the same stretches."""
        ...

    @property
    def truncations(self) -> Sequence[CommittedTruncation]: ...

    @property
    def catalogs_from(self) -> Lsn:
        """From where on every version of a catalog row is known."""
        ...

    def windows(self) -> Iterator[PlannedWindow]:
        """Plan the span window by window."""
        ...
