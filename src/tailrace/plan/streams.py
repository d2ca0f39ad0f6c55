"""Which transactions of a plan come in blocks, and what of them has been given (`transactions/blocks.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.transactions.blocks import Blocks
from tailrace.transactions.fates import BLOCK, Transactions

Event = TypeVar("Event", LogicalMessage, Truncation)


@dataclass(frozen=True, slots=True)
class Streams:
    """By ordinal: whether the transaction is `streamed`, and from where on its rows are to be given. `tops` as in `Blocks`."""

    streamed: NDArray[np.bool_]
    since: NDArray[np.int64]
    tops: Mapping[int, int]

    @classmethod
    def of(cls, transactions: Transactions, row_bytes: NDArray[np.int64], blocks: Blocks) -> Streams:
        """`row_bytes` of WAL their rows take in all."""
        if blocks.limit is None:
            return cls(np.zeros(len(transactions), np.bool_), np.zeros(len(transactions), np.int64), {})
        since = np.where(transactions.has_rows, blocks.since(transactions.full_xid), 0)
        streamed = transactions.has_rows & ((since > 0) | (row_bytes > blocks.limit) | (transactions.kind == BLOCK))
        return cls(streamed, since, blocks.tops)

    def left(self, events: list[Event]) -> list[Event]:
        """Those that have not been given."""
        return [event for event in events if event.ordinal < 0 or event.lsn >= self.since[event.ordinal]]
