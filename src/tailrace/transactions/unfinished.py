"""Transactions that are open where the log at hand ends (rule 3): those without an end, but for what a crash left behind.

A crash writes no end for them. They ended all the same, by the first RUNNING_XACTS whose oldest running xid lies beyond theirs, or by a shutdown
checkpoint or END_OF_RECOVERY, which end all but the prepared (`SnapBuildProcessRunningXacts`, `ReorderBufferAbortOld`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tailrace.transactions.epochs import XidClock
from tailrace.transactions.fates import Fates
from tailrace.wal import xact
from tailrace.wal.index import Index
from tailrace.wal.kept import Checkpoint, EndOfRecovery, RunningXacts, moments


def still_open(
    indexes: Sequence[Index], clock: XidClock, fates: Fates, unread: frozenset[int], prepared: set[int]
) -> dict[int, int]:
    """Full xids that are open at the end of the log, and where each began; 0 for those that may have done so before it (`unread`). `prepared` are
    those that are known to be, beside what the log says."""
    begun = dict.fromkeys(sorted(unread), 0)
    for found in indexes:
        for xid, lsn in zip(found.xids.xid.tolist(), found.xids.first_lsn.tolist(), strict=True):
            begun.setdefault(xid, lsn)
    xids = np.array(sorted(begun), np.int64)
    first = np.array([begun[xid] for xid in xids.tolist()], np.int64)
    oldest, restarted = 0, 0
    for moment in moments(indexes):
        if isinstance(moment, RunningXacts):
            oldest = max(oldest, clock.full(moment.oldest, moment.lsn))
        elif isinstance(moment, EndOfRecovery) or (isinstance(moment, Checkpoint) and moment.is_shutdown):
            restarted = int(moment.lsn)
    lost = (xids < oldest) | ((first < restarted) & ~np.isin(xids, sorted(prepared | _prepared_in(indexes))))
    keep = (fates.ordinals_of(xids) == -2) & ~lost
    return dict(zip(xids[keep].tolist(), first[keep].tolist(), strict=True))


def _prepared_in(indexes: Sequence[Index]) -> set[int]:
    """Xids of all PREPAREs, subtransactions included."""
    found: set[int] = set()
    for part in indexes:
        ends = part.ends
        for row in np.flatnonzero(ends.kind == xact.PREPARE).tolist():
            found |= {int(ends.xid[row]), *ends.subxids[ends.subxact_bounds[row] : ends.subxact_bounds[row + 1]].tolist()}
    return found
