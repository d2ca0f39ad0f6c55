"""The extended query protocol: prepared statements, and portals, which are statements with values (`exec_parse_message` and its kin in
`tcop/postgres.c`).

In: messages from Parse to Close. Out: their answers, in their order. An error has the rest passed over up to Sync (`server.backend`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from itertools import islice
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.server.client_session import IDLE, ClientSession
from tailrace.server.client_text import text_of
from tailrace.server.results import BINARY, TEXT, describe, rows_of, send_rows, to_text
from tailrace.server.sql_commands import SqlCommands
from tailrace.sql.functions.signatures import functions_of
from tailrace.sql.grammar import ast, statements_of
from tailrace.sql.query.statement_parameters import parameter_types, with_values
from tailrace.sql.result import Result, TextColumn
from tailrace.wire import messages as m

ExtendedMessage = m.Parse | m.Bind | m.Describe | m.Execute | m.Close


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """`node` is None for a text without a statement."""

    node: Any
    text: str
    types: tuple[int, ...]


@dataclass(slots=True)
class Portal:
    """A statement with its values. While rows are left `running` is open: what they move is confirmed when all have been sent, or nobody asks for
    more."""

    statement: PreparedStatement
    formats: tuple[int, ...]
    running: AbstractAsyncContextManager[Result] | None = None
    result: Result | None = None
    rows: Iterator[m.DataRow] = field(default_factory=lambda: iter(()))
    sent: int = 0


class ExtendedQueries:
    """Those of one session. State: statements and portals by their names; the one without a name is replaced by the next."""

    def __init__(self, session: ClientSession, sql: SqlCommands) -> None:
        self._session, self._sql = session, sql
        self._statements: dict[str, PreparedStatement] = {}
        self._portals: dict[str, Portal] = {}

    async def take(self, message: ExtendedMessage) -> None:
        """Raises TailraceError for what cannot be done."""
        match message:
            case m.Parse():
                await self._parse(message)
            case m.Bind():
                await self._bind(message)
            case m.Describe():
                await self._describe(message)
            case m.Execute():
                await self._execute(message)
            case m.Close():
                await self._close(message)

    async def sync(self) -> None:
        """Outside of a transaction block every portal ends here."""
        if self._session.status == IDLE:
            for name in list(self._portals):
                await self._end(name)

    async def failed(self) -> None:
        """What was running has moved nothing."""
        portals, self._portals = self._portals, {}
        for portal in portals.values():
            await self._leave(portal, UsageError("the command has failed"))

    # -- messages --------------------------------------------------------------------------------------------------------------

    async def _parse(self, message: m.Parse) -> None:
        if message.name and message.name in self._statements:
            raise UsageError(f'prepared statement "{message.name}" already exists', sqlstate="42P05")
        found = await self._session.in_thread(statements_of, message.text)
        if len(found) > 1:
            raise UsageError("cannot insert multiple commands into a prepared statement", sqlstate="42601")
        node, text = found[0] if found else (None, "")
        types = parameter_types(node, message.types, functions_of(self._session.instance.major))
        self._statements[message.name] = PreparedStatement(node, text, types)
        self._session.link.send(m.ParseComplete())

    async def _bind(self, message: m.Bind) -> None:
        prepared = self._statement(message.statement)
        if message.portal and message.portal in self._portals:
            raise UsageError(f'cursor "{message.portal}" already exists', sqlstate="42P03")
        if len(message.values) != len(prepared.types):
            raise UsageError(
                f"bind message supplies {len(message.values)} parameters, but prepared statement "
                f'"{message.statement}" requires {len(prepared.types)}', sqlstate="08P01",
            )  # fmt: skip
        for layout in (*message.formats, *message.result_formats):
            if layout not in (TEXT, BINARY):
                raise UsageError(f"unsupported format code: {layout}", sqlstate="22023")
        await self._end(message.portal)
        bound = prepared
        if prepared.types:
            text = with_values(prepared.text, prepared.types, _texts(message, prepared.types))
            [(node, text)] = await self._session.in_thread(statements_of, text)
            bound = PreparedStatement(node, text, prepared.types)
        self._portals[message.portal] = Portal(bound, message.result_formats)
        self._session.link.send(m.BindComplete())

    async def _describe(self, message: m.Describe) -> None:
        link = self._session.link
        _check_kind(message.kind, "DESCRIBE")
        if message.kind == "S":
            prepared = self._statement(message.name)
            link.send(m.ParameterDescription(prepared.types))
            formats: tuple[int, ...] = ()
            if prepared.types:
                text = with_values(prepared.text, prepared.types, [None] * len(prepared.types))
                [(node, text)] = await self._session.in_thread(statements_of, text)
                prepared = PreparedStatement(node, text, prepared.types)
        else:
            portal = self._portal(message.name)
            prepared, formats = portal.statement, portal.formats
        columns: list[TextColumn] | None = None
        if prepared.node is not None:
            columns = await self._session.in_thread(self._sql.columns_of, prepared.node, prepared.text)
        link.send(m.NoData() if columns is None else describe(columns, formats))

    async def _execute(self, message: m.Execute) -> None:
        portal, link = self._portal(message.portal), self._session.link
        if portal.statement.node is None:
            link.send(m.EmptyQueryResponse())
            return
        if isinstance(portal.statement.node, ast.CopyStmt):
            link.send(m.CommandComplete(await self._sql.copy(portal.statement.node, portal.statement.text)))
            return
        if portal.result is None:
            running = self._sql.result_of(portal.statement.node, portal.statement.text)
            portal.result = await running.__aenter__()
            portal.running = running
            portal.rows = rows_of(portal.result, portal.formats) if portal.result.columns is not None else iter(())
        limit = max(0, message.limit)
        batch = await send_rows(self._session, islice(portal.rows, limit or None))
        portal.sent += batch
        if limit and batch == limit and portal.sent < portal.result.rows:
            link.send(m.PortalSuspended())
            return
        await self._leave(portal, None)
        tag = portal.result.tag  # of these rows, not of those before
        link.send(m.CommandComplete(f"SELECT {batch}" if tag.startswith("SELECT ") else tag))

    async def _close(self, message: m.Close) -> None:
        _check_kind(message.kind, "CLOSE")
        if message.kind == "S":
            self._statements.pop(message.name, None)
        else:
            await self._end(message.name)
        self._session.link.send(m.CloseComplete())

    # -- what they are about ---------------------------------------------------------------------------------------------------

    def _statement(self, name: str) -> PreparedStatement:
        if name not in self._statements:
            what = f'prepared statement "{name}"' if name else "unnamed prepared statement"
            raise UsageError(f"{what} does not exist", sqlstate="26000")
        return self._statements[name]

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise UsageError(f'portal "{name}" does not exist', sqlstate="34000")
        return self._portals[name]

    async def _end(self, name: str) -> None:
        portal = self._portals.pop(name, None)
        if portal is not None:
            await self._leave(portal, None)

    async def _leave(self, portal: Portal, error: UsageError | None) -> None:
        running, portal.running = portal.running, None
        if running is None:
            return
        try:
            await running.__aexit__(None if error is None else type(error), error, None)
        except UsageError:
            if error is None:
                raise


def _check_kind(kind: str, message: str) -> None:
    if kind not in ("S", "P"):
        raise UsageError(f"invalid {message} message subtype {ord(kind)}", sqlstate="08P01")


def _texts(message: m.Bind, types: tuple[int, ...]) -> list[str | None]:
    """The values as texts of their types."""
    formats = message.formats * len(types) if len(message.formats) == 1 else message.formats or (0,) * len(types)
    if len(formats) != len(types):
        raise UsageError(
            f"bind message has {len(message.formats)} parameter formats but {len(types)} parameters", sqlstate="08P01"
        )  # fmt: skip
    return [
        None if value is None else to_text(value, kind) if layout == BINARY else text_of(value)
        for value, layout, kind in zip(message.values, formats, types, strict=True)
    ]
