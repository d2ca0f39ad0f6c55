"""What a session says of itself within a query: `current_user`, `current_setting('server_version_num')::int`.

In: a parsed statement, and what gives the value of a call. Out: the same, with constants of their types in place of such calls. Columns are still
called as the functions are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace.sql.grammar import ast
from tailrace.sql.query.column_names import figured

SessionValue = Callable[[Any], "tuple[str, str | list[str] | None] | None"]
"""The type and the text of a call's value, of an array those of its elements; None for what is no such call."""


def with_session_values(node: Any, value_of: SessionValue, major: int) -> Any:
    """The tree is changed where it stands, but for its top."""
    if isinstance(node, tuple | list):
        return tuple(with_session_values(each, value_of, major) for each in node)
    if not isinstance(node, ast.Node):
        return node
    if isinstance(node, ast.FuncCall | ast.SQLValueFunction) and (found := value_of(node)) is not None:
        kind, value = found
        if isinstance(value, list):
            return ast.A_ArrayExpr(elements=tuple(_constant(kind, each) for each in value))
        return _constant(kind, value)
    if isinstance(node, ast.ResTarget) and not isinstance(node.val, ast.ColumnRef | ast.A_Indirection):
        node.name = node.name or figured(node.val, major)
    for name in node:
        child = getattr(node, name)
        if isinstance(child, ast.Node | tuple):
            setattr(node, name, with_session_values(child, value_of, major))
    return node


def _constant(kind: str, value: str | None) -> Any:
    constant = ast.A_Const(isnull=True) if value is None else ast.A_Const(val=ast.String(sval=value))
    return ast.TypeCast(arg=constant, typeName=ast.TypeName(names=(ast.String(sval=kind),), typemod=-1))
