"""Messages whose position ties with the row behind them: which of the two the server prints first.

The server keeps the changes of each subtransaction apart, and merges them through a binary heap by position (`reorderbuffer.c`). A message has the
position where its record ends, which is where the next record begins. If that one is a change of another subtransaction the two tie, and the heap
decides: whoever is at its root stays there. Where it stands depends on everything that was queued before, printed or not. So for transactions in
which that happens their WAL is read once more (`errands`, `tailrace.wal.queues`), and the heap is played through with the server's steps
(`lib/binaryheap.c`).

    find_ties ──► errands, run wide ──► what is queued ──► resolved ──► messages, some of them `behind`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tailrace.plan import Plan
from tailrace.plan.events import LogicalMessage
from tailrace.plan.xids import AllXids, all_xids
from tailrace.transactions.fates import Fates, Transactions
from tailrace.wal import index, xact
from tailrace.wal.index import UNKNOWN_XID, Index
from tailrace.wal.queues import Queued, QueueErrand


@dataclass(slots=True)
class Ties:
    """Messages (their numbers in the plan) that may tie, and the ordinals of their transactions."""

    messages: list[int]
    ordinals: NDArray[np.int64]
    xids: AllXids
    errands: list[QueueErrand]


def find_ties(indexes: Sequence[Index], fates: Fates, plan: Plan, database: int, *, only_local: bool) -> Ties | None:
    """What there is to find out; None, nearly always, if nothing is."""
    messages = [number for number, message in enumerate(plan.messages) if _may_tie(message, plan.transactions)]
    if not messages:
        return None
    xids = all_xids(indexes, fates)
    ordinals = np.unique([plan.messages[number].ordinal for number in messages]).astype(np.int64)
    wanted = np.unique(xids.xid[np.isin(xids.ordinal, ordinals)])
    errands = [
        QueueErrand(found.stretch, int(found.first), found.major, database, only_local, mine)
        for found in indexes
        if len(mine := np.intersect1d(found.xids.xid, wanted))
    ]
    return Ties(messages, ordinals, xids, errands)


def _may_tie(message: LogicalMessage, transactions: Transactions) -> bool:
    if message.ordinal < 0 or message.followed_by in (0, message.xid):
        return False
    subxids = transactions.subxids_of(message.ordinal)
    others = len(subxids) > 0 and (message.followed_by in subxids or message.followed_by == transactions.xid[message.ordinal])
    return others or (message.followed_by == UNKNOWN_XID and len(subxids) > 0)


def resolved(ties: Ties, plan: Plan, results: Sequence[Queued]) -> list[LogicalMessage]:
    """The plan's messages, those `behind` that the server prints after the rows of the record behind them."""
    messages = list(plan.messages)
    for ordinal in ties.ordinals.tolist():
        position, kind = _merged(ties, plan.transactions, ordinal, results)
        by_position = np.argsort(position, kind="stable")
        for number in ties.messages:
            message = messages[number]
            if message.ordinal == ordinal:
                start, stop = np.searchsorted(position, [message.end_lsn, message.end_lsn + 1], sorter=by_position)
                at_once = kind[by_position[start:stop]].tolist()
                behind = _CHANGE in at_once and at_once.index(_MESSAGE) > at_once.index(_CHANGE)
                messages[number] = replace(message, behind=behind)
    return messages


_CHANGE, _MESSAGE, _SNAPSHOT = 0, 1, 2


def _merged(
    ties: Ties, transactions: Transactions, ordinal: int, results: Sequence[Queued]
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Position and kind of all that the server has queued for a transaction, in the order in which its heap gives it."""
    top = transactions.xid[ordinal]
    family = np.concatenate([[top], _as_assigned(ties.xids, transactions.subxids_of(ordinal))]).astype(np.uint32)
    keep = [np.isin(part.xid, family) for part in results]
    position = np.concatenate([part.position[mine] for part, mine in zip(results, keep, strict=True)])
    xid = np.concatenate([part.xid[mine] for part, mine in zip(results, keep, strict=True)])
    kind = np.concatenate([part.is_message[mine] for part, mine in zip(results, keep, strict=True)]).astype(np.int8)
    snapshots = _snapshots(ties, transactions, ordinal, results)
    position = np.concatenate([position, snapshots])
    xid = np.concatenate([xid, np.full(len(snapshots), top, np.uint32)])
    kind = np.concatenate([kind, np.full(len(snapshots), _SNAPSHOT, np.int8)])

    by_xid = np.argsort(family)
    queue = by_xid[np.searchsorted(family[by_xid], xid)]
    order = np.lexsort((position, queue))
    counts = np.unique(queue, return_counts=True)[1]  # empty queues are not in the heap
    given = order[merge(position[order], np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))]
    return position[given], kind[given]


def _as_assigned(xids: AllXids, subxids: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Subtransactions in the order in which WAL first names them."""
    mine = np.flatnonzero(np.isin(xids.xid, subxids))
    seen, first = np.unique(xids.xid[mine[np.argsort(xids.first_lsn[mine], kind="stable")]], return_index=True)
    return seen[np.argsort(first)]


def _snapshots(ties: Ties, transactions: Transactions, ordinal: int, results: Sequence[Queued]) -> NDArray[np.int64]:
    """Where the server queues a new snapshot for the transaction: at every commit of a catalog change, its own included, since it had one."""
    xids = ties.xids
    changing = np.zeros(len(transactions), np.bool_)
    changing[xids.ordinal[xids.owned & ((xids.flags & index.CHANGES_CATALOG) != 0)]] = True
    later = (transactions.kind == xact.COMMIT_PREPARED) & (transactions.prepared >= 0)
    changing[later] = changing[transactions.prepared[later]]
    changing &= np.isin(transactions.kind, (xact.COMMIT, xact.COMMIT_PREPARED))
    mine = set(xids.xid[xids.ordinal == ordinal].tolist())
    since = min(
        (
            lsn
            for errand, part in zip(ties.errands, results, strict=True)
            for xid, lsn in _first_snapshots(errand, part)
            if xid in mine
        ),
        default=0,
    )
    commit = transactions.commit_lsn
    own = int(commit[ordinal])
    return commit[changing & (((commit > since) & (commit < own)) | (np.arange(len(commit)) == ordinal))]


def _first_snapshots(errand: QueueErrand, part: Queued) -> Iterator[tuple[int, int]]:
    return zip(errand.xids.tolist(), part.snapshot_from.tolist(), strict=True)


@njit(cache=True, nogil=True)
def merge(position, bounds):  # type: ignore[no-untyped-def]
    """The order in which the server's heap gives entries: queue i holds [bounds[i], bounds[i + 1]), ascending, none of them empty."""
    head = bounds[:-1].copy()
    size = len(head)
    heap = np.arange(size)
    for node in range((size - 2) // 2, -1, -1):
        _sift_down(heap, size, head, position, node)
    order = np.empty(len(position), np.int64)
    for i in range(len(position)):
        root = heap[0]
        order[i] = head[root]
        head[root] += 1
        if head[root] == bounds[root + 1]:
            size -= 1
            heap[0] = heap[size]
        _sift_down(heap, size, head, position, 0)
    return order


@njit(cache=True, nogil=True)
def _sift_down(heap, size, head, position, node):  # type: ignore[no-untyped-def]
    while True:
        least = 2 * node + 1
        if least >= size:
            return
        right = least + 1
        if right < size and position[head[heap[right]]] < position[head[heap[least]]]:
            least = right
        if position[head[heap[least]]] >= position[head[heap[node]]]:
            return
        heap[node], heap[least] = heap[least], heap[node]
        node = least
