"""From which LSN on every transaction that commits lies in the WAL at hand from its first record: SNAPBUILD_CONSISTENT (`snapbuild.c`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import MissingHistory
from tailrace.model import Lsn
from tailrace.plan.xids import AllXids
from tailrace.transactions.commit_or_abort import Transactions
from tailrace.transactions.scanned_log import ScannedLog
from tailrace.wal import xact
from tailrace.wal.index import Index
from tailrace.wal.kept_records import server_states
from tailrace.wal.standby import RunningXacts
from tailrace.wal.xlog import Checkpoint


def consistency(log: ScannedLog) -> tuple[frozenset[int], Lsn]:
    """Transactions that may have begun before the first index, and the LSN from which all that commit are read whole. All xids are full."""
    unread, running, since = at_start(log)
    return unread, _all_ended(running, log.indexes, since)


def at_start(log: ScannedLog) -> tuple[frozenset[int], frozenset[int], Lsn]:
    """Transactions that may have begun before the first index; those that all must end before what commits is read whole; the LSN where that is
    known.

    The first RUNNING_XACTS behind the first redo pointer names those that were running; so does a captured state. A shutdown checkpoint, or nothing
    running, is consistent at once, but for prepared transactions; otherwise the consistent point lies where the last of the running has ended.
    One that is logged before the redo pointer does not know who began between the two, where the catalogs are not known yet.
    """
    indexes = log.indexes
    if not indexes and log.earlier.open_at_start is not None:  # a state that was captured where the log ends
        unread = frozenset(log.earlier.open_at_start)
        return unread, unread, log.end
    first = indexes[0].stretch.start
    prepared = _prepared_before(indexes, log.outcomes.transactions)
    if log.earlier.open_at_start is not None:
        unread = frozenset(xid for xid, lsn in log.earlier.open_at_start.items() if lsn < first) | prepared
        return unread, unread, first
    checkpoint = _first_checkpoint(indexes)
    # What has this xid, or a later one, began after the checkpoint's redo pointer.
    redo, next_xid = (checkpoint.redo, checkpoint.next_xid) if checkpoint else (0, 0)
    for state in server_states(indexes):
        if state.lsn < redo:
            continue
        if state.is_shutdown:
            return prepared, prepared, state.lsn
        if isinstance(state.record, RunningXacts):
            running = frozenset(log.clock.full(xid, state.lsn) for xid in state.record.xids.tolist())
            earlier = (xid for part in indexes for xid in part.ends.xid[part.ends.lsn < state.lsn].tolist())
            before = frozenset(xid for xid in (*running, *earlier) if xid < next_xid)
            return before | prepared, running | prepared, state.lsn
    raise MissingHistory(
        f"no consistent point between {indexes[0].first} and {indexes[-1].next_lsn}",
        hint="The WAL holds neither a RUNNING_XACTS record nor a shutdown checkpoint. Run CHECKPOINT on the source, or give a captured catalog state.",  # noqa: E501
        lsn=indexes[-1].next_lsn,
    )


def maybe_begun_before(log: ScannedLog, start: Lsn, captured: Lsn) -> list[int]:
    """Transactions that ended between `start` and where a state was captured, and may have begun before `start`. The state names only those that
    were open when it was captured. What has the next xid of a checkpoint's redo pointer, or a later one, began behind that."""
    checkpoints = [
        state.record for state in server_states(log.indexes) if isinstance(state.record, Checkpoint) and state.lsn < captured
    ]
    first = min((each.next_xid for each in checkpoints if each.redo >= start), default=None)
    ended = (xid for part in log.indexes for xid in part.ends.xid[(part.ends.lsn >= start) & (part.ends.lsn < captured)].tolist())
    return sorted({xid for xid in ended if first is None or xid < first})


def _prepared_before(indexes: Sequence[Index], transactions: Transactions) -> frozenset[int]:
    """Transactions that come with their rows at COMMIT PREPARED, and were prepared before the first index. No checkpoint names them."""

    def ended_as(kind: int) -> NDArray[np.integer]:
        return np.concatenate([part.ends.xid[part.ends.kind == kind] for part in indexes])

    committed = ended_as(xact.COMMIT_PREPARED)
    committed = committed[~np.isin(committed, ended_as(xact.PREPARE))]
    if not len(committed):
        return frozenset()
    return frozenset(committed[np.isin(committed, transactions.full_xid[transactions.kind == xact.COMMIT])].tolist())


def first_redo(indexes: Sequence[Index]) -> Lsn:
    """The earliest redo pointer from which WAL is at hand: from there on, the first touch of every page carries its image."""
    checkpoint = _first_checkpoint(indexes)
    if checkpoint is None:
        raise MissingHistory(
            f"no checkpoint whose redo pointer lies between {indexes[0].first} and {indexes[-1].next_lsn}",
            hint="Without a captured catalog state (--catalog), decoding must start from a checkpoint.",
            lsn=indexes[0].first,
        )
    return checkpoint.redo


def _first_checkpoint(indexes: Sequence[Index]) -> Checkpoint | None:
    """The first whose redo pointer lies in the WAL at hand."""
    checkpoints = (state.record for state in server_states(indexes) if isinstance(state.record, Checkpoint))
    return next((each for each in checkpoints if each.redo >= indexes[0].stretch.start), None)


def _all_ended(running: frozenset[int], indexes: Sequence[Index], since: Lsn) -> Lsn:
    """Where the last of `running` ended. One that never did in this WAL can also never be shown."""
    last = int(since)
    for part in indexes:
        mine = np.isin(part.ends.xid, np.array(sorted(running), np.int64))
        if mine.any():
            last = max(last, int(part.ends.lsn[mine].max()) + 1)
    return Lsn(last)


def whole(
    transactions: Transactions,
    shown: NDArray[np.int64],
    unread: frozenset[int],
    consistent: Lsn,
    known_from: int,
    *,
    explicit: bool,
) -> NDArray[np.int64]:
    """Those of `shown` that lie whole where WAL and catalogs are known. If the user named the start, one that does not is an error."""
    cut = (transactions.first_lsn[shown] < known_from) | np.isin(transactions.full_xid[shown], np.array(sorted(unread), np.int64))
    cut &= transactions.has_rows[shown]
    if explicit and cut.any():
        first = int(shown[np.flatnonzero(cut)[0]])
        xid, commit = int(transactions.xid[first]), Lsn(int(transactions.commit_lsn[first]))
        if transactions.first_lsn[first] >= known_from:
            raise MissingHistory(
                f"transaction {xid} began before the WAL at hand and commits at {commit}",
                hint=f"Give older WAL, or start at {consistent}, from where every transaction is read whole.",
                lsn=commit,
            )
        raise MissingHistory(
            f"what tables were is known from {Lsn(known_from)} on, and transaction {xid}, which commits at {commit}, began before that",
            hint=f"That is where the first checkpoint in this WAL begins. Give a catalog state captured earlier (--catalog), older WAL, or start at "
            f"{consistent}, from where every transaction is read whole.",
            lsn=commit,
        )
    return shown[~cut]


def left_out(transactions: Transactions, xids: AllXids, wanted: NDArray[np.int64], taken: NDArray[np.int64], reason: str) -> str:
    """A warning, if of the transactions that are wanted (ordinals, ascending) and have rows only some could be taken."""
    lost = wanted[~np.isin(wanted, taken)]
    lost = lost[np.isin(lost, xids.ordinal[xids.rows > 0])]
    if not len(lost):
        return ""
    rows = int(xids.rows[np.isin(xids.ordinal, lost)].sum())
    first, last = (Lsn(int(transactions.commit_lsn[ordinal])) for ordinal in (lost[0], lost[-1]))
    with_rows = f"with {rows} {'row' if rows == 1 else 'rows'} at hand"
    if len(lost) == 1:
        return f"left out is 1 transaction {with_rows}, which commits at {first}: {reason}"
    return f"left out are {len(lost)} transactions {with_rows}, which commit from {first} to {last}: {reason}"
