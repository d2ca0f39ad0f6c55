"""A snapshot of a live server under which its tables are copied, and which transactions it has seen.

In: a connection string and a database whose log is received. Out: `ServerSnapshot`, for as long as a `with` lasts: sessions that copy under it, and
the changes of a transaction that it has not seen are to be applied behind the copy. That is decided by the transaction's xid, and not by LSN: a
transaction may have its commit record in the log and be invisible still.

What a transaction wrote before the log is received would be missing where it is invisible; so those that ran when the log began are waited for. The
tables are locked against TRUNCATE and ALTER TABLE, which no snapshot holds up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any

from tailrace.catalog.names.qualified_names import write_table_name
from tailrace.client.block_ranges import block_ranges
from tailrace.client.catalog_files import as_ours
from tailrace.client.copy_options import CopyStrategy
from tailrace.client.copy_rate import CopyRate
from tailrace.client.copy_sessions import LOCK_MILLISECONDS, JoiningSessions, copy_session, from_item
from tailrace.client.running_transactions import (
    BEGIN,
    oldest_running,
    seen_by_snapshot,
    spend_xid,
    who_runs,
)
from tailrace.client.table_pages import SnapshotFiles, TablePages, least_bytes, readable_files, tables_in_pages
from tailrace.client.table_part import TablePart
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError, UsageError
from tailrace.model import Lsn, Relation
from tailrace.transactions.seen_transactions import SeenTransactions
from tailrace.wire.copied_rows import CopiedRows

_PART_BYTES = 32 << 20
"""Of a table that are copied at once."""
_POLL = 0.2
_TOLD_AFTER = 5.0
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
_LOCKED = "SELECT relation::bigint FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND granted"
_WAITS = (
    "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND (backend_xid IS NULL OR age(backend_xid) > age('{}'::xid))"
)
_REVOKES = 5
"""How often a table that may be read may be refused when it is to be locked."""
_TO_COMMIT, _MOMENT = 1.0, 0.02
"""Seconds that it takes at most from a commit record until the transaction is visible, where no standby is waited for."""


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


@dataclass(frozen=True, slots=True)
class ServerSnapshot:
    """In the `sessions`, which hold locks on its `tables`, by oid: all of users that are logged, or those that were asked for. `time` is in
    microseconds of Unix's clock. Another session, which is in no transaction, can be `asked`. The snapshot was `exported` under this name,
    by the session of the server's process `holder`."""

    sessions: SimpleQueue[Any]
    seen: SeenTransactions
    tables: dict[int, ServerTable]
    time: int
    asked: Any
    exported: str
    holder: int

    @classmethod
    @contextmanager
    def taken(
        cls, dsn: str, database: str, sessions: int, tell: Callable[[str], None], is_stopping: Callable[[], bool], *,
        awaits_older: bool = True, only: Sequence[int] | None = None,
    ) -> Iterator[ServerSnapshot | None]:  # fmt: skip
        """None where it is to stop while transactions are waited for; those that run now are, if it `awaits_older`. It may be of `only` these tables,
        by oid, with their partitions. Raises UsageError on a standby,
        whose snapshots do not tell which transactions are over, and PeerError as the server does."""
        import psycopg  # noqa: PLC0415 - only those who connect need it

        try:
            with ExitStack() as stack:
                first, *others = (stack.enter_context(copy_session(dsn, database)) for _ in range(1 + sessions))
                if _value(first, "SELECT pg_is_in_recovery()"):
                    raise UsageError(
                        "tables cannot be copied from a server in recovery",
                        hint="Give the primary's connection string; or --no-copy, for what changes from now on.", sqlstate="55000",
                    )  # fmt: skip
                is_ready = not awaits_older or _await_older(first, tell, is_stopping)
                there = _locked_tables(first, others, only, is_stopping) if is_ready else None
                if there is None:
                    yield None
                    return
                leader, *followers = others
                ((name, at),) = leader.execute(
                    "SELECT pg_export_snapshot(), (extract(epoch FROM now()) * 1000000)::bigint"
                ).fetchall()
                seen = seen_by_snapshot(partial(_value, leader))
                for each in followers:
                    each.execute(f"SET TRANSACTION SNAPSHOT '{name}'")
                free: SimpleQueue[Any] = SimpleQueue()
                for each in others:
                    free.put(each)
                yield cls(free, seen, there, int(at), first, name, leader.info.backend_pid)
        except psycopg.Error as error:
            raise as_ours(error, database) from error

    def parts(
        self, rows: CopiedRows, where: str | None, *, keeps_unfit: bool = False, rate: CopyRate | None = None,
        pages: TablePages | None = None,
    ) -> list[TablePart]:  # fmt: skip
        """A table's rows, in parts that can be copied apart from each other: of a partitioned table the same blocks of each partition. They may come
        from its `pages`."""
        blocks = block_ranges(self.tables[rows.relation.oid].largest, _PART_BYTES)
        return [TablePart(self.sessions, rows, where, each, keeps_unfit, rate, pages) for each in blocks]

    def joined_by_workers(self, database: str) -> JoiningSessions:
        """Sessions of other processes."""
        return JoiningSessions.of(self.asked, database, self.exported, self.holder)

    def published(self, publications: Sequence[str]) -> Collection[int]:
        """The oids of those of its tables that the server's publications have; of all, where none is named, or one that is not the server's. Raises
        PeerError as the server does."""
        with self._session() as session:
            published = _published(session, publications)
        return self.tables.keys() if published is None else self.tables.keys() & published

    def readable_files(
        self, wanted: Collection[int], strategy: CopyStrategy, is_stopping: Callable[[], bool] = lambda: False
    ) -> SnapshotFiles | None:
        """The server's, if pages are to be read of any of the tables that are wanted, by oid: a checkpoint is made, and with it the log is flushed up
        to the snapshot. None where it is to stop meanwhile, too. Raises PeerError as the server does."""
        least = least_bytes(strategy)
        if not any(oid in wanted and each.size >= least for oid, each in self.tables.items() if each.kind == "r"):
            return None
        with self._session() as session:
            return readable_files(self.asked, session, self.exported, strategy, is_stopping)

    def in_pages(
        self, files: SnapshotFiles | None, relations: Sequence[Relation], codec: str, strategy: CopyStrategy
    ) -> dict[int, TablePages]:
        """Those of the tables that are read by their pages, whose values are in that `codec`. Raises PeerError as the server does."""
        if files is None:
            return {}
        with self._session() as session:
            sized = [(each, self.tables[each.oid].size) for each in relations]
            return tables_in_pages(files, session, sized, codec, strategy)

    @contextmanager
    def _session(self) -> Iterator[Any]:
        """One of them, for the block."""
        import psycopg  # noqa: PLC0415 - only those who connect need it

        session = self.sessions.get()
        try:
            yield session
        except psycopg.Error as error:
            raise as_ours(error, "") from error
        finally:
            self.sessions.put(session)


def write_something(dsn: str, database: str) -> None:
    """Have the server's log grow: by the commit of a transaction that does nothing."""
    import psycopg  # noqa: PLC0415 - only those who connect need it

    try:
        with copy_session(dsn, database) as connection:
            _xid_now(connection)
    except psycopg.Error as error:
        raise as_ours(error, database) from error


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


def published_tables(dsn: str, database: str, oids: Sequence[int], publications: Sequence[str]) -> dict[int, ServerTable]:
    """As they are now, those of these tables that the server's publications have; none where one of these is not the server's. Raises PeerError as
    the server does."""
    import psycopg  # noqa: PLC0415 - see above

    try:
        with copy_session(dsn, database) as connection:
            published = _published(connection, publications) or set()
            there = _tables(connection, {"only": list(oids)})
    except psycopg.Error as error:
        raise as_ours(error, database) from error
    return {oid: table for oid, table in there.items() if oid in published and oid in oids}


def await_commits(dsn: str, database: str, patience: float = 30.0) -> None:
    """Wait until all is visible that has a commit record in the log by now, so that the next snapshot sees it: a transaction is invisible while its
    COMMIT waits for a synchronous standby. One that does not come to an end, and does not wait for that, has no commit record. Raises PeerError where
    a standby does not answer."""
    import psycopg  # noqa: PLC0415 - see above

    try:
        with copy_session(dsn, database) as connection:
            xid, began = _xid_now(connection), time.monotonic()
            while oldest_running(partial(_value, connection)) < xid:
                waited = time.monotonic() - began
                if waited > _TO_COMMIT and not _value(connection, f"SELECT EXISTS ({_WAITS.format(xid & 0xFFFF_FFFF)})"):
                    return
                if waited > patience:
                    raise PeerError(
                        "transactions whose commit is in the log are not visible: they wait for a synchronous standby",
                        hint="Run this again once the standby answers, or synchronous_standby_names is another.", sqlstate="55000",
                    )  # fmt: skip
                time.sleep(_MOMENT)
    except psycopg.Error as error:
        raise as_ours(error, database) from error


def _xid_now(connection: Any) -> int:
    """A new one, of a transaction that has ended, and is in the log. No standby is waited for."""
    connection.execute("SET synchronous_commit = local")
    return spend_xid(partial(_value, connection))


def _published(session: Any, publications: Sequence[str]) -> set[int] | None:
    """The oids of what they publish; None for all, where there are none, or one is not the server's."""
    known, published = session.execute(_PUBLISHED, {"names": list(publications)}).fetchone()
    return set(published) if publications and known == len(set(publications)) else None


def _tables(session: Any, which: dict[str, Any]) -> dict[int, ServerTable]:
    return {
        int(oid): ServerTable(schema, table, kind, lacks, int(largest), int(size), tuple(map(tuple, columns or ())))
        for oid, schema, table, kind, lacks, largest, size, columns in session.execute(_TABLES, which).fetchall()
    }


def _locked_tables(
    asked: Any, sessions: Sequence[Any], only: Sequence[int] | None, is_stopping: Callable[[], bool]
) -> dict[int, ServerTable] | None:
    """The tables that the first session sees from now on, each of which all sessions have locked, if it may be read; None where it is to stop. Where
    one was made after the others were locked, all are locked anew."""
    leader, which = sessions[0], {"only": None if only is None else list(only)}
    while _lock(asked, sessions, which, is_stopping):
        there = _tables(leader, which)
        locked = {int(oid) for (oid,) in leader.execute(_LOCKED).fetchall()}
        if all(oid in locked for oid, table in there.items() if not table.lacks):
            return there
        for each in sessions:
            each.execute("ROLLBACK")
    return None


def _lock(asked: Any, sessions: Sequence[Any], which: dict[str, Any], is_stopping: Callable[[], bool]) -> bool:
    """Have each session lock all these tables, so that nobody alters or truncates them, before any has a snapshot. One that waits for a lock waits
    for who alters the table, who may wait for another session of ours: so nobody waits long, but all let go and try again. False where it is to
    stop."""
    import psycopg  # noqa: PLC0415 - see above

    refusals = 0
    while not is_stopping():
        tables = [
            (kind, schema, name) for _, schema, name, kind, lacks, *_ in asked.execute(_TABLES, which).fetchall() if not lacks
        ]
        try:
            for each in sessions:
                each.execute(BEGIN)
                each.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}")
                for kind, schema, name in tables:  # who may read a partitioned table need not be let to its partitions
                    each.execute(f"LOCK TABLE {from_item(kind, schema, name)} IN ACCESS SHARE MODE")
            return True
        except (
            psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName, psycopg.errors.LockNotAvailable,
            psycopg.errors.InsufficientPrivilege,
        ) as error:  # fmt: skip
            refusals += isinstance(error, psycopg.errors.InsufficientPrivilege)
            if refusals > _REVOKES:  # no REVOKE that came between
                raise
            for each in sessions:
                each.execute("ROLLBACK")
            time.sleep(_POLL)
    return False


def _await_older(connection: Any, tell: Callable[[str], None], is_stopping: Callable[[], bool]) -> bool:
    """Wait until all transactions are over that run now: those that are older than one of ours. (A snapshot's xmax is newer than all that have ended,
    and not than all that run.) False where it is to stop before that."""
    ask, began, told = partial(_value, connection), time.monotonic(), False
    ours = _xid_now(connection)
    while oldest_running(ask) < ours:
        if is_stopping():
            return False
        if not told and time.monotonic() - began > _TOLD_AFTER:
            told = True
            tell(f"waiting for transactions that began before tables can be copied: {who_runs(ask)}")
        time.sleep(_POLL)
    return True


def _value(connection: Any, query: str) -> Any:
    ((value,),) = connection.execute(query).fetchall()
    return value
