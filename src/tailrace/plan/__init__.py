"""The planner: it reads the indexes of a log and the history of its catalogs, and decides which transactions are decoded and in which order.

In: the indexes of consecutive stretches and the history of one database. Out: `Plan`: the transactions to show, in commit order; for each stretch
that holds rows of theirs a `StretchPlan`; the messages and TRUNCATEs, which need no second pass. Nothing here reads WAL.

A transaction is *told* if the server would call an output plugin for it, with changes or only for BEGIN and COMMIT. Of those told, those are *shown*
that commit in the range asked for, and whose WAL and catalogs are at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.history import History
from tailrace.dataclass import dataclass
from tailrace.majors import BARE_PREPARES, supports
from tailrace.model import Lsn, Relation
from tailrace.plan.consistency import consistency, left_out, whole
from tailrace.plan.decodable import logged_for_decoding
from tailrace.plan.demand import OF_TABLES, Demand
from tailrace.plan.events import LogicalMessage, Truncation, messages_of, origins_of_events, truncations_of
from tailrace.plan.origin_filter import unwanted_origins
from tailrace.plan.streams import Streams
from tailrace.plan.stretch_plan import StretchPlan
from tailrace.plan.stretch_planner import stretch_plans
from tailrace.plan.xids import AllXids, all_xids
from tailrace.transactions.blocks import NO_BLOCKS, Blocks
from tailrace.transactions.commit_or_abort import BARE_PREPARE, Transactions
from tailrace.transactions.scanned_log import ScannedLog
from tailrace.wal import index, xact
from tailrace.wal.index import Index


@dataclass(slots=True)
class Plan:
    """What is decoded of a log, and where it lies. `shown` are the ordinals (indexes into `transactions`) of those that an outlet gets, ascending,
    and `row_bytes` how much WAL the rows of each take. `warnings` name transactions of the WAL at hand that cannot be decoded, if no start was
    given."""

    transactions: Transactions
    shown: NDArray[np.int64]
    row_bytes: NDArray[np.int64]
    streams: Streams
    stretches: list[StretchPlan]
    messages: list[LogicalMessage]
    truncations: list[Truncation]
    consistent_from: Lsn
    start_lsn: Lsn
    upto_lsn: Lsn
    demand: Demand
    unwanted_origins: NDArray[np.uint16]
    is_strict: bool
    warnings: tuple[str, ...]

    @property
    def relations(self) -> tuple[Relation, ...]:
        return tuple({relation: None for stretch in self.stretches for relation in stretch.relations})

    def restricted_to(self, wanted: NDArray[np.bool_]) -> list[StretchPlan]:
        """The stretches with only these transactions (by ordinal); those without any drop out."""
        return [part for stretch in self.stretches if (part := stretch.restricted_to(wanted)) is not None]


def make_plan(
    log: ScannedLog, history: History, *, start_lsn: Lsn | None, upto_lsn: Lsn | None, demand: Demand = OF_TABLES, is_strict: bool | None = None,
    blocks: Blocks = NO_BLOCKS, asked_from: int = 0,
) -> Plan:  # fmt: skip
    """Plan the transactions that commit in `[start_lsn, upto_lsn)`, as `demand` asks. `log` and `history` were made for the same demand, and the
    `blocks` of transactions in progress are among the transactions of `log`. Nothing is warned of that commits before `asked_from`.

    If it `is_strict`, as it is where a start was named, raises MissingHistory if a transaction to be shown began before the first index.
    """
    indexes, outcomes = log.indexes, log.outcomes
    xids = all_xids(indexes, outcomes)
    transactions = outcomes.transactions.beginning_at(xids.first_lsns(outcomes.transactions))
    unread, consistent_from = consistency(log)
    start = start_lsn if start_lsn is not None else consistent_from
    upto = upto_lsn if upto_lsn is not None else Lsn(2**63 - 1)
    unwanted = unwanted_origins(demand.filter_by_origin, history, transactions, origins_of_events(log))
    messages = messages_of(log, history.database, start, upto, set(unwanted.tolist()))
    ours = (transactions.commit_lsn < upto) & ((transactions.database == history.database) | (transactions.database == 0))
    ours &= ~np.isin(transactions.origin, unwanted)
    begun = _are_begun(transactions, xids, messages) | _are_of(unread, transactions)
    transactions = _with_bare_prepares(transactions, begun, xids, history.major)
    told = np.flatnonzero(ours & (begun | _are_told_besides(transactions, begun, xids)))
    explicit = start_lsn is not None if is_strict is None else is_strict
    readable = whole(
        transactions,
        told[transactions.commit_lsn[told] >= start],
        unread,
        max(consistent_from, Lsn(history.known_from)),
        history.known_from,
        explicit=explicit,
    )
    begins = xids.begins(len(transactions))
    shown = logged_for_decoding(log, begins, readable, explicit=explicit)
    warnings = [
        left_out(transactions, xids, told[transactions.commit_lsn[told] >= asked_from], readable, _unknown(indexes, history)),
        left_out(transactions, xids, readable, shown, "they began while wal_level was below logical"),
    ]

    row_bytes = xids.row_bytes(len(transactions))
    wanted = np.zeros(len(transactions), np.bool_)
    wanted[shown] = True
    messages = [message for message in messages if message.ordinal < 0 or wanted[message.ordinal]]
    truncations = truncations_of(log, wanted, history, set(unwanted.tolist()))
    streams = Streams.of(transactions, xids, row_bytes, (messages, truncations), blocks)
    return Plan(
        transactions=transactions,
        shown=shown,
        row_bytes=row_bytes[shown],
        streams=streams,
        stretches=stretch_plans(log, history, begins, wanted, demand, streams, unwanted),
        messages=streams.left(messages),
        truncations=streams.left(truncations),
        consistent_from=consistent_from,
        start_lsn=start,
        upto_lsn=upto,
        demand=demand,
        unwanted_origins=unwanted,
        is_strict=explicit,
        warnings=() if explicit else tuple(filter(None, warnings)),
    )


def _unknown(indexes: Sequence[Index], history: History) -> str:
    return (
        f"the WAL at hand begins at {indexes[0].first}, and what tables were is known from {Lsn(history.known_from)} on; "
        "a catalog state captured earlier (--catalog) knows more"
    )


def _are_of(unread: frozenset[int], transactions: Transactions) -> NDArray[np.bool_]:
    """Which transactions may have rows before the WAL at hand, so that they are decoded though no row of theirs is here."""
    return np.isin(transactions.full_xid, np.array(sorted(unread), np.int64)) & transactions.has_rows


def _are_begun(transactions: Transactions, xids: AllXids, messages: Sequence[LogicalMessage]) -> NDArray[np.bool_]:
    """Which transactions get a BEGIN, and what ends them: those that the server keeps changes, or a snapshot, for."""
    begun = np.zeros(len(transactions), np.bool_)
    # A heap record gives a transaction its snapshot; so does, at its commit, a catalog change. Those of rolled-back subtransactions count.
    begun[xids.ordinal[xids.owned & ((xids.flags & (index.HAS_CHANGE | index.CHANGES_CATALOG)) != 0)]] = True
    begun[[message.ordinal for message in messages if message.ordinal >= 0]] = True
    return begun


def _have_records(transactions: Transactions, xids: AllXids) -> NDArray[np.bool_]:
    """Which transactions have a ReorderBufferTXN on the server: some record is theirs beside what ends them, be it of a lock."""
    heard = np.zeros(len(transactions), np.bool_)
    heard[xids.ordinal[xids.owned]] = True
    return heard


def _with_bare_prepares(transactions: Transactions, begun: NDArray[np.bool_], xids: AllXids, major: int) -> Transactions:
    """With BARE_PREPARES a prepared transaction that the server has heard of is told at PREPARE though it never begins (`ReorderBufferPrepare`)."""
    if not supports(major, BARE_PREPARES):
        return transactions
    at_prepare = (transactions.kind == xact.PREPARE) & (transactions.commit_lsn < transactions.end_lsn)
    bare = at_prepare & ~begun & _have_records(transactions, xids)
    return replace(transactions, kind=np.where(bare, BARE_PREPARE, transactions.kind).astype(np.uint8))


def _are_told_besides(transactions: Transactions, begun: NDArray[np.bool_], xids: AllXids) -> NDArray[np.bool_]:
    """What has no rows: the ends of prepared transactions that the server has heard of, be it before the WAL at hand; and bare PREPAREs."""
    told = ~transactions.has_rows
    ends_prepared = told & (transactions.prepared >= 0)
    heard = begun | _have_records(transactions, xids)
    told[ends_prepared] = heard[transactions.prepared[ends_prepared]]
    return told
