"""What a standby says of transactions: less than a primary, and otherwise.

In: what asks a session for the one value of a query. Out: how far it has replayed its primary's log, and which transactions an exported snapshot of
it has seen. All that it knows to run it has among a snapshot's subtransactions (`GetSnapshotData` in `procarray.c`), of which `pg_current_snapshot`
tells nothing; the snapshot's file names them. Nobody can write there, or have an xid.

A standby shows what a commit record commits while it replays that, and says a moment later that it has; or much later, where files of many tables are
to be removed. So nobody can ask for what a snapshot has seen by LSN; the xids tell.
"""

from __future__ import annotations

from tailrace.client.catalog_files import READING, ServerFiles, as_ours
from tailrace.client.copy_sessions import BeginAnew, copy_session
from tailrace.client.running_transactions import Ask, is_standby, value_of
from tailrace.client.table_pages import exported_snapshot
from tailrace.errors import PeerError, TailraceError
from tailrace.model import Lsn
from tailrace.transactions.seen_transactions import SeenTransactions

_LOW_WORD = 0xFFFF_FFFF
_FILE_BYTES = 16 << 20
"""More than a snapshot of the most transactions has."""
_LONGER = "On the standby set {}a longer max_standby_streaming_delay; or give the primary's connection string."


def is_recovery_conflict(error: TailraceError) -> bool:
    """What ends a statement or a session there that is in the way of what is to be replayed, a lock on the primary or rows that VACUUM has removed.
    And whatever else has who copies begin anew."""
    return error.sqlstate == BeginAnew.default_sqlstate or "conflict with recovery" in error.message


def conflict_remedy(detail: str) -> str:
    """By what the server says was in the way: against a lock hot_standby_feedback does nothing."""
    return _LONGER.format("" if "lock" in detail else "hot_standby_feedback = on, and ")


def replayed(ask: Ask) -> Lsn:
    """What lies before is visible there."""
    return Lsn.parse(ask("SELECT pg_last_wal_replay_lsn()::text"))


def received(ask: Ask) -> Lsn:
    """What it has of the log, and sends; nothing that it shows lies behind."""
    return Lsn.parse(ask("SELECT greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())::text"))


def check_may_copy(dsn: str, database: str) -> None:
    """Before anything is made for a copy: raise PeerError (42501) where the server is a standby, and the role may not read files."""
    import psycopg  # noqa: PLC0415 - only those who connect need it

    try:
        with copy_session(dsn, database) as connection:
            ask = value_of(connection)
            if is_standby(ask) and not ask(f"SELECT has_function_privilege('{READING}', 'EXECUTE')"):
                raise _may_not_read("permission denied for function pg_read_binary_file")
    except psycopg.Error as error:
        raise as_ours(error, database) from error


def _may_not_read(said: str) -> PeerError:
    return PeerError(
        said, sqlstate="42501",
        hint=f"GRANT EXECUTE ON FUNCTION {READING}, on the primary, to the role that connects: only a file says which transactions a standby's "
        "snapshot has seen. Or give the primary's connection string.",
    )  # fmt: skip


def seen_by_exported(ask: Ask, files: ServerFiles, exported: str) -> SeenTransactions | None:
    """Which transactions the snapshot of the session's transaction has seen, which was `exported` under this name; None where it does not name all
    that run. `end` is where it says that it has replayed the log: the record of one commit may lie behind. Raises PeerError (42501) where its file
    may not be read, and psycopg's errors."""
    import psycopg  # noqa: PLC0415 - only those who connect need it

    try:
        snapshot = exported_snapshot(files.piece(f"pg_snapshots/{exported}", 0, _FILE_BYTES) or b"")
    except psycopg.errors.InsufficientPrivilege as error:
        raise _may_not_read(str(error.diag.message_primary)) from error
    if snapshot is None:
        return None
    xmax = int(ask("SELECT pg_snapshot_xmax(pg_current_snapshot())::text"))
    running = tuple(before(xmax, xid) for xid in snapshot.running.tolist())
    return SeenTransactions(before(xmax, snapshot.xmin), xmax, running, replayed(ask))


def before(xmax: int, low_word: int) -> int:
    """The full xid with these lower 32 bits that comes last before `xmax`, or is it."""
    return xmax - ((xmax - low_word) & _LOW_WORD)
