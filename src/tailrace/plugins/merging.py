"""The order in which the server merges a transaction with its subtransactions, where positions do not decide it.

The server keeps the changes of each subtransaction apart, and merges them through a binary heap by position (`reorderbuffer.c`). A message has the
position where its record ends, which is where the next record begins. If that one is a row of another subtransaction the two tie, and the heap
decides: whoever is at its root stays there. So the heap is played through, for transactions in which that happens, with the same steps as the
server's (`lib/binaryheap.c`). Changes that print nothing (command ids, snapshots, invalidations) are in the server's queues as well, and not in
ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tailrace.plan.events import LogicalMessage, Truncation

if TYPE_CHECKING:
    from tailrace.plugins.ordering import Formatted

Change = tuple[int, int, int]
"""(position, xid, number); the number tells changes apart, and orders those of one subtransaction."""


def written_behind(
    results: Sequence[Formatted], inside: Sequence[LogicalMessage | Truncation], top_xid: NDArray[np.uint32]
) -> dict[int, int]:
    """Which of `inside` (by number) are messages that the server prints behind the rows of the record after them, and where that begins."""
    behind: dict[int, int] = {}
    of_ordinal: dict[int, list[tuple[int, LogicalMessage | Truncation]]] = {}
    for number, item in enumerate(inside):
        of_ordinal.setdefault(item.ordinal, []).append((number, item))
    for ordinal, mine in of_ordinal.items():
        top = int(top_xid[ordinal])
        rows = _rows_of(results, ordinal)
        messages = [(int(item.end_lsn), item.xid, number) for number, item in mine if isinstance(item, LogicalMessage)]
        truncations = {int(item.lsn): top for _, item in mine if isinstance(item, Truncation)}
        ties = [(at, number) for at, xid, number in messages if truncations.get(at, _xid_at(rows, at, xid)) != xid]
        if ties:
            records = truncations | {
                lsn: xid for part in rows for lsn, xid in zip(*(each.tolist() for each in part), strict=True)
            }
            order = merged([*((lsn, xid, -1) for lsn, xid in records.items()), *messages], top)
            place = {(position, number): at for at, (position, _, number) in enumerate(order)}
            behind |= {number: position for position, number in ties if place[position, number] > place[position, -1]}
    return behind


Rows = list[tuple[NDArray[np.int64], NDArray[np.uint32]]]
"""LSNs, ascending, and xids: of the rows of one transaction, a pair for each stretch."""


def _rows_of(results: Sequence[Formatted], ordinal: int) -> Rows:
    bounds = (np.searchsorted(part.ordinal, [ordinal, ordinal + 1]).tolist() for part in results)
    return [(part.lsn[start:stop], part.xid[start:stop]) for part, (start, stop) in zip(results, bounds, strict=True)]


def _xid_at(rows: Rows, position: int, otherwise: int) -> int:
    """Whose the record at a position is, if it has rows here."""
    for lsn, xid in rows:
        at = int(np.searchsorted(lsn, position))
        if at < len(lsn) and lsn[at] == position:
            return int(xid[at])
    return otherwise


def merged(changes: Sequence[Change], top: int) -> list[Change]:
    """Changes of a transaction and its subtransactions, in the order in which the server's heap gives them."""
    queues: dict[int, deque[Change]] = {}
    for change in sorted(changes, key=lambda change: change[0]):
        queues.setdefault(change[1], deque()).append(change)
    heap = sorted(queues, key=lambda xid: (xid != top, queues[xid][0][0]))
    for node in range((len(heap) - 2) // 2, -1, -1):
        _sift_down(heap, queues, node)
    order = []
    while heap:
        order.append(queues[heap[0]].popleft())
        if not queues[heap[0]]:
            last = heap.pop()
            if not heap:
                break
            heap[0] = last
        _sift_down(heap, queues, 0)
    return order


def _sift_down(heap: list[int], queues: dict[int, deque[Change]], node: int) -> None:
    def position(at: int) -> int:
        return queues[heap[at]][0][0]

    while True:
        left, right = 2 * node + 1, 2 * node + 2
        if left >= len(heap):
            return
        least = right if right < len(heap) and position(right) < position(left) else left
        if position(least) >= position(node):
            return
        heap[node], heap[least] = heap[least], heap[node]
        node = least
