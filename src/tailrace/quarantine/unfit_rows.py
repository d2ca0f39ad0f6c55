"""Rows of a copy that go into quarantine as they are: as changes that insert them, at the snapshot.

In: values as PostgreSQL stores them, of rows that no column of the lake's table holds, and where they stand. Out: rows of
`QUARANTINE_SCHEMA`, of which a replay makes changes as of any others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.decode import INSERT, NO_OLD, Batch
from tailrace.model import Relation
from tailrace.quarantine.quarantined_rows import Reason, quarantined_rows
from tailrace.transactions.commit_or_abort import Transactions
from tailrace.types.times.calendar import UNIX_TO_POSTGRES_USECS
from tailrace.types.values import Values

_UTF8 = "utf-8"


@dataclass(frozen=True, slots=True)
class UnfitRows:
    """Rows of a copy: the values of each live column, and why each row is in quarantine."""

    values: Sequence[Values]
    reasons: Sequence[Reason]

    def quarantined(self, relation: Relation, commit: int, part: int, first: int, time: int | None) -> pa.RecordBatch:
        """As rows that commit there, at `time` (microseconds of Unix's clock); of their `part` of the table they are those from `first` on."""
        count, columns = len(self.reasons), relation.live_columns
        none = np.zeros(count, np.int64)
        batch = Batch(
            relations=(relation,), published_as=(relation,), number=none, columns=tuple(columns), ordinal=none, lsn=np.full(count, part, np.int64),
            sequence=first + np.arange(count), kind=np.full(count, INSERT, np.uint8), old_kind=np.full(count, NO_OLD, np.uint8),
            new=list(self.values), old=None,
        )  # fmt: skip
        return quarantined_rows(batch, _transaction(commit, time), relation.oid, _UTF8, self.reasons)


def _transaction(commit: int, time: int | None) -> Transactions:
    """The one of the copy, of which only what changes show is known."""
    none, at = np.zeros(1, np.int64), np.array([commit], np.int64)
    committed = np.array([0 if time is None else time - UNIX_TO_POSTGRES_USECS], np.int64)
    return Transactions(
        none.astype(np.uint8), none, none.astype(np.uint32), none, at, at, none, committed, none.astype(np.uint32), none.astype(np.uint16), none,
        none, none, [], np.zeros(2, np.int64), none[:0],
    )  # fmt: skip
