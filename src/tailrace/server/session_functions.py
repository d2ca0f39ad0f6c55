"""Functions that tell of the session, or change it: `SELECT version()`, `SELECT set_config('search_path', '', false)`. Clients ask for them
before anything else, alone in a SELECT without FROM.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace.errors import UsageError
from tailrace.majors import PROCESS, said_by
from tailrace.server.client_session import ClientSession
from tailrace.settings import parse_bool
from tailrace.sql.functions.calls import NO_FUNCTION
from tailrace.sql.grammar import ast, name_of
from tailrace.sql.query.column_names import VALUE_FUNCTIONS
from tailrace.sql.result import Result, TextColumn
from tailrace.types import oids
from tailrace.wire.error_fields import WARNING

_Arguments = list[str | None]


def result_of_session_functions(statement: Any, session: ClientSession) -> Result | None:
    """The one row of a SELECT that is of such functions alone; None for any other statement."""
    calls = _calls(statement)
    if calls is None:
        return None
    columns = [
        TextColumn(shown, [_FUNCTIONS[name][1](session, arguments)], _FUNCTIONS[name][0]) for shown, name, arguments in calls
    ]
    return Result(columns, "SELECT 1", rows=1)


def columns_of_session_functions(statement: Any) -> list[TextColumn] | None:
    """The columns of that row."""
    calls = _calls(statement)
    return None if calls is None else [TextColumn(shown, [], _FUNCTIONS[name][0]) for shown, name, _ in calls]


def session_value(session: ClientSession, node: Any) -> tuple[str, str | list[str] | None] | None:
    """The value of such a function within a query (`sql.query.session_values`); None for any other, and for one that changes something."""
    name, arguments = _called(node)
    if name == "current_schemas":
        return "name", ["pg_catalog"] * (arguments == ["true"]) + _schemas(session)
    kind = _KINDS.get(_FUNCTIONS[name][0]) if name in _FUNCTIONS and name not in _CHANGING else None
    return None if kind is None else (kind, _FUNCTIONS[name][1](session, arguments))


def _calls(statement: Any) -> list[tuple[str, str, _Arguments]] | None:
    """The name of each column, its function and arguments."""
    if not isinstance(statement, ast.SelectStmt) or not statement.targetList:
        return None
    if any(getattr(statement, clause) for clause in _CLAUSES):
        return None
    calls = [(target.name, *_called(target.val)) for target in statement.targetList]
    if any(name not in _FUNCTIONS for _, name, _ in calls):
        return None
    return [(shown or name, name, arguments) for shown, name, arguments in calls]


_CLAUSES = (
    "fromClause",
    "whereClause",
    "groupClause",
    "withClause",
    "sortClause",
    "larg",
    "valuesLists",
    "distinctClause",
    "limitCount",
)


def _called(node: Any) -> tuple[str, _Arguments]:
    """The function that a target is, and its constants; an empty name for anything else."""
    if isinstance(node, ast.SQLValueFunction):
        return VALUE_FUNCTIONS.get(node.op.name, ""), []
    if not isinstance(node, ast.FuncCall):
        return "", []
    schema, name = name_of(node)
    if schema not in ("", "pg_catalog"):
        return "", []
    arguments: _Arguments = []
    for argument in node.args or ():
        constant = argument.arg if isinstance(argument, ast.TypeCast) else argument
        if not isinstance(constant, ast.A_Const):
            return "", []
        arguments.append(None if constant.isnull else _text(constant.val))
    return name, arguments


def _text(value: Any) -> str:
    if isinstance(value, ast.Boolean):
        return "true" if value.boolval else "false"
    return str(value.sval if isinstance(value, ast.String) else getattr(value, "fval", None) or value.ival)


def _set_config(session: ClientSession, arguments: _Arguments) -> str | None:
    """What the parameter is then. That it is to last for the transaction only makes no difference: none holds anything."""
    name, value, is_local = arguments if len(arguments) == 3 else (None, None, None)
    if name is None or parse_bool(is_local or "") is None:
        raise UsageError("SET requires parameter name", sqlstate="22004")
    session.set_parameter(name, value)
    return session.parameters.show(name)[1]


def _current_setting(session: ClientSession, arguments: _Arguments) -> str | None:
    try:
        return session.parameters.show(arguments[0] or "")[1] if arguments else None
    except UsageError:
        if len(arguments) == 2 and parse_bool(arguments[1] or ""):
            return None
        raise


def _cancel_backend(session: ClientSession, arguments: _Arguments) -> str | None:
    """Whether there is such a client, whose command then ends (`pg_signal_backend` in `storage/ipc/signalfuncs.c`)."""
    if len(arguments) != 1:
        raise UsageError("function pg_cancel_backend is called with a process ID", hint=NO_FUNCTION, sqlstate="42883")
    if arguments[0] is None:
        return None
    instance, pid = session.instance, arguments[0]
    client = next((each for each in instance.clients if str(each.pid) == pid), None)
    if client is None:
        session.notice(WARNING, f"PID {pid} is not a PostgreSQL {said_by(instance.major, PROCESS)} process", sqlstate="01000")
        return "f"
    session.role.privileges.check_cancels(client.user, instance.major)
    client.cancel()
    return "t"


def _user(session: ClientSession, arguments: _Arguments) -> str:
    return session.client.user


def _database(session: ClientSession, arguments: _Arguments) -> str:
    return session.client.database


def _schema(session: ClientSession, arguments: _Arguments) -> str | None:
    return next(iter(_schemas(session)), None)


def _schemas(session: ClientSession) -> list[str]:
    path = session.parameters.show("search_path")[1]
    return [each.strip() for each in path.split(",") if each.strip() not in ('"$user"', "")]


_FUNCTIONS: dict[str, tuple[int, Callable[[ClientSession, _Arguments], str | None]]] = {
    "version": (oids.TEXT, lambda session, _: f"PostgreSQL {session.parameters.show('server_version')[1]}"),
    "set_config": (oids.TEXT, _set_config),
    "current_setting": (oids.TEXT, _current_setting),
    "pg_backend_pid": (oids.INT4, lambda session, _: str(session.client.pid)),
    "pg_cancel_backend": (oids.BOOL, _cancel_backend),
    "pg_advisory_unlock_all": (oids.VOID, lambda session, _: ""),
    "pg_last_wal_receive_lsn": (oids.PG_LSN, lambda session, _: None),
    "pg_last_wal_replay_lsn": (oids.PG_LSN, lambda session, _: None),
    "pg_is_in_recovery": (oids.BOOL, lambda session, _: "f"),
    "current_database": (oids.NAME, _database),
    "current_catalog": (oids.NAME, _database),
    "current_schema": (oids.NAME, _schema),
    "current_user": (oids.NAME, _user),
    "session_user": (oids.NAME, _user),
    "current_role": (oids.NAME, _user),
    "user": (oids.NAME, _user),
}
"""What each gives, and how."""
_CHANGING = ("set_config", "pg_cancel_backend")
_KINDS = {oids.TEXT: "text", oids.NAME: "name", oids.INT4: "int4", oids.BOOL: "bool", oids.PG_LSN: "pg_lsn"}
