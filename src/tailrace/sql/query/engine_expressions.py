"""Expressions of a query as the engine reads them: positions as integers, json by functions of ours, patterns that mean the same.

In: a parsed expression, of which `ExpressionTypes` finds the types. Out: the engine's. Trees are changed where they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pglast import enums

from tailrace.dataclass import dataclass
from tailrace.expressions.analysis.state import Node, ParseState
from tailrace.sql.grammar import ast
from tailrace.sql.query.allowed import MATCHES, PATTERNS, check_function, refused
from tailrace.sql.query.engine_functions import average, cast, function_value
from tailrace.sql.query.expression_types import SELECT, ExpressionTypes
from tailrace.sql.query.json_fields import ARROWS, taken
from tailrace.sql.query.like_and_regex import like, matched
from tailrace.sql.query.lsn_expressions import LSN, arithmetic, as_lsn, called, text_of
from tailrace.sql.query.scales import check_scales
from tailrace.sql.query.system_functions import REG_KINDS, array_literal, element_of, reg_text, values_of, without_bounds

Before = Callable[[ParseState, Any], Node | None]
"""What `ExpressionTypes.analyse` asks of nodes that are the query's."""
_NO_POSITION_BESIDE = ("||", "+")
"""Operators beside which a literal of no type is none."""
_OVER_ARRAYS = (enums.A_Expr_Kind.AEXPR_OP_ANY, enums.A_Expr_Kind.AEXPR_OP_ALL)


@dataclass(slots=True)
class EngineExpressions:
    """`called` gives what stands for a call of the interface; None for any other node."""

    types: ExpressionTypes
    called: Callable[[Any], Any]
    database: str

    def translated(self, node: Any, clause: str, before: Before) -> Any:
        """The whole of an expression, or None where there is none. Raises UsageError for what is not computed here."""
        if node is None:
            return None
        if not self.types.is_analysed(node):
            self.types.analyse(node, clause, before)
        return self._engine(node, before)

    def average(self, node: Any, before: Before) -> Any:
        """An avg() that is a column of the result."""
        if node.args is None or len(node.args) != 1:
            raise refused("avg of this", node.location)
        node.funcname = (ast.String(sval="sum"),)
        kind = self.types.kind(node.args[0])
        self._function(node, before)
        return average(node, kind)

    def window(self, window: Any, before: Before) -> None:
        window.partitionClause = tuple(self.translated(each, SELECT, before) for each in window.partitionClause or ()) or None
        for item in window.orderClause or ():
            item.node = self.translated(item.node, SELECT, before)

    def _engine(self, node: Any, before: Before) -> Any:
        """Of a node that was analysed, or whose parent was."""
        call = self.called(node)
        if call is not None:
            return call
        if node is None or isinstance(node, ast.ColumnRef | ast.A_Const):
            return node
        if isinstance(node, ast.SubLink):
            node.testexpr = self._engine(node.testexpr, before)  # the query in it is translated when its type is asked for
        elif isinstance(node, ast.TypeCast):
            kind = self.types.kind(node.arg)
            node.arg = self._engine(node.arg, before)
            return cast(node, kind)
        elif isinstance(node, ast.FuncCall):
            return self._function(node, before)
        elif isinstance(node, ast.A_Expr):
            return self._operator(node, before)
        elif isinstance(node, ast.CoalesceExpr | ast.MinMaxExpr):
            node.args = self._alike(node.args, before)
        elif isinstance(node, ast.CaseExpr):
            self._case(node, before)
        elif isinstance(node, ast.BoolExpr):
            node.args = tuple(self._engine(each, before) for each in node.args)
        elif isinstance(node, ast.NullTest | ast.BooleanTest):
            node.arg = self._engine(node.arg, before)
        elif isinstance(node, ast.CollateClause):
            return self._engine(node.arg, before)
        elif isinstance(node, ast.A_Indirection):
            (index,) = node.indirection
            kind = "" if index.is_slice else self.types.kind(node.arg)
            return element_of(self._engine(node.arg, before), self._engine(index.uidx, before), kind)
        elif isinstance(node, ast.A_ArrayExpr):
            node.elements = self._alike(node.elements or (), before)
        else:
            what = "this value" if isinstance(node, ast.SQLValueFunction) else type(node).__name__
            raise refused(what, getattr(node, "location", None))
        return node

    def _case(self, node: Any, before: Before) -> None:
        is_lsn = node.arg is not None and self.types.kind(node.arg) == LSN
        node.arg = self._engine(node.arg, before)
        for when in node.args:
            is_literal = self.types.kind(when.expr) == "unknown"
            when.expr = self._engine(when.expr, before)
            if is_lsn and is_literal:
                when.expr = as_lsn(when.expr)
        written = [when.result for when in node.args] + ([node.defresult] if node.defresult is not None else [])
        results = self._alike(written, before)
        for when, result in zip(node.args, results, strict=False):
            when.result = result
        if node.defresult is not None:
            node.defresult = results[-1]

    def _alike(self, nodes: Sequence[Any], before: Before) -> tuple[Any, ...]:
        """Several that are to have one type."""
        check_scales(nodes)
        kinds = [self.types.kind(each) for each in nodes]
        made = [self._engine(each, before) for each in nodes]
        if LSN in kinds:
            made = [as_lsn(each) if kind == "unknown" else each for each, kind in zip(made, kinds, strict=True)]
        return tuple(made)

    def _function(self, node: Any, before: Before) -> Any:
        check_function(node)
        arguments = [without_bounds(each, self.types.kind) for each in node.args or ()]
        kinds = [self.types.kind(each) for each in arguments]
        node.args = tuple(self._engine(each, before) for each in arguments) or None
        node.agg_filter = self.translated(node.agg_filter, "FILTER", before)
        for item in node.agg_order or ():
            item.node = self.translated(item.node, SELECT, before)
        if node.over is not None:
            self.window(node.over, before)
        return function_value(node, kinds, self.database)

    def _operator(self, node: Any, before: Before) -> Any:
        operator, result = node.name[-1].sval, self.types.kind(node)
        node.name = node.name[-1:]
        if isinstance(node.rexpr, ast.CollateClause):
            node.rexpr = node.rexpr.arg
        if operator in MATCHES and node.kind == enums.A_Expr_Kind.AEXPR_OP:
            return matched(node, operator, self._engine(node.lexpr, before))
        if node.kind in PATTERNS:
            return like(node, operator, self._engine(node.lexpr, before))
        one = "" if node.lexpr is None else self.types.kind(node.lexpr)
        node.lexpr = self._engine(node.lexpr, before)
        if isinstance(node.rexpr, tuple | list):
            kinds = [self.types.kind(each) for each in node.rexpr]
            several = [self._engine(each, before) for each in node.rexpr]
            node.rexpr = tuple(
                as_lsn(each) if one == LSN and kind == "unknown" else each for each, kind in zip(several, kinds, strict=True)
            )
            other = next((kind for kind in kinds if kind != "unknown"), "unknown")
        else:
            other = self.types.kind(node.rexpr)
            node.rexpr = array_literal(self._engine(node.rexpr, before), one)
            if node.kind in _OVER_ARRAYS:
                node.rexpr = values_of(node.rexpr, other)
            if one == LSN and other == "unknown" and operator not in _NO_POSITION_BESIDE:
                node.rexpr = as_lsn(node.rexpr)
        if other == LSN and one == "unknown" and operator not in _NO_POSITION_BESIDE:
            node.lexpr = as_lsn(node.lexpr)
        if operator in ARROWS:
            return taken(operator, node.lexpr, node.rexpr, other)
        if operator == "||" and "_" in (one[:1], other[:1]):
            return called("list_concat", node.lexpr, node.rexpr)
        if operator == "||":
            node.lexpr, node.rexpr = _as_text(node.lexpr, one), _as_text(node.rexpr, other)
        elif operator in ("+", "-") and LSN in (one, other):
            return arithmetic(node, result)
        elif operator == "/" and "numeric" in (one, other):
            raise refused("division of numeric", node.location)
        return node


def _as_text(node: Any, kind: str) -> Any:
    """What a position, or the name behind an oid, is beside a text."""
    return text_of(node) if kind == LSN else reg_text(node, kind) if kind in REG_KINDS else node
