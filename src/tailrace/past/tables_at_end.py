"""Which tables there are where a span of the log ends, and what became of those that are gone: the facts of `feed.FeedTable`,
from catalogs.

In: the history of the catalogs, and which relations the span has changes of. Out: `FeedTable`s. A table is the relation with its
oid, whatever it is called.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from tailrace.catalog.history.comments import comments_at, comments_changed
from tailrace.catalog.history.dropped_and_retyped import altered_columns, last_seen
from tailrace.catalog.history.history import History
from tailrace.feed import FeedTable, TableTruncation
from tailrace.model import FIRST_NORMAL_OID, Column, Lsn, Relation
from tailrace.plan.events import CommittedTruncation
from tailrace.publications.subscription import stored_columns
from tailrace.transactions.commit_or_abort import NEVER


def tables_at_end(
    history: History, span: tuple[Lsn, Lsn], relations: Iterable[Relation], truncations: Iterable[CommittedTruncation],
    names: Sequence[tuple[str, str]] = (),
) -> dict[int, FeedTable]:  # fmt: skip
    """By oid, the tables of these relations, which are those that changes may be of, and the tables of these names (schema,
    name), as they are where the `span` stops."""
    versions: dict[int, list[Relation]] = defaultdict(list)
    rewrites: dict[int, set[int]] = defaultdict(set)
    truncated: dict[int, list[TableTruncation]] = defaultdict(list)
    for relation in relations:
        if relation.rewrite_of:
            rewrites[relation.rewrite_of].add(relation.oid)
        else:
            versions[relation.oid].append(relation)
    for each in truncations:
        for relation in each.truncation.relations:
            versions[relation.oid].append(relation)
            truncated[relation.oid].append(TableTruncation(each.commit_lsn, each.truncation.lsn, each.committed))
    for schema, name in names:
        named = history.relation_named(schema, name, int(span[1]))
        if named is not None:
            versions[named.oid].append(named)
    found = {}
    for oid, known in versions.items():
        table = table_at_end(history, span, oid, known)
        assert table is not None, "a version of it is known"
        found[oid] = replace(table, rewrites=frozenset(rewrites[oid]), truncations=tuple(truncated[oid]))
    return found


def table_at_end(
    history: History, span: tuple[Lsn, Lsn], oid: int, versions: Sequence[Relation] = ()
) -> FeedTable | None:  # fmt: skip
    """The table with this oid where the `span` stops, or before it was dropped, with whatever columns a transaction saw (in `versions`) that
    changed it and dropped it; None if nothing is known of it. A column that was once added with a default keeps it here
    (`Column.missing`), even if a rewrite has made the catalog forget it."""
    start, stop = span
    relation, dropped = history.relation_by_oid(oid, int(stop)), None
    if relation is None:
        last, dropped = last_seen(history, oid) or (None, stop)
        relation = max([last, *versions] if last else versions, key=lambda version: len(version.columns), default=None)
    if relation is None:
        return None
    before = altered_columns(history, oid, start, stop)
    # Of the same type only: a default of another is stored otherwise, and rows that had it were written anew with the new type.
    defaults = {
        (column.number, column.type): column.missing
        for version in [*(before or ()), *versions] for column in version.columns if column.missing is not None
    }  # fmt: skip

    def with_default(column: Column) -> Column:
        return replace(column, missing=column.missing or defaults.get((column.number, column.type)))

    had = {column.number: column for version in before or () for column in stored_columns(version).live_columns}
    lost = tuple(with_default(had[column.number]) for column in relation.columns if column.dropped and column.number in had)
    columns = tuple(map(with_default, relation.columns))
    comments = comments_at(history, oid, int(stop if dropped is None else dropped))
    commented = dropped is None and comments_changed(history, oid, start, stop)
    return FeedTable(
        replace(relation, columns=columns), dropped, lost=lost, altered=before is not None, comments=comments, commented=commented
    )


def defined_anew(history: History, oids: Collection[int], since: int) -> Collection[int]:
    """Of these tables those of which a row of a catalog has changed by a commit at `since` or later; all, if a schema has."""
    schemas = history.table("pg_namespace").rows
    if ((schemas.begin >= since) | ((schemas.end >= since) & (schemas.end < NEVER))).any():
        return oids
    asked = np.array(sorted(oids), np.int64)
    about = (("pg_class", "oid"), ("pg_attribute", "attrelid"), ("pg_description", "objoid"))
    last = np.max([history.table(name).last_changes(column, asked) for name, column in about], axis=0)
    return frozenset(asked[last >= since].tolist())


def tables_there(history: History, lsn: Lsn, persistence: str = "p") -> list[Relation]:
    """The tables of users that were there at `lsn`, by name, but for partitioned ones; those that are logged, or unlogged (`u`)."""
    classes = history.table("pg_class")
    is_one = (classes["relkind"] == ord("r")) & (classes["oid"] >= FIRST_NORMAL_OID) & (classes["relrewrite"] == 0)
    is_kept_so = classes["relpersistence"] == ord(persistence)
    rows = classes.rows.seen(np.flatnonzero(is_one & is_kept_so), int(lsn), -1)
    found = (history.relation_by_oid(oid, int(lsn)) for oid in classes["oid"][rows].tolist())
    return sorted((each for each in found if each is not None), key=lambda each: (each.schema, each.name))
