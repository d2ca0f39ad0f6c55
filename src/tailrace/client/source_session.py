"""A session on the server whose log is received: it holds a snapshot, and copies tables under it for somebody else.

In: a connection string, and commands that were made here; never a client's text. Out: what `pg_current_snapshot` says, the snapshot's name for other
sessions, and the data of a COPY TO STDOUT as the server sends it, some at a time. The server's refusals are raised in its words, as UsageError: a
client has asked for what it refuses. How the server is reached is nobody's business who is not its user, so of a connection that fails the client is
told no more than that.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import Any

from tailrace.client.conninfo import conninfo_of
from tailrace.client.running_transactions import (
    BEGIN,
    WITHOUT_TIMEOUTS,
    is_standby,
    oldest_running,
    seen_by_snapshot,
    spend_xid,
    who_runs,
)
from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.transactions.seen_transactions import SeenTransactions

_SETTINGS = {"search_path": "", "synchronous_commit": "local", "row_security": "off", "standard_conforming_strings": "on"}
"""Of ours: a row that a policy hides from the role would be missing without a word, and is refused instead; and constants are written for it."""
_REWRITTEN = """
WITH RECURSIVE below (oid) AS (SELECT %s::oid UNION SELECT inhrelid FROM pg_inherits JOIN below ON inhparent = below.oid)
SELECT count(*) FROM below JOIN pg_class c USING (oid) WHERE c.relfilenode NOT IN (0, pg_relation_filenode(c.oid))
"""
_PIECE = 256 << 10


@dataclass(slots=True)
class SourceSession:
    """One of `database`, connected to. It is asked by one thread at a time; `cancel` and `let_go` may come from any."""

    connection: Any
    database: str
    _busy: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def opened(cls, dsn: str, database: str) -> SourceSession:
        """Raises UsageError (08006) where there is no way to the server."""
        import psycopg  # noqa: PLC0415 - only those who connect need it

        words = conninfo_of(dsn, dbname=database, client_encoding="UTF8")
        try:
            connection = psycopg.connect(words, autocommit=True, fallback_application_name="tailrace")
        except psycopg.Error as error:
            raise _NoWay(str(error)) from error
        made = cls(connection, database)
        try:
            made.set(_SETTINGS)
            made.rows(WITHOUT_TIMEOUTS)
        except BaseException:
            made.close()
            raise
        return made

    @property
    def encoding(self) -> str:
        """Of the database, as the server names it."""
        return str(self.connection.info.parameter_status("server_encoding"))

    # -- its snapshot ------------------------------------------------------------------------------------------------------------------

    def begin(self, snapshot: str = "") -> None:
        """A transaction with a snapshot of its own, or with one that another session of ours has exported and still holds."""
        self.rows(BEGIN)
        if snapshot:
            self.rows(f"SET TRANSACTION SNAPSHOT '{snapshot}'")

    def end(self) -> None:
        self.rows("ROLLBACK")

    def exported(self) -> str:
        """The name of the snapshot, for as long as the transaction lasts."""
        return str(self.value("SELECT pg_export_snapshot()"))

    def seen(self) -> SeenTransactions:
        """Which transactions the snapshot has seen; their commit records lie before `end`."""
        return seen_by_snapshot(self.value)

    @property
    def is_in_recovery(self) -> bool:
        return is_standby(self.value)

    # -- whom it waits for -------------------------------------------------------------------------------------------------------------

    def spend_xid(self) -> int:
        """The xid of a transaction of ours that does nothing; all that commit records name so far are smaller."""
        return spend_xid(self.value)

    def oldest_running(self) -> int:
        """No transaction with a smaller xid is running."""
        return oldest_running(self.value)

    def running(self) -> str:
        """Who runs the transactions that are waited for, in words."""
        return who_runs(self.value)

    # -- a table ---------------------------------------------------------------------------------------------------------------------------

    def check_unchanged(self, oid: int, name: str) -> None:
        """Lock the table against TRUNCATE and what rewrites it; raise UsageError (55000) where that has happened since the snapshot, which would find
        no row in the new file."""
        self.rows(f"LOCK TABLE {name} IN ACCESS SHARE MODE")
        if self.rows(_REWRITTEN, oid) != [(0,)]:
            raise UsageError(
                f'could not copy "{name}": it was truncated or rewritten after the snapshot was taken', sqlstate="55000",
                hint="Take another snapshot. A subscriber does so by itself.",
            )  # fmt: skip

    def copy_out(self, command: str) -> SourceCopy:
        """A COPY TO STDOUT, begun."""
        return SourceCopy.begun(self.connection, self._busy, command)

    # -- and else ------------------------------------------------------------------------------------------------------------------------

    def set(self, parameters: Mapping[str, str]) -> None:
        for name, value in parameters.items():
            self.rows("SELECT set_config(%s, %s, false)", name, value)

    def value(self, query: str) -> Any:
        ((value,),) = self.rows(query)
        return value

    def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self._busy, _in_its_words():
            cursor = self.connection.execute(query, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def cancel(self) -> None:
        """Whatever it does ends, with the server's error. Nothing is waited for."""
        threading.Thread(target=self._cancel, name="tailrace cancels a copy", daemon=True).start()

    def _cancel(self) -> None:
        with suppress(Exception):  # who has gone needs not be told
            self.connection.cancel_safe(timeout=10)

    def let_go(self) -> None:
        """End it, once what it does has ended, which is asked for. Nothing is waited for."""
        threading.Thread(target=self._end, name="tailrace ends a session", daemon=True).start()

    def _end(self) -> None:
        if self._busy.locked():
            self._cancel()
        with self._busy:
            self.close()

    def close(self) -> None:
        with suppress(Exception):
            self.connection.close()


@dataclass(slots=True)
class SourceCopy:
    """`is_binary` says how the rows come, of `columns` columns. `tag` is what the server says of the whole, once it is over."""

    connection: Any
    is_binary: bool
    columns: int
    _busy: threading.Lock
    tag: str = ""
    _is_over: bool = False

    @classmethod
    def begun(cls, connection: Any, busy: threading.Lock, command: str) -> SourceCopy:
        """Raises UsageError in the server's words."""
        from psycopg.pq import ExecStatus  # noqa: PLC0415 - see above

        with busy, _in_its_words():
            made = cls(connection, False, 0, busy)
            connection.pgconn.send_query(command.encode())
            result = made._next_result()
            if result is None or result.status != ExecStatus.COPY_OUT:
                made._drain()
                raise _refusal(result)
            made.is_binary, made.columns = bool(result.binary_tuples), int(result.nfields)
            return made

    def rows(self) -> list[bytes] | None:
        """The next ones, as the server cuts its data: those that have come, and no more than some hundred kB. None: there are no more. Raises
        UsageError in the server's words."""
        raw, rows, size = self.connection.pgconn, list[bytes](), 0
        with self._busy, _in_its_words():
            while size < _PIECE and not self._is_over:
                length, data = raw.get_copy_data(1)
                if length > 0:
                    rows.append(bytes(data))
                    size += length
                elif length < 0:
                    self._is_over = True
                elif rows:
                    break
                else:
                    self._await_input()
            if rows:
                return rows
            result = self._next_result()
            self._drain()
            if result is None or result.error_message:
                raise _refusal(result)
            self.tag = (result.command_status or b"").decode()
            return None

    def _next_result(self) -> Any:
        raw = self.connection.pgconn
        raw.flush()
        while raw.is_busy():
            self._await_input()
        return raw.get_result()

    def _await_input(self) -> None:
        raw = self.connection.pgconn
        select.select([raw.socket], [], [])
        raw.consume_input()

    def _drain(self) -> None:
        while self._next_result() is not None:
            pass


class _NoWay(UsageError):
    """Of the reason only who runs the server is to learn."""

    def __init__(self, reason: str) -> None:
        super().__init__("could not connect to the server that the log is of", sqlstate="08006")
        self.reason = reason


@contextmanager
def _in_its_words() -> Iterator[None]:
    import psycopg  # noqa: PLC0415 - see above

    try:
        yield
    except psycopg.Error as error:
        found = error.diag
        if error.sqlstate is None:
            raise UsageError("connection to the server that the log is of was lost", sqlstate="08006") from error
        raise UsageError(
            found.message_primary or "unknown error", detail=found.message_detail or "", hint=found.message_hint or "",
            sqlstate=error.sqlstate,
        ) from error  # fmt: skip


def _refusal(result: Any) -> UsageError:
    from psycopg.pq import DiagnosticField  # noqa: PLC0415 - see above

    if result is None or not result.error_field(DiagnosticField.SQLSTATE):
        return UsageError("connection to the server that the log is of was lost", sqlstate="08006")
    found = {
        name: (result.error_field(field) or b"").decode("utf-8", "replace")
        for name, field in (
            ("message", DiagnosticField.MESSAGE_PRIMARY), ("detail", DiagnosticField.MESSAGE_DETAIL),
            ("hint", DiagnosticField.MESSAGE_HINT), ("sqlstate", DiagnosticField.SQLSTATE),
        )
    }  # fmt: skip
    return UsageError(found["message"], detail=found["detail"], hint=found["hint"], sqlstate=found["sqlstate"])
