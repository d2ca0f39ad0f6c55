"""What a row filter may be made of (`commands/publicationcmds.c`, check_simple_rowfilter_expr_walker), the same from 15 to 18.

In: an analysed condition. Out: nothing, or the server's refusal of the first node, seen from the top, that is not allowed.
"""

from __future__ import annotations

from typing import Any

from tailrace.expressions import tree
from tailrace.expressions.analysis.state import Forbidden, ParseState, collation_of, location_of, type_of
from tailrace.model import FIRST_NORMAL_OID

SIMPLE = "Only columns, constants, built-in operators, built-in data types, built-in collations, and immutable built-in functions are allowed."


def check_allowed(state: ParseState, node: Any) -> None:
    """Raises UsageError, feature not supported, at the first node that a filter must not have."""
    detail = _fault(state, node)
    if detail:
        raise state.error("invalid publication WHERE expression", "0A000", location_of(node), detail=detail)
    for child in tree.children(node):
        check_allowed(state, child)


def _fault(state: ParseState, node: Any) -> str:
    operators: tuple[int, ...] = ()
    functions: tuple[int, ...] = ()
    match node:
        case Forbidden():
            return SIMPLE
        case tree.Var(attnum=number) if number < 0:
            return "System columns are not allowed."
        case tree.OpExpr() | tree.DistinctExpr() | tree.NullIfExpr() | tree.ScalarArrayOpExpr():
            operators, functions = (node.oid,), (node.function,)
        case tree.RowCompareExpr():
            operators = node.operators
            functions = tuple(state.catalog.operators[oid].function for oid in operators)
        case tree.FuncExpr():
            functions = (node.oid,)
    if any(oid >= FIRST_NORMAL_OID for oid in operators):
        return "User-defined operators are not allowed."
    if type_of(node) >= FIRST_NORMAL_OID:
        return "User-defined types are not allowed."
    if any(oid >= FIRST_NORMAL_OID or state.catalog.functions[oid].volatility != "i" for oid in functions):
        return "User-defined or built-in mutable functions are not allowed."
    if max(collation_of(node), getattr(node, "input_collation", 0)) >= FIRST_NORMAL_OID:
        return "User-defined collations are not allowed."
    return ""
