"""What a window adds to its slot's statistics (`UpdateDecodingStats` in `replication/logical/logical.c`)."""

from __future__ import annotations

import numpy as np

from tailrace.plan import Plan
from tailrace.slots.statistics import SlotStatistics
from tailrace.transactions.blocks import StreamedByXid
from tailrace.transactions.commit_or_abort import BLOCK


def statistics_of(plan: Plan, streamed: StreamedByXid) -> SlotStatistics:
    """`streamed` is what was given of transactions in progress before the window: they were counted with their first block, and what is given of them
    at their end is one block more."""
    transactions, shown = plan.transactions, plan.shown
    has_rows = transactions.has_rows[shown]
    rows, size = shown[has_rows], plan.row_bytes[has_rows]
    top, is_block = transactions.full_xid[rows], transactions.kind[rows] == BLOCK
    is_known = np.isin(top, np.array(sorted(streamed), np.int64))
    is_streamed = is_block | is_known
    return SlotStatistics(
        total_txns=int(np.count_nonzero(~is_known)),
        total_bytes=int(size.sum()),
        stream_txns=int(np.count_nonzero(is_block & ~is_known)),
        stream_count=int(np.count_nonzero(is_streamed)),
        stream_bytes=int(size[is_streamed].sum()),
    )
