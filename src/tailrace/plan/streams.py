"""Which transactions of a plan are streamed, in blocks between stream_start and stream_stop, and up to where each has been
(`transactions/blocks.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plan.xids import AllXids
from tailrace.transactions.blocks import Blocks
from tailrace.transactions.commit_or_abort import BLOCK, Transactions

Event = TypeVar("Event", LogicalMessage, Truncation)


@dataclass(frozen=True, slots=True)
class Streams:
    """By ordinal: whether the transaction is `streamed`; from where on its rows are to be given; the LSN of the first change that the server queues
    there, printed or not (`ReorderBufferProcessTXN`), or NEVER where nobody knows it; and the replication origin of the first of all. `tops` as in
    `Blocks`."""

    streamed: NDArray[np.bool_]
    since: NDArray[np.int64]
    first_lsn: NDArray[np.int64]
    origin: NDArray[np.uint16]
    tops: Mapping[int, int]

    @classmethod
    def of(
        cls,
        transactions: Transactions,
        xids: AllXids,
        row_bytes: NDArray[np.int64],
        events: tuple[Sequence[LogicalMessage], Sequence[Truncation]],
        blocks: Blocks,
    ) -> Streams:
        """`row_bytes` of WAL their rows take in all; `events` take memory, too (`ReorderBufferChangeSize`)."""
        if blocks.limit is None:
            count = len(transactions)
            nothing = np.zeros(count, np.int64)
            return cls(nothing.astype(np.bool_), nothing, nothing, nothing.astype(np.uint16), {})
        since = np.where(transactions.has_rows, blocks.since(transactions.full_xid), 0)
        size = row_bytes.copy()
        for event in chain[LogicalMessage | Truncation](*events):
            if event.ordinal >= 0:
                size[event.ordinal] += event.size
        streamed = transactions.has_rows & ((since > 0) | (size > blocks.limit) | (transactions.kind == BLOCK))
        return cls(streamed, since, xids.first_queued_lsns(since), xids.first_origins(len(transactions)), blocks.tops)

    def left(self, events: list[Event]) -> list[Event]:
        """Those that have not been given."""
        return [event for event in events if event.ordinal < 0 or event.lsn >= self.since[event.ordinal]]
