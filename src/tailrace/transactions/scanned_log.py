"""What a scan told of a log, beside its catalogs: the indexes of its stretches, and of each transaction what became of it.

In: indexes with xids as the log has them, and one full xid that was the next at some LSN. Out: `ScannedLog`, in which every xid is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.model import Lsn
from tailrace.transactions.epochs import XidClock
from tailrace.transactions.fates import Fates, TwoPhase, fates_of
from tailrace.wal.index import Index


@dataclass(frozen=True, slots=True)
class ScannedLog:
    """Consecutive stretches, in the order of the log. `open_at_start` are the transactions that a captured state knows to have been open, with their
    first LSN; None without such a state."""

    indexes: list[Index]
    clock: XidClock
    fates: Fates
    segment_size: int
    open_at_start: dict[int, int] | None = None

    @classmethod
    def of(
        cls, indexes: Sequence[Index], next_xid: tuple[int, int], segment_size: int, *,
        open_at_start: dict[int, int] | None = None, two_phase: TwoPhase | None = None,
    ) -> ScannedLog:  # fmt: skip
        """`next_xid` is an LSN, and the full xid that was the next there."""
        clock = XidClock.of(indexes, next_xid)
        widened = [clock.widened(index) for index in indexes]
        return cls(widened, clock, fates_of([index.ends for index in widened], two_phase), segment_size, open_at_start)

    @property
    def end(self) -> Lsn:
        """Where the next record would begin."""
        return self.indexes[-1].next_lsn
