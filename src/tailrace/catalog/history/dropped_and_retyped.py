"""What DDL did to a relation: the commit that dropped it and what it was before, and the commits that gave its columns other types, or took its
replica identity.

In: a history and an oid. Out: relations, and LSNs of commits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tailrace.catalog.history.history import History
from tailrace.model import Lsn, Relation
from tailrace.transactions.commit_or_abort import NEVER


def last_seen(history: History, oid: int) -> tuple[Relation | None, Lsn] | None:
    """Of a relation that was dropped: what others saw of it last (None if it was made and dropped in one transaction), and the commit that dropped
    it. None if no catalog row that we know tells of it."""
    classes = history.table("pg_class")
    rows = classes.where("oid", oid)
    gone = rows[classes.rows.end[rows] < NEVER]
    if not len(gone):
        return None
    dropped = Lsn(int(classes.rows.end[gone].max()))
    seen = dropped >= history.known_from and len(classes.rows.seen(gone, dropped, -1)) > 0
    return history.relation_by_oid(oid, dropped) if seen else None, dropped


def retypes(history: History, oid: int) -> list[tuple[str, Lsn]]:
    """The columns of a relation that were given another type or type modifier, and the commits that did so, in order."""
    attributes = history.table("pg_attribute")
    rows = attributes.where("attrelid", oid)
    begin, end = attributes.rows.begin[rows], attributes.rows.end[rows]
    seen = (begin < end) & (attributes["attnum"][rows] > 0) & ~attributes["attisdropped"][rows].astype(bool)
    changes = []
    before: dict[int, tuple[int, int]] = {}
    for row in rows[seen][np.argsort(begin[seen], kind="stable")].tolist():
        number, kind = int(attributes["attnum"][row]), (int(attributes["atttypid"][row]), int(attributes["atttypmod"][row]))
        if before.setdefault(number, kind) != kind:
            changes.append((str(attributes["attname"][row]), Lsn(int(attributes.rows.begin[row]))))
        before[number] = kind
    return changes


def altered_columns(history: History, oid: int, since: int, until: int) -> list[Relation] | None:
    """What a relation was before each commit in `[since, until)` that changed or dropped one of its columns, in order; None if none changed, added or
    dropped one."""
    attributes = history.table("pg_attribute")
    rows = attributes.where("attrelid", oid)
    rows = rows[attributes["attnum"][rows] > 0]
    begin, end = attributes.rows.begin[rows], attributes.rows.end[rows]
    seen, first = begin < end, max(since, history.known_from)
    ends = sorted(set(end[seen & (end >= first) & (end < until)].tolist()))
    if not ends and not (seen & (begin >= first) & (begin < until)).any():
        return None
    before = (history.relation_by_oid(oid, lsn) for lsn in ends)
    return [relation for relation in before if relation is not None]


def key_changes(history: History, since: int, until: int) -> Iterator[Lsn]:
    """The commits in `[since, until)` that gave another key to a relation that had one, in order."""
    began, ended = _moments(history, "pg_class", "oid", since, until)
    _, without_index = _moments(history, "pg_index", "indrelid", since, until)  # or with another version of it
    dropped = ended - began
    for commit, oid in sorted((ended & began) | (without_index - dropped)):
        before, after = (history.relation_by_oid(oid, lsn) for lsn in (commit, commit + 1))
        if before is not None and after is not None and before.row_key and before.row_key != after.row_key:
            yield Lsn(commit)


def _moments(history: History, name: str, oid: str, since: int, until: int) -> list[set[tuple[int, int]]]:
    """Where versions of a catalog's rows begin, and where they end, each with the oid of the relation."""
    table, found = history.table(name), list[set[tuple[int, int]]]()
    seen = table.rows.begin < table.rows.end
    for ends in (table.rows.begin, table.rows.end):
        rows = np.flatnonzero(seen & (ends >= since) & (ends < until))
        found.append(set(zip(ends[rows].tolist(), table[oid][rows].tolist(), strict=True)))
    return found


def identity_lost(history: History, oid: int) -> Lsn | None:
    """The last commit that took the relation's replica identity, or gave it another; None if none did."""
    lost = None
    classes, indexes = history.table("pg_class"), history.table("pg_index")
    moments = set[int]()
    for rows, found in ((classes.rows, classes.where("oid", oid)), (indexes.rows, indexes.where("indrelid", oid))):
        moments |= {*rows.begin[found].tolist(), *rows.end[found].tolist()}
    for commit in sorted(each for each in moments if history.known_from < each < NEVER):
        before, after = (history.relation_by_oid(oid, lsn) for lsn in (commit, commit + 1))
        if before is None or after is None or not (before.identity or before.replica_identity == "f"):
            continue
        if (before.identity, before.replica_identity == "f") != (after.identity, after.replica_identity == "f"):
            lost = Lsn(commit)
    return lost
