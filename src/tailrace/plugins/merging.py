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
    for ordinal in {item.ordinal for item in inside}:
        top = int(top_xid[ordinal])
        mine = [(number, item) for number, item in enumerate(inside) if item.ordinal == ordinal]
        messages = [(int(item.end_lsn), item.xid, number) for number, item in mine if isinstance(item, LogicalMessage)]
        records = _records_of(results, ordinal) | {int(item.lsn): top for _, item in mine if isinstance(item, Truncation)}
        ties = [(position, number) for position, xid, number in messages if records.get(position, xid) != xid]
        if ties:
            order = merged([*((lsn, xid, -1) for lsn, xid in records.items()), *messages], top)
            place = {(position, number): at for at, (position, _, number) in enumerate(order)}
            behind |= {number: position for position, number in ties if place[position, number] > place[position, -1]}
    return behind


def _records_of(results: Sequence[Formatted], ordinal: int) -> dict[int, int]:
    """LSN of each record with rows of the transaction -> its xid."""
    found: dict[int, int] = {}
    for part in results:
        rows = slice(*np.searchsorted(part.ordinal, [ordinal, ordinal + 1]).tolist())
        found |= dict(zip(part.lsn[rows].tolist(), part.xid[rows].tolist(), strict=True))
    return found


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
