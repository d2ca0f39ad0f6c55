"""All transaction ids of all stretches, each assigned to the committed top-level transaction that it belongs to, even if it was itself rolled
back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.transactions.commit_or_abort import NEVER, Outcomes, Transactions
from tailrace.transactions.subtrans import named_everywhere
from tailrace.wal.index import Index


@dataclass(slots=True)
class AllXids:
    """By stretch and full xid: what the xid did there, and `ordinal`, the transaction it belongs to (negative: none that committed)."""

    xid: NDArray[np.int64]
    ordinal: NDArray[np.int64]
    orphan: NDArray[np.bool_]  # rolled back, but of a transaction that committed
    first_lsn: NDArray[np.int64]
    flags: NDArray[np.uint8]
    rows: NDArray[np.int64]
    bytes: NDArray[np.int64]
    queued_lsn: NDArray[np.int64]
    origin: NDArray[np.uint16]

    @property
    def owned(self) -> NDArray[np.bool_]:
        """Which belong to a transaction that committed."""
        return self.ordinal >= 0

    def begins(self, transactions: int) -> NDArray[np.int64]:
        """By ordinal, the first record of a transaction at hand, its subtransactions' included."""
        first = np.full(transactions, np.iinfo(np.int64).max, np.int64)
        np.minimum.at(first, self.ordinal[self.owned], self.first_lsn[self.owned])
        return first

    def first_lsns(self, transactions: Transactions) -> NDArray[np.int64]:
        """By ordinal, the first record at hand of a transaction itself."""
        first = np.full(len(transactions), np.iinfo(np.int64).max, np.int64)
        if len(transactions):
            own = self.owned & (self.xid == transactions.full_xid[np.maximum(self.ordinal, 0)])
            np.minimum.at(first, self.ordinal[own], self.first_lsn[own])
        return first

    def row_bytes(self, transactions: int) -> NDArray[np.int64]:
        """By ordinal, the WAL that rows of a transaction take."""
        size = np.zeros(transactions, np.int64)
        np.add.at(size, self.ordinal[self.owned], self.bytes[self.owned])
        return size

    def first_queued_lsns(self, since: NDArray[np.int64]) -> NDArray[np.int64]:
        """By ordinal, the LSN of the first change from `since` on that the server queues of a transaction, but for what was rolled back alone. NEVER
        where there is none, or the stretch that has it begins before that with another."""
        mine = self._queued
        mine = mine[self.queued_lsn[mine] >= since[self.ordinal[mine]]]
        first = np.full(len(since), NEVER, np.int64)
        np.minimum.at(first, self.ordinal[mine], self.queued_lsn[mine])
        return first

    def first_origins(self, transactions: int) -> NDArray[np.uint16]:
        """By ordinal, the origin of the first change that the server queues of a transaction, but for what was rolled back alone."""
        mine = self._queued
        mine = mine[np.lexsort((self.queued_lsn[mine], self.ordinal[mine]))]
        ordinals, first = np.unique(self.ordinal[mine], return_index=True)
        origins = np.zeros(transactions, np.uint16)
        origins[ordinals] = self.origin[mine[first]]
        return origins

    @property
    def _queued(self) -> NDArray[np.int64]:
        """Where in a stretch the server queues something, but for what was rolled back alone."""
        return np.flatnonzero(self.owned & ~self.orphan & (self.queued_lsn > 0))


def all_xids(indexes: Sequence[Index], outcomes: Outcomes) -> AllXids:
    """Xids of all stretches in their order; each belongs to the transaction of its own outcome, or to its top-level's if it was rolled back alone."""
    xid = np.concatenate([part.xids.xid for part in indexes])
    top = named_everywhere(xid, np.concatenate([part.xids.top for part in indexes]))
    ordinal = outcomes.ordinals_of(xid)
    orphan = (ordinal < 0) & (top != 0)
    ordinal[orphan] = outcomes.ordinals_of(top[orphan])
    return AllXids(
        xid=xid,
        ordinal=ordinal,
        orphan=orphan,
        first_lsn=np.concatenate([part.xids.first_lsn for part in indexes]),
        flags=np.concatenate([part.xids.flags for part in indexes]),
        rows=np.concatenate([part.xids.rows for part in indexes]),
        bytes=np.concatenate([part.xids.bytes for part in indexes]),
        queued_lsn=np.concatenate([part.xids.queued_lsn for part in indexes]),
        origin=np.concatenate([part.xids.origin for part in indexes]),
    )
