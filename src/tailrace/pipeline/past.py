"""What the log says of the past, put together: what became of a table, the versions of a row, what would take a transaction back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history import History
from tailrace.catalog.partitions import PARTITIONED, partitions_of
from tailrace.decode import INSERT
from tailrace.errors import MissingHistory, UsageError
from tailrace.feed import CommittedTruncation
from tailrace.model import Lsn, Relation, Transaction
from tailrace.past.row_changes import TRUNCATE, Key, RowChange, in_order, keys_of
from tailrace.past.row_keys import read_key
from tailrace.past.row_search import Found, Sought, committing, found
from tailrace.past.schema_events import KNOWN, SchemaEvent, named_ever, schema_events, with_facts
from tailrace.past.sql_text import Target
from tailrace.past.trails import Numbering, Trail, Version, columns_named, identity_columns, trails
from tailrace.past.undo import Step, steps
from tailrace.pipeline import Pipeline
from tailrace.pipeline.log_feed import LogFeed
from tailrace.plan.demand import OF_TABLES
from tailrace.plan.xids import all_xids
from tailrace.transactions.fates import NEVER
from tailrace.types.values import Mask
from tailrace.wal import index

Commits = Callable[[NDArray[np.int64]], Mask]
"""Which LSNs of commits are wanted."""
OF_ROWS = replace(OF_TABLES, rewrites=True)
"""Demand of who wants every version of a row."""
OF_STATEMENTS = replace(OF_ROWS, search_path=("pg_catalog",))
"""The same with types, and names in values, with their schemas: whoever runs the statements may have another search path."""
_XID_BITS = (1 << 32) - 1
_CATALOGS = ("pg_class", "pg_attribute", "pg_namespace")


# -- what became of tables ---------------------------------------------------------------------------------------------------------


def table_events(feed: LogFeed, named: tuple[str, str] | None = None) -> list[SchemaEvent]:
    """What became of the tables that were ever called so (None: of all tables). Raises UsageError if none ever was."""
    history = feed.history
    oids = None
    if named is not None:
        oids = named_ever(history, *named)
        if not oids:
            raise _no_table(feed, *named)
    rows = [history.table(name).rows for name in _CATALOGS]
    commits = np.unique(np.concatenate([lsns for each in rows for lsns in (each.begin, each.end)]))
    facts, truncations = _facts_of(feed, commits)
    return with_facts(schema_events(history, truncations, feed.catalogs_from, oids), facts)


def _facts_of(feed: LogFeed, commits: NDArray[np.int64]) -> tuple[dict[int, tuple[int, int]], list[CommittedTruncation]]:
    """Xid and time by commit LSN, of these and of all that truncate; and the TRUNCATEs."""
    facts: dict[int, tuple[int, int]] = {}
    truncations: list[CommittedTruncation] = []
    for window in feed.windows():
        transactions = window.log.fates.transactions
        truncations += window.truncations
        told = np.array([each.commit_lsn for each in window.truncations], np.int64)
        wanted = np.flatnonzero(np.isin(transactions.commit_lsn, np.concatenate([commits, told])))
        for row in wanted.tolist():
            facts[int(transactions.commit_lsn[row])] = int(transactions.full_xid[row]), int(transactions.time[row])
    return facts, truncations


def _no_table(feed: LogFeed, schema: str, name: str) -> UsageError:
    context = f"in the log from {feed.catalogs_from} to {feed.span.stop}"
    return UsageError(f'relation "{schema}.{name}" does not exist', sqlstate="42P01", context=context)


# -- the versions of a row ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Blame:
    """The rows that once had a key, in the columns of `relation` as it was last. Of the table's changes, `untold` do not tell of which row they
    are: there was no replica identity, or one without these columns."""

    relation: Relation
    trails: list[Trail]
    untold: int


def blame(feed: LogFeed, schema: str, name: str, key: str) -> Blame:
    """Every version of the rows of a table that once had this key (`past.row_keys`). Raises UsageError for a table or a key that is none. With a
    feed that has them (`OF_ROWS`), versions that ALTER TABLE wrote are among them."""
    relation = _last_named(feed, schema, name)
    asked, value = read_key(key, relation)
    tracked = columns_named(relation, identity_columns(relation) or asked.numbers)
    partitions = partitions_of(feed.history, relation.oid) if relation.kind == PARTITIONED else None
    oids = partitions.oids if partitions else frozenset({relation.oid})
    sought = Sought(_with_rewrites(feed.history, oids), asked, frozenset({value}), partitions)
    those = _found(feed, sought)
    first = those.changes
    keys = {each for change in first for each in keys_of(change, tracked) if each is not None}
    others = gathered(feed, replace(sought, columns=tracked), keys) if keys else those
    changes = in_order([*first, *others.changes])
    changes = in_order([*changes, *_truncations(feed, oids)])
    mine = {change.place for change in first}
    every = trails(changes, tracked, Numbering(relation, feed.history.codec))
    return Blame(relation, [trail for trail in every if any(each.change.place in mine for each in trail.versions)], others.untold)


def _last_named(feed: LogFeed, schema: str, name: str) -> Relation:
    """The table of that name at the end of the log, or else the last that had it, as it was then."""
    history = feed.history
    relation = history.relation_named(schema, name, int(NEVER) - 1)
    if relation is not None:
        return relation
    classes = history.table("pg_class")
    ends = {
        int(classes.rows.end[row]): oid for oid in named_ever(history, schema, name) for row in classes.where("oid", oid).tolist()
    }
    for end in sorted(ends, reverse=True):
        last = history.relation_by_oid(ends[end], min(end, int(NEVER) - 1))
        if last is not None:
            return last
    raise _no_table(feed, schema, name)


def _with_rewrites(history: History, oids: frozenset[int]) -> frozenset[int]:
    """The relations, and the transient heaps that ALTER TABLE wrote their rows into."""
    classes = history.table("pg_class")
    mine = np.isin(classes["relrewrite"], np.array(sorted(oids), np.int64))
    return oids | frozenset(classes["oid"][mine].tolist())


def _truncations(feed: LogFeed, oids: frozenset[int]) -> Iterator[RowChange]:
    """TRUNCATEs of these relations, as changes of all rows."""
    told = [each for each in feed.truncations if any(relation.oid in oids for relation in each.truncation.relations)]
    if not told:
        return
    facts, _ = _facts_of(feed, np.array([each.commit_lsn for each in told], np.int64))
    for each in told:
        xid, time = facts[each.commit_lsn]
        for relation in each.truncation.relations:
            if relation.oid in oids:
                yield RowChange(
                    relation, each.commit_lsn, each.truncation.lsn, 0, xid, time, TRUNCATE, None, None, is_whole=False
                )


# -- finding changes ---------------------------------------------------------------------------------------------------------------


def _found(feed: LogFeed, sought: Sought, commits: Commits | None = None) -> Found:
    """The changes that are sought, of transactions whose commits are wanted."""
    every, untold = [], 0
    oids = sought.oids if sought.oids is not None else frozenset(relation.oid for relation in feed.relations)
    for part in feed.parts(oids):
        pieces = [each if commits is None else committing(each, commits) for each in part.pieces]
        for few in feed.run(partial(found, feed.decoder, sought), [each for each in pieces if each is not None]):
            every += few.changes
            untold += few.untold
    return Found(in_order(every), untold)


def gathered(feed: LogFeed, sought: Sought, keys: Iterable[Key], commits: Commits | None = None) -> Found:
    """All changes of the rows that have one of these keys in the sought columns, or had it before or after: where a key was changed, the log is
    gone over again for the other."""
    assert sought.columns is not None
    every = Found([])
    known: set[Key] = set()
    wanted = set(keys)
    while wanted:
        few = _found(feed, replace(sought, keys=frozenset(wanted)), commits)
        every = Found(every.changes + few.changes, few.untold)
        known |= wanted
        wanted = {key for change in few.changes for key in keys_of(change, sought.columns) if key is not None} - known
    return Found(in_order(every.changes), every.untold)


# -- taking a transaction back -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Undo:
    """What would take a transaction back, last change first."""

    transaction: Transaction
    full_xid: int
    steps: list[Step]


def undo(feed: LogFeed, xid: int) -> Undo:
    """What would take transaction `xid` back, which is full or 32 bits. Raises UsageError if none that committed has it in this database,
    MissingHistory if some of it lies before the log. The feed's demand should name types with their schemas (`OF_STATEMENTS`)."""
    window, ordinal = _transaction(feed, xid)
    transactions = window.log.fates.transactions
    commit = int(transactions.commit_lsn[ordinal])
    mine = _found(feed, Sought(None), lambda commits: commits == commit).changes
    events = _events_at(feed, commit)
    truncations = [each for each in feed.truncations if each.commit_lsn == commit]
    versions: list[Version] = []
    for oid in sorted({change.relation.oid for change in mine}):
        versions += _versions_by(feed, [change for change in mine if change.relation.oid == oid], commit)
    done = steps(versions, events, truncations, partial(_target, feed.history))
    xids = all_xids(window.log.indexes, window.log.fates)
    if not events and (xids.flags[xids.ordinal == ordinal] & index.CHANGES_CATALOG).any():
        done.append(Step((0, 0), "pg_catalog", trouble="the transaction changed catalogs: what it did there is not restored"))
    return Undo(transactions[ordinal], int(transactions.full_xid[ordinal]), done)


def _transaction(feed: LogFeed, xid: int) -> tuple[Pipeline, int]:
    """The window that a transaction commits in, and its ordinal there."""
    met: list[tuple[Pipeline, int]] = []
    why = f"transaction {xid} is not in the log from {feed.catalogs_from} to {feed.span.stop}, or had not ended"
    for window in feed.windows():
        fates = window.log.fates
        those = fates.transactions
        named = fates.xid[(fates.xid == xid) | (fates.xid & _XID_BITS == xid)]
        for full, ordinal in zip(named.tolist(), fates.ordinals_of(named).tolist(), strict=True):
            if ordinal < 0:
                why = f"transaction {xid} was rolled back"
            elif full != those.full_xid[ordinal]:
                why = f"{xid} is a subtransaction of {int(those.full_xid[ordinal])}"
            elif those.database[ordinal] not in (0, feed.span.database):
                why = f"transaction {xid} was of another database"
            else:
                met.append((window, ordinal))
    if len(met) > 1:
        every = ", ".join(str(int(window.log.fates.transactions.full_xid[ordinal])) for window, ordinal in met)
        raise UsageError(f"several transactions have xid {xid}", hint=f"Give it with its epoch: {every}.")
    if not met:
        raise UsageError(why)
    ((window, ordinal),) = met
    commit = Lsn(int(window.log.fates.transactions.commit_lsn[ordinal]))
    if commit < max(window.plan.start_lsn, window.plan.consistent_from):
        raise MissingHistory(
            f"transaction {xid} may have begun before the log", hint="An older backup or archive has it whole.", lsn=commit
        )
    return window, ordinal


def _events_at(feed: LogFeed, commit: int) -> list[SchemaEvent]:
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


def _versions_by(feed: LogFeed, mine: list[RowChange], commit: int) -> list[Version]:
    """The versions that a transaction made of a table's rows. Where the log has no whole old rows, they come from what it says of them before."""
    relation = next((each.relation for each in mine if each.kind != INSERT and not each.is_whole), mine[-1].relation)
    columns = columns_named(relation, relation.identity)
    keys = {
        key for each in mine if each.kind != INSERT and not each.is_whole for key in keys_of(each, columns) if key is not None
    }
    changes = mine
    if keys:
        sought = Sought(_with_rewrites(feed.history, frozenset({relation.oid})), columns)
        changes = in_order([*mine, *gathered(feed, sought, keys, lambda commits: commits <= commit).changes])
    every = trails(changes, columns, Numbering(codec=feed.history.codec))
    return [version for trail in every for version in trail.versions if version.change.commit_lsn == commit]


def _target(history: History, relation: Relation) -> Target | None:
    """A table as it is at the end of the log."""
    end = int(NEVER) - 1
    now = history.relation_by_oid(relation.oid, end)
    if now is None:
        return None
    inherits, attributes = history.table("pg_inherits"), history.table("pg_attribute")
    identities = attributes.of("attidentity", attributes.seen_where("attrelid", relation.oid, end, -1))
    return Target(
        relation=now,
        key=now.primary_key or now.identity,
        only=bool(len(inherits.seen_where("inhparent", relation.oid, end, -1))),
        has_identity=bool(identities.any()),
    )
