"""The tables that a server has from another one by subscriptions, as both servers' catalogs have them.

In: a session on each. Out: `SubscribedTable`s: what the publications publish of each table, and how its rows are hashed on both sides; or why it is
not compared. Tables and columns have the same names on both sides; a subscriber may have columns of its own, and other types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tailrace.catalog.names.qualified_names import tables_named, write_table_name
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError, UsageError
from tailrace.verify.sql_hashes import SqlColumn, SqlHashes
from tailrace.verify.sql_rows import SqlTable

_SUBSCRIPTIONS = """
SELECT s.oid::bigint, s.subname::text, s.subpublications FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid
WHERE d.datname = current_database() ORDER BY 2
"""
_FOLLOWED = """
SELECT n.nspname::text, c.relname::text, bool_and(r.srsubstate = 'r')
FROM pg_subscription_rel r JOIN pg_class c ON c.oid = r.srrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE r.srsubid = ANY (%s) GROUP BY 1, 2
"""
_PUBLICATIONS = (
    "SELECT pubname::text, array_remove(ARRAY[CASE WHEN NOT pubinsert THEN 'inserts' END, CASE WHEN NOT pubupdate THEN 'updates' END, "
    "CASE WHEN NOT pubdelete THEN 'deletes' END, CASE WHEN NOT pubtruncate THEN 'truncates' END], NULL) "
    "FROM pg_publication WHERE pubname = ANY (%s)"
)
_PUBLISHED = """
SELECT t.schemaname::text, t.tablename::text, t.pubname::text, to_jsonb(t) -> 'attnames', to_jsonb(t) ->> 'rowfilter'
FROM pg_publication_tables t WHERE t.pubname = ANY (%s) ORDER BY 1, 2, 3
"""
_RELATIONS = """
SELECT n.nspname::text, c.relname::text, c.oid::bigint, c.relkind::text,
  (SELECT json_agg(json_build_array(a.attname, CASE t.typnamespace WHEN 'pg_catalog'::regnamespace THEN t.typname ELSE '' END, a.attnotnull)
      ORDER BY a.attnum)
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      AND (a.attgenerated = '' OR EXISTS (
        SELECT FROM pg_attribute p WHERE p.attrelid = 'pg_publication'::regclass AND p.attname = 'pubgencols'))),
  (SELECT array_agg(a.attname::text ORDER BY a.attnum)
    FROM (SELECT indkey FROM pg_index WHERE indrelid = c.oid AND (indisprimary OR indisreplident) ORDER BY indisprimary DESC LIMIT 1) i
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)),
  array(SELECT relid::oid::bigint FROM pg_partition_ancestors(c.oid) WHERE relid <> c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND (n.nspname::text, c.relname::text) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
"""
_ENCODING = "SHOW server_encoding"
Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Of a database, some or all: by oid their names; and what they subscribe to."""

    names: Mapping[int, str]
    publications: Sequence[str]


@dataclass(frozen=True, slots=True)
class SubscribedTable:
    """`why_not` says why it is not compared, and `unfit` which columns the subscriber lacks."""

    name: str
    source: SqlTable
    subscriber: SqlTable
    hashes: SqlHashes
    unfit: str = ""
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class _Published:
    """`columns` of None are all."""

    where: str | None
    columns: frozenset[str] | None
    unpublished: frozenset[str]

    def with_other(self, other: _Published) -> _Published:
        """What several publications publish: rows that either does, of the columns that both do."""
        where = f"({self.where}) OR ({other.where})" if self.where and other.where else None
        lists = [each for each in (self.columns, other.columns) if each is not None]
        return _Published(where, frozenset.intersection(*lists) if lists else None, self.unpublished & other.unpublished)


@dataclass(frozen=True, slots=True)
class _Relation:
    """`columns` are by name: name of the type, and whether it is NOT NULL; generated ones where the server can publish them."""

    oid: int
    kind: str
    columns: Mapping[str, tuple[str, bool]]
    key: Sequence[str]
    ancestors: frozenset[int]


def subscriptions_of(subscriber: Any, wanted: Sequence[str]) -> Subscriptions:
    """Those of the session's database; all, unless some are wanted. Raises UsageError where there is none."""
    there = {name: (oid, publications) for oid, name, publications in subscriber.execute(_SUBSCRIPTIONS).fetchall()}
    for each in wanted:
        if each not in there:
            raise UsageError(
                f'subscription "{each}" does not exist',
                hint=f"There are in this database: {', '.join(there) or 'none'}.",
                sqlstate="42704",
            )
    if not there:
        raise UsageError(
            f'database "{subscriber.info.dbname}" of the subscriber has no subscription',
            hint="Give the connection string of the database in which CREATE SUBSCRIPTION was said.", sqlstate="55000",
        )  # fmt: skip
    chosen = {name: there[name] for name in wanted or there}
    publications = sorted({each for _, names in chosen.values() for each in names})
    return Subscriptions({oid: name for name, (oid, _) in chosen.items()}, publications)


def await_copies(subscriber: Any, subscriptions: Subscriptions, waits: Callable[[], bool]) -> None:
    """Wait until all tables are copied, as long as `waits` waits a moment more. Raises PeerError where one is not."""
    while copying := [write_table_name(*name) for *name, is_ready in _followed(subscriber, subscriptions) if not is_ready]:
        if not waits():
            raise PeerError(
                f"tables are still being copied to the subscriber: {', '.join(copying)}",
                hint="pg_subscription_rel says how far they are, and the subscriber's log why a copy does not end. Compare once all are ready (r).",
                sqlstate="55000",
            )  # fmt: skip


def subscribed_tables(
    source: Any, subscriber: Any, subscriptions: Subscriptions, tables: Sequence[str]
) -> Iterator[SubscribedTable]:
    """In the order of their names; all, unless some are named. Raises UsageError for publications and tables that are not there."""
    published = _published(source, subscriptions)
    followed = {(schema, name) for schema, name, _ in _followed(subscriber, subscriptions)}
    names = sorted(published.keys() | followed)
    wanted = tables_named(tables, names)
    here, there = (_relations(session, names) for session in (source, subscriber))
    roots = {here[name].oid for name in published if name in here}
    recoded = len({session.execute(_ENCODING).fetchone() for session in (source, subscriber)}) > 1
    for name in names:
        if wanted and name not in wanted:
            continue
        if name in here and name in published and here[name].ancestors & roots:
            continue  # its rows are published, and followed, as its root's
        why_not = _why_not(published.get(name), name in followed, name in here, name in there)
        yield _subscribed(name, published.get(name), here.get(name), there.get(name), why_not, recoded=recoded)


def _why_not(published: _Published | None, is_followed: bool, is_here: bool, is_there: bool) -> str:
    if published is None or not is_here:
        return "it is not published any more"
    if not is_followed or not is_there:
        return "the subscriber does not follow it: ALTER SUBSCRIPTION … REFRESH PUBLICATION"
    if published.unpublished:
        return f"no publication of it publishes {', '.join(sorted(published.unpublished))}"
    return ""


def _subscribed(
    name: Name, published: _Published | None, mine: _Relation | None, theirs: _Relation | None, why_not: str, *, recoded: bool
) -> SubscribedTable:
    where = published.where if published is not None else None
    source = SqlTable(*name, mine.kind if mine is not None else "r", where)
    subscriber = SqlTable(*name, theirs.kind if theirs is not None else "r", None)
    if why_not or published is None or mine is None or theirs is None:
        return SubscribedTable(write_table_name(*name), source, subscriber, SqlHashes((), ()), why_not=why_not)
    shown = [each for each in mine.columns if published.columns is None or each in published.columns]
    lacking = ", ".join(each for each in shown if each not in theirs.columns)
    columns = []
    for each in (each for each in shown if each in theirs.columns):
        (one, is_filled), (other, is_filled_there) = mine.columns[each], theirs.columns[each]
        columns.append(SqlColumn(each, (one, other), not (is_filled and is_filled_there)))
    key = mine.key if set(mine.key) <= {each.name for each in columns} else ()
    unfit = f"the subscriber has no column {lacking}" if lacking else ""
    return SubscribedTable(write_table_name(*name), source, subscriber, SqlHashes(columns, key, recoded), unfit)


# -- the catalogs --------------------------------------------------------------------------------------------------------------------------


def _followed(subscriber: Any, subscriptions: Subscriptions) -> list[tuple[str, str, bool]]:
    return list(subscriber.execute(_FOLLOWED, [list(subscriptions.names)]).fetchall())


def _published(source: Any, subscriptions: Subscriptions) -> dict[Name, _Published]:
    names = list(subscriptions.publications)
    unpublished = dict(source.execute(_PUBLICATIONS, [names]).fetchall())
    for each in names:
        if each not in unpublished:
            raise UsageError(
                f'publication "{each}" does not exist at the source',
                detail=f"Subscribed to it: {', '.join(subscriptions.names.values())}.",
                hint="Give the server that publishes, and with --subscription those of its subscriptions alone.", sqlstate="42704",
            )  # fmt: skip
    found: dict[Name, _Published] = {}
    for schema, table, publication, columns, where in source.execute(_PUBLISHED, [names]).fetchall():
        one = _Published(where, frozenset(columns) if columns is not None else None, frozenset(unpublished[publication]))
        before = found.get((schema, table))
        found[schema, table] = before.with_other(one) if before is not None else one
    return found


def _relations(session: Any, names: Sequence[Name]) -> dict[Name, _Relation]:
    found = {}
    asked = [[schema for schema, _ in names], [name for _, name in names]]
    for schema, name, oid, kind, columns, key, ancestors in session.execute(_RELATIONS, asked).fetchall():
        kept = {each: (type_name, is_filled) for each, type_name, is_filled in columns or ()}
        found[schema, name] = _Relation(oid, kind, kept, tuple(key or ()), frozenset(ancestors))
    return found
