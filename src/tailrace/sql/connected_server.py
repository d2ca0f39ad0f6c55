"""A connection to a PostgreSQL server, which runs the statements that are not ours: they go there as they are, and what it says is
printed as psql prints it."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any

from tailrace.client.conninfo import connect, libpq_words
from tailrace.errors import PeerError
from tailrace.sql.result import Result, TextColumn


class ConnectedServer:
    """One connection, for as long as the session lasts; transactions are the server's."""

    def __init__(self, dsn: str, notice: Callable[[str], None]) -> None:
        import psycopg  # noqa: PLC0415 - only those who connect need it

        self._pq = psycopg.pq
        self._lost = psycopg.OperationalError
        states = self._pq.ExecStatus
        self._copies = (states.COPY_IN, states.COPY_OUT, states.COPY_BOTH)
        try:
            self._connection = connect(dsn)
        except psycopg.OperationalError as error:
            raise PeerError(libpq_words(error), sqlstate=error.sqlstate or "08001") from error
        self._raw = self._connection.pgconn
        self._raw.notice_handler = lambda result: notice(_text(result.error_message))

    def run(self, text: str) -> Result:
        """Send it, and wait; whoever is interrupted cancels it. COPY from or to the client is refused by closing the connection.

        Raises:
            PeerError: there is no connection any more, or it was a COPY.
        """
        try:
            self._raw.send_query(text.encode())
        except self._lost as error:
            raise PeerError("no connection to the server", sqlstate="08003") from error
        try:
            result = self._result()
        except self._lost:
            return Result(error=_text(self._raw.error_message), sqlstate="08006")
        except KeyboardInterrupt:
            self._connection.cancel()
            self._result()
            raise
        status, states = result.status, self._pq.ExecStatus
        if status in self._copies:
            self._connection.close()
            raise PeerError("COPY from and to the client is not supported", sqlstate="0A000")
        if status not in (states.TUPLES_OK, states.COMMAND_OK, states.EMPTY_QUERY):
            state = result.error_field(self._pq.DiagnosticField.SQLSTATE)
            return Result(error=_text(result.error_message or self._raw.error_message), sqlstate=_text(state or b""))
        tag = _text(result.command_status or b"")
        if status != states.TUPLES_OK:
            return Result(tag=tag)
        return Result([_column(result, at) for at in range(result.nfields)], tag, rows=result.ntuples)

    def _result(self) -> Any:
        """As PQexec gives it, but a signal gets through to Python: the last statement's, or the COPY's behind which nothing can be read."""
        last = None
        while True:
            while self._raw.is_busy():
                select.select([self._raw.socket], [], [])
                self._raw.consume_input()
            result = self._raw.get_result()
            if result is None:
                return last
            last = result
            if result.status in self._copies:
                return last

    @property
    def transaction(self) -> str:
        """What a prompt shows of it: nothing, `*` in a transaction, `!` in a failed one."""
        states = self._pq.TransactionStatus
        return {states.INTRANS: "*", states.INERROR: "!"}.get(self._raw.transaction_status, "")

    def close(self) -> None:
        self._connection.close()


def _column(result: Any, at: int) -> TextColumn:
    cells = [result.get_value(row, at) for row in range(result.ntuples)]
    texts = [None if cell is None else _text(cell) for cell in cells]
    return TextColumn(_text(result.fname(at) or b""), texts, result.ftype(at), result.fmod(at))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
