"""Every kind of parsed node, and what analyses it (`parser/parse_expr.c`, transformExprRecurse).

In: a node of PostgreSQL's grammar. Out: an analysed node, `Forbidden` for what a row filter must not have, or the error that PostgreSQL has for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pglast import ast
from pglast.enums import A_Expr_Kind, BoolExprType, CoercionForm, SQLValueFunctionOp, SubLinkType

from tailrace.errors import UsageError
from tailrace.expressions import tree
from tailrace.expressions.analysis.allowed import SIMPLE
from tailrace.expressions.analysis.catalog.names import check_schema, words
from tailrace.expressions.analysis.catalog.type_names import type_of_name
from tailrace.expressions.analysis.coercion.coercion import cast_explicitly, coerce_to_boolean, coerce_to_specific
from tailrace.expressions.analysis.state import Forbidden, Node, ParseState, location_of, type_of
from tailrace.expressions.analysis.transform import columns, comparisons, constructs
from tailrace.expressions.analysis.transform.constants import transform_constant
from tailrace.expressions.analysis.transform.functions import FuncCall, call_function
from tailrace.expressions.analysis.transform.operators import make_operator
from tailrace.majors import SQL_JSON_CONSTRUCTORS, SQL_JSON_FUNCTIONS, supports
from tailrace.types import oids

_VALUE_FUNCTIONS = {
    "CURRENT_DATE": oids.DATE, "CURRENT_TIME": oids.TIMETZ, "CURRENT_TIME_N": oids.TIMETZ, "CURRENT_TIMESTAMP": oids.TIMESTAMPTZ,
    "CURRENT_TIMESTAMP_N": oids.TIMESTAMPTZ, "LOCALTIME": oids.TIME, "LOCALTIME_N": oids.TIME, "LOCALTIMESTAMP": oids.TIMESTAMP,
    "LOCALTIMESTAMP_N": oids.TIMESTAMP,
}  # fmt: skip
"""current_user and the others are names."""
_JSON_FUNCTIONS = (oids.BOOL, oids.JSONB, oids.TEXT, oids.RECORD)
"""What JSON_EXISTS, JSON_QUERY, JSON_VALUE and JSON_TABLE give."""
_JSON_NODES = {
    "JsonIsPredicate": (SQL_JSON_CONSTRUCTORS, oids.BOOL), "JsonObjectConstructor": (SQL_JSON_CONSTRUCTORS, oids.JSON),
    "JsonArrayConstructor": (SQL_JSON_CONSTRUCTORS, oids.JSON), "JsonParseExpr": (SQL_JSON_FUNCTIONS, oids.JSON),
    "JsonScalarExpr": (SQL_JSON_FUNCTIONS, oids.JSON), "JsonSerializeExpr": (SQL_JSON_FUNCTIONS, oids.TEXT),
    "JsonFuncExpr": (SQL_JSON_FUNCTIONS, oids.TEXT),
}  # fmt: skip
"""SQL/JSON: who has it, and its type where nothing else is asked for. No row filter may have it."""


def transform(state: ParseState, raw: Any) -> Node:
    """Any parsed node. Raises UsageError with the server's words."""
    node = state.before(state, raw)
    if node is None:
        node = _transform(state, raw)
    if state.made is not None:
        state.made[id(raw)] = raw, node
    return node


def _transform(state: ParseState, raw: Any) -> Node:
    if isinstance(raw, constructs.CaseComparison):
        return make_operator(state, ["="], raw.test, transform(state, raw.value), state.place(raw))
    name = type(raw).__name__
    if name in _JSON_NODES:
        capability, kind = _JSON_NODES[name]
        if not supports(state.catalog.major, capability):
            raise state.error("syntax error in SQL/JSON, which this server does not have", "42601", state.place(raw))
        if name == "JsonFuncExpr":
            kind = _JSON_FUNCTIONS[int(raw.op)]
        return Forbidden(name, kind, location=_json_location(state, raw))
    return TRANSFORMS.get(name, _refuse)(state, raw)


def _json_location(state: ParseState, raw: Any) -> int:
    inner = getattr(raw, "expr", None)
    return location_of(transform(state, inner)) if type(raw).__name__ == "JsonIsPredicate" else state.place(raw)


def _refuse(state: ParseState, raw: Any) -> Node:
    raise state.error("invalid publication WHERE expression", "0A000", state.place(raw), detail=SIMPLE)


_EXPRESSIONS: dict[Any, Callable[[ParseState, Any], Node]] = {
    A_Expr_Kind.AEXPR_OP: comparisons.transform_comparison,
    A_Expr_Kind.AEXPR_OP_ANY: comparisons.transform_array_comparison,
    A_Expr_Kind.AEXPR_OP_ALL: comparisons.transform_array_comparison,
    A_Expr_Kind.AEXPR_DISTINCT: comparisons.transform_distinct,
    A_Expr_Kind.AEXPR_NOT_DISTINCT: comparisons.transform_distinct,
    A_Expr_Kind.AEXPR_NULLIF: comparisons.transform_null_if,
    A_Expr_Kind.AEXPR_IN: comparisons.transform_in,
    A_Expr_Kind.AEXPR_LIKE: comparisons.transform_comparison,
    A_Expr_Kind.AEXPR_ILIKE: comparisons.transform_comparison,
    A_Expr_Kind.AEXPR_SIMILAR: comparisons.transform_comparison,
    A_Expr_Kind.AEXPR_BETWEEN: comparisons.transform_between,
    A_Expr_Kind.AEXPR_NOT_BETWEEN: comparisons.transform_between,
    A_Expr_Kind.AEXPR_BETWEEN_SYM: comparisons.transform_between,
    A_Expr_Kind.AEXPR_NOT_BETWEEN_SYM: comparisons.transform_between,
}


def _expression(state: ParseState, raw: Any) -> Node:
    return _EXPRESSIONS[raw.kind](state, raw)


def _boolean(state: ParseState, raw: Any) -> Node:
    construct = {BoolExprType.AND_EXPR: "AND", BoolExprType.OR_EXPR: "OR", BoolExprType.NOT_EXPR: "NOT"}[raw.boolop]
    args = tuple(coerce_to_boolean(state, transform(state, each), construct) for each in raw.args)
    location = state.place(raw)
    if construct == "NOT":
        return tree.Not(args[0], location=location)
    return (tree.And if construct == "AND" else tree.Or)(args, location=location)


def _cast(state: ParseState, raw: Any) -> Node:
    """transformTypeCast: ARRAY[…] under a cast to an array is made of that type at once."""
    kind, typmod = type_of_name(state, raw.typeName)
    base = state.catalog.base_type(kind)
    element = state.catalog.element_type(base)
    if isinstance(raw.arg, ast.A_ArrayExpr) and element:
        inner = constructs.transform_array(state, raw.arg, base, element, typmod)
    else:
        inner = transform(state, raw.arg)
    location = state.place(raw)
    return cast_explicitly(state, inner, kind, typmod, location if location >= 0 else state.place(raw.typeName))


def _collate(state: ParseState, raw: Any) -> Node:
    arg, location = transform(state, raw.arg), state.place(raw)
    kind = type_of(arg)
    if kind != oids.UNKNOWN and not state.catalog.collation_of(kind):
        raise state.error(f"collations are not supported by type {state.label(kind)}", "42804", location)
    names = words(raw.collname)
    check_schema(state, names, location)
    schemas = state.path if len(names) == 1 else (names[0],)
    found = next((oid for schema in schemas if (oid := state.catalog.collations.get((schema, names[-1])))), None)
    if found is None:
        shown = ".".join(names)
        raise state.error(f'collation "{shown}" for encoding "UTF8" does not exist', "42704", location)
    return tree.CollateExpr(constructs.known(arg), found, location=location)


def _call(state: ParseState, raw: Any) -> Node:
    args: list[Node] = []
    names: list[str] = []
    for each in raw.args or ():
        if isinstance(each, ast.NamedArgExpr):
            if each.name in names:
                raise state.error(f'argument name "{each.name}" used more than once', "42601", state.place(each))
            names.append(str(each.name))
            inner = transform(state, each.arg)
            args.append(Forbidden("NamedArgExpr", type_of(inner), (inner,), location=state.place(each)))
            continue
        if names:
            raise state.error("positional argument cannot follow named argument", "42601", state.place(each))
        args.append(transform(state, each))
    if raw.agg_within_group:
        args.extend(transform(state, each.node) for each in raw.agg_order)
    call = FuncCall(
        int(raw.funcformat or CoercionForm.COERCE_EXPLICIT_CALL), bool(raw.func_variadic), bool(raw.agg_star),
        bool(raw.agg_distinct), bool(raw.agg_order), bool(raw.agg_within_group), raw.agg_filter is not None,
        raw.over is not None, tuple(names),
    )  # fmt: skip
    return call_function(state, words(raw.funcname), args, call, state.place(raw))


def _indirection(state: ParseState, raw: Any) -> Node:
    """transformIndirection: subscripts and fields, which no row filter may have."""
    node = transform(state, raw.arg)
    for step in raw.indirection:
        if isinstance(step, ast.A_Indices):
            node = _subscript(state, node, step)
        elif isinstance(step, ast.String):
            found = columns.field_of(state, node, str(step.sval), -1)
            if found is None:
                raise _no_field(state, node, str(step.sval))
            node = found
        else:
            raise state.error('row expansion via "*" is not supported here', "0A000", location_of(node))
    return node


def _no_field(state: ParseState, node: Node, name: str) -> UsageError:
    kind, location = type_of(node), location_of(node)
    if state.catalog.kind(kind) == "c":
        return state.error(f'column "{name}" not found in data type {state.label(kind)}', "42703", location)
    message = f"column notation .{name} applied to type {state.label(kind)}, which is not a composite type"
    return state.error(message, "42809", location)


def _subscript(state: ParseState, node: Node, step: Any) -> Node:
    kind = state.catalog.base_type(type_of(node))
    row = state.catalog.types.get(kind)
    if row is None or not row.subscripting:
        message = f"cannot subscript type {state.label(type_of(node))} because it does not support subscripting"
        raise state.error(message, "42804", location_of(node))
    bounds = [transform(state, each) for each in (step.lidx, step.uidx) if each is not None]
    if kind != oids.JSONB:
        bounds = [coerce_to_specific(state, each, oids.INT4, "array subscript") for each in bounds]
    result = kind if step.is_slice or not row.element else row.element
    return Forbidden("SubscriptingRef", result, (node, *bounds))


def _sublink(state: ParseState, raw: Any) -> Node:
    """A subquery, which no row filter may have. What is in it is not analysed, but for the type of one value."""
    location = state.place(raw)
    if raw.testexpr is not None:
        location = min(location, location_of(transform(state, raw.testexpr)))
    if raw.subLinkType in (SubLinkType.EXISTS_SUBLINK, SubLinkType.ANY_SUBLINK, SubLinkType.ALL_SUBLINK):
        return Forbidden("SubLink", oids.BOOL, location=location)
    query = raw.subselect
    targets: Any = getattr(query, "targetList", None) or ()
    if raw.subLinkType == SubLinkType.EXPR_SUBLINK and len(targets) > 1:
        return Forbidden("SubLink", oids.RECORD, location=location)
    if raw.subLinkType == SubLinkType.EXPR_SUBLINK and len(targets) == 1 and isinstance(targets[0].val, ast.A_Const):
        kind = type_of(transform(state, targets[0].val))
        return Forbidden("SubLink", oids.TEXT if kind == oids.UNKNOWN else kind, location=location)
    raise state.error("invalid publication WHERE expression", "0A000", location, detail=SIMPLE)


def _value_function(state: ParseState, raw: Any) -> Node:
    return Forbidden(
        "SQLValueFunction",
        _VALUE_FUNCTIONS.get(SQLValueFunctionOp(raw.op).name.removeprefix("SVFOP_"), oids.NAME),
        location=state.place(raw),
    )


def _xml_serialize(state: ParseState, raw: Any) -> Node:
    kind, typmod = type_of_name(state, raw.typeName)
    return constructs.transform_xml_serialize(state, raw, kind, typmod)


def _parameter(state: ParseState, raw: Any) -> Node:
    raise state.error(f"there is no parameter ${raw.number}", "42P02", state.place(raw))


def _default(state: ParseState, raw: Any) -> Node:
    raise state.error("DEFAULT is not allowed in this context", "42601", state.place(raw))


def _grouping(state: ParseState, raw: Any) -> Node:
    raise state.error("grouping operations are not allowed in WHERE", "42803", state.place(raw))


TRANSFORMS: dict[str, Callable[[ParseState, Any], Node]] = {
    "ColumnRef": columns.transform_column, "A_Const": transform_constant, "A_Expr": _expression, "BoolExpr": _boolean,
    "TypeCast": _cast, "CollateClause": _collate, "FuncCall": _call, "A_Indirection": _indirection,
    "A_ArrayExpr": constructs.transform_array, "RowExpr": constructs.transform_row, "CaseExpr": constructs.transform_case,
    "CoalesceExpr": constructs.transform_coalesce, "MinMaxExpr": constructs.transform_min_max,
    "NullTest": constructs.transform_null_test, "BooleanTest": constructs.transform_boolean_test,
    "XmlExpr": constructs.transform_xml, "XmlSerialize": _xml_serialize, "SubLink": _sublink,
    "SQLValueFunction": _value_function, "ParamRef": _parameter, "SetToDefault": _default, "GroupingFunc": _grouping,
}  # fmt: skip
