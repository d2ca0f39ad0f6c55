"""What a server says of the transactions that run on it, and of those that a snapshot of it has seen.

In: what asks a session for the one value of a query. Out: xids, all of them 64 bits wide, and words. By the oldest xid that runs somebody can wait
until all is visible that has begun before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace.model import Lsn
from tailrace.transactions.seen_transactions import SeenTransactions

Ask = Callable[[str], Any]
BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""What begins a transaction that has one snapshot, from its first query on."""
WITHOUT_TIMEOUTS = (
    "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name IN ('statement_timeout', 'lock_timeout', "
    "'idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')"
)
"""Of the server's or the role's own, for a session of ours."""
_WHO = """
SELECT string_agg(coalesce('prepared transaction "' || p.gid || '"', 'process ' || a.pid), ', ')
FROM pg_snapshot_xip(pg_current_snapshot()) AS running (xid)
LEFT JOIN pg_stat_activity a ON a.backend_xid = running.xid::xid LEFT JOIN pg_prepared_xacts p ON p.transaction = running.xid::xid
WHERE a.pid IS NOT NULL OR p.gid IS NOT NULL
"""


def value_of(session: Any) -> Ask:
    """What asks a session for the one value of a query."""

    def ask(query: str) -> Any:
        ((value,),) = session.execute(query.encode()).fetchall()
        return value

    return ask


def is_standby(ask: Ask) -> bool:
    return bool(ask("SELECT pg_is_in_recovery()"))


def spend_xid(ask: Ask) -> int:
    """The xid of a transaction of the session's that does nothing; all that commit records name so far are smaller."""
    return int(ask("SELECT pg_current_xact_id()::text"))


def oldest_running(ask: Ask) -> int:
    """No transaction with a smaller xid is running."""
    return int(ask("SELECT pg_snapshot_xmin(pg_current_snapshot())::text"))


def who_runs(ask: Ask) -> str:
    """Who is waited for by those who wait for all that run, in words."""
    return str(ask(_WHO) or "unknown")


def seen_by_snapshot(ask: Ask) -> SeenTransactions:
    """Which transactions the snapshot of the session's transaction has seen; their commit records lie before `end`."""
    text = ask("SELECT pg_current_snapshot()::text")
    return SeenTransactions.parse(text, Lsn.parse(ask("SELECT pg_current_wal_insert_lsn()::text")))
