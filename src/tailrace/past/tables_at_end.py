"""Which tables there are where a span of the log ends, and what became of those that are gone: the facts of `feed.FeedTable`,
from catalogs.

In: the history of the catalogs, and which relations the span has changes of. Out: `FeedTable`s. A table is the relation with its
oid, whatever it is called.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tailrace.catalog.history.dropped_and_retyped import last_seen
from tailrace.catalog.history.history import History
from tailrace.feed import CommittedTruncation, FeedTable
from tailrace.model import Lsn, Relation


def tables_at_end(
    history: History, stop: Lsn, relations: Iterable[Relation], truncations: Iterable[CommittedTruncation],
    names: Sequence[tuple[str, str]] = (),
) -> dict[int, FeedTable]:  # fmt: skip
    """By oid, the tables of these relations, which are those that changes may be of, and the tables of these names (schema,
    name), as they are at `stop`."""
    versions: dict[int, list[Relation]] = defaultdict(list)
    rewrites: dict[int, set[int]] = defaultdict(set)
    truncated: dict[int, list[tuple[Lsn, Lsn]]] = defaultdict(list)
    for relation in relations:
        if relation.rewrite_of:
            rewrites[relation.rewrite_of].add(relation.oid)
        else:
            versions[relation.oid].append(relation)
    for each in truncations:
        for relation in each.truncation.relations:
            versions[relation.oid].append(relation)
            truncated[relation.oid].append((each.commit_lsn, each.truncation.lsn))
    for schema, name in names:
        named = history.relation_named(schema, name, int(stop))
        if named is not None:
            versions[named.oid].append(named)
    found = {}
    for oid, known in versions.items():
        table = table_at_end(history, stop, oid, known)
        assert table is not None, "a version of it is known"
        found[oid] = replace(table, rewrites=frozenset(rewrites[oid]), truncations=tuple(truncated[oid]))
    return found


def table_at_end(history: History, stop: Lsn, oid: int, versions: Sequence[Relation] = ()) -> FeedTable | None:
    """The table with this oid at `stop`, or before it was dropped, with whatever columns a transaction saw (in `versions`) that
    changed it and dropped it; None if nothing is known of it. A column that was once added with a default keeps it here
    (`Column.missing`), even if a rewrite has made the catalog forget it."""
    relation, dropped = history.relation_by_oid(oid, int(stop)), None
    if relation is None:
        last, dropped = last_seen(history, oid) or (None, stop)
        relation = max([last, *versions] if last else versions, key=lambda version: len(version.columns), default=None)
    if relation is None:
        return None
    # Of the same type only: a default of another is stored otherwise, and rows that had it were written anew with the new type.
    defaults = {
        (column.number, column.type): column.missing
        for version in versions for column in version.columns if column.missing is not None
    }  # fmt: skip
    columns = tuple(
        replace(column, missing=column.missing or defaults.get((column.number, column.type))) for column in relation.columns
    )
    return FeedTable(replace(relation, columns=columns), dropped)
