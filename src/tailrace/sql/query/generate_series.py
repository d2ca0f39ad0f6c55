"""generate_series() in FROM, of integers that are constants: the engine's, whose numbers are bigint."""

from __future__ import annotations

from typing import Any

from tailrace.errors import UsageError
from tailrace.sql.grammar import ast, name_of, parsed
from tailrace.sql.query.expression_types import columns_named
from tailrace.sql.query.scope import QueryScope, renamed


def is_series(item: Any, function: Any) -> bool:
    """Whether it is generate_series() of integers that are constants."""
    if not isinstance(function, ast.FuncCall) or name_of(function) not in (
        ("", "generate_series"),
        ("pg_catalog", "generate_series"),
    ):
        return False
    plain = not (item.ordinality or item.is_rowsfrom or item.coldeflist) and len(function.args or ()) in (2, 3)
    return plain and all(isinstance(each, ast.A_Const) and isinstance(each.val, ast.Integer) for each in function.args)


def series(function: Any, item: Any, scope: QueryScope) -> Any:
    if len(function.args) == 3 and not function.args[2].val.ival:
        raise UsageError("step size cannot equal zero", sqlstate="22023")
    alias = item.alias.aliasname if item.alias else "generate_series"
    given = item.alias.colnames if item.alias else None
    (column,) = renamed(columns_named([(alias, "int4")]), given)
    numbers = ", ".join(str(each.val.ival) for each in function.args)
    (made,) = parsed(f"SELECT * FROM (SELECT generate_series::integer FROM generate_series({numbers})) q").fromClause
    made.alias = ast.Alias(aliasname=alias, colnames=(ast.String(sval=column.name),))
    scope.tables.append((alias, [column]))
    return made
