"""LIKE and regular expressions as the engine has them: with constants that mean the same in both.

In: the node of an operator, and the text that it is asked of, translated. Out: the engine's node. Raises UsageError (0A000) for other patterns.
"""

from __future__ import annotations

from typing import Any

from pglast import enums

from tailrace.expressions.evaluate.patterns.like import ends_in_escape, like_escape
from tailrace.sql.grammar import ast, name_of
from tailrace.sql.query.allowed import refused
from tailrace.sql.query.lsn_expressions import called
from tailrace.sql.query.re2_patterns import re2_pattern


def matched(node: Any, operator: str, text: Any) -> Any:
    """`~`, `~*`, `!~`, `!~*`."""
    pattern = _constant(node.rexpr)
    engine = None if pattern is None else re2_pattern(pattern, folds=operator.endswith("*"))
    if engine is None:
        raise refused("a regular expression that is no constant, or not a plain one,", node.location)
    found = called("regexp_matches", text, _text(engine), _text("s"))
    return ast.BoolExpr(boolop=enums.BoolExprType.NOT_EXPR, args=(found,)) if operator.startswith("!") else found


def like(node: Any, operator: str, text: Any) -> Any:
    """LIKE and ILIKE, for which the engine knows an escape character only where it is told of it."""
    pattern: Any = node.rexpr
    escape: str | None = "\\"
    if isinstance(pattern, ast.FuncCall) and name_of(pattern) == ("pg_catalog", "like_escape") and len(pattern.args) == 2:
        pattern, escape = pattern.args[0], _constant(pattern.args[1])
    value = _constant(pattern)
    said = None if value is None or escape is None or len(escape) > 1 else like_escape(value, escape)
    if said is None or ends_in_escape(said):
        raise refused("a pattern of LIKE that is no constant, or that ends in an escape character,", node.location)
    if "\\" not in said:
        node.lexpr, node.rexpr = text, _text(said)
        return node
    name = ("not_" if operator.startswith("!") else "") + ("ilike_escape" if operator.endswith("*") else "like_escape")
    return called(name, text, _text(said), _text("\\"))


def _constant(node: Any) -> str | None:
    """The text that a constant is."""
    return str(node.val.sval) if isinstance(node, ast.A_Const) and isinstance(node.val, ast.String) else None


def _text(value: str) -> Any:
    return ast.A_Const(val=ast.String(sval=value))
