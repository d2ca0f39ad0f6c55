"""Hint bits: what became of the transactions of a row version, written into it (`access/htup_details.h`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailrace.catalog.data_directory.commit_status import ABORTED, COMMITTED, CommitStatus
from tailrace.catalog.rows.row_versions import XMAX_COMMITTED, XMIN_ABORTED, XMIN_COMMITTED, Versions
from tailrace.transactions.epochs import FIRST_NORMAL_XID
from tailrace.transactions.fates import COMMITTED_ELSEWHERE, NO_END, ROLLED_BACK, Fates


def with_hint_bits(versions: Versions, fates: Fates, status: CommitStatus | None) -> Versions:
    """Versions that say themselves how their transactions ended, so that a state needs no commit status files. What the log does not tell is asked of
    `status`, pg_xact."""
    columns = versions.columns
    hints = columns.hints.copy()
    for xids, committed, aborted in ((columns.xmin, XMIN_COMMITTED, XMIN_ABORTED), (columns.xmax, XMAX_COMMITTED, 0)):
        ordinals = fates.ordinals_of(xids)
        hints[(ordinals >= 0) | (ordinals == COMMITTED_ELSEWHERE)] |= committed
        hints[ordinals == ROLLED_BACK] |= aborted
        if status is not None:
            asked = np.flatnonzero((ordinals == NO_END) & (xids >= FIRST_NORMAL_XID) & (hints & (committed | aborted) == 0))
            ended = status.of(xids[asked])
            hints[asked[ended == COMMITTED]] |= committed
            hints[asked[ended == ABORTED]] |= aborted
    return replace(versions, columns=columns._replace(hints=hints))
