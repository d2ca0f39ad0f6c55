"""Every version of the rows that had a key: the log gone over for them, and again for the keys that they had before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.history import History
from tailrace.catalog.history.partitions import PARTITIONED, partitions_of
from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.model import Relation
from tailrace.past.past_log import PastLog
from tailrace.past.row_changes import TRUNCATE, Key, RowChange, in_order, keys_of
from tailrace.past.row_keys import read_key
from tailrace.past.row_search import ChangeSearch, FoundChanges, committing, find_changes
from tailrace.past.schema_events import named_ever
from tailrace.past.table_events import facts_of, no_table
from tailrace.past.trails import Numbering, Trail, columns_named, identity_columns, trails
from tailrace.plan.demand import OF_TABLES
from tailrace.transactions.commit_or_abort import NEVER
from tailrace.types.values import Mask

Commits = Callable[[NDArray[np.int64]], Mask]
"""Which LSNs of commits are wanted."""
OF_ROWS = replace(OF_TABLES, rewrites=True)
"""Demand of who wants every version of a row."""


_WITH_ROWS = f"rm{PARTITIONED}"
"""pg_class.relkind of what has rows in the log, or is made of such."""


@dataclass(frozen=True, slots=True)
class Blame:
    """The rows that once had a key, in the columns of `relation` as it was last. Of the table's changes, `unidentified` do not tell
    of which row they are: there was no replica identity, or one without these columns."""

    relation: Relation
    trails: list[Trail]
    unidentified: int


def blame(feed: PastLog, schema: str, name: str, key: str) -> Blame:
    """Every version of the rows of a table that once had this key (`past.row_keys`). Raises UsageError for a table or a key
    that is none. With a feed that has them (`OF_ROWS`), versions that ALTER TABLE wrote are among them."""
    relation = _last_named(feed, schema, name)
    if relation.kind not in _WITH_ROWS:
        raise UsageError(f'"{relation.name}" is not a table', sqlstate="42809")
    asked, value = read_key(key, relation)
    tracked = columns_named(relation, identity_columns(relation) or asked.numbers)
    partitions = partitions_of(feed.history, relation.oid) if relation.kind == PARTITIONED else None
    oids = partitions.oids if partitions else frozenset({relation.oid})
    sought = ChangeSearch(with_rewrites(feed.history, oids), asked, frozenset({value}), partitions)
    those = found_in(feed, sought)
    first = those.changes
    keys = {each for change in first for each in keys_of(change, tracked) if each is not None}
    others = gathered(feed, replace(sought, columns=tracked), keys) if keys else those
    changes = in_order([*first, *others.changes])
    changes = in_order([*changes, *_truncations(feed, oids)])
    mine = {change.place for change in first}
    every = trails(changes, tracked, Numbering(relation, feed.history.codec))
    return Blame(
        relation, [trail for trail in every if any(each.change.place in mine for each in trail.versions)], others.unidentified
    )


def _last_named(feed: PastLog, schema: str, name: str) -> Relation:
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
    raise no_table(feed, schema, name)


def with_rewrites(history: History, oids: frozenset[int]) -> frozenset[int]:
    """The relations, and the transient heaps that ALTER TABLE wrote their rows into."""
    classes = history.table("pg_class")
    mine = np.isin(classes["relrewrite"], np.array(sorted(oids), np.int64))
    return oids | frozenset(classes["oid"][mine].tolist())


def _truncations(feed: PastLog, oids: frozenset[int]) -> Iterator[RowChange]:
    """TRUNCATEs of these relations, as changes of all rows."""
    told = [each for each in feed.truncations if any(relation.oid in oids for relation in each.truncation.relations)]
    if not told:
        return
    facts, _ = facts_of(feed, np.array([each.commit_lsn for each in told], np.int64))
    for each in told:
        xid, time = facts[each.commit_lsn]
        for relation in each.truncation.relations:
            if relation.oid in oids:
                yield RowChange(
                    relation, each.commit_lsn, each.truncation.lsn, 0, xid, time, TRUNCATE, None, None, is_whole=False
                )


def found_in(feed: PastLog, sought: ChangeSearch, commits: Commits | None = None) -> FoundChanges:
    """The changes that are sought, of transactions whose commits are wanted."""
    every, unidentified = [], 0
    oids = sought.oids if sought.oids is not None else frozenset(relation.oid for relation in feed.relations)
    for part in feed.parts(oids):
        pieces = [each if commits is None else committing(each, commits) for each in part.pieces]
        for few in feed.run(partial(find_changes, feed.decoder, sought), [each for each in pieces if each is not None]):
            every += few.changes
            unidentified += few.unidentified
    return FoundChanges(in_order(every), unidentified)


def gathered(feed: PastLog, sought: ChangeSearch, keys: Iterable[Key], commits: Commits | None = None) -> FoundChanges:
    """All changes of the rows that have one of these keys in the sought columns, or had it before or after: where a key was
    changed, the log is gone over again for the other."""
    assert sought.columns is not None
    every = FoundChanges([])
    known: set[Key] = set()
    wanted = set(keys)
    while wanted:
        few = found_in(feed, replace(sought, keys=frozenset(wanted)), commits)
        every = FoundChanges(every.changes + few.changes, few.unidentified)
        known |= wanted
        wanted = {key for change in few.changes for key in keys_of(change, sought.columns) if key is not None} - known
    return FoundChanges(in_order(every.changes), every.unidentified)
