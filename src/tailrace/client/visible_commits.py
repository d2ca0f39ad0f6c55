"""What a running server has committed, and shows: a commit record is in the log before its transaction is visible, and is flushed behind that.

In: a connection string and a database. Out: nothing; it is waited for, or written. A standby shows a transaction with its commit record, of a log
that is flushed; nobody can write there.
"""

from __future__ import annotations

import time
from typing import Any

from tailrace.client.catalog_files import as_ours
from tailrace.client.copy_sessions import copy_session
from tailrace.client.running_transactions import is_standby, oldest_running, spend_xid, value_of
from tailrace.client.standby_snapshot import replayed
from tailrace.errors import PeerError
from tailrace.model import Lsn

_WAITS = (
    "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND (backend_xid IS NULL OR age(backend_xid) > age('{}'::xid))"
)
_MAY_SEE_WAITS = "SELECT current_setting('synchronous_standby_names') = '' OR pg_has_role('pg_read_all_stats', 'USAGE')"
_TO_COMMIT, _MOMENT = 1.0, 0.02
"""Seconds that it takes at most from a commit record until the transaction is visible, where no standby is waited for."""


def write_something(dsn: str, database: str) -> bool:
    """Have the server's log grow: by the commit of a transaction that does nothing. False where nobody can: on a standby."""
    import psycopg  # noqa: PLC0415 - only those who connect need it

    try:
        with copy_session(dsn, database) as connection:
            if is_standby(value_of(connection)):
                return False
            xid_now(connection)
            return True
    except psycopg.Error as error:
        raise as_ours(error, database) from error


def replayed_upto(dsn: str, database: str) -> Lsn:
    """All that a standby shows by now, and for sure, commits before there."""
    import psycopg  # noqa: PLC0415 - see above

    try:
        with copy_session(dsn, database) as connection:
            return replayed(value_of(connection))
    except psycopg.Error as error:
        raise as_ours(error, database) from error


def await_commits(dsn: str, database: str, patience: float = 30.0) -> None:
    """Wait until all is visible that has a commit record in the log by now, so that the next snapshot sees it: a transaction is invisible while its
    COMMIT waits for a synchronous standby. One that does not come to an end, and does not wait for that, has no commit record. Raises PeerError where
    a standby does not answer. (Asked of a standby, what has not been replayed is not waited for.)"""
    import psycopg  # noqa: PLC0415 - see above

    try:
        with copy_session(dsn, database) as connection:
            ask, began = value_of(connection), time.monotonic()
            if is_standby(ask):
                return
            xid, may_see = xid_now(connection), ask(_MAY_SEE_WAITS)
            while oldest_running(ask) < xid:
                waited = time.monotonic() - began
                if waited > _TO_COMMIT and may_see and not ask(f"SELECT EXISTS ({_WAITS.format(xid & 0xFFFF_FFFF)})"):
                    return
                if waited > patience and not may_see:
                    raise PeerError(
                        "the role may not know whether transactions that run wait for a synchronous standby",
                        detail="If one does, its commit is in the log, and not visible.", sqlstate="42501",
                        hint="GRANT pg_read_all_stats to the role that connects; or run this again once no old transaction is running.",
                    )  # fmt: skip
                if waited > patience:
                    raise PeerError(
                        "transactions whose commit is in the log are not visible: they wait for a synchronous standby",
                        hint="Run this again once the standby answers, or synchronous_standby_names is another.", sqlstate="55000",
                    )  # fmt: skip
                time.sleep(_MOMENT)
    except psycopg.Error as error:
        raise as_ours(error, database) from error


def xid_now(connection: Any) -> int:
    """A new one, of a transaction that has ended, and is in the log. No standby is waited for."""
    connection.execute("SET synchronous_commit = local")
    return spend_xid(value_of(connection))
