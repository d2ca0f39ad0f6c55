"""A publisher and its subscriber, looked at twice: what is only late differs from look to look, and what is wrong does not.

In: the connection strings of both, and the tables that are looked at. Out: for as long as a `with` lasts `Look`s, each of which has a session with a
snapshot of the publisher, and one of the subscriber once that has applied all that the publisher's snapshot has seen.

    look 1:  publisher's snapshot ── applied past it ──► subscriber's snapshot
    look 2:                                              publisher's snapshot ── applied past it ──► subscriber's snapshot

A row may differ in one look, since the subscriber is ahead of the publisher's snapshot. But if the publisher has the same version of it in both
looks, nobody changed it from the first snapshot to the third; so the second, between them, is to have it as well. And what the subscriber alone has,
in the same version in both looks, was there before the third snapshot and after the fourth, in which all is applied that the third has seen: its
deletion, too. That holds only if each publisher's snapshot sees all that has been sent before it was taken: so commits in the log that are not
visible yet are waited for. The tables are locked as by pg_dump, since TRUNCATE and ALTER TABLE make no new versions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tailrace.client.catalog_files import as_ours
from tailrace.client.conninfo import connect, words_of
from tailrace.client.copy_sessions import LOCK_MILLISECONDS
from tailrace.client.running_transactions import BEGIN, is_standby, value_of
from tailrace.client.visible_commits import await_commits, write_something
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError, UsageError
from tailrace.model import Lsn
from tailrace.types.quoting import quote_identifier
from tailrace.verify.sql_rows import SqlTable
from tailrace.verify.subscribed_tables import SubscribedTable, Subscriptions
from tailrace.wire.copied_rows import SETTINGS

PATIENCE = 60.0
"""Seconds in which a subscription is to apply something of what it lacks."""
_MOMENT = 0.02
_PUBLISHER, _SUBSCRIBER = "asked of the publisher, SOURCE", "asked of the subscriber"
_APPLIED = """
SELECT s.subname::text, s.subenabled, count(t.pid), coalesce(max(t.latest_end_lsn), '0/0')::text, {}
FROM pg_subscription s LEFT JOIN pg_stat_subscription t ON t.subid = s.oid AND t.relid IS NULL
WHERE s.oid = ANY (%s) GROUP BY s.oid, s.subname, s.subenabled
"""
_BY_ORIGIN = "coalesce(pg_replication_origin_progress('pg_' || s.oid, false), '0/0')::text"
_MAY_ASK_ORIGINS = "SELECT has_function_privilege('pg_replication_origin_progress(text, boolean)', 'EXECUTE')"


@dataclass(frozen=True, slots=True)
class Look:
    """`lsn` is where the publisher was when its snapshot had been taken."""

    source: Any
    subscriber: Any
    lsn: Lsn


class TwoServers:
    """Sessions on both: on each one that asks, and one for each look. State: transactions that they are in."""

    def __init__(self, dsn: str, database: str, source: Sequence[Any], subscriber: Sequence[Any]) -> None:
        self._dsn, self._database = dsn, database
        self.source, *self._sources = source
        self.subscriber, *self._subscribers = subscriber

    @classmethod
    @contextmanager
    def connected(cls, dsn: str, database: str, subscriber: str) -> Iterator[TwoServers]:
        """Raises UsageError for a publisher in recovery, and for a server of ours; PeerError as the servers do."""
        import psycopg  # noqa: PLC0415 - only those who connect need it

        side = _PUBLISHER
        try:
            with ExitStack() as stack:
                source = _sessions(stack, dsn, dbname=database)
                side = _SUBSCRIBER
                servers = cls(words_of(source[0]), database, source, _sessions(stack, subscriber))
                side = ""
                if "(tailrace " in (servers.source.info.parameter_status("server_version") or ""):
                    raise UsageError(
                        "a subscriber is compared with the PostgreSQL server, and SOURCE is tailrace's own",
                        hint="Give the connection string of the server whose log is served.", sqlstate="0A000",
                    )  # fmt: skip
                if is_standby(value_of(servers.source)):
                    raise UsageError(
                        "a subscriber cannot be compared with a server in recovery", hint="Give the primary's connection string.",
                        sqlstate="55000",
                    )  # fmt: skip
                yield servers
        except psycopg.Error as error:
            raise as_ours(error, database, side) from error

    @contextmanager
    def looked_at_twice(self, subscriptions: Subscriptions, tables: Sequence[SubscribedTable]) -> Iterator[tuple[Look, Look]]:
        """Raises PeerError where the subscriber does not go on, and as the servers do, with whose words these are."""
        import psycopg  # noqa: PLC0415 - see above

        try:
            _lock(self._sources, [each.source for each in tables])
            lsn = self._snapshot_of_source(self._sources[0])
            self._await_applied(subscriptions, lsn)
            _lock(self._subscribers, [each.subscriber for each in tables])
            self._subscribers[0].execute("SELECT")
            again = self._snapshot_of_source(self._sources[1])
            self._await_applied(subscriptions, again)
            self._subscribers[1].execute("SELECT")
            yield Look(self._sources[0], self._subscribers[0], lsn), Look(self._sources[1], self._subscribers[1], again)
        except psycopg.Error as error:
            raise as_ours(error, self._database, self._who_refused()) from error
        finally:
            for each in (*self._sources, *self._subscribers):
                if not each.closed and each.info.transaction_status.name != "IDLE":
                    each.execute("ROLLBACK")

    def _who_refused(self) -> str:
        """In whose transaction an error has just been raised; empty: in none."""
        for side, sessions in ((_PUBLISHER, self._sources), (_SUBSCRIBER, self._subscribers)):
            if any(each.info.transaction_status.name == "INERROR" for each in sessions):
                return side
        return ""

    def _snapshot_of_source(self, session: Any) -> Lsn:
        """Where the log was once it had been taken: what it has seen was committed before there."""
        await_commits(self._dsn, self._database)
        lsn = Lsn.parse(value_of(session)("SELECT pg_current_wal_insert_lsn()::text"))
        write_something(self._dsn, self._database)  # so that the log comes to be sent past there
        return lsn

    def _await_applied(self, subscriptions: Subscriptions, lsn: Lsn) -> None:
        """A keepalive names the position up to which all was sent, and is heard once all before it is applied. A stream that never pauses may have
        none for long, so what was committed last counts as well, if the role may know it."""
        ask = _APPLIED.format(_BY_ORIGIN if value_of(self.subscriber)(_MAY_ASK_ORIGINS) else "'0/0'")
        waits, before = patience(), None
        while True:
            states = self.subscriber.execute(ask.encode(), [list(subscriptions.names)]).fetchall()
            late = [each for each in states if max(map(Lsn.parse, each[3:])) < lsn]
            if not late:
                return
            ends = [each[3:] for each in states]  # workers come and go though nothing is applied
            if ends != before:
                waits, before = patience(), ends
            disabled = [each for each in late if not each[1]]
            if disabled or not waits():
                raise _stuck((disabled or late)[0], lsn)


def patience() -> Callable[[], bool]:
    """What waits a moment, and says whether to go on; not for ever."""
    end = time.monotonic() + PATIENCE

    def waits() -> bool:
        time.sleep(_MOMENT)
        return time.monotonic() < end

    return waits


def _stuck(state: tuple[str, bool, int, str, str], lsn: Lsn) -> PeerError:
    name, is_enabled, workers, *ends = state
    why = f"nothing was applied for {PATIENCE:.0f} seconds" if workers else "no worker of it is running"
    applied = max(map(Lsn.parse, ends))
    done = f"has applied what comes before {applied}" if applied else "is not known to have applied anything"
    return PeerError(
        f'subscription "{name}" {done}, and the source is at {lsn}',
        detail=f"{why[0].upper()}{why[1:]}." if is_enabled else "It is disabled.",
        hint="What differs cannot be told from what is late. The subscriber's log says why it does not go on.", sqlstate="55000", lsn=lsn,
    )  # fmt: skip


def _sessions(stack: ExitStack, dsn: str, **parameters: str) -> list[Any]:
    """Three, of one server, of however many the string names."""
    first = stack.enter_context(_session(dsn, **parameters))
    return [first, *(stack.enter_context(_session(words_of(first))) for _ in range(2))]


@contextmanager
def _session(dsn: str, **parameters: str) -> Iterator[Any]:
    with connect(dsn, client_encoding="UTF8", fallback_application_name="tailrace", **parameters) as connection:
        for name, value in {**SETTINGS, "lc_monetary": "C"}.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        yield connection


def _lock(sessions: Sequence[Any], tables: Sequence[SqlTable]) -> None:
    """In all of them, before any has a snapshot. Who waits for a lock on one of them may wait for another session of ours: so nobody waits long, but
    all let go and try again. Raises what the server says where that does not help."""
    import psycopg  # noqa: PLC0415 - see above

    waits = patience()
    while True:
        try:
            for each in sessions:
                each.execute(BEGIN)
                each.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}")
                for table in tables:
                    only = "ONLY " if table.kind != "p" else ""
                    name = f"{quote_identifier(table.schema)}.{quote_identifier(table.name)}"
                    each.execute(f"LOCK TABLE {only}{name} IN ACCESS SHARE MODE".encode())
        except psycopg.errors.LockNotAvailable:
            for each in sessions:
                each.execute("ROLLBACK")
            if not waits():
                raise
        else:
            return
