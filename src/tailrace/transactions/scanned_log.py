"""What a scan told of a log, beside its catalogs: the indexes of its stretches, and of each transaction what became of it.

In: indexes with xids as the log has them, one full xid that was the next at some LSN, and what is known of the log before. Out: `ScannedLog`, whose
xids are all full.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.transactions.commit_or_abort import EndedElsewhere, Outcomes, TwoPhase, outcomes_of
from tailrace.transactions.epochs import XidClock
from tailrace.wal.index import Index
from tailrace.wal.kept_records import wal_level_changes


@dataclass(frozen=True, slots=True)
class InvalidatedRelations:
    """Relations (oids, or 0 for every one) whose cache entries were invalidated, each at an LSN, in the order of these."""

    lsn: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    oid: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> InvalidatedRelations:
        """From (LSN, oid), in order."""
        columns = np.array(list(pairs), np.int64).reshape(-1, 2)
        return cls(columns[:, 0].copy(), columns[:, 1].copy())

    def pairs(self) -> list[tuple[int, int]]:
        """(LSN, oid) of each."""
        return list(zip(self.lsn.tolist(), self.oid.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Earlier:
    """What is known of the log before the indexes at hand. `open_at_start` are the transactions that were open then, with their first LSN; None if
    nobody knows. Of those that began in WAL that was scanned before, `indexes_of_unfinished` are the parts of its indexes, with full xids. `ended`
    did so elsewhere, and made or unmade rows of catalogs; `catalog_changes` are the commits by which others came to see that catalogs had changed.
    `invalidated` are the relations that commits invalidated while one of those was open. `wal_levels` are changes of that setting;
    `began_low`, that it was below logical before the first of them."""

    open_at_start: dict[int, int] | None = None
    indexes_of_unfinished: tuple[Index, ...] = ()
    ended: EndedElsewhere | None = None
    catalog_changes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    invalidated: InvalidatedRelations = field(default_factory=InvalidatedRelations)
    wal_levels: tuple[tuple[Lsn, int], ...] = ()
    began_low: bool = False


@dataclass(frozen=True, slots=True)
class ScannedLog:
    """Consecutive stretches, in the order of the log: first what is left of some before
    (`earlier.indexes_of_unfinished`), then all that was scanned."""

    indexes: list[Index]
    clock: XidClock
    outcomes: Outcomes
    segment_size: int
    earlier: Earlier

    @classmethod
    def of(
        cls, indexes: Sequence[Index], next_xid: tuple[int, int], segment_size: int, *, earlier: Earlier = Earlier(),
        two_phase: TwoPhase | None = None,
    ) -> ScannedLog:  # fmt: skip
        """`next_xid` is an LSN, and the full xid that was the next there."""
        clock = XidClock.of(indexes, next_xid)
        parts = [*earlier.indexes_of_unfinished, *(clock.widened(index) for index in indexes)]
        return cls(parts, clock, outcomes_of([part.ends for part in parts], two_phase, earlier.ended), segment_size, earlier)

    @property
    def scanned(self) -> list[Index]:
        """The indexes of what was scanned now."""
        return self.indexes[len(self.earlier.indexes_of_unfinished) :]

    @property
    def end(self) -> Lsn:
        """Where the next record would begin. A stretch that lies within a record does not know; the one where that begins does. Of no stretch at
        all, it is where the next xid was known: where a state was captured."""
        return max((part.next_lsn for part in self.indexes), default=Lsn(int(self.clock.lsn[0])))

    @property
    def wal_levels(self) -> list[tuple[Lsn, int]]:
        """Changes of wal_level, by the LSN of the record that tells of each."""
        return [*self.earlier.wal_levels, *wal_level_changes(self.scanned)]
