"""Logical messages that tie with the row behind them in the reorder buffer's binary heap: whether the server prints the message or the row first.

The server keeps the changes of each subtransaction apart, and merges them through a binary heap by position (`reorderbuffer.c`). A message has the
position where its record ends, which is where the next record begins. If that one is a change of another subtransaction the two tie, and the heap
decides: whoever is at its root stays there. Where it stands depends on everything that was queued before, printed or not. So for transactions in
which that happens their WAL is read once more (`requests`, `tailrace.wal.queued_changes`), and the heap is played through with the server's steps
(`lib/binaryheap.c`).

    find_ties ──► requests, run wide ──► what is queued ──► resolved ──► messages, some of them `behind`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.kernels import kernel
from tailrace.plan import Plan
from tailrace.plan.events import LogicalMessage
from tailrace.plan.xids import AllXids, all_xids
from tailrace.transactions.commit_or_abort import Transactions
from tailrace.transactions.scanned_log import ScannedLog
from tailrace.wal import index, xact
from tailrace.wal.index import UNKNOWN_XID
from tailrace.wal.queued_changes import QueuedChanges, QueuedChangesRequest


@dataclass(slots=True)
class Ties:
    """Messages (their numbers in the plan) that may tie, and what is to be read to know. `earlier_changes` are commits before the log at hand that
    make a change of catalogs seen."""

    messages: list[int]
    xids: AllXids
    earlier_changes: NDArray[np.int64]
    requests: list[QueuedChangesRequest]


def find_ties(log: ScannedLog, plan: Plan, database: int) -> Ties | None:
    """The messages that may tie with a row; None if there are none, as nearly always."""
    messages = [number for number, message in enumerate(plan.messages) if _may_tie(message, plan.transactions)]
    if not messages:
        return None
    xids = all_xids(log.indexes, log.outcomes)
    ordinals = np.unique([plan.messages[number].ordinal for number in messages]).astype(np.int64)
    wanted = np.unique(xids.xid[np.isin(xids.ordinal, ordinals)])
    requests = [
        QueuedChangesRequest(part.stretch, int(part.first), part.fingerprint, part.major, database, plan.unwanted_origins, mine)
        for part in log.indexes
        if len(mine := np.intersect1d(part.xids.xid, wanted, assume_unique=True))
    ]
    return Ties(messages, xids, log.earlier.catalog_changes, requests)


def _may_tie(message: LogicalMessage, transactions: Transactions) -> bool:
    if message.ordinal < 0 or message.followed_by in (0, message.xid):
        return False
    subxids = transactions.subxids_of(message.ordinal)
    # Within one transaction 32 bits tell xids apart.
    others = len(subxids) > 0 and (
        message.followed_by in subxids.astype(np.uint32) or message.followed_by == transactions.xid[message.ordinal]
    )
    return others or (message.followed_by == UNKNOWN_XID and len(subxids) > 0)


def resolved(ties: Ties, plan: Plan, results: Sequence[QueuedChanges]) -> list[LogicalMessage]:
    """The plan's messages, those `behind` that the server prints after the rows of the record behind them."""
    queues = _queues(ties, plan.transactions, results)
    messages = list(plan.messages)
    of_ordinal: dict[int, list[int]] = {}
    for number in ties.messages:
        of_ordinal.setdefault(messages[number].ordinal, []).append(number)
    for ordinal, numbers in of_ordinal.items():
        position, kind = _merged(queues, plan.transactions, ordinal)
        by_position = np.argsort(position, kind="stable")
        for number in numbers:
            message = messages[number]
            start, stop = np.searchsorted(position, [message.end_lsn, message.end_lsn + 1], sorter=by_position)
            at_once = kind[by_position[start:stop]].tolist()
            behind = _CHANGE in at_once and at_once.index(_MESSAGE) > at_once.index(_CHANGE)
            messages[number] = replace(message, behind=behind)
    return messages


_CHANGE, _MESSAGE, _SNAPSHOT = 0, 1, 2
_TOP = -1


@dataclass(slots=True)
class _Queues:
    """What is queued, sorted by ordinal: position, queue and kind. A queue is named after the first LSN of its subtransaction, which is the order
    in which they get into the heap; the top-level transaction's is _TOP. Further, by ordinal, from where on it has a snapshot; by catalog change,
    where it was committed and by whom."""

    ordinal: NDArray[np.int64]
    position: NDArray[np.int64]
    queue: NDArray[np.int64]
    kind: NDArray[np.int8]
    snapshot_from: NDArray[np.int64]
    changed_at: NDArray[np.int64]
    changed_by: NDArray[np.int64]


def _queues(ties: Ties, transactions: Transactions, results: Sequence[QueuedChanges]) -> _Queues:
    order = np.lexsort((ties.xids.first_lsn, ties.xids.xid))
    xids, first = np.unique(ties.xids.xid[order], return_index=True)
    order = order[first]
    ordinals, rolled_back = ties.xids.ordinal[order], ties.xids.orphan[order]
    is_top = (ordinals >= 0) & (transactions.full_xid[np.maximum(ordinals, 0)] == xids)
    names = np.where(is_top, _TOP, ties.xids.first_lsn[order])

    snapshot_from = np.full(len(transactions), np.iinfo(np.int64).max, np.int64)
    for request, part in zip(ties.requests, results, strict=True):
        np.minimum.at(snapshot_from, ordinals[np.searchsorted(xids, request.xids)], part.base_snapshot_lsn)

    of = np.searchsorted(xids, np.concatenate([part.xid for part in results]))
    mine = np.flatnonzero(~rolled_back[of])
    mine = mine[np.argsort(ordinals[of[mine]], kind="stable")]
    position = np.concatenate([part.position for part in results])[mine]
    kind = np.where(np.concatenate([part.is_message for part in results]), _MESSAGE, _CHANGE).astype(np.int8)[mine]
    changed_by = catalog_changes(ties.xids, transactions)
    changed_at = np.concatenate([ties.earlier_changes, transactions.commit_lsn[changed_by]])
    changed_by = np.concatenate([np.full(len(ties.earlier_changes), -1), changed_by])
    return _Queues(ordinals[of[mine]], position, names[of[mine]], kind, snapshot_from, changed_at, changed_by)


def catalog_changes(xids: AllXids, transactions: Transactions) -> NDArray[np.int64]:
    """Ordinals of the commits that make a change of catalogs seen."""
    changing = np.zeros(len(transactions), np.bool_)
    changing[xids.ordinal[xids.owned & ((xids.flags & index.CHANGES_CATALOG) != 0)]] = True
    later = (transactions.kind == xact.COMMIT_PREPARED) & (transactions.prepared >= 0)
    changing[later] = changing[transactions.prepared[later]]
    return np.flatnonzero(changing & np.isin(transactions.kind, (xact.COMMIT, xact.COMMIT_PREPARED)))


def _merged(queues: _Queues, transactions: Transactions, ordinal: int) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Position and kind of all that the server has queued for a transaction, in the order in which its heap gives it."""
    mine = slice(*np.searchsorted(queues.ordinal, [ordinal, ordinal + 1]).tolist())
    # A commit that changes catalogs puts a snapshot into the queue of every transaction that has one; its own included, be it the first.
    since, own = queues.snapshot_from[ordinal], transactions.commit_lsn[ordinal]
    given = queues.changed_at[((queues.changed_at > since) & (queues.changed_at < own)) | (queues.changed_by == ordinal)]
    position = np.concatenate([queues.position[mine], given])
    queue = np.concatenate([queues.queue[mine], np.full(len(given), _TOP)])
    kind = np.concatenate([queues.kind[mine], np.full(len(given), _SNAPSHOT, np.int8)])
    order = np.lexsort((position, queue))
    counts = np.unique(queue, return_counts=True)[1]
    order = order[merge(position[order], np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))]
    return position[order], kind[order]


@kernel
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


@kernel
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
