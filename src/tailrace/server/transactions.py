"""Statements that begin, end and describe transactions (`PerformPortalStmt` in `tcop/utility.c`, `check_XactIsoLevel` in `commands/variable.c`,
`ImportSnapshot` in `utils/time/snapmgr.c`).

In: a statement, and the session whose block it is about. Out: its tag.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tailrace.errors import UsageError
from tailrace.server.client_session import FAILED, IDLE, IN_BLOCK, ClientSession
from tailrace.sql.grammar import ast
from tailrace.wire.error_fields import WARNING

REPEATABLE = ("repeatable read", "serializable")
"""Levels of isolation at which a transaction has one snapshot from its first query to its end."""
_OF_BLOCK = ("transaction_isolation", "transaction_read_only")
_SAVEPOINTS = {
    "TRANS_STMT_SAVEPOINT": ("SAVEPOINT", "SAVEPOINT"), "TRANS_STMT_RELEASE": ("RELEASE", "RELEASE SAVEPOINT"),
    "TRANS_STMT_ROLLBACK_TO": ("ROLLBACK", "ROLLBACK TO SAVEPOINT"),
}  # fmt: skip
"""The tag of each, and what the server calls it."""
_NEEDS_NO_SNAPSHOT = (
    ast.TransactionStmt, ast.VariableSetStmt, ast.VariableShowStmt, ast.ListenStmt, ast.UnlistenStmt, ast.NotifyStmt,
    ast.CheckPointStmt, ast.LockStmt, ast.FetchStmt, ast.ConstraintsSetStmt,
)  # fmt: skip
"""`PlannedStmtRequiresSnapshot` in `tcop/pquery.c`."""


def needs_snapshot(statement: Any) -> bool:
    return not isinstance(statement, _NEEDS_NO_SNAPSHOT)


def carry_out(statement: Any, session: ClientSession) -> str:
    """BEGIN, COMMIT and their kin. Raises UsageError (25P01, 3B001, 0A000)."""
    kind = statement.kind.name
    if kind in ("TRANS_STMT_BEGIN", "TRANS_STMT_START"):
        if session.status != IDLE:
            session.notice(WARNING, "there is already a transaction in progress", sqlstate="25001")
        else:
            session.begin_block()
        _describe(statement.options or (), session)
        return "BEGIN" if kind == "TRANS_STMT_BEGIN" else "START TRANSACTION"
    if kind in ("TRANS_STMT_COMMIT", "TRANS_STMT_ROLLBACK"):
        has_failed = session.status == FAILED
        if session.status == IDLE:
            session.notice(WARNING, "there is no transaction in progress", sqlstate="25P01")
        session.end_block()
        return "COMMIT" if kind == "TRANS_STMT_COMMIT" and not has_failed else "ROLLBACK"
    return _savepoint(kind, statement.savepoint_name, session)


def _savepoint(kind: str, name: str, session: ClientSession) -> str:
    if kind not in _SAVEPOINTS:
        raise UsageError("prepared transactions are not supported here", sqlstate="0A000")
    tag, command = _SAVEPOINTS[kind]
    if session.status == IDLE:
        raise UsageError(f"{command} can only be used in transaction blocks", sqlstate="25P01")
    if tag == "SAVEPOINT":
        session.block.savepoints.append(name)
    elif tag == "RELEASE":
        session.block.release(name)
    else:
        session.block.roll_back_to(name)
        session.status = IN_BLOCK
    return tag


async def set_transaction(statement: Any, session: ClientSession) -> str:
    """SET TRANSACTION, SET TRANSACTION SNAPSHOT, SET SESSION CHARACTERISTICS."""
    if statement.name == "SESSION CHARACTERISTICS":
        for option in statement.args:
            if option.defname in _OF_BLOCK:
                session.set_parameter(f"default_{option.defname}", _value(option))
        return "SET"
    if session.status == IDLE:
        session.notice(WARNING, "SET TRANSACTION can only be used in transaction blocks", sqlstate="25P01")
    if statement.name == "TRANSACTION SNAPSHOT":
        await _import_snapshot(statement.args[0].val.sval, session)
    elif session.status != IDLE:
        _describe(statement.args, session)
    return "SET"


async def _import_snapshot(name: str, session: ClientSession) -> None:
    block, isolation = session.block, session.parameters.kept["transaction_isolation"]
    if not block.is_untouched:
        raise UsageError("SET TRANSACTION SNAPSHOT must be called before any query", sqlstate="25001")
    if isolation not in REPEATABLE:
        raise UsageError(
            "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ", sqlstate="0A000"
        )
    source = await session.in_thread(session.instance.snapshots.imported, name, session.client.database)
    if isolation == "serializable":
        source.let_go()
        raise UsageError(
            "a serializable transaction cannot import a snapshot from a non-serializable transaction", sqlstate="0A000"
        )
    block.source, block.has_queried = source, True


def _describe(options: Iterable[Any], session: ClientSession) -> None:
    """The block's isolation level, and whether it only reads."""
    for option in options:
        name, value = option.defname, _value(option)
        if name == "transaction_isolation" and value != session.parameters.kept[name]:
            if session.block.has_queried:
                raise UsageError("SET TRANSACTION ISOLATION LEVEL must be called before any query", sqlstate="25001")
            if session.block.savepoints:
                raise UsageError("SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction", sqlstate="25001")
        if name in _OF_BLOCK:
            session.set_parameter(name, value)


def _value(option: Any) -> str:
    value = option.arg.val
    return str(value.sval) if isinstance(value, ast.String) else ("on" if value.ival else "off")
