"""Indexes + catalog history -> what to decode, stretch by stretch, and in which order it comes out.

In: the indexes of consecutive stretches and the history of one database. Out: `Plan`: the transactions to show, in commit order; for each stretch
that holds rows of theirs a `StretchPlan`; the messages and TRUNCATEs, which need no second pass. Nothing here reads WAL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history import History
from tailrace.catalog.names.timeline import name_timeline
from tailrace.model import Lsn, Relation
from tailrace.plan.consistency import consistency, left_out, whole
from tailrace.plan.decodable import logged_for_decoding
from tailrace.plan.demand import OF_TABLES, Demand
from tailrace.plan.events import LogicalMessage, Truncation, messages_of, truncations_of
from tailrace.plan.files import FileMapper
from tailrace.plan.stretch import Carried, StretchPlan
from tailrace.plan.xids import AllXids, all_xids
from tailrace.transactions.epochs import XidClock
from tailrace.transactions.fates import Fates, Transactions
from tailrace.wal import index
from tailrace.wal.index import Index


@dataclass(slots=True)
class Plan:
    """What comes out, and from where. `shown` are ordinals into `transactions`, ascending; `row_bytes` of WAL their rows take, per shown one.
    `warnings` say what does not come out though it lies in the WAL at hand, and no start was named."""

    transactions: Transactions
    shown: NDArray[np.int64]
    row_bytes: NDArray[np.int64]
    stretches: list[StretchPlan]
    messages: list[LogicalMessage]
    truncations: list[Truncation]
    consistent_from: Lsn
    start_lsn: Lsn
    upto_lsn: Lsn
    demand: Demand
    warnings: tuple[str, ...]

    @property
    def relations(self) -> tuple[Relation, ...]:
        return tuple({relation: None for stretch in self.stretches for relation in stretch.relations})

    def restricted_to(self, wanted: NDArray[np.bool_]) -> list[StretchPlan]:
        """The stretches with only these transactions (by ordinal); those without any drop out."""
        return [part for stretch in self.stretches if (part := stretch.restricted_to(wanted)) is not None]


def make_plan(
    indexes: Sequence[Index], history: History, fates: Fates, clock: XidClock, *, start_lsn: Lsn | None, upto_lsn: Lsn | None, segment_size: int,
    open_at_start: dict[int, int] | None = None, demand: Demand = OF_TABLES,
) -> Plan:  # fmt: skip
    """Decide what to show of `[start_lsn, upto_lsn)`, as `demand` asks, and where it lies. `history` and `fates` were made for the same demand.

    Xids are full here and in `indexes`, as `clock` has widened them. `open_at_start` are those that a captured state knows to have been open, with
    their first LSN: the ones that began within the indexes are read whole.
    Raises MissingHistory if a transaction to be shown began before the first index.
    """
    transactions = fates.transactions
    xids = all_xids(indexes, fates)
    _note_first_lsns(transactions, xids)
    unread, consistent_from = consistency(indexes, open_at_start, transactions, clock)
    start = start_lsn if start_lsn is not None else consistent_from
    upto = upto_lsn if upto_lsn is not None else Lsn(2**63 - 1)
    messages = messages_of(indexes, fates, clock, history.database, start, upto, only_local=demand.only_local)
    ours = (transactions.commit_lsn < upto) & ((transactions.database == history.database) | (transactions.database == 0))
    if demand.only_local:
        ours &= transactions.origin == 0
    told = np.flatnonzero(ours & (_are_told(transactions, xids, messages) | _are_of(unread, transactions)))
    explicit = start_lsn is not None
    readable = whole(
        transactions,
        told[transactions.commit_lsn[told] >= start],
        unread,
        max(consistent_from, Lsn(history.known_from)),
        history.known_from,
        explicit=explicit,
    )
    begins = xids.begins(len(transactions))
    shown = logged_for_decoding(indexes, transactions, begins, readable, explicit=explicit)
    warnings = [
        left_out(transactions, xids, told, readable, _unknown(indexes, history)),
        left_out(transactions, xids, readable, shown, "they began while wal_level was below logical"),
    ]

    row_bytes = np.zeros(len(transactions), np.int64)
    wanted = np.zeros(len(transactions), np.bool_)
    wanted[shown] = True
    np.add.at(row_bytes, xids.ordinal[xids.owned], xids.bytes[xids.owned])
    messages = [message for message in messages if message.ordinal < 0 or wanted[message.ordinal]]
    stretches = _stretch_plans(indexes, fates, begins, wanted, history, segment_size, demand)
    truncations = truncations_of(indexes, fates, clock, wanted, history, only_local=demand.only_local)
    return Plan(
        transactions, shown, row_bytes[shown], stretches, messages, truncations, consistent_from, start, upto, demand,
        () if explicit else tuple(filter(None, warnings)),
    )  # fmt: skip


def _unknown(indexes: Sequence[Index], history: History) -> str:
    return (
        f"the WAL at hand begins at {indexes[0].first}, and what tables were is known from {Lsn(history.known_from)} on; "
        "a catalog state captured earlier (--catalog) knows more"
    )


def _are_of(unread: frozenset[int], transactions: Transactions) -> NDArray[np.bool_]:
    """Which transactions may have rows before the WAL at hand, and so have something to tell though nothing of it is here."""
    return np.isin(transactions.full_xid, np.array(sorted(unread), np.int64)) & transactions.has_rows


def _note_first_lsns(transactions: Transactions, xids: AllXids) -> None:
    """Where each transaction's own first record is."""
    transactions.first_lsn[:] = np.iinfo(np.int64).max
    if len(transactions):
        own = xids.owned & (xids.xid == transactions.full_xid[np.maximum(xids.ordinal, 0)])
        np.minimum.at(transactions.first_lsn, xids.ordinal[own], xids.first_lsn[own])


def _are_told(transactions: Transactions, xids: AllXids, messages: Sequence[LogicalMessage]) -> NDArray[np.bool_]:
    """Which transactions get a BEGIN and COMMIT: those that the server keeps changes, or a snapshot, for."""
    told = np.zeros(len(transactions), np.bool_)
    # A heap record gives a transaction its snapshot; so does, at its commit, a catalog change. Those of rolled-back subtransactions count.
    told[xids.ordinal[xids.owned & ((xids.flags & (index.HAS_CHANGE | index.CHANGES_CATALOG)) != 0)]] = True
    told[[message.ordinal for message in messages if message.ordinal >= 0]] = True
    # What ends a prepared transaction is told if the transaction itself was, be it before the WAL at hand.
    ends_prepared = ~transactions.has_rows
    told[ends_prepared] = True
    told_before = ends_prepared & (transactions.prepared >= 0)
    told[told_before] = told[transactions.prepared[told_before]]
    return told


def _stretch_plans(
    indexes: Sequence[Index],
    fates: Fates,
    begins: NDArray[np.int64],
    wanted: NDArray[np.bool_],
    history: History,
    segment_size: int,
    demand: Demand,
) -> list[StretchPlan]:
    commits = fates.transactions.commit_lsn
    mapper = FileMapper(history, begins, commits, wanted, rewrites=demand.rewrites)
    plans: list[StretchPlan] = []
    waiting: dict[int, list[tuple[Index, NDArray[np.int64]]]] = {}
    confirmed = _confirmed_elsewhere(indexes)
    for found in indexes:
        ordinal = fates.ordinals_of(found.xids.xid)
        mine = (ordinal >= 0) & ((found.xids.flags & (index.HAS_ROWS | index.STARTS_WITH_CONFIRM)) != 0)
        mine[mine] = wanted[ordinal[mine]]
        if mine.any():
            order = np.argsort(found.xids.xid[mine])
            xids = found.xids.xid[mine][order]
            file_map, relations = mapper.map(found)
            carried = tuple(
                Carried(
                    source.stretch, source.waiting_lsn[chunks], np.full(len(chunks), xid, np.int64), source.waiting_crc[chunks]
                )
                for xid in (xids[np.isin(xids, list(waiting))].tolist() if waiting else ())
                for source, chunks in waiting[xid]
            )
            plans.append(
                StretchPlan(
                    found.stretch,
                    int(found.first) if found.first else int(found.stretch.start),
                    segment_size,
                    found.major,
                    found.fingerprint,
                    xids,
                    ordinal[mine][order],
                    found.xids.bytes[mine][order],
                    file_map,
                    relations,
                    carried,
                    confirmed,
                    name_timeline(history, found.stretch, relations, ordinal[mine], found.xids.first_lsn[mine], commits),
                    history.codec,
                    demand.only_local,
                )
            )
        # Chunks wait for the row that they serve, over as many stretches as it takes.
        if waiting:
            closed = found.xids.xid[(found.xids.flags & index.CLOSED_TOAST) != 0]
            for xid in closed.tolist():
                waiting.pop(xid, None)
        for xid in np.unique(found.waiting_xid).tolist():
            waiting.setdefault(xid, []).append((found, np.flatnonzero(found.waiting_xid == xid)))
    return plans


def _confirmed_elsewhere(indexes: Sequence[Index]) -> NDArray[np.int64]:
    """LSNs of speculative inserts at the end of one stretch whose confirmation begins a later one."""
    confirmed: list[int] = []
    waiting: dict[int, int] = {}
    for found in indexes:
        for slot in np.flatnonzero(found.xids.flags & (index.STARTS_WITH_CONFIRM | index.STARTS_WITH_CANCEL)).tolist():
            lsn = waiting.pop(int(found.xids.xid[slot]), None)
            if lsn is not None and found.xids.flags[slot] & index.STARTS_WITH_CONFIRM:
                confirmed.append(lsn)
        for slot in np.flatnonzero(found.xids.speculative).tolist():
            waiting[int(found.xids.xid[slot])] = int(found.xids.speculative[slot])
    return np.array(confirmed, np.int64)
