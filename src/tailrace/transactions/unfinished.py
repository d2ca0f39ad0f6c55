"""Transactions that are open where the log at hand ends (rule 3): those without an end, but for what a crash left behind.

A crash writes no end for them. They ended all the same, by the first RUNNING_XACTS whose oldest running xid lies beyond theirs, or by a shutdown
checkpoint or END_OF_RECOVERY, which end all but the prepared (`SnapBuildProcessRunningXacts`, `ReorderBufferAbortOld`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tailrace.transactions.scanned_log import ScannedLog
from tailrace.wal import xact
from tailrace.wal.index import Index
from tailrace.wal.kept import Checkpoint, EndOfRecovery, RunningXacts, moments


def still_open(log: ScannedLog, unread: frozenset[int], prepared: set[int]) -> dict[int, int]:
    """Full xids that are open at the end of the log, and where each began; 0 for those that may have done so before it (`unread`). `prepared` are
    those that are known to be, beside what the log says."""
    begun = dict.fromkeys(sorted(unread), 0)
    for part in log.indexes:
        for xid, lsn in zip(part.xids.xid.tolist(), part.xids.first_lsn.tolist(), strict=True):
            begun.setdefault(xid, lsn)
    xids = np.array(sorted(begun), np.int64)
    first = np.array([begun[xid] for xid in xids.tolist()], np.int64)
    oldest, restarted = 0, 0
    for moment in moments(log.indexes):
        if isinstance(moment, RunningXacts):
            oldest = max(oldest, log.clock.full(moment.oldest, moment.lsn))
        elif isinstance(moment, EndOfRecovery) or (isinstance(moment, Checkpoint) and moment.is_shutdown):
            restarted = int(moment.lsn)
    lost = (xids < oldest) | ((first < restarted) & ~np.isin(xids, sorted(prepared | _prepared_in(log.indexes))))
    keep = (log.fates.ordinals_of(xids) == -2) & ~lost
    return dict(zip(xids[keep].tolist(), first[keep].tolist(), strict=True))


def _prepared_in(indexes: Sequence[Index]) -> set[int]:
    """Xids of all PREPAREs, subtransactions included."""
    tops = {int(xid) for part in indexes for xid in part.ends.xid[part.ends.kind == xact.PREPARE].tolist()}
    return tops | subxids_of_prepared(tops, indexes)


def subxids_of_prepared(prepared: set[int], indexes: Sequence[Index]) -> set[int]:
    """The subtransactions of these prepared transactions, as far as the PREPAREs are at hand."""
    return {
        xid
        for part in indexes
        for row in np.flatnonzero((part.ends.kind == xact.PREPARE) & np.isin(part.ends.xid, sorted(prepared))).tolist()
        for xid in part.ends.subxids[part.ends.subxact_bounds[row] : part.ends.subxact_bounds[row + 1]].tolist()
    }
