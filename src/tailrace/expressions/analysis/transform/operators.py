"""Operators by name and types (`parser/parse_oper.c`).

In: a name, and analysed operands. Out: an `Operator`, or an `ArrayComparison` for `op ANY` and `op ALL`. Errors are the server's.
"""

from __future__ import annotations

from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.expressions import tree
from tailrace.expressions.analysis.catalog import OperatorRow
from tailrace.expressions.analysis.catalog.names import in_path, name_list
from tailrace.expressions.analysis.coercion import polymorphism
from tailrace.expressions.analysis.coercion.coercion import coerce_arguments
from tailrace.expressions.analysis.state import Node, ParseState, type_of
from tailrace.expressions.analysis.transform.candidates import callable_with, select
from tailrace.types import oids


@dataclass(frozen=True, slots=True)
class _OperatorCandidate:
    row: OperatorRow
    takes: tuple[int, ...]


def find_operator(state: ParseState, names: list[str], left: int | None, right: int, location: int) -> OperatorRow:
    """oper and left_oper; `left` is None for a prefix operator."""
    found = in_path(state, state.catalog.operators_named.get(names[-1], []), names, location, lambda row: (row.left, row.right))
    rows = [row for row in found if bool(row.left) == (left is not None)]
    exact = _exact(state, rows, left, right)
    if exact is not None:
        return exact
    given = [right] if left is None else [left, right]
    candidates = [_OperatorCandidate(row, (row.right,) if left is None else (row.left, row.right)) for row in rows]
    fitting = callable_with(state.catalog, given, candidates)
    chosen = fitting[0] if len(fitting) == 1 else select(state.catalog, given, fitting) if fitting else None
    if chosen is None:
        raise _refusal(state, names, left, right, location, ambiguous=bool(fitting))
    return chosen.row


def _exact(state: ParseState, rows: list[OperatorRow], left: int | None, right: int) -> OperatorRow | None:
    """binary_oper_exact: an operand of unknown type is first taken to have the other's; a domain's base is tried then."""
    by_types = {(row.left, row.right): row for row in rows}
    if left is None:
        return by_types.get((0, right))
    was_unknown = oids.UNKNOWN in (left, right)
    if left == oids.UNKNOWN:
        left = right
    elif right == oids.UNKNOWN:
        right = left
    exact = by_types.get((left, right))
    if exact is None and was_unknown:
        base = state.catalog.base_type(left)
        exact = by_types.get((base, base)) if base != left else None
    return exact


def _refusal(state: ParseState, names: list[str], left: int | None, right: int, location: int, *, ambiguous: bool) -> UsageError:
    sides = [state.label(right)] if left is None else [state.label(left), state.label(right)]
    signature = " ".join([*sides[:-1], name_list(names), sides[-1]])
    if ambiguous:
        hint = "Could not choose a best candidate operator. You might need to add explicit type casts."
        return state.error(f"operator is not unique: {signature}", "42725", location, hint=hint)
    which = (
        "type. You might need to add an explicit type cast."
        if left is None
        else "types. You might need to add explicit type casts."
    )
    hint = f"No operator matches the given name and argument {which}"
    return state.error(f"operator does not exist: {signature}", "42883", location, hint=hint)


def make_operator(state: ParseState, names: list[str], left: Node | None, right: Node, location: int) -> tree.OpExpr:
    """make_op."""
    nodes = [right] if left is None else [left, right]
    given = [type_of(node) for node in nodes]
    row = find_operator(state, names, None if left is None else given[0], given[-1], location)
    takes = (row.right,) if left is None else (row.left, row.right)
    declared, result = _resolved(state, given, takes, row.result)
    args = coerce_arguments(state, nodes, declared)
    function = state.catalog.functions.get(row.function)
    return tree.OpExpr(
        row.oid, row.function, result, args, returns_set=function is not None and function.returns_set, location=location
    )


def _resolved(state: ParseState, given: list[int], takes: tuple[int, ...], result: int) -> tuple[list[int], int]:
    return polymorphism.resolve(state.catalog, given, takes, result)


def make_array_comparison(
    state: ParseState, names: list[str], use_or: bool, left: Node, right: Node, location: int
) -> tree.ScalarArrayOpExpr:
    """make_scalar_array_op."""
    catalog, scalar, array = state.catalog, type_of(left), type_of(right)
    element = oids.UNKNOWN if array == oids.UNKNOWN else catalog.base_element_type(array)
    if not element:
        raise state.error("op ANY/ALL (array) requires array on right side", "42809", location)
    row = find_operator(state, names, scalar, element, location)
    declared, result = _resolved(state, [scalar, element], (row.left, row.right), row.result)
    if result != oids.BOOL:
        raise state.error("op ANY/ALL (array) requires operator to yield boolean", "42809", location)
    wanted = array
    if not polymorphism.is_polymorphic(declared[1]):
        wanted = catalog.array_type(declared[1])
        if not wanted:
            raise state.error(f"could not find array type for data type {state.label(declared[1])}", "42704", location)
    args: Any = coerce_arguments(state, [left, right], [declared[0], wanted])
    return tree.ScalarArrayOpExpr(row.oid, row.function, use_or, args, location=location)


def ordering_of(state: ParseState, oid: int) -> list[tuple[int, int]]:
    """The B-tree families that an operator is of, with its strategy there (get_op_btree_interpretation); 6 stands for the negator of equality."""
    found = [(family, strategy) for family, strategy, _, _ in state.catalog.ordering.get(oid, [])]
    negator = state.catalog.operators[oid].negator
    if not found and negator:
        found = [(family, 6) for family, strategy, _, _ in state.catalog.ordering.get(negator, []) if strategy == 3]
    return found
