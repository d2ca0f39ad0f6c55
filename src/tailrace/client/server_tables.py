"""The tables of a running server, as a session sees them: which there are, whether they may be read, and which of them are published.

In: a connection string and a database, or a session. Out: `ServerTable`, by oid. What the log says of a table may be compared with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tailrace.catalog.names.qualified_names import write_table_name
from tailrace.client.catalog_files import as_ours
from tailrace.client.copy_sessions import LOCK_MILLISECONDS, copy_session
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError, UsageError
from tailrace.model import Lsn, Relation

_TABLES = """
SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relkind::text,
  CASE WHEN NOT has_schema_privilege(n.oid, 'USAGE') THEN 'schema' WHEN NOT has_table_privilege(c.oid, 'SELECT') THEN 'table'
    WHEN row_security_active(c.oid) THEN 'rows' END,
  (SELECT coalesce(max(pg_relation_size(leaf)), 0) FROM unnest(leaves) leaf),
  (SELECT coalesce(sum(pg_relation_size(leaf)), 0)::bigint FROM unnest(leaves) leaf),
  (SELECT json_agg(json_build_array(a.attnum, a.attname, a.atttypid::bigint, a.atttypmod) ORDER BY a.attnum) FROM pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
  SELECT array(SELECT relid FROM pg_partition_tree(c.oid) WHERE isleaf AND c.relkind = 'p')
    || CASE c.relkind WHEN 'r' THEN ARRAY[c.oid::regclass] END
) AS tree (leaves)
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND c.oid >= 16384 AND c.relrewrite = 0
  AND (%(only)s::bigint[] IS NULL OR c.oid::bigint = ANY (%(only)s::bigint[])
    OR EXISTS (SELECT FROM pg_partition_ancestors(c.oid) AS ancestor (relid) WHERE ancestor.relid::oid::bigint = ANY (%(only)s::bigint[])))
"""
_PUBLISHED = """
SELECT (SELECT count(*) FROM pg_publication WHERE pubname = ANY (%(names)s)),
  array(SELECT c.oid::bigint FROM pg_publication_tables t JOIN pg_namespace n ON n.nspname = t.schemaname
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename WHERE t.pubname = ANY (%(names)s))
"""


@dataclass(frozen=True, slots=True)
class ServerTable:
    """As the snapshot has it, with its `size` in bytes, of a partitioned one that of all partitions, of which the `largest` has so many. Where it
    may not be read, the role lacks a right on the schema, the table or its rows. `columns` are their numbers, names, types and type modifiers."""

    schema: str
    name: str
    kind: str
    lacks: str | None
    largest: int
    size: int
    columns: tuple[tuple[int, str, int, int], ...]

    def check_is(self, relation: Relation, at: Lsn) -> None:
        """Raise PeerError where the log has other columns of it there, or its rows may not be read (42501)."""
        columns = tuple((each.number, each.name, each.live_type.oid, each.typmod) for each in relation.live_columns)
        if (self.schema, self.name, self.columns) != (relation.schema, relation.name, columns):
            raise PeerError(
                f"table {relation} is another in the log than in the snapshot under which it was to be copied", lsn=at
            )
        if (error := self.refusal) is not None:
            raise error

    @property
    def refusal(self) -> PeerError | None:
        """As PostgreSQL says that it may not be read."""
        context = f"table {self.qualified_name}"
        match self.lacks:
            case "schema":
                return PeerError(
                    f"permission denied for schema {self.schema}", context=context, sqlstate="42501",
                    hint="GRANT USAGE on it to the role that connects. tailrace doctor --publication says what else it lacks.",
                )  # fmt: skip
            case "table":
                return PeerError(
                    f"permission denied for table {self.name}", context=context, sqlstate="42501",
                    hint="GRANT SELECT on it to the role that connects. tailrace doctor --publication says what else it lacks.",
                )  # fmt: skip
            case "rows":
                return PeerError(
                    f'query would be affected by row-level security policy for table "{self.name}"', context=context, sqlstate="42501",
                    hint="Give BYPASSRLS to the role that connects.",
                )  # fmt: skip
        return None

    @property
    def qualified_name(self) -> str:
        return write_table_name(self.schema, self.name)


def tables_seen(session: Any, only: Sequence[int] | None = None) -> dict[int, ServerTable]:
    """By the session, all of users that are logged, or `only` these, by oid, with their partitions. Raises psycopg's errors."""
    which = {"only": None if only is None else list(only)}
    return {
        int(oid): ServerTable(schema, table, kind, lacks, int(largest), int(size), tuple(map(tuple, columns or ())))
        for oid, schema, table, kind, lacks, largest, size, columns in session.execute(_TABLES, which).fetchall()
    }


def published_by_session(session: Any, publications: Sequence[str]) -> set[int] | None:
    """The oids of what they publish; None for all, where there are none, or one is not the server's."""
    known, published = session.execute(_PUBLISHED, {"names": list(publications)}).fetchone()
    return set(published) if publications and known == len(set(publications)) else None


def tables_named(dsn: str, database: str, names: Sequence[str]) -> list[int]:
    """The oids of tables. Raises UsageError for names that mean none."""
    import psycopg  # noqa: PLC0415 - only those who connect need it

    try:
        with copy_session(dsn, database) as connection:
            found = [connection.execute("SELECT to_regclass(%s)::oid::bigint", (name,)).fetchone()[0] for name in names]
    except psycopg.Error as error:
        raise as_ours(error, database) from error
    for name, oid in zip(names, found, strict=True):
        if oid is None:
            raise UsageError(f'relation "{name}" does not exist', sqlstate="42P01")
    return [int(oid) for oid in found]


def published_tables(dsn: str, database: str, oids: Sequence[int], publications: Sequence[str]) -> dict[int, ServerTable] | None:
    """As they are now, those of these tables that the server's publications have; none where one of these is not the server's. None where the server
    does not tell for now, since somebody alters one. Raises PeerError as the server does."""
    import psycopg  # noqa: PLC0415 - see above

    try:
        with copy_session(dsn, database) as connection:
            connection.execute(f"SET lock_timeout = {LOCK_MILLISECONDS}")
            published = published_by_session(connection, publications) or set()
            there = tables_seen(connection, oids)
    except psycopg.errors.LockNotAvailable:
        return None
    except psycopg.Error as error:
        raise as_ours(error, database) from error
    return {oid: table for oid, table in there.items() if oid in published and oid in oids}
