"""Which commits invalidate the RelationSyncEntry that pgoutput keeps of a relation, and for which transactions
(`ReorderBufferExecuteInvalidations`, `SnapBuildDistributeSnapshotAndInval`).

In: a scanned log, whose indexes keep what each command invalidated (XACT_INVALIDATIONS). Out: `RelationInvalidations`. The server's caches hear of a
command

- within its own transaction, where it stands;
- within every other transaction that is in progress when that one commits, where it commits;
- where each of these transactions ends, once more;
- at once, if the command has no transaction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.plan.xids import AllXids, all_xids
from tailrace.ragged import ranges
from tailrace.transactions.commit_or_abort import Transactions
from tailrace.transactions.scanned_log import InvalidatedRelations, ScannedLog
from tailrace.wal import index, xact
from tailrace.wal.invalidations import EVERY_RELATION, NOTHING, invalidated_relations, invalidations_of
from tailrace.wal.kept_records import main_data


@dataclass(frozen=True, slots=True)
class RelationInvalidations:
    """`ended` holds for all transactions that end behind its LSNs; `within`, by ordinal, for the rows of that transaction behind its LSNs. Known up
    to `end`, where blocks of what is open end as transactions do."""

    ended: InvalidatedRelations
    within: dict[int, InvalidatedRelations]
    end: Lsn

    def points(self, ordinal: int, oid: int) -> list[int]:
        """Behind which LSNs within a transaction a relation is invalidated."""
        mine = self.within.get(ordinal)
        return [] if mine is None else np.unique(mine.lsn[np.isin(mine.oid, (oid, EVERY_RELATION))]).tolist()


class _Commands(NamedTuple):
    """What commands invalidated, in WAL order: relations (oids), where, and the full xid whose command it was; 0 for none."""

    lsn: NDArray[np.int64]
    xid: NDArray[np.int64]
    oid: NDArray[np.int64]


class _Within(NamedTuple):
    """What is invalidated within transactions, behind which LSNs."""

    ordinal: NDArray[np.int64]
    lsn: NDArray[np.int64]
    oid: NDArray[np.int64]


def relation_invalidations(log: ScannedLog, database: int, major: int) -> RelationInvalidations:
    """When caches of relations are invalidated for the transactions of `log`."""
    said = _commands(log, database, major)
    if not len(said.lsn) and not len(log.earlier.invalidated.lsn):
        return RelationInvalidations(InvalidatedRelations(), {}, log.end)
    xids = all_xids(log.indexes, log.outcomes)
    transactions = log.outcomes.transactions.beginning_at(xids.first_lsns(log.outcomes.transactions))
    ordinal, rolled_back = _owners(xids, said.xid)
    owned, lasting = ordinal >= 0, (ordinal >= 0) & ~rolled_back
    meanwhile = _meanwhile(transactions, _committed(log, said, ordinal))
    at_once = said.xid == 0
    second_end = _second_ends(transactions)[ordinal] * owned
    ended = _distinct(
        np.concatenate(
            [
                said.lsn[at_once],
                transactions.commit_lsn[ordinal[owned]],
                second_end[second_end > 0],
                transactions.commit_lsn[meanwhile.ordinal],
            ]
        ),
        np.concatenate([said.oid[at_once], said.oid[owned], said.oid[second_end > 0], meanwhile.oid]),
    )
    within = _distinct(
        np.concatenate([ordinal[lasting], meanwhile.ordinal]),
        np.concatenate([said.lsn[lasting], meanwhile.lsn]),
        np.concatenate([said.oid[lasting], meanwhile.oid]),
    )
    return RelationInvalidations(InvalidatedRelations(*ended), _by_ordinal(_Within(*within)), log.end)


def _second_ends(transactions: Transactions) -> NDArray[np.int64]:
    """By ordinal, where a prepared transaction was committed or rolled back: it ends twice. 0 for others, and, at the end, for none."""
    ends = np.zeros(len(transactions) + 1, np.int64)
    later = np.flatnonzero(~transactions.has_rows & (transactions.prepared >= 0))
    ends[transactions.prepared[later]] = transactions.commit_lsn[later]
    return ends


def committed_invalidations(log: ScannedLog, database: int, major: int) -> InvalidatedRelations:
    """What commits invalidated, in this log and, as far as a transaction that is open knows it, before."""
    said = _commands(log, database, major)
    if not len(said.lsn):
        return log.earlier.invalidated
    ordinal, _ = _owners(all_xids(log.indexes, log.outcomes), said.xid)
    return _committed(log, said, ordinal)


def _committed(log: ScannedLog, said: _Commands, ordinal: NDArray[np.int64]) -> InvalidatedRelations:
    """The same, of commands whose transactions are known."""
    commits = np.append(_commits(log.outcomes.transactions), 0)[ordinal]  # of what belongs to none, 0
    seen = commits > 0
    earlier = log.earlier.invalidated
    return InvalidatedRelations(
        *_distinct(np.concatenate([earlier.lsn, commits[seen]]), np.concatenate([earlier.oid, said.oid[seen]]))
    )


def _commands(log: ScannedLog, database: int, major: int) -> _Commands:
    parts = [_Commands(*(np.zeros(0, np.int64) for _ in _Commands._fields))]
    for part in log.indexes:
        kept = main_data(part, index.KEPT_INVALIDATIONS)
        record, messages = invalidations_of(kept)
        oid = invalidated_relations(messages, database, major)
        named = oid != NOTHING
        lsn, xid = kept.lsn, log.clock.all_full(kept.xid, kept.lsn)
        parts.append(_Commands(lsn[record[named]], xid[record[named]], oid[named]))
    return _Commands(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _owners(xids: AllXids, xid: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The transactions that these full xids belong to (ordinals, -1: to none at hand), and whether they were rolled back alone."""
    changes = np.flatnonzero((xids.flags & index.CHANGES_CATALOG) != 0)
    if not len(changes):
        return np.full(len(xid), -1), np.zeros(len(xid), np.bool_)
    known, first = np.unique(xids.xid[changes], return_index=True)
    place = np.searchsorted(known, xid)
    found = (np.append(known, -1)[place] == xid) & (xid > 0)
    row = np.append(changes[first], 0)[place]
    return np.where(found, np.maximum(xids.ordinal[row], -1), -1), found & xids.orphan[row]


def _commits(transactions: Transactions) -> NDArray[np.int64]:
    """By ordinal, where others come to see what it did; 0 if they do not, or not here."""
    commits = np.where(transactions.kind == xact.COMMIT, transactions.commit_lsn, 0)
    later = np.flatnonzero((transactions.kind == xact.COMMIT_PREPARED) & (transactions.prepared >= 0))
    commits[transactions.prepared[later]] = transactions.commit_lsn[later]
    return commits


def _meanwhile(transactions: Transactions, committed: InvalidatedRelations) -> _Within:
    """What others invalidated while a transaction was in progress."""
    first = np.searchsorted(committed.lsn, transactions.first_lsn, "right")
    stop = np.searchsorted(committed.lsn, transactions.commit_lsn)
    counts = np.where(transactions.has_rows, np.maximum(stop - first, 0), 0)
    those = ranges(first, counts)
    return _Within(np.repeat(np.arange(len(counts)), counts), committed.lsn[those], committed.oid[those])


def _distinct(*columns: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The rows in their order, each once."""
    order = np.lexsort(columns[::-1])
    rows = [column[order] for column in columns]
    changed = np.logical_or.reduce([column[1:] != column[:-1] for column in rows])
    return [column[np.append(np.ones(min(len(order), 1), np.bool_), changed)] for column in rows]


def _by_ordinal(within: _Within) -> dict[int, InvalidatedRelations]:
    ordinals, starts = np.unique(within.ordinal, return_index=True)
    stops = np.append(starts, len(within.ordinal))[1:]
    return {
        ordinal: InvalidatedRelations(within.lsn[start:stop], within.oid[start:stop])
        for ordinal, start, stop in zip(ordinals.tolist(), starts.tolist(), stops.tolist(), strict=True)
    }
