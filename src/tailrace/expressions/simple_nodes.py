"""Which parts of an expression are written without parentheses in the form that psql asks for (`adt/ruleutils.c`, isSimpleNode).

In: a node of `tailrace.expressions.tree`, and the one that it is an argument of. Out: whether it can stand there alone.
"""

from __future__ import annotations

from typing import Any

from tailrace.expressions import tree
from tailrace.expressions.analysis.catalog import Catalog
from tailrace.expressions.analysis.state import EXPLICIT_CALL

_LOW, _HIGH = "+-", "*/%"
_SEPARATED = (
    tree.CaseExpr, tree.ArrayExpr, tree.RowExpr, tree.CoalesceExpr, tree.MinMaxExpr, tree.XmlExpr, tree.NullIfExpr,
)  # fmt: skip
"""What has its arguments between commas or words."""
_TESTS = (tree.OpExpr, tree.NullTest, tree.BooleanTest, tree.DistinctExpr)
_OF_BOOLEANS = (tree.And, tree.Or, tree.Not)


def is_simple(node: Any, parent: Any, catalog: Catalog) -> bool:
    if isinstance(node, tree.RelabelType | tree.OtherCast):
        return is_simple(node.arg, node, catalog)
    if isinstance(node, tree.OpExpr) and isinstance(parent, tree.OpExpr):
        return _binds_stronger(node, parent, catalog)
    if isinstance(node, _TESTS):
        return isinstance(parent, (*_OF_BOOLEANS, *_SEPARATED)) or _is_call(parent)
    if isinstance(node, _OF_BOOLEANS):
        if isinstance(parent, _OF_BOOLEANS):
            return isinstance(parent, tree.Or) or (isinstance(parent, tree.And) and not isinstance(node, tree.Or))
        return isinstance(parent, _SEPARATED) or _is_call(parent)
    return isinstance(node, (*_SEPARATED, tree.Var, tree.Const, tree.FuncExpr, tree.SQLValueFunction, tree.CaseTestExpr))


def _is_call(node: Any) -> bool:
    return isinstance(node, tree.FuncExpr) and node.form == EXPLICIT_CALL


def _binds_stronger(node: tree.OpExpr, parent: tree.OpExpr, catalog: Catalog) -> bool:
    """(a - b) - c needs no parentheses, a - (b - c) does."""
    own, around = catalog.operators[node.oid].name, catalog.operators[parent.oid].name
    if {len(node.args), len(parent.args)} != {2} or not {own, around} <= {*_LOW, *_HIGH}:
        return False
    if (own in _HIGH) != (around in _HIGH):
        return own in _HIGH
    return node is parent.args[0]
