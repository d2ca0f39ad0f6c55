"""What the planner puts for parts of a filter (`optimizer/util/clauses.c`): the arguments that a call leaves out, and NOT moved inwards."""

from __future__ import annotations

from dataclasses import replace

from tailrace.expressions import tree
from tailrace.expressions.evaluate.fmgr.pg_proc import BuiltIn, built_in_functions
from tailrace.expressions.evaluate.fmgr.refusals import refused

DEFAULTS: dict[str, tuple[object, ...]] = {
    "unicode_normalize_func": ("NFC",), "unicode_is_normalized": ("NFC",), "jsonb_set": (True,), "jsonb_insert": (False,),
    "jsonb_set_lax": (True, "use_json_null"), "make_interval": (0, 0, 0, 0, 0, 0, 0.0),
    **dict.fromkeys(("jsonb_path_exists", "jsonb_path_match", "jsonb_path_query_array", "jsonb_path_query_first"), ({}, False)),
}  # fmt: skip
"""What stands for arguments at the end that a call leaves out (pg_proc.proargdefaults), which the planner fills in."""

_OPPOSITES = (
    ("box_lt", "box_ge"), ("box_gt", "box_le"), ("lseg_lt", "lseg_ge"), ("lseg_gt", "lseg_le"), ("lseg_eq", "lseg_ne"), ("circle_lt", "circle_ge"),
    ("circle_gt", "circle_le"), ("circle_eq", "circle_ne"), ("point_eq", "point_ne"),
)  # fmt: skip
NEGATORS = {one: two for pair in _OPPOSITES for one, two in (pair, pair[::-1])}
"""Functions whose operators are each other's opposite (pg_operator.oprnegate), and that are both false of a NaN."""


def function_of(oid: int) -> BuiltIn:
    """What is known of a function. Raises Refused, with its oid, for one that a filter cannot have."""
    found = built_in_functions().get(oid)
    if found is None:
        raise refused(f"the function with oid {oid}")
    return found


def negated(node: tree.Expression) -> tree.Expression | None:
    """NOT moved inwards as the planner does (`negate_clause`). It puts the opposite operator for one that has any, which is not the same where a
    shape has a NaN: then neither < nor >= is true. None where NOT stays."""
    match node:
        case tree.And():
            return tree.Or(tuple(tree.Not(each) for each in node.args))
        case tree.Or():
            return tree.And(tuple(tree.Not(each) for each in node.args))
        case tree.Not():
            return node.arg
        case tree.OpExpr() | tree.ScalarArrayOpExpr():
            function = function_of(node.function)
            opposite = NEGATORS.get(function.symbol)
            if opposite is None:
                return None
            found = next(
                each.oid
                for each in built_in_functions().values()
                if each.symbol == opposite and each.arguments == function.arguments
            )
            if isinstance(node, tree.ScalarArrayOpExpr):
                return replace(node, function=found, use_or=not node.use_or)
            return replace(node, function=found)
    return None
