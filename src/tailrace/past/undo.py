"""What would take a transaction back: found in the log, with the earlier versions of its rows, and with what it did besides."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.history import History
from tailrace.dataclass import dataclass
from tailrace.decode import INSERT
from tailrace.errors import MissingHistory, UsageError
from tailrace.model import Relation, Transaction
from tailrace.past.blame import OF_ROWS, found_in, gathered, with_rewrites
from tailrace.past.past_log import PastLog, PlannedWindow
from tailrace.past.row_changes import RowChange, in_order, keys_of
from tailrace.past.row_search import ChangeSearch
from tailrace.past.schema_events import KNOWN, SchemaEvent, schema_events
from tailrace.past.sql_text import StatementTable
from tailrace.past.trails import Numbering, Version, columns_named, trails
from tailrace.past.undo_steps import Step, steps
from tailrace.plan.xids import all_xids
from tailrace.transactions.commit_or_abort import NEVER
from tailrace.wal import index

OF_STATEMENTS = replace(OF_ROWS, search_path=("pg_catalog",))
"""Demand: every version of a row, and types, and names in values, with their schemas, since whoever runs the statements may
have another search path."""
_ALWAYS = "a"
"""ATTRIBUTE_IDENTITY_ALWAYS (`catalog/pg_attribute.h`)."""
_XID_BITS = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Undo:
    """What would take a transaction back, last change first."""

    transaction: Transaction
    full_xid: int
    steps: list[Step]


def undo(feed: PastLog, xid: int) -> Undo:
    """What would take transaction `xid` back, which is full or 32 bits. Raises UsageError if none that committed has it in
    this database, MissingHistory if some of it lies before the log. The feed's demand should name types with their schemas
    (`OF_STATEMENTS`)."""
    met = _transaction(feed, xid)
    transactions = met.window.log.outcomes.transactions
    commit = int(transactions.commit_lsn[met.ordinal])
    mine = found_in(feed, ChangeSearch(None), lambda commits: commits == commit).changes
    events = _events_at(feed, commit)
    truncations = [each for each in feed.truncations if each.commit_lsn == commit]
    versions: list[Version] = []
    for oid in sorted({change.relation.oid for change in mine}):
        versions += _versions_by(feed, [change for change in mine if change.relation.oid == oid], met.whole_after, commit)
    done = steps(versions, events, truncations, partial(_target, feed.history))
    if not events and _did(met.window)[met.ordinal] & index.CHANGES_CATALOG:
        done.append(Step((0, 0), "pg_catalog", trouble="the transaction changed catalogs: what it did there is not restored"))
    return Undo(transactions[met.ordinal], int(transactions.full_xid[met.ordinal]), done)


@dataclass(frozen=True, slots=True)
class _Met:
    """A transaction: the window that it commits in, and its ordinal there. Of those that committed after `whole_after`, and
    before it, the log has all changes: an earlier version of a row from there is its last one."""

    window: PlannedWindow
    ordinal: int
    whole_after: int

    @property
    def full_xid(self) -> int:
        return int(self.window.log.outcomes.transactions.full_xid[self.ordinal])


def _transaction(feed: PastLog, xid: int) -> _Met:
    """Find the transaction in the log."""
    met: list[_Met] = []
    why = f"transaction {xid} is not in the log from {feed.catalogs_from} to {feed.span.stop}, or had not ended"
    whole_after = 0
    for window in feed.windows():
        outcomes = window.log.outcomes
        those = outcomes.transactions
        named = outcomes.xid[(outcomes.xid == xid) | (outcomes.xid & _XID_BITS == xid)]
        not_told = _not_told(window)
        for full, ordinal in zip(named.tolist(), outcomes.ordinals_of(named).tolist(), strict=True):
            if ordinal < 0:
                why = f"transaction {xid} was rolled back"
            elif full != those.full_xid[ordinal]:
                why = f"{xid} is a subtransaction of {int(those.full_xid[ordinal])}"
            elif those.database[ordinal] not in (0, feed.span.database):
                why = f"transaction {xid} was of another database"
            else:
                commit = those.commit_lsn[ordinal]
                before = those.commit_lsn[not_told][those.commit_lsn[not_told] < commit]
                met.append(_Met(window, ordinal, int(before.max(initial=whole_after))))
        whole_after = int(those.commit_lsn[not_told].max(initial=whole_after))
    if len(met) > 1:
        every = ", ".join(str(each.full_xid) for each in met)
        raise UsageError(f"several transactions have xid {xid}", hint=f"Give it with its epoch: {every}.")
    if not met:
        raise UsageError(why)
    (one,) = met
    if one.ordinal in _not_told(one.window):
        raise MissingHistory(
            f"transaction {xid} cannot be told whole",
            hint=f"Transactions are whole from {one.window.plan.start_lsn} on: an older backup or archive knows more.",
            lsn=int(one.window.log.outcomes.transactions.commit_lsn[one.ordinal]),
        )  # fmt: skip
    return one


def _did(window: PlannedWindow) -> NDArray[np.int64]:
    """By ordinal, the flags (`wal.index`) of all that a transaction did at hand."""
    xids = all_xids(window.log.indexes, window.log.outcomes)
    flags = np.zeros(len(window.log.outcomes.transactions), np.int64)
    np.bitwise_or.at(flags, xids.ordinal[xids.owned], xids.flags[xids.owned].astype(np.int64))
    return flags


def _not_told(window: PlannedWindow) -> NDArray[np.int64]:
    """Ordinals of this database's transactions that did something and are left out of the plan, as they are not at hand whole."""
    those = window.log.outcomes.transactions
    ours = (those.database == window.history.database) | (those.database == 0)
    did = (_did(window) & (index.HAS_CHANGE | index.CHANGES_CATALOG)) != 0
    return np.setdiff1d(np.flatnonzero(ours & did), window.plan.shown)


def _events_at(feed: PastLog, commit: int) -> list[SchemaEvent]:
    """What a transaction did to tables."""
    history = feed.history

    def touched(catalog: str, column: str) -> set[int]:
        table = history.table(catalog)
        return set(table[column][(table.rows.begin == commit) | (table.rows.end == commit)].tolist())

    oids: set[int] | None = touched("pg_class", "oid") | touched("pg_attribute", "attrelid")
    if touched("pg_namespace", "oid"):
        oids = None
    every = schema_events(history, (), feed.catalogs_from, oids)
    return [event for event in every if event.commit_lsn == commit and event.kind != KNOWN]


def _versions_by(feed: PastLog, mine: list[RowChange], whole_after: int, commit: int) -> list[Version]:
    """The versions that a transaction made of a table's rows. Where the log has no whole old rows, they come from what it says
    of them before, by transactions that committed after `whole_after`."""
    relation = next((each.relation for each in mine if each.kind != INSERT and not each.is_whole), mine[-1].relation)
    columns = columns_named(relation, relation.identity)
    keys = {
        key for each in mine if each.kind != INSERT and not each.is_whole for key in keys_of(each, columns) if key is not None
    }
    changes = mine
    if keys:
        sought = ChangeSearch(with_rewrites(feed.history, frozenset({relation.oid})), columns)
        changes = in_order(
            [*mine, *gathered(feed, sought, keys, lambda commits: (whole_after < commits) & (commits <= commit)).changes]
        )
    every = trails(changes, columns, Numbering(codec=feed.history.codec))
    return [version for trail in every for version in trail.versions if version.change.commit_lsn == commit]


def _target(history: History, relation: Relation) -> StatementTable | None:
    """A table as it is at the end of the log."""
    end = int(NEVER) - 1
    now = history.relation_by_oid(relation.oid, end)
    if now is None:
        return None
    inherits, attributes = history.table("pg_inherits"), history.table("pg_attribute")
    rows = attributes.seen_where("attrelid", relation.oid, end, -1)
    numbers, letters = (attributes.of(name, rows) for name in ("attnum", "attidentity"))
    return StatementTable(
        relation=now,
        key=now.primary_key or now.identity,
        only=bool(len(inherits.seen_where("inhparent", relation.oid, end, -1))),
        identities=frozenset(numbers[letters != 0].tolist()),
        always=frozenset(numbers[letters == ord(_ALWAYS)].tolist()),
    )
