"""From where on transactions are known whole (`snapbuild.c`), and whether the stretches at hand fit together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CorruptWal, MissingHistory
from tailrace.model import Lsn
from tailrace.plan.xids import AllXids
from tailrace.transactions.epochs import XidClock
from tailrace.transactions.fates import Transactions
from tailrace.wal import index, xact
from tailrace.wal.index import Index
from tailrace.wal.kept import Checkpoint, RunningXacts, moments


def check_chain(indexes: Sequence[Index]) -> None:
    """Neighbouring stretches must fit: the first record of one names the last of the one before (xl_prev)."""
    last: Lsn | None = None
    for found in indexes:
        if not found.records:
            continue
        if last is not None and found.previous != last and not _begins_after_overwrite(found):
            raise CorruptWal(
                f"record with incorrect prev-link {found.previous} at {found.first}", context=f"the record before it is at {last}"
            )
        last = found.last


def _begins_after_overwrite(found: Index) -> bool:
    rows = found.kept.rows_of(index.TIMELINE_END)
    return bool(len(rows)) and int(found.kept.lsn[rows[0]]) == found.first


def consistency(
    indexes: Sequence[Index], open_at_start: dict[int, int] | None, transactions: Transactions, clock: XidClock
) -> tuple[frozenset[int], Lsn]:
    """Transactions that may have begun before the first index, and the LSN from which all that commit are read whole. All xids are full.

    The first RUNNING_XACTS behind the first redo pointer names those that were running; so does a captured state. A shutdown checkpoint, or nothing
    running, is consistent at once, but for prepared transactions; otherwise the consistent point lies where the last of the running has ended.
    One that is logged before the redo pointer does not know who began between the two, where the catalogs are not known yet.
    """
    first = indexes[0].stretch.start
    prepared = _prepared_before(indexes, transactions)
    if open_at_start is not None:
        unread = frozenset(xid for xid, lsn in open_at_start.items() if lsn < first) | prepared
        return unread, _all_ended(unread, indexes, first)
    redo, next_xid = _first_checkpoint(indexes)
    for moment in moments(indexes):
        if moment.lsn < redo:
            continue
        if isinstance(moment, Checkpoint) and moment.is_shutdown:
            return prepared, _all_ended(prepared, indexes, moment.lsn)
        if isinstance(moment, RunningXacts):
            running = frozenset(clock.full(xid, moment.lsn) for xid in moment.running.tolist())
            earlier = (xid for part in indexes for xid in part.ends.xid[part.ends.lsn < moment.lsn].tolist())
            before = frozenset(xid for xid in (*running, *earlier) if xid < next_xid)
            return before | prepared, _all_ended(running | prepared, indexes, moment.lsn)
    raise MissingHistory(
        f"no consistent point between {indexes[0].first} and {indexes[-1].next_lsn}",
        hint="The WAL holds neither a RUNNING_XACTS record nor a shutdown checkpoint. Run CHECKPOINT on the source, or give a captured catalog state.",  # noqa: E501
    )


def _prepared_before(indexes: Sequence[Index], transactions: Transactions) -> frozenset[int]:
    """Transactions that come with their rows at COMMIT PREPARED, and were prepared before the first index. No checkpoint names them."""

    def ended_as(kind: int) -> NDArray[np.integer]:
        return np.concatenate([found.ends.xid[found.ends.kind == kind] for found in indexes])

    committed = ended_as(xact.COMMIT_PREPARED)
    committed = committed[~np.isin(committed, ended_as(xact.PREPARE))]
    if not len(committed):
        return frozenset()
    return frozenset(committed[np.isin(committed, transactions.full_xid[transactions.kind == xact.COMMIT])].tolist())


def _first_checkpoint(indexes: Sequence[Index]) -> tuple[int, int]:
    """The redo pointer of the first checkpoint at hand, and the transaction id that was next there: what has it, or a later one, began after that."""
    for moment in moments(indexes):
        if isinstance(moment, Checkpoint) and moment.redo >= indexes[0].stretch.start:
            return moment.redo, moment.next_xid
    return 0, 0


def _all_ended(running: frozenset[int], indexes: Sequence[Index], since: Lsn) -> Lsn:
    """Where the last of `running` ended. One that never did in this WAL can also never be shown."""
    last = int(since)
    for found in indexes:
        mine = np.isin(found.ends.xid, np.array(sorted(running), np.int64))
        if mine.any():
            last = max(last, int(found.ends.lsn[mine].max()) + 1)
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
            )
        raise MissingHistory(
            f"what tables were is known from {Lsn(known_from)} on, and transaction {xid}, which commits at {commit}, began before that",
            hint=f"That is where the first checkpoint in this WAL begins. Give a catalog state captured earlier (--catalog), older WAL, or start at "
            f"{consistent}, from where every transaction is read whole.",
        )
    return shown[~cut]


def left_out(transactions: Transactions, xids: AllXids, wanted: NDArray[np.int64], taken: NDArray[np.int64], reason: str) -> str:
    """A warning, if of the transactions that are wanted (ordinals, ascending) only some could be taken."""
    if len(wanted) == len(taken):
        return ""
    lost = wanted[~np.isin(wanted, taken)]
    rows = int(xids.rows[np.isin(xids.ordinal, lost)].sum())
    first, last = (Lsn(int(transactions.commit_lsn[ordinal])) for ordinal in (lost[0], lost[-1]))
    return f"left out are {len(lost)} transactions with {rows} rows at hand, which commit from {first} to {last}: {reason}"
