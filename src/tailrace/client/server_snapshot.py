"""A snapshot of a live server under which its tables are copied, and which transactions it has seen.

In: a connection string and a database whose log is received. Out: `ServerSnapshot`, for as long as a `with` lasts: sessions that copy under it, and
the changes of a transaction that it has not seen are to be applied behind the copy. That is decided by the transaction's xid, and not by LSN: a
transaction may have its commit record in the log and be invisible still.

What a transaction wrote before the log is received would be missing where it is invisible; so those that ran when the log began are waited for. The
tables are locked against TRUNCATE and ALTER TABLE, which no snapshot holds up. A standby may have sent more of the log than it has replayed, so that
is waited for before; what else is asked of it otherwise is in `client/standby_snapshot.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from queue import SimpleQueue
from typing import Any, NamedTuple

from tailrace.client.block_ranges import block_ranges
from tailrace.client.catalog_files import ServerFiles, as_ours
from tailrace.client.conninfo import words_of
from tailrace.client.copy_options import CopyStrategy
from tailrace.client.copy_rate import CopyRate
from tailrace.client.copy_sessions import LOCK_MILLISECONDS, BeginAnew, JoiningSessions, copy_session, from_item
from tailrace.client.running_transactions import BEGIN, is_standby, oldest_running, seen_by_snapshot, value_of, who_runs
from tailrace.client.server_tables import ServerTable, published_by_session, tables_seen
from tailrace.client.standby_snapshot import (
    conflict_remedy,
    is_recovery_conflict,
    received,
    replayed,
    seen_by_exported,
)
from tailrace.client.table_pages import SnapshotFiles, TablePages, least_bytes, readable_files, tables_in_pages
from tailrace.client.table_part import TablePart
from tailrace.client.visible_commits import xid_now
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError, TailraceError
from tailrace.model import Lsn, Relation
from tailrace.transactions.seen_transactions import SeenTransactions
from tailrace.wire.copied_rows import CopiedRows

_PART_BYTES = 32 << 20
"""Of a table that are copied at once."""
_POLL = 0.2
_TOLD_AFTER = 5.0
_LOCKED = "SELECT relation::bigint FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND granted"
_OLDER = "transactions that began before tables can be copied"
_REVOKES = 5
"""How often a table that may be read may be refused when it is to be locked."""


@dataclass(frozen=True, slots=True)
class LogAtHand:
    """Of a standby: it reaches to `end`, where the newest transaction that is open has this full xid, or none is (0)."""

    end: Lsn = Lsn(0)
    newest_open: int = 0


class _Exported(NamedTuple):
    """A snapshot under this name, and what it sees: the tables, and which transactions, up to where in the log. The time is in microseconds of Unix's
    clock."""

    tables: dict[int, ServerTable]
    seen: SeenTransactions
    reach: Lsn
    name: str
    time: int


@dataclass(frozen=True, slots=True)
class ServerSnapshot:
    """In the `sessions`, which hold locks on its `tables`, by oid: all of users that are logged, or those that were asked for. `time` is in
    microseconds of Unix's clock. Another session, which is in no transaction, can be `asked`. The snapshot was `exported` under this name,
    by the session of the server's process `holder`. Nothing that it has seen lies behind `reach` in the log."""

    sessions: SimpleQueue[Any]
    seen: SeenTransactions
    reach: Lsn
    tables: dict[int, ServerTable]
    time: int
    asked: Any
    exported: str
    holder: int

    @classmethod
    @contextmanager
    def taken(
        cls, dsn: str, database: str, sessions: int, tell: Callable[[str], None], is_stopping: Callable[[], bool], *,
        awaits_older: bool = True, only: Sequence[int] | None = None, log: Callable[[], LogAtHand] = LogAtHand,
    ) -> Iterator[ServerSnapshot | None]:  # fmt: skip
        """None where it is to stop while transactions are waited for; those that run now are, if it `awaits_older`. It may be of `only` these tables,
        by oid, with their partitions. Of a standby it is asked how far the `log` is at hand. Raises PeerError as the server does."""
        import psycopg  # noqa: PLC0415 - only those who connect need it

        try:
            with ExitStack() as stack:
                first = stack.enter_context(copy_session(dsn, database))
                others = [stack.enter_context(copy_session(words_of(first), database)) for _ in range(sessions)]
                ready = _Readiness(first, is_standby(value_of(first)), tell, is_stopping)
                found = ready.exported(others, only) if ready.has_come(log, awaits_older=awaits_older) else None
                if found is None:
                    yield None
                    return
                leader, *followers = others
                for each in followers:
                    each.execute(f"SET TRANSACTION SNAPSHOT '{found.name}'")
                free: SimpleQueue[Any] = SimpleQueue()
                for each in others:
                    free.put(each)
                yield cls(free, found.seen, found.reach, found.tables, found.time, first, found.name, leader.info.backend_pid)
        except psycopg.Error as error:
            raise _with_remedy(as_ours(error, database)) from error
        except PeerError as error:
            _with_remedy(error)
            raise

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

    def published(self, publications: Sequence[str]) -> Collection[int] | None:
        """The oids of those of its tables that the server's publications have; of all, where none is named, or one that is not the server's. None
        where the server does not tell for now, since somebody alters another one that is published: he may wait for what is locked here, so the
        snapshot is of no use any more. Raises PeerError as the server does."""
        import psycopg  # noqa: PLC0415 - see above

        with self._session() as session:
            try:
                published = published_by_session(session, publications)
            except psycopg.errors.LockNotAvailable:
                return None
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


def _with_remedy(error: TailraceError) -> TailraceError:
    if is_recovery_conflict(error) and not isinstance(error, BeginAnew):
        error.hint = conflict_remedy(error.detail)  # in place of the server's, to try again
    return error


@dataclass(frozen=True, slots=True)
class _Readiness:
    """What is waited for until there is a snapshot of use. The session that is `asked` is in no transaction."""

    asked: Any
    is_standby: bool
    tell: Callable[[str], None]
    is_stopping: Callable[[], bool]

    def has_come(self, log: Callable[[], LogAtHand], *, awaits_older: bool) -> bool:
        """Wait until all transactions are over that run now; of a standby, those that are open in the log at hand. False where it is to stop."""
        ask = value_of(self.asked)
        if self.is_standby:  # which may have sent what it has not replayed, and gives no xid
            at_hand = log()
            return self._await(
                lambda: replayed(ask) >= at_hand.end, lambda: f"the standby to replay the log up to {at_hand.end}"
            ) and self._await(
                lambda: not awaits_older or oldest_running(ask) > at_hand.newest_open,
                lambda: f"{_OLDER}: those before xid {at_hand.newest_open + 1}, which run on the primary",
            )
        if not awaits_older:
            return True
        # A snapshot's xmax is newer than all that have ended, and not than all that run.
        ours = xid_now(self.asked)
        return self._await(lambda: oldest_running(ask) >= ours, lambda: f"{_OLDER}: {who_runs(ask)}")

    def exported(self, sessions: Sequence[Any], only: Sequence[int] | None) -> _Exported | None:
        """Have the sessions lock the tables, and the first of them export its snapshot. None where it is to stop."""
        began, told = time.monotonic(), False
        while (there := self._locked(sessions, only)) is not None:
            leader = sessions[0]
            ((name, at),) = leader.execute(
                "SELECT pg_export_snapshot(), (extract(epoch FROM now()) * 1000000)::bigint"
            ).fetchall()
            seen, reach = self._seen(leader, name)
            if seen is not None:
                return _Exported(there, seen, reach, name, int(at))
            _let_go(sessions)
            if not told and time.monotonic() - began > _TOLD_AFTER:
                told = True
                self.tell(
                    "waiting for a transaction to end that has more subtransactions than a standby keeps: its snapshots name none that run"
                )
            time.sleep(_POLL)
        return None

    def _seen(self, leader: Any, exported: str) -> tuple[SeenTransactions | None, Lsn]:
        """Which transactions its snapshot has seen, if one can know that, and up to where in the log their records are. Raises PeerError where a
        standby has been promoted: of what was waited for there, nothing is known."""
        ask = value_of(leader)
        if not self.is_standby:
            seen = seen_by_snapshot(ask)
            return seen, seen.end
        found = seen_by_exported(ask, ServerFiles(leader), exported), received(ask)
        if not is_standby(ask):
            raise BeginAnew("the standby was promoted before its tables could be copied", hint="Run this again.")
        return found

    def _locked(self, sessions: Sequence[Any], only: Sequence[int] | None) -> dict[int, ServerTable] | None:
        """The tables that the first session sees from now on, each of which all sessions have locked, if it may be read; None where it is to stop.
        Where one was made after the others were locked, all are locked anew."""
        import psycopg  # noqa: PLC0415 - see above

        leader = sessions[0]
        while self._lock(sessions, only):
            with suppress(psycopg.errors.LockNotAvailable):  # of one that may not be read, and has been locked by somebody else
                there = tables_seen(leader, only)
                locked = {int(oid) for (oid,) in leader.execute(_LOCKED).fetchall()}
                if all(oid in locked for oid, table in there.items() if not table.lacks):
                    return there
            _let_go(sessions)
        return None

    def _lock(self, sessions: Sequence[Any], only: Sequence[int] | None) -> bool:
        """Have each session lock all these tables, so that nobody alters or truncates them, before any has a snapshot. One that waits for a lock
        waits for who alters the table, who may wait for another session of ours: so nobody waits long, but all let go and try again. False where it
        is to stop."""
        import psycopg  # noqa: PLC0415 - see above

        refusals = 0
        while not self.is_stopping():
            tables = [each for each in tables_seen(self.asked, only).values() if not each.lacks]
            try:
                for each in sessions:
                    each.execute(BEGIN)
                    each.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}")
                    for table in tables:  # who may read a partitioned table need not be let to its partitions
                        each.execute(f"LOCK TABLE {from_item(table.kind, table.schema, table.name)} IN ACCESS SHARE MODE")
                return True
            except (
                psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName, psycopg.errors.LockNotAvailable,
                psycopg.errors.InsufficientPrivilege,
            ) as error:  # fmt: skip
                refusals += isinstance(error, psycopg.errors.InsufficientPrivilege)
                if refusals > _REVOKES:  # no REVOKE that came between
                    raise
                _let_go(sessions)
                time.sleep(_POLL)
        return False

    def _await(self, is_over: Callable[[], bool], whom: Callable[[], str]) -> bool:
        began, told = time.monotonic(), False
        while not is_over():
            if self.is_stopping():
                return False
            if not told and time.monotonic() - began > _TOLD_AFTER:
                told = True
                self.tell(f"waiting for {whom()}")
            time.sleep(_POLL)
        return True


def _let_go(sessions: Sequence[Any]) -> None:
    for each in sessions:
        each.execute("ROLLBACK")
