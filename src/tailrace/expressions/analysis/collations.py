"""Which collation each node of an analysed tree has, and works with (`parser/parse_collate.c`).

In: a tree whose collations are not set, but for columns, constants and COLLATE. Out: the same tree with them. Two explicit collations that differ
are an error; implicit ones that differ leave the node without any, which only matters to a function that needs one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.expressions import tree
from tailrace.expressions.analysis.state import Forbidden, ParseState, collation_of, location_of, type_of

DEFAULT_COLLATION = 100


class Strength(IntEnum):
    """CollateStrength."""

    NONE = 0
    IMPLICIT = 1
    CONFLICT = 2
    EXPLICIT = 3


@dataclass(slots=True)
class _Derived:
    """What the nodes below one say of its collation. Of a conflict the second collation and where it stands are kept for the message."""

    strength: Strength = Strength.NONE
    collation: int = 0
    location: int = -1
    other: int = 0
    other_location: int = -1


def assign_collations(state: ParseState, node: Any) -> Any:
    """assign_expr_collations."""
    return _walk(state, node, _Derived())


def _walk(state: ParseState, node: Any, outer: _Derived) -> Any:
    """The node with its collations; what it derives is merged into `outer`."""
    match node:
        case tree.CollateExpr():
            made = replace(node, arg=_walk(state, node.arg, _Derived()))
            _merge(state, _Derived(Strength.EXPLICIT, node.collation, node.location), outer)
            return made
        case tree.CaseWhen():
            return _with_children(state, node, outer)
        case tree.RowExpr():
            return replace(node, args=tuple(assign_collations(state, arg) for arg in node.args))
        case tree.RowCompareExpr():
            return _row_comparison(state, node)
        case tree.Var() | tree.Const() | tree.CaseTestExpr():
            collation = collation_of(node)
            strength = Strength.IMPLICIT if collation else Strength.NONE
            _merge(state, _Derived(strength, collation, location_of(node)), outer)
            return node
        case _:
            return _general(state, node, outer)


def _general(state: ParseState, node: Any, outer: _Derived) -> Any:
    inner = _Derived()
    made = _with_children(state, node, inner)
    own = state.catalog.collation_of(type_of(node))
    derived = _Derived()
    if own and inner.strength > Strength.NONE:
        derived = inner
    elif own:
        derived = _Derived(Strength.IMPLICIT, own, location_of(node))
    changes = {}
    names = type(node).__dataclass_fields__
    if "collation" in names:
        changes["collation"] = 0 if derived.strength == Strength.CONFLICT else derived.collation
    if "input_collation" in names:
        changes["input_collation"] = 0 if inner.strength == Strength.CONFLICT else inner.collation
    _merge(state, derived, outer)
    return replace(made, **changes) if changes else made


def _with_children(state: ParseState, node: Any, inner: _Derived) -> Any:
    """The node with what is below it assigned. The argument of a CASE was when it was analysed, and says nothing of the result."""

    def walked(nodes: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(_walk(state, each, inner) for each in nodes)

    match node:
        case tree.RelabelType() | tree.Not() | tree.NullTest() | tree.BooleanTest():
            return replace(node, arg=_walk(state, node.arg, inner))
        case tree.CaseExpr():
            return replace(node, whens=walked(node.whens), default=_walk(state, node.default, inner))
        case tree.CaseWhen():
            return replace(node, condition=_walk(state, node.condition, inner), result=_walk(state, node.result, inner))
        case tree.ArrayExpr():
            return replace(node, elements=walked(node.elements))
        case tree.XmlExpr():
            return replace(node, named_args=walked(node.named_args), args=walked(node.args))
        case Forbidden(what="SubscriptingRef"):
            below = tuple(assign_collations(state, each) for each in node.args[1:])
            return replace(node, args=(_walk(state, node.args[0], inner), *below))
        case _:
            return replace(node, args=walked(node.args))


def _row_comparison(state: ParseState, node: tree.RowCompareExpr) -> tree.RowCompareExpr:
    """Each pair by itself, and a conflict in one is an error (select_common_collation with none_ok, which RowCompareExpr alone has, tells none)."""
    left, right, collations = [], [], []
    for one, other in zip(node.left, node.right, strict=True):
        derived = _Derived()
        left.append(_walk(state, one, derived))
        right.append(_walk(state, other, derived))
        collations.append(0 if derived.strength == Strength.CONFLICT else derived.collation)
    return replace(node, left=tuple(left), right=tuple(right), input_collations=tuple(collations))


def _merge(state: ParseState, found: _Derived, outer: _Derived) -> None:
    """merge_collation_state."""
    if found.strength > outer.strength:
        outer.strength, outer.collation, outer.location = found.strength, found.collation, found.location
        outer.other, outer.other_location = found.other, found.other_location
    elif found.strength == outer.strength and found.collation != outer.collation:
        if found.strength == Strength.IMPLICIT:
            if outer.collation == DEFAULT_COLLATION:
                outer.collation, outer.location = found.collation, found.location
            elif found.collation != DEFAULT_COLLATION:
                outer.strength, outer.other, outer.other_location = Strength.CONFLICT, found.collation, found.location
        elif found.strength == Strength.EXPLICIT:
            names = [name_of(state, oid) for oid in (outer.collation, found.collation)]
            message = f'collation mismatch between explicit collations "{names[0]}" and "{names[1]}"'
            raise state.error(message, "42P21", found.location)


def name_of(state: ParseState, collation: int) -> str:
    return next((name for (_, name), oid in state.catalog.collations.items() if oid == collation), "???")
