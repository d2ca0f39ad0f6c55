"""When what a receiver was told of a relation has become stale (`ReorderBufferExecuteInvalidations`, `SnapBuildDistributeSnapshotAndInval`).

In: a scanned log, whose indexes keep what each command made stale (XACT_INVALIDATIONS). Out: `Stale`. The server's caches hear of a command

- within its own transaction, where it stands;
- within every other transaction that is in progress when that one commits, where it commits;
- where each of these transactions ends, once more;
- at once, if the command has no transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.model import Lsn
from tailrace.plan.xids import AllXids, all_xids
from tailrace.transactions.fates import Transactions
from tailrace.transactions.scanned_log import ScannedLog, StaleAt
from tailrace.wal import index, xact
from tailrace.wal.invalidations import EVERY_RELATION, read_invalidations, stale_relations
from tailrace.wal.kept import kept_records
from tailrace.wal.xact import Invalidations


@dataclass(frozen=True, slots=True)
class Stale:
    """`ended` holds for all transactions that end behind its LSNs; `within`, by ordinal, for the rows of that transaction behind its LSNs."""

    ended: StaleAt
    within: dict[int, StaleAt]

    def points(self, ordinal: int, oid: int) -> list[int]:
        """Behind which LSNs within a transaction a relation is stale."""
        mine = self.within.get(ordinal)
        return [] if mine is None else np.unique(mine.lsn[np.isin(mine.oid, (oid, EVERY_RELATION))]).tolist()


class _Command(NamedTuple):
    """`xid` is full, 0 for none."""

    lsn: Lsn
    xid: int
    oids: NDArray[np.int64]


_Owners = dict[int, tuple[int, bool]]
"""By full xid, the transaction that it belongs to, and whether it was rolled back alone."""


def stale(log: ScannedLog, database: int, major: int) -> Stale:
    """What is stale to the transactions that `log` tells of."""
    commands = list(_commands(log, database, major))
    if not commands and not len(log.earlier.stale.lsn):
        return Stale(StaleAt(), {})
    xids = all_xids(log.indexes, log.fates)
    owner = _owners(xids)
    transactions = log.fates.transactions.beginning_at(xids.first_lsns(log.fates.transactions))
    ended: list[tuple[int, int]] = []
    own: dict[int, list[tuple[int, int]]] = {}
    within: dict[int, list[tuple[int, int]]] = {}
    for lsn, xid, oids in commands:
        if not xid:
            ended += [(lsn, oid) for oid in oids.tolist()]
            continue
        ordinal, rolled_back = owner.get(xid, (-1, False))
        if ordinal >= 0:
            own.setdefault(ordinal, []).extend((lsn, oid) for oid in oids.tolist())
            if not rolled_back:
                within.setdefault(ordinal, []).extend((lsn, oid) for oid in oids.tolist())
    for ordinal, said in own.items():
        ended += [(int(transactions.commit_lsn[ordinal]), oid) for _, oid in said]
    # A prepared transaction ends twice.
    for ordinal in np.flatnonzero(~transactions.has_rows & (transactions.prepared >= 0)).tolist():
        said = own.get(int(transactions.prepared[ordinal]), [])
        ended += [(int(transactions.commit_lsn[ordinal]), oid) for _, oid in said]
    for ordinal, meanwhile in _meanwhile(transactions, _seen(log, commands, owner)):
        mine = meanwhile.pairs()
        within.setdefault(ordinal, []).extend(mine)
        ended += [(int(transactions.commit_lsn[ordinal]), oid) for _, oid in mine]
    return Stale(StaleAt.of(sorted(set(ended))), {ordinal: StaleAt.of(sorted(set(said))) for ordinal, said in within.items()})


def seen_stale(log: ScannedLog, database: int, major: int) -> StaleAt:
    """What commits made stale, in this log and, as far as a transaction that is open knows it, before."""
    commands = list(_commands(log, database, major))
    return _seen(log, commands, _owners(all_xids(log.indexes, log.fates))) if commands else log.earlier.stale


def _seen(log: ScannedLog, commands: Sequence[_Command], owner: _Owners) -> StaleAt:
    commits = _commits(log.fates.transactions)
    said = log.earlier.stale.pairs()
    for _, xid, oids in commands:
        ordinal, _ = owner.get(xid, (-1, False))
        if ordinal >= 0 and commits[ordinal]:
            said += [(int(commits[ordinal]), oid) for oid in oids.tolist()]
    return StaleAt.of(sorted(set(said)))


def _commands(log: ScannedLog, database: int, major: int) -> Iterator[_Command]:
    for kept in kept_records(log.indexes, index.INVALIDATIONS):
        messages = read_invalidations(np.frombuffer(kept.read(Invalidations).messages, np.uint8))
        oids = stale_relations(messages, database, major)
        if len(oids):
            yield _Command(kept.lsn, log.clock.full(kept.xid, kept.lsn) if kept.xid else 0, oids)


def _owners(xids: AllXids) -> _Owners:
    changes = (xids.flags & index.CHANGES_CATALOG) != 0
    rows = zip(xids.xid[changes].tolist(), xids.ordinal[changes].tolist(), xids.orphan[changes].tolist(), strict=True)
    return {xid: (ordinal, orphan) for xid, ordinal, orphan in rows}


def _commits(transactions: Transactions) -> NDArray[np.int64]:
    """By ordinal, where others come to see what it did; 0 if they do not, or not here."""
    commits = np.where(transactions.kind == xact.COMMIT, transactions.commit_lsn, 0)
    later = np.flatnonzero((transactions.kind == xact.COMMIT_PREPARED) & (transactions.prepared >= 0))
    commits[transactions.prepared[later]] = transactions.commit_lsn[later]
    return commits


def _meanwhile(transactions: Transactions, committed: StaleAt) -> Iterator[tuple[int, StaleAt]]:
    """By ordinal, what others made stale while a transaction was in progress."""
    if not len(committed.lsn):
        return
    first = np.searchsorted(committed.lsn, transactions.first_lsn, "right")
    stop = np.searchsorted(committed.lsn, transactions.commit_lsn)
    for ordinal in np.flatnonzero(transactions.has_rows & (stop > first)).tolist():
        those = slice(int(first[ordinal]), int(stop[ordinal]))
        yield ordinal, StaleAt(committed.lsn[those], committed.oid[those])
