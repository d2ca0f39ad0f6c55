"""What became of each transaction id (rule 3), and the committed transactions in order (rule 4).

In: the ends that indexes collected, in WAL order. Out: `Fates`, a sorted map from xid to commit or abort position, and `Transactions`, columns
with one row per committed top-level transaction, in the order of their commit records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.model import Lsn, Transaction
from tailrace.wal import xact
from tailrace.wal.xact import Ends

NEVER = np.int64(2**63 - 1)
"""Later than every LSN: an end that did not come."""


@dataclass(slots=True)
class Transactions:
    """Committed top-level transactions by ordinal. `subxact_bounds` and `subxids` as in `Ends`."""

    xid: NDArray[np.uint32]
    commit_lsn: NDArray[np.int64]
    end_lsn: NDArray[np.int64]
    first_lsn: NDArray[np.int64]
    time: NDArray[np.int64]
    database: NDArray[np.uint32]
    origin: NDArray[np.uint16]
    origin_lsn: NDArray[np.int64]
    gids: list[str]
    subxact_bounds: NDArray[np.int64]
    subxids: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.xid)

    def __getitem__(self, ordinal: int) -> Transaction:
        return Transaction(
            ordinal=ordinal,
            xid=int(self.xid[ordinal]),
            commit_lsn=Lsn(int(self.commit_lsn[ordinal])),
            end_lsn=Lsn(int(self.end_lsn[ordinal])),
            first_lsn=Lsn(int(self.first_lsn[ordinal])),
            commit_time=int(self.time[ordinal]),
            database=int(self.database[ordinal]),
            subxids=tuple(self.subxids_of(ordinal).tolist()),
            origin=int(self.origin[ordinal]),
            origin_lsn=Lsn(int(self.origin_lsn[ordinal])),
            gid=self.gids[ordinal] if self.gids else "",
        )

    def __iter__(self) -> Iterator[Transaction]:
        return (self[ordinal] for ordinal in range(len(self)))

    def subset(self, ordinals: NDArray[np.int64]) -> Transactions:
        """The facts of these transactions, in that order, without subtransactions; ordinals count anew."""
        return Transactions(
            self.xid[ordinals], self.commit_lsn[ordinals], self.end_lsn[ordinals], self.first_lsn[ordinals], self.time[ordinals],
            self.database[ordinals], self.origin[ordinals], self.origin_lsn[ordinals],
            [self.gids[ordinal] for ordinal in ordinals.tolist()] if self.gids else [], np.zeros(len(ordinals) + 1, np.int64), self.subxids[:0],
        )  # fmt: skip

    def subxids_of(self, ordinal: int) -> NDArray[np.uint32]:
        return self.subxids[self.subxact_bounds[ordinal] : self.subxact_bounds[ordinal + 1]]


@dataclass(slots=True)
class Fates:
    """xid -> its transaction's ordinal (-1: aborted), sorted by xid; commit LSNs by ordinal are the transactions'."""

    xid: NDArray[np.uint32]
    ordinal: NDArray[np.int64]
    transactions: Transactions

    def ordinals_of(self, xids: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Ordinal of the committed transaction each xid belongs to; -1 aborted, -2 no end seen."""
        if len(self.xid) == 0:
            return np.full(len(xids), -2, np.int64)
        at = np.minimum(np.searchsorted(self.xid, xids), len(self.xid) - 1)
        return np.where(self.xid[at] == xids, self.ordinal[at], -2)

    def commit_lsns_of(self, xids: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(commit LSN or NEVER, ordinal) for each xid."""
        ordinals = self.ordinals_of(xids)
        lsn = np.full(len(xids), NEVER, np.int64)
        committed = ordinals >= 0
        lsn[committed] = self.transactions.commit_lsn[ordinals[committed]]
        return lsn, ordinals


def fates_of(all_ends: Sequence[Ends]) -> Fates:
    """Put the ends of consecutive stretches together. PREPARE alone decides nothing; its COMMIT or ROLLBACK PREPARED does."""
    kind = _joined([ends.kind for ends in all_ends], np.uint8)
    committed = np.isin(kind, (xact.COMMIT, xact.COMMIT_PREPARED))
    aborted = np.isin(kind, (xact.ABORT, xact.ABORT_PREPARED))
    xid = _joined([ends.xid for ends in all_ends], np.uint32)
    counts = _joined([np.diff(ends.subxact_bounds) for ends in all_ends], np.int64)
    subxids = _joined([ends.subxids for ends in all_ends], np.uint32)
    end_of_subxid = np.repeat(np.arange(len(xid)), counts)

    ordinal_of_end = np.full(len(xid), -1, np.int64)
    ordinal_of_end[committed] = np.arange(int(committed.sum()))
    origin_time = _joined([ends.origin_time for ends in all_ends], np.int64)
    time = _joined([ends.time for ends in all_ends], np.int64)
    origin = _joined([ends.origin for ends in all_ends], np.uint16)
    gids = [ends.gid(row) for ends in all_ends for row in range(len(ends))] if (kind == xact.COMMIT_PREPARED).any() else []
    bounds = np.zeros(int(committed.sum()) + 1, np.int64)
    np.cumsum(counts[committed], out=bounds[1:])
    transactions = Transactions(
        xid=xid[committed],
        commit_lsn=_joined([ends.lsn for ends in all_ends], np.int64)[committed],
        end_lsn=_joined([ends.end_lsn for ends in all_ends], np.int64)[committed],
        first_lsn=np.zeros(int(committed.sum()), np.int64),
        time=np.where((origin != 0) & (origin_time != 0), origin_time, time)[committed],
        database=_joined([ends.database for ends in all_ends], np.uint32)[committed],
        origin=origin[committed],
        origin_lsn=_joined([ends.origin_lsn for ends in all_ends], np.int64)[committed],
        gids=[gid for gid, keep in zip(gids, committed, strict=True) if keep] if gids else [],
        subxact_bounds=bounds,
        subxids=subxids[committed[end_of_subxid]] if len(subxids) else subxids,
    )
    decided = committed | aborted
    sub_decided = decided[end_of_subxid] if len(subxids) else np.zeros(0, np.bool_)
    keys = np.concatenate([xid[decided], subxids[sub_decided]])
    values = np.concatenate([ordinal_of_end[decided], ordinal_of_end[end_of_subxid[sub_decided]] if len(subxids) else np.zeros(0, np.int64)])
    # Rolled-back subtransactions end before their parents; the first word on an xid stands.
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    first = np.ones(len(keys), np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    return Fates(keys[first], values[first].astype(np.int64), transactions)


def _joined(parts: Sequence[NDArray], dtype: type) -> NDArray:
    return np.concatenate(parts) if parts else np.zeros(0, dtype)
