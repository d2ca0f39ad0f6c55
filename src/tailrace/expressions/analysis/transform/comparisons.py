"""Comparisons that are more than an operator: of rows, IN, BETWEEN, IS DISTINCT FROM, NULLIF (`parser/parse_expr.c`).

In: parsed A_Expr nodes. Out: what PostgreSQL makes of them: BETWEEN is two comparisons, IN a comparison with an array, or several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pglast import ast
from pglast.enums import A_Expr_Kind, BoolExprType

from tailrace.expressions import tree
from tailrace.expressions.analysis.catalog.names import name_list, words
from tailrace.expressions.analysis.coercion.coercion import can_coerce, coerce_to_boolean, coerce_to_common, common_type
from tailrace.expressions.analysis.coercion.pathways import CoercionContext
from tailrace.expressions.analysis.state import Forbidden, Node, ParseState, first_location, leftmost, type_of
from tailrace.expressions.analysis.transform.operators import make_array_comparison, make_operator, ordering_of
from tailrace.types import oids

EQUAL, NOT_EQUAL = 3, 6
"""Of RowCompareType; the others are a RowComparison's."""
_BETWEEN = {
    A_Expr_Kind.AEXPR_BETWEEN: ("and", ((">=", 0), ("<=", 1))),
    A_Expr_Kind.AEXPR_NOT_BETWEEN: ("or", (("<", 0), (">", 1))),
}
_SYMMETRIC = {
    A_Expr_Kind.AEXPR_BETWEEN_SYM: ("or", "and", ((">=", 0), ("<=", 1)), ((">=", 1), ("<=", 0))),
    A_Expr_Kind.AEXPR_NOT_BETWEEN_SYM: ("and", "or", (("<", 0), (">", 1)), (("<", 1), (">", 0))),
}
_JOINTS = {"and": BoolExprType.AND_EXPR, "or": BoolExprType.OR_EXPR}


def transform_comparison(state: ParseState, raw: Any) -> Node:
    """An operator between two operands, either of which may be a row."""
    location, names = state.place(raw), words(raw.name)
    left = None if raw.lexpr is None else state.transform(state, raw.lexpr)
    right = state.transform(state, raw.rexpr)
    if isinstance(left, tree.RowExpr) and isinstance(right, Forbidden) and right.what == "SubLink":
        return replace(right, type=oids.BOOL, location=leftmost(first_location(left.args), right.location))
    if isinstance(raw.lexpr, ast.RowExpr) and isinstance(raw.rexpr, ast.RowExpr):
        return _compare_rows(state, names, _args(left), _args(right), location)
    return make_operator(state, names, left, right, location)


def _args(node: Any) -> tuple[tree.Expression, ...]:
    assert isinstance(node, tree.RowExpr)
    return node.args


def _compare_rows(state: ParseState, names: list[str], left: Sequence[Node], right: Sequence[Node], location: int) -> Node:
    """make_row_comparison_op."""
    if len(left) != len(right):
        raise state.error("unequal number of entries in row expressions", "42601", location)
    if not left:
        raise state.error("cannot compare rows of zero length", "0A000", location)
    pairs = [_compare_pair(state, names, *pair, location) for pair in zip(left, right, strict=True)]
    if len(pairs) == 1:
        return pairs[0]
    meanings = [ordering_of(state, pair.oid) for pair in pairs]
    common = set.intersection(*({strategy for _, strategy in meaning} for meaning in meanings))
    if not common:
        hint = "Row comparison operators must be associated with btree operator families."
        message = f"could not determine interpretation of row comparison operator {name_list(names)}"
        raise state.error(message, "0A000", location, hint=hint)
    kind = min(common)
    if kind in (EQUAL, NOT_EQUAL):
        return (tree.And if kind == EQUAL else tree.Or)(tuple(pairs), location=location)
    families = tuple(next(family for family, strategy in meaning if strategy == kind) for meaning in meanings)
    return tree.RowCompareExpr(
        kind, tuple(pair.oid for pair in pairs), families, (0,) * len(pairs),
        tuple(pair.args[0] for pair in pairs), tuple(pair.args[1] for pair in pairs),
    )  # fmt: skip


def _compare_pair(state: ParseState, names: list[str], left: Node, right: Node, location: int) -> tree.OpExpr:
    pair = make_operator(state, names, left, right, location)
    if pair.type != oids.BOOL:
        message = f"row comparison operator must yield type boolean, not type {state.label(pair.type)}"
        raise state.error(message, "42804", location)
    if pair.returns_set:
        raise state.error("row comparison operator must not return a set", "42804", location)
    return pair


def transform_distinct(state: ParseState, raw: Any) -> Node:
    """IS [NOT] DISTINCT FROM; from a plain NULL it is IS [NOT] NULL."""
    location, names = state.place(raw), words(raw.name)
    negated = raw.kind == A_Expr_Kind.AEXPR_NOT_DISTINCT
    for null, other in ((raw.rexpr, raw.lexpr), (raw.lexpr, raw.rexpr)):
        if isinstance(null, ast.A_Const) and null.isnull:
            return tree.NullTest(_known(state.transform(state, other)), not negated, location=location)
    left, right = state.transform(state, raw.lexpr), state.transform(state, raw.rexpr)
    made: tree.Expression
    if isinstance(raw.lexpr, ast.RowExpr) and isinstance(raw.rexpr, ast.RowExpr):
        made = _distinct_rows(state, names, _args(left), _args(right), location)
    else:
        made = _distinct(state, names, left, right, location)
    return tree.Not(made, location=location) if negated else made


def _known(node: Node) -> tree.Expression:
    return node  # type: ignore[return-value]


def _distinct(state: ParseState, names: list[str], left: Node, right: Node, location: int) -> tree.DistinctExpr:
    pair = make_operator(state, names, left, right, location)
    _must_be_boolean(state, pair, "IS DISTINCT FROM", location)
    return tree.DistinctExpr(pair.oid, pair.function, (pair.args[0], pair.args[1]), pair.type, location=location)


def _must_be_boolean(state: ParseState, pair: tree.OpExpr, construct: str, location: int) -> None:
    if pair.type != oids.BOOL:
        raise state.error(f"{construct} requires = operator to yield boolean", "42804", location)
    if pair.returns_set:
        raise state.error(f"{construct} must not return a set", "42804", location)


def _distinct_rows(
    state: ParseState, names: list[str], left: Sequence[Node], right: Sequence[Node], location: int
) -> tree.Expression:
    if len(left) != len(right):
        raise state.error("unequal number of entries in row expressions", "42601", location)
    made: tree.Expression | None = None
    for one, other in zip(left, right, strict=True):
        pair = _distinct(state, names, one, other, location)
        made = pair if made is None else tree.Or((made, pair), location=location)
    return made if made is not None else tree.Const(oids.BOOL, b"\0")


def transform_null_if(state: ParseState, raw: Any) -> Node:
    location = state.place(raw)
    left, right = state.transform(state, raw.lexpr), state.transform(state, raw.rexpr)
    pair = make_operator(state, words(raw.name), left, right, location)
    _must_be_boolean(state, pair, "NULLIF", location)
    return tree.NullIfExpr(pair.oid, pair.function, type_of(pair.args[0]), (pair.args[0], pair.args[1]), location=location)


def transform_array_comparison(state: ParseState, raw: Any) -> Node:
    """op ANY (array), op ALL (array)."""
    left, right = state.transform(state, raw.lexpr), state.transform(state, raw.rexpr)
    use_or = raw.kind == A_Expr_Kind.AEXPR_OP_ANY
    return make_array_comparison(state, words(raw.name), use_or, left, right, state.place(raw))


def transform_in(state: ParseState, raw: Any) -> Node:
    """transformAExprIn: the values without columns become an array where there are several and they have a common type; the others are compared
    one by one."""
    location, names = state.place(raw), words(raw.name)
    use_or = names[-1] != "<>"
    left = state.transform(state, raw.lexpr)
    listed = [(each, state.transform(state, each)) for each in raw.rexpr]
    made: tree.Expression | None = None
    plain = [node for _, node in listed if not _has_columns(node)]
    if len(plain) > 1:
        made = _in_array(state, names, use_or, left, plain, location)
        if made is not None:
            listed = [(each, node) for each, node in listed if _has_columns(node)]
    for _, node in listed:
        pair: Node
        if isinstance(left, tree.RowExpr) and isinstance(node, tree.RowExpr):
            pair = _compare_rows(state, names, left.args, node.args, location)
        else:
            pair = make_operator(state, names, left, node, location)
        one = coerce_to_boolean(state, pair, "IN")
        made = one if made is None else (tree.Or if use_or else tree.And)((made, one), location=location)
    assert made is not None
    return made


def _has_columns(node: Any) -> bool:
    return any(isinstance(each, tree.Var) for each in tree.walk(node))


def _in_array(
    state: ParseState, names: list[str], use_or: bool, left: Node, plain: list[Node], location: int
) -> tree.Expression | None:
    everything = [left, *plain]
    common = common_type(state, everything, None)
    if not common or not all(
        can_coerce(state.catalog, [type_of(each)], [common], CoercionContext.IMPLICIT) for each in everything
    ):
        return None
    array = state.catalog.array_type(common) if common != oids.RECORD else 0
    if not array:
        return None
    elements = tuple(_known(coerce_to_common(state, node, common, "IN")) for node in plain)
    return make_array_comparison(state, names, use_or, left, tree.ArrayExpr(array, common, elements), location)


def transform_between(state: ParseState, raw: Any) -> Node:
    """As the comparisons that it stands for, each analysed by itself."""
    if raw.kind in _BETWEEN:
        joint, pairs = _BETWEEN[raw.kind]
        return state.transform(state, _joined(raw, joint, [_pair(raw, *pair) for pair in pairs]))
    outer, inner, *both = _SYMMETRIC[raw.kind]
    sides = [_joined(raw, inner, [_pair(raw, name, bound) for name, bound in pairs]) for pairs in both]
    return state.transform(state, _joined(raw, outer, sides))


def _pair(raw: Any, name: str, bound: int) -> Any:
    return ast.A_Expr(
        kind=A_Expr_Kind.AEXPR_OP, name=(ast.String(sval=name),), lexpr=raw.lexpr, rexpr=raw.rexpr[bound], location=raw.location
    )


def _joined(raw: Any, joint: str, args: list[Any]) -> Any:
    return ast.BoolExpr(boolop=_JOINTS[joint], args=tuple(args), location=raw.location)
