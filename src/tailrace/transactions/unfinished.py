"""Transactions that are open where the log at hand ends (rule 3): those without an end, but for what a crash left behind.

A crash writes no end for them. They ended all the same, by the first RUNNING_XACTS whose oldest running xid lies beyond theirs, or by a shutdown
checkpoint or END_OF_RECOVERY, which end all but the prepared (`SnapBuildProcessRunningXacts`, `ReorderBufferAbortOld`). A prepared transaction is
open until it is committed or rolled back, whenever it is told.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.ragged import lists_of
from tailrace.transactions.scanned_log import ScannedLog
from tailrace.wal import xact
from tailrace.wal.index import Index
from tailrace.wal.kept_records import server_states
from tailrace.wal.standby import RunningXacts
from tailrace.wal.xlog import EndOfRecovery

_FINAL = (xact.COMMIT, xact.ABORT, xact.COMMIT_PREPARED, xact.ABORT_PREPARED)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Full xids that are open, ascending, subtransactions included, and where each began; 0 for those that may have done so before the log.
    `rolled_back` are subtransactions of theirs that have ended: for what they did the top-level transaction is shown, if only as BEGIN and COMMIT."""

    xid: NDArray[np.int64]
    first_lsn: NDArray[np.int64]
    rolled_back: NDArray[np.int64]

    @property
    def first_lsns(self) -> dict[int, int]:
        """By xid."""
        return dict(zip(self.xid.tolist(), self.first_lsn.tolist(), strict=True))


def unfinished(log: ScannedLog, unread: Collection[int], prepared: Collection[int] = ()) -> Unfinished:
    """What is open at the end of the log. `unread` may have begun before it; `prepared` are known to be, beside what the log says."""
    parts = log.indexes
    before = np.array(sorted(unread), np.int64)
    seen, seen_at = (np.concatenate([getattr(part.xids, name) for part in parts]) for name in ("xid", "first_lsn"))
    # A prepared transaction may have no record but its PREPARE.
    prepares = [(part.ends, np.flatnonzero(part.ends.kind == xact.PREPARE)) for part in parts]
    every = np.concatenate([before, seen, *(ends.xid[rows] for ends, rows in prepares)])
    begun = np.concatenate([np.zeros(len(before), np.int64), seen_at, *(ends.lsn[rows] for ends, rows in prepares)])
    xids, first = np.unique(every, return_index=True)
    first_lsn = begun[first]
    oldest, restarted = _passed(log)
    lost = (xids < oldest) | ((first_lsn < restarted) & ~np.isin(xids, _prepared_in(parts, prepared)))
    is_open = ~np.isin(xids, _ended_in(parts)) & ~lost
    top = np.concatenate([part.xids.top for part in parts])
    return Unfinished(xids[is_open], first_lsn[is_open], np.setdiff1d(seen[np.isin(top, xids[is_open])], xids[is_open]))


def _passed(log: ScannedLog) -> tuple[int, int]:
    """The oldest xid that may still run, and where the server last began anew."""
    oldest, restarted = 0, 0
    for state in server_states(log.indexes):
        if isinstance(state.record, RunningXacts):
            oldest = max(oldest, log.clock.full(state.record.oldest_running_xid, state.lsn))
        elif isinstance(state.record, EndOfRecovery) or state.is_shutdown:
            restarted = int(state.lsn)
    return oldest, restarted


def _ended_in(parts: Sequence[Index]) -> NDArray[np.int64]:
    """Xids of all that committed or were rolled back for good, subtransactions included."""
    xids: list[NDArray[np.integer]] = [np.zeros(0, np.int64)]
    for part in parts:
        rows = np.flatnonzero(np.isin(part.ends.kind, _FINAL))
        xids += [part.ends.xid[rows], part.ends.subxids[lists_of(rows, part.ends.subxact_bounds)[0]]]
    return np.concatenate(xids)


def _prepared_in(parts: Sequence[Index], known: Collection[int]) -> NDArray[np.int64]:
    """Those that are known, and xids of all PREPAREs, subtransactions included."""
    tops = {int(xid) for part in parts for xid in part.ends.xid[part.ends.kind == xact.PREPARE].tolist()}
    return np.array(sorted(set(known) | tops | subxids_of_prepared(tops, parts)), np.int64)


def subxids_of_prepared(prepared: set[int], indexes: Sequence[Index]) -> set[int]:
    """The subtransactions of these prepared transactions, as far as the PREPAREs are at hand."""
    return {
        xid
        for part in indexes
        for row in np.flatnonzero((part.ends.kind == xact.PREPARE) & np.isin(part.ends.xid, sorted(prepared))).tolist()
        for xid in part.ends.subxids[part.ends.subxact_bounds[row] : part.ends.subxact_bounds[row + 1]].tolist()
    }
