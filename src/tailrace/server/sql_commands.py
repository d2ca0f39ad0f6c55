"""SQL on a connection: statements one after another, with the transaction that a client believes to be in (`exec_simple_query` in
`tcop/postgres.c`).

In: a statement, parsed, and its text. Out: a `Result`; rows are sent before what they move is confirmed. Transactions begin and end
(`server.transactions`), and every statement sees the log as it is then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from tailrace.errors import UsageError
from tailrace.server.client_session import FAILED, IDLE, IN_BLOCK, ClientSession
from tailrace.server.copy_out import copy_out
from tailrace.server.results import show
from tailrace.server.session_functions import columns_of_session_functions, result_of_session_functions, session_value
from tailrace.server.transactions import carry_out, needs_snapshot, set_transaction
from tailrace.sql.grammar import ast
from tailrace.sql.postgres_session import PostgresSession
from tailrace.sql.result import Result, TextColumn

_NOTHING_TO_DO = {
    ast.DeallocateStmt: "DEALLOCATE ALL", ast.UnlistenStmt: "UNLISTEN", ast.ListenStmt: "LISTEN",
    ast.CheckPointStmt: "CHECKPOINT", ast.ClosePortalStmt: "CLOSE CURSOR",
}  # fmt: skip


_ASK_THE_SERVER = "Ask the server that the log is of."


class SqlCommands:
    """Those of one session."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        instance, value_of = session.instance, partial(session_value, session)
        self._sql = PostgresSession(
            session.database(),
            instance.engine.run,
            value_of=value_of,
            instead=_ASK_THE_SERVER,
            translations=instance.translations,
        )

    @asynccontextmanager
    async def result_of(self, statement: Any, text: str) -> AsyncIterator[Result]:
        """The result of a statement, whose rows are sent in the block: what it moves is confirmed when that ends."""
        session = self._session
        if session.status == FAILED and not _ends_block(statement):
            raise aborted()
        if session.status == IN_BLOCK and needs_snapshot(statement):
            session.block.has_queried = True
        done = (
            Result(tag=await set_transaction(statement, session)) if _sets_transaction(statement) else self._of_session(statement)
        )
        if done is not None:
            yield done
            return
        self._sql.parameters = session.parameters.of_text
        running = self._sql.execute(text)
        result = await session.in_thread(running.__enter__)
        try:
            yield result
        except BaseException as error:
            await session.in_thread(running.__exit__, type(error), error, error.__traceback__)
            raise
        await session.in_thread(running.__exit__, None, None, None)

    async def copy(self, statement: Any, text: str) -> str:
        """The tag of a COPY, whose rows are sent."""
        if self._session.status == FAILED:
            raise aborted()
        tag = await copy_out(statement, text, self._session)
        self._session.block.has_queried = True
        return tag

    def columns_of(self, statement: Any, text: str) -> list[TextColumn] | None:
        """The columns that its result will have; None: none. Nothing is carried out."""
        if isinstance(statement, ast.VariableShowStmt):
            return show(statement.name, self._session.parameters).columns
        of_session = columns_of_session_functions(statement)
        if of_session is not None:
            return of_session
        self._sql.parameters = self._session.parameters.of_text
        return self._sql.columns_of(text)

    def _of_session(self, statement: Any) -> Result | None:
        """What changes the session alone; None for a query."""
        if isinstance(statement, ast.TransactionStmt):
            return Result(tag=carry_out(statement, self._session))
        if isinstance(statement, ast.VariableShowStmt):
            return show(statement.name, self._session.parameters)
        if isinstance(statement, ast.VariableSetStmt):
            return self._set(statement)
        if isinstance(statement, ast.DiscardStmt):
            return self._discard(statement.target.name.replace("_", " "))
        if type(statement) in _NOTHING_TO_DO:
            return Result(tag=_NOTHING_TO_DO[type(statement)])
        return result_of_session_functions(statement, self._session)

    # -- parameters ------------------------------------------------------------------------------------------------------------

    def _set(self, statement: Any) -> Result:
        session, kind = self._session, statement.kind.name
        if kind == "VAR_RESET_ALL":
            session.reset_parameters()
            return Result(tag="RESET")
        value = ", ".join(_constant(each) for each in statement.args) if kind == "VAR_SET_VALUE" else None
        session.set_parameter(statement.name, value)
        self._sql.parameters = session.parameters.of_text
        return Result(tag="RESET" if kind == "VAR_RESET" else "SET")

    def _discard(self, tag: str) -> Result:
        """DISCARD ALL has the parameters as they were when the session had started; of what the others are about there is nothing."""
        if tag == "DISCARD ALL":
            if self._session.status != IDLE:
                raise UsageError("DISCARD ALL cannot run inside a transaction block", sqlstate="25001")
            self._session.reset_parameters()
            self._session.set_parameter("role", None)
        return Result(tag=tag)


def _constant(node: Any) -> str:
    if isinstance(node, ast.TypeCast):  # SET TIME ZONE INTERVAL …
        raise UsageError("this value of a parameter is not supported here", sqlstate="0A000")
    value = node.val
    found = getattr(value, "sval", None) or getattr(value, "fval", None)
    return str(found if found is not None else getattr(value, "ival", getattr(value, "boolval", "")))


def _sets_transaction(statement: Any) -> bool:
    return isinstance(statement, ast.VariableSetStmt) and statement.kind.name == "VAR_SET_MULTI"


def _ends_block(statement: Any) -> bool:
    kinds = ("TRANS_STMT_COMMIT", "TRANS_STMT_ROLLBACK", "TRANS_STMT_ROLLBACK_TO")
    return isinstance(statement, ast.TransactionStmt) and statement.kind.name in kinds


def aborted() -> UsageError:
    """In a transaction block that has failed."""
    return UsageError("current transaction is aborted, commands ignored until end of transaction block", sqlstate="25P02")
