"""How PostgreSQL calls the columns of a result that have no name (`parser/parse_target.c`)."""

from __future__ import annotations

from typing import Any

from pglast import enums

from tailrace.majors import BOOLEAN_CONSTANTS, supports
from tailrace.sql.grammar import ast, name_of

VALUE_FUNCTIONS = {
    "SVFOP_CURRENT_USER": "current_user", "SVFOP_USER": "user", "SVFOP_SESSION_USER": "session_user",
    "SVFOP_CURRENT_ROLE": "current_role", "SVFOP_CURRENT_CATALOG": "current_catalog", "SVFOP_CURRENT_SCHEMA": "current_schema",
}  # fmt: skip
"""By SQLValueFunctionOp, how they are written."""


def figured(node: Any, major: int) -> str:
    """How PostgreSQL calls a column without a name (`FigureColname`)."""
    if isinstance(node, ast.A_Const) and isinstance(node.val, ast.Boolean) and not supports(major, BOOLEAN_CONSTANTS):
        return "bool"
    return _figure(node)[0]


def _figure(node: Any) -> tuple[str, int]:
    """The name, and how good it is: 2 if it comes from a column or a function, 1 if from a type, 0 if there is none."""
    if isinstance(node, ast.ColumnRef):
        return node.fields[-1].sval, 2
    if isinstance(node, ast.A_Indirection):
        return (node.indirection[-1].sval, 2) if isinstance(node.indirection[-1], ast.String) else _figure(node.arg)
    if isinstance(node, ast.SQLValueFunction) and node.op.name in VALUE_FUNCTIONS:
        return VALUE_FUNCTIONS[node.op.name], 2
    if isinstance(node, ast.CollateClause):
        return _figure(node.arg)
    if isinstance(node, ast.FuncCall):
        return name_of(node)[1], 2
    if isinstance(node, ast.A_Expr) and node.kind == enums.A_Expr_Kind.AEXPR_NULLIF:
        return "nullif", 2
    if isinstance(node, ast.TypeCast):
        name, strength = _figure(node.arg)
        return (name, strength) if strength > 1 else (node.typeName.names[-1].sval, 1)
    if isinstance(node, ast.CaseExpr):
        name, strength = _figure(node.defresult)
        return (name, strength) if strength > 1 else ("case", 1)
    if isinstance(node, ast.SubLink):
        return _figure_sublink(node)
    words = {ast.CoalesceExpr: "coalesce", ast.A_ArrayExpr: "array"}
    if isinstance(node, ast.MinMaxExpr):
        return ("greatest" if node.op == enums.MinMaxOp.IS_GREATEST else "least"), 2
    return (words[type(node)], 2) if type(node) in words else ("?column?", 0)


def _figure_sublink(node: Any) -> tuple[str, int]:
    if node.subLinkType == enums.SubLinkType.EXISTS_SUBLINK:
        return "exists", 2
    if node.subLinkType == enums.SubLinkType.ARRAY_SUBLINK:
        return "array", 2
    if node.subLinkType == enums.SubLinkType.EXPR_SUBLINK and node.subselect.targetList:
        target = node.subselect.targetList[0]
        return (target.name, 2) if target.name else _figure(target.val)
    return "?column?", 0
