"""One client, from its arrival to its end (`PostgresMain` in `tcop/postgres.c`): messages in, results out, errors as PostgreSQL says them."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

from tailrace.errors import PeerError, TailraceError, UsageError
from tailrace.server.client_session import FAILED, IDLE, IN_BLOCK, ClientSession
from tailrace.server.client_text import check_text
from tailrace.server.connected import Client
from tailrace.server.extended_query import ExtendedQueries
from tailrace.server.instance import Instance
from tailrace.server.link import ClientLink
from tailrace.server.replication_commands import run_command
from tailrace.server.results import describe, rows_of, send_rows
from tailrace.server.sql_commands import SqlCommands, aborted
from tailrace.server.startup import start
from tailrace.server.tls import Tls
from tailrace.sql.grammar import ast, statements_of
from tailrace.sql.result import Result
from tailrace.wire import messages as m
from tailrace.wire.error_fields import ERROR, FATAL, NOTICE, fields_of
from tailrace.wire.replication_grammar import (
    BaseBackupCmd,
    ReplicationCommand,
    StartReplicationCmd,
    TimeLineHistoryCmd,
    first_word,
    is_replication_command,
    parse_replication_command,
)

_NOT_IN_BLOCK = (StartReplicationCmd, BaseBackupCmd, TimeLineHistoryCmd)
_EXTENDED = (m.Parse, m.Bind, m.Describe, m.Execute, m.Close)
_SHUTTING_DOWN = "57P01"
_ACTIVITY = {IDLE: "idle", IN_BLOCK: "idle in transaction", FAILED: "idle in transaction (aborted)"}


class Backend:
    """State: its session, once the client was let in."""

    def __init__(self, instance: Instance, link: ClientLink, tls: Tls | None) -> None:
        self._instance, self._link, self._tls = instance, link, tls
        self._session: ClientSession | None = None
        self._sql: SqlCommands | None = None
        self._extended: ExtendedQueries | None = None
        self._is_skipping = False
        self._is_stopping = False
        self._has_ended = False

    async def run(self) -> None:
        """Until the client has gone, or is sent away."""
        address, port = self._link.address
        with self._instance.clients.joined(address, port, self._cancel, self.stop) as client:
            try:
                session = await self._started(client)
                if session is not None:
                    await self._converse(session)
            except TailraceError as error:
                self._send_away(error, client)
            except TimeoutError:
                self._send_away(UsageError("canceling authentication due to timeout", sqlstate="57014"), client)
            except Exception:
                self._instance.log.say(client.pid, FATAL, "internal error", detail=traceback.format_exc())
                self._send_away(TailraceError("internal error"), client, is_said=True)
            finally:
                if self._session is not None:
                    await asyncio.shield(self._end_session(self._session))
                await self._link.close()

    async def _started(self, client: Client) -> ClientSession | None:
        if self._is_stopping:
            raise UsageError("the database system is shutting down", sqlstate="57P03")
        async with asyncio.timeout(self._instance.settings.authentication_timeout or None) as deadline:
            self._session = await start(self._link, self._instance, client, self._tls, deadline)
        return self._session

    async def _end_session(self, session: ClientSession) -> None:
        """What portals hold, and temporary slots, are let go of."""
        if self._extended is not None:
            await self._extended.failed()
        session.end()
        await session.in_thread(session.slots.end)

    def _send_away(self, error: TailraceError, client: Client, *, is_said: bool = False) -> None:
        if not is_said:
            self._instance.log.error(client.pid, FATAL, error)
        try:
            self._link.send(m.ErrorResponse(self._instance.without_paths(fields_of(error, FATAL))))
        except RuntimeError:
            self._link.cut()

    def _cancel(self) -> None:
        if self._session is not None:
            self._session.cancel()

    def stop(self) -> None:
        """The server ends: what is streamed ends with its last words, and who waits for nothing goes."""
        self._is_stopping = True
        if self._session is not None:
            self._session.stop()
        if self._session is None or not self._session.is_streaming:
            self._link.wake()

    # -- messages --------------------------------------------------------------------------------------------------------------

    async def _converse(self, session: ClientSession) -> None:
        self._link.read_ahead()
        while not self._is_stopping and (message := await self._link.message()) is not None:
            if isinstance(message, m.Terminate):
                return
            if isinstance(message, m.Query):
                self._is_skipping = False
                await self._query(message.text, session)
                if self._link.is_gone or self._has_ended:
                    return
                self._ready(session)
            elif isinstance(message, m.Sync):
                await self._sync(session)
            elif isinstance(message, (*_EXTENDED, m.FastpathCall)) and not self._is_skipping:
                await self._extend(message, session)
            await self._link.flush()
        if self._is_stopping and not self._link.is_gone:
            raise UsageError("terminating connection due to administrator command", sqlstate=_SHUTTING_DOWN)

    def _ready(self, session: ClientSession) -> None:
        self._link.send(*session.parameters.news(), m.ReadyForQuery(session.status))

    async def _extend(self, message: Any, session: ClientSession) -> None:
        """A message of the extended protocol; where it fails, what follows up to Sync is passed over."""
        text = message.text if isinstance(message, m.Parse) else ""
        try:
            if isinstance(message, m.FastpathCall):
                where = "in a replication connection" if session.is_walsender else "by this server"
                raise UsageError(f"fastpath function calls not supported {where}", sqlstate="08P01")
            if session.is_walsender:
                raise UsageError("extended query protocol not supported in a replication connection", sqlstate="08P01")
            check_text(text)
            with session.statement():
                await self._extended_queries(session).take(message)
        except PeerError:
            raise
        except Exception as error:
            self._is_skipping = True
            await self._extended_queries(session).failed()
            await self._fail(error if isinstance(error, TailraceError) else self._unforeseen(error, session), session, text)

    def _unforeseen(self, error: Exception, session: ClientSession) -> TailraceError:
        """What a client is told of it, who is not to know the server's files; the log has all."""
        if isinstance(error, RecursionError):
            return UsageError("stack depth limit exceeded", sqlstate="54001")
        detail = "" if isinstance(error, OSError) else traceback.format_exc()
        self._instance.log.say(session.client.pid, ERROR, str(error) or type(error).__name__, detail=detail)
        if isinstance(error, OSError):
            return TailraceError(f"could not access a file of the server: {error.strerror}", sqlstate="58030")
        return TailraceError("internal error")

    async def _sync(self, session: ClientSession) -> None:
        if not self._is_skipping and self._extended is not None:
            try:
                await self._extended.sync()
            except TailraceError as error:
                await self._fail(error, session, "")
        self._is_skipping = False
        self._ready(session)

    def _sql_commands(self, session: ClientSession) -> SqlCommands:
        if self._sql is None:
            self._sql = SqlCommands(session)
        return self._sql

    def _extended_queries(self, session: ClientSession) -> ExtendedQueries:
        if self._extended is None:
            self._extended = ExtendedQueries(session, self._sql_commands(session))
        return self._extended

    # -- queries ---------------------------------------------------------------------------------------------------------------

    async def _query(self, text: str, session: ClientSession) -> None:
        client = session.client
        session.withdraw_snapshot()
        try:
            check_text(text)
            client.query, client.state = text, "active"
            command = self._replication_command(text, session)
            if command is not None:
                await self._run_command(command, text, session)
            elif session.is_physical and text.strip():
                raise UsageError("cannot execute SQL commands in WAL sender for physical replication", sqlstate="0A000")
            else:
                await self._run_statements(text, session)
        except PeerError:
            raise
        except TailraceError as error:
            await self._fail(error, session, text)
        except Exception as error:
            await self._fail(self._unforeseen(error, session), session, text)
        finally:
            client.state = _ACTIVITY[session.status]

    def _replication_command(self, text: str, session: ClientSession) -> ReplicationCommand | None:
        if not session.is_walsender:
            return None
        if self._instance.settings.log_replication_commands and is_replication_command(text, self._instance.major):
            self._instance.log.say(session.client.pid, "LOG", f"received replication command: {text}")

        def cut(message: str) -> None:
            session.notice(NOTICE, message, sqlstate="42622")

        return parse_replication_command(text, self._instance.major, cut)

    async def _run_command(self, command: ReplicationCommand, text: str, session: ClientSession) -> None:
        if session.status == FAILED:
            raise aborted()
        if session.status == IN_BLOCK and isinstance(command, _NOT_IN_BLOCK):
            raise UsageError(f"{first_word(text)} cannot run inside a transaction block", sqlstate="25001")
        result = await run_command(command, session)
        if isinstance(command, StartReplicationCmd):
            self._has_ended = session.is_stopping  # its last words are said
            if self._has_ended or self._link.is_gone:
                return
            self._link.send(m.CommandComplete("COPY 0"))
        self._send(result)

    async def _run_statements(self, text: str, session: ClientSession) -> None:
        statements = await session.in_thread(statements_of, text)
        if not statements:
            self._link.send(m.EmptyQueryResponse())
        sql = self._sql_commands(session)
        for statement, its_text in statements:
            with session.statement():
                if isinstance(statement, ast.CopyStmt):
                    self._link.send(m.CommandComplete(await sql.copy(statement, its_text)))
                    continue
                async with sql.result_of(statement, its_text) as result:
                    if result.columns is not None:
                        self._link.send(describe(result.columns))
                        await send_rows(session, rows_of(result))
            self._link.send(m.CommandComplete(result.tag))

    def _send(self, result: Result) -> None:
        if result.columns is not None:
            self._link.send(describe(result.columns), *rows_of(result))
        self._link.send(m.CommandComplete(result.tag))

    async def _fail(self, error: TailraceError, session: ClientSession, statement: str) -> None:
        """The command has failed, and with it the transaction block that it is in; temporary slots are gone (`PostgresMain`)."""
        self._instance.log.error(session.client.pid, ERROR, error, statement)
        self._link.send(m.ErrorResponse(self._instance.without_paths(fields_of(error))))
        await session.in_thread(session.slots.end)
        session.fail_block()
