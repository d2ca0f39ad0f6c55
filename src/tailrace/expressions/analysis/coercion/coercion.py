"""Which type becomes which, and how (`parser/parse_coerce.c`).

In: analysed nodes and types. Out: whether they can be coerced; nodes with the casts put in, of which a binary-compatible one is a `Relabel`, one by
function a `Function`, and one through text, or element by element, a `Forbidden`; the type that several expressions have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tailrace.expressions import tree
from tailrace.expressions.analysis.catalog import Catalog
from tailrace.expressions.analysis.coercion import polymorphism
from tailrace.expressions.analysis.coercion.pathways import CoercionContext, Path, find_path, is_coercible
from tailrace.expressions.analysis.literals.literals import read_literal
from tailrace.expressions.analysis.state import (
    EXPLICIT_CAST,
    IMPLICIT_CAST,
    Forbidden,
    Node,
    ParseState,
    collation_of,
    location_of,
    type_of,
    typmod_of,
)
from tailrace.types import oids

_UNCHANGED = frozenset({oids.ANY, oids.ANYELEMENT, oids.ANYNONARRAY, oids.ANYCOMPATIBLE, oids.ANYCOMPATIBLENONARRAY})
"""any, anyelement, anynonarray, anycompatible, anycompatiblenonarray: as a target they leave everything as it is."""


def can_coerce(catalog: Catalog, sources: Sequence[int], targets: Sequence[int], context: CoercionContext) -> bool:
    """can_coerce_type."""
    generic = [polymorphism.is_polymorphic(target) for target in targets]
    if not all(
        is_generic or is_coercible(catalog, source, target, context)
        for source, target, is_generic in zip(sources, targets, generic, strict=True)
    ):
        return False
    return not any(generic) or polymorphism.are_consistent(catalog, sources, targets)


def coerce(state: ParseState, node: Node, target: int, typmod: int, context: CoercionContext, form: int, location: int) -> Node:
    """coerce_type: the node as the target type. The caller has asked `can_coerce`."""
    catalog, source = state.catalog, type_of(node)
    if target == source or target in _UNCHANGED:
        return node
    if polymorphism.is_polymorphic(target) and source != oids.UNKNOWN:
        base = catalog.base_type(source)
        return node if base == source else tree.RelabelType(_known(node), base, -1, 0, IMPLICIT_CAST, location=location)
    if source == oids.UNKNOWN and isinstance(node, tree.Const):
        base = catalog.base_type(target)
        made: Node = _constant(state, node, base, typmod if base == oids.INTERVAL else -1)
        return made if base == target else Forbidden("CoerceToDomain", target, (made,), typmod, 0, location)
    if isinstance(node, tree.CollateExpr):
        inner = coerce(state, node.arg, target, typmod, context, form, location)
        return tree.CollateExpr(_known(inner), node.collation, location=node.location) if catalog.collation_of(target) else inner
    path = find_path(catalog, target, source, context)
    if path is not None:
        return _along(state, node, path, target, typmod, context, form, location)
    if target in (oids.RECORD, oids.RECORDARRAY):
        return node
    if source == oids.RECORD:
        return Forbidden("ConvertRowtypeExpr", target, (node,), -1, 0, location)
    raise AssertionError(f"no way from {source} to {target}")


def _known(node: Node) -> tree.Expression:
    """Nodes hold whatever stands below them; the walk at the end refuses what they must not hold."""
    return node  # type: ignore[return-value]


def _constant(state: ParseState, node: tree.Const, target: int, typmod: int) -> tree.Const:
    value = None
    if state.catalog.kind(target) == "p" and node.value is None and target not in (oids.CSTRING, oids.RECORD):
        raise state.error(f"cannot accept a value of type {state.label(target)}", "0A000", node.location)
    if node.value is not None:
        value = read_literal(state, node.value.decode("utf-8", "surrogateescape"), target, typmod, node.location)
    return tree.Const(target, value, typmod, state.catalog.collation_of(target), location=node.location)


def _along(
    state: ParseState, node: Node, path: Path, target: int, typmod: int, context: CoercionContext, form: int, location: int
) -> Node:
    base = state.catalog.base_type(target)
    if path.how == "relabel":
        if base != target:
            return Forbidden("CoerceToDomain", target, (node,), typmod, 0, location)
        return tree.RelabelType(_known(node), target, -1, 0, form, location=location)
    made = _cast(state, node, path, base, typmod, context, form, location)
    return made if base == target else Forbidden("CoerceToDomain", target, (made,), typmod, 0, location)


def _cast(
    state: ParseState, node: Node, path: Path, target: int, typmod: int, context: CoercionContext, form: int, location: int
) -> Node:
    """build_coercion_expression."""
    if path.how == "text":
        return Forbidden("CoerceViaIO", target, (node,), -1, 0, location, form)
    if path.how == "elements":
        return Forbidden("ArrayCoerceExpr", target, (node,), typmod, 0, location, form)
    args = [_known(node)]
    wanted = len(state.catalog.functions[path.function].arguments)
    if wanted >= 2:
        args.append(tree.Const(oids.INT4, typmod.to_bytes(4, "little", signed=True)))
    if wanted == 3:
        args.append(tree.Const(oids.BOOL, bytes([context == CoercionContext.EXPLICIT])))
    return tree.FuncExpr(path.function, target, tuple(args), form, location=location)


def coerce_to_target(
    state: ParseState, node: Node, target: int, typmod: int, context: CoercionContext, form: int, location: int
) -> Node | None:
    """coerce_to_target_type: with the length that the modifier asks for; None where there is no cast."""
    if not can_coerce(state.catalog, [type_of(node)], [target], context):
        return None
    inner: Node = node
    while isinstance(inner, tree.CollateExpr):
        inner = inner.arg
    made = coerce(state, inner, target, typmod, context, form, location)
    hide = made is not inner and not isinstance(made, tree.Const)
    made = _coerce_typmod(state, made, target, typmod, context, form, location, hide)
    if inner is not node and isinstance(node, tree.CollateExpr) and state.catalog.collation_of(target):
        return tree.CollateExpr(_known(made), node.collation, location=node.location)
    return made


def _coerce_typmod(
    state: ParseState, node: Node, target: int, typmod: int, context: CoercionContext, form: int, location: int, hide: bool
) -> Node:  # fmt: skip
    """coerce_type_typmod."""
    if typmod == typmod_of(node):
        return node
    if hide and isinstance(node, tree.FuncExpr | tree.RelabelType | Forbidden):
        node = replace(node, form=IMPLICIT_CAST)
    path = _length_cast(state.catalog, target) if typmod >= 0 else None
    if path is not None:
        return _cast(state, node, path, target, typmod, context, form, location)
    return _relabelled(node, target, typmod, form, location)


def _length_cast(catalog: Catalog, target: int) -> Path | None:
    """find_typmod_coercion_function."""
    element = catalog.element_type(target)
    cast = catalog.casts.get((element or target, element or target))
    if cast is None or not cast.function:
        return None
    return Path("elements" if element else "function", cast.function)


def _relabelled(node: Node, target: int, typmod: int, form: int, location: int) -> Node:
    """applyRelabelType: one label is enough, and a constant is labelled itself."""
    collation = collation_of(node)
    while isinstance(node, tree.RelabelType):
        node = node.arg
    if isinstance(node, tree.Const):
        return tree.Const(target, node.value, typmod, collation, location=node.location)
    if (type_of(node), typmod_of(node), collation_of(node)) == (target, typmod, collation):
        return node
    return tree.RelabelType(_known(node), target, typmod, collation, form, location=location)


def common_type(state: ParseState, nodes: Sequence[Node], construct: str | None) -> int:
    """select_common_type; without a construct that errors could name, 0 where there is none."""
    catalog, first = state.catalog, type_of(nodes[0])
    if first != oids.UNKNOWN and all(type_of(node) == first for node in nodes):
        return first
    chosen = catalog.base_type(first)
    for node in nodes[1:]:
        found = catalog.base_type(type_of(node))
        if found in (oids.UNKNOWN, chosen):
            continue
        if chosen == oids.UNKNOWN:
            chosen = found
        elif catalog.category(found) != catalog.category(chosen):
            if construct is None:
                return 0
            raise state.error(
                f"{construct} types {state.label(chosen)} and {state.label(found)} cannot be matched", "42804", location_of(node)
            )
        elif _is_wider(catalog, found, chosen):
            chosen = found
    return oids.TEXT if chosen == oids.UNKNOWN else chosen


def _is_wider(catalog: Catalog, found: int, chosen: int) -> bool:
    return (
        not catalog.is_preferred(chosen)
        and can_coerce(catalog, [chosen], [found], CoercionContext.IMPLICIT)
        and not can_coerce(catalog, [found], [chosen], CoercionContext.IMPLICIT)
    )


def coerce_to_common(state: ParseState, node: Node, target: int, construct: str) -> Node:
    """coerce_to_common_type."""
    if type_of(node) == target:
        return node
    if not can_coerce(state.catalog, [type_of(node)], [target], CoercionContext.IMPLICIT):
        raise state.error(
            f"{construct} could not convert type {state.label(type_of(node))} to {state.label(target)}",
            "42846",
            location_of(node),
        )
    return coerce(state, node, target, -1, CoercionContext.IMPLICIT, IMPLICIT_CAST, -1)


def coerce_to_boolean(state: ParseState, node: Node, construct: str) -> tree.Expression:
    return coerce_to_specific(state, node, oids.BOOL, construct)


def coerce_to_specific(state: ParseState, node: Node, target: int, construct: str) -> tree.Expression:
    """coerce_to_specific_type, and coerce_to_boolean."""
    made: Node | None = node
    if type_of(node) != target:
        made = coerce_to_target(state, node, target, -1, CoercionContext.ASSIGNMENT, IMPLICIT_CAST, -1)
    if made is None:
        raise state.error(
            f"argument of {construct} must be type {state.label(target)}, not type {state.label(type_of(node))}",
            "42804",
            location_of(node),
        )
    return _known(made)


def cast_explicitly(state: ParseState, node: Node, target: int, typmod: int, location: int) -> Node:
    """What CAST and :: do. Raises UsageError where there is no cast."""
    made = coerce_to_target(state, node, target, typmod, CoercionContext.EXPLICIT, EXPLICIT_CAST, location)
    if made is None:
        raise state.error(
            f"cannot cast type {state.label(type_of(node))} to {state.label(target)}",
            "42846",
            location if location >= 0 else location_of(node),
        )
    return made


def coerce_arguments(state: ParseState, nodes: Sequence[Node], declared: Sequence[int]) -> tuple[tree.Expression, ...]:
    """make_fn_arguments: each as the type that the function or operator takes."""
    made = [
        node if type_of(node) == target else coerce(state, node, target, -1, CoercionContext.IMPLICIT, IMPLICIT_CAST, -1)
        for node, target in zip(nodes, declared, strict=True)
    ]
    return tuple(map(_known, made))
