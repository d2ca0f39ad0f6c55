"""SQL's own constructs: CASE, ARRAY, ROW, COALESCE, GREATEST, XML, IS NULL and IS TRUE (`parser/parse_expr.c`).

In: parsed nodes. Out: analysed ones, whose parts have one type where they must.
"""

from __future__ import annotations

import re
from typing import Any

from pglast import ast
from pglast.enums import BoolTestType, MinMaxOp, NullTestType

from tailrace.dataclass import dataclass
from tailrace.expressions import tree
from tailrace.expressions.analysis.coercion.coercion import (
    coerce_to_boolean,
    coerce_to_common,
    coerce_to_specific,
    coerce_to_target,
    common_type,
)
from tailrace.expressions.analysis.coercion.pathways import CoercionContext
from tailrace.expressions.analysis.collations import assign_collations
from tailrace.expressions.analysis.state import (
    EXPLICIT_CAST,
    IMPLICIT_CAST,
    ROW_TYPE,
    Node,
    ParseState,
    collation_of,
    location_of,
    type_of,
    typmod_of,
)
from tailrace.model import FIRST_NORMAL_OID
from tailrace.types import oids

_BOOLEAN_TESTS = {
    BoolTestType.IS_TRUE: (0, "IS TRUE"), BoolTestType.IS_NOT_TRUE: (1, "IS NOT TRUE"), BoolTestType.IS_FALSE: (2, "IS FALSE"),
    BoolTestType.IS_NOT_FALSE: (3, "IS NOT FALSE"), BoolTestType.IS_UNKNOWN: (4, "IS UNKNOWN"),
    BoolTestType.IS_NOT_UNKNOWN: (5, "IS NOT UNKNOWN"),
}  # fmt: skip
XML_CONCAT, XML_ELEMENT, XML_FOREST, XML_PARSE, XML_PI, XML_ROOT, XML_SERIALIZE, XML_DOCUMENT = range(8)
_XML_ARGUMENTS = {
    XML_CONCAT: ("XMLCONCAT", (), oids.XML), XML_PARSE: ("XMLPARSE", (oids.TEXT,), oids.BOOL), XML_PI: ("XMLPI", (), oids.TEXT),
    XML_ROOT: ("XMLROOT", (oids.XML, oids.TEXT), oids.INT4), XML_DOCUMENT: ("IS DOCUMENT", (), oids.XML),
}  # fmt: skip
"""What each takes: a name for messages, types of the first arguments, type of all others."""


@dataclass(frozen=True, slots=True)
class CaseComparison:
    """`argument = value` of a CASE, among parsed nodes: its left side is analysed already."""

    test: tree.CaseTestExpr
    value: Any
    location: int


def known(node: Node) -> tree.Expression:
    """Nodes hold whatever stands below them; the walk at the end refuses what they must not hold."""
    return node  # type: ignore[return-value]


def transform_case(state: ParseState, raw: Any) -> Node:
    """transformCaseExpr."""
    arg: tree.Expression | None = None
    test: tree.CaseTestExpr | None = None
    if raw.arg is not None:
        found = state.transform(state, raw.arg)
        if type_of(found) == oids.UNKNOWN:
            found = coerce_to_common(state, found, oids.TEXT, "CASE")
        arg = assign_collations(state, found)
        test = tree.CaseTestExpr(type_of(arg), typmod_of(arg), collation_of(arg))
    conditions, results = [], []
    for when in raw.args:
        condition = when.expr if test is None else CaseComparison(test, when.expr, when.location)
        conditions.append(coerce_to_boolean(state, state.transform(state, condition), "CASE/WHEN"))
        results.append(state.transform(state, when.result))
    default: Node = tree.Const(oids.UNKNOWN, None) if raw.defresult is None else state.transform(state, raw.defresult)
    kind = common_type(state, [default, *results], "CASE")
    made = known(coerce_to_common(state, default, kind, "CASE/ELSE"))
    chosen = [known(coerce_to_common(state, result, kind, "CASE/WHEN")) for result in results]
    whens = tuple(
        tree.CaseWhen(condition, result, location=state.place(when))
        for condition, result, when in zip(conditions, chosen, raw.args, strict=True)
    )
    return tree.CaseExpr(kind, whens, made, arg, location=state.place(raw))


def transform_array(state: ParseState, raw: Any, array: int = 0, element: int = 0, typmod: int = -1) -> Node:
    """transformArrayExpr; `array` and `element` are given where a cast says them."""
    many, elements = False, []
    for each in raw.elements or ():
        if isinstance(each, ast.A_ArrayExpr):
            made = transform_array(state, each, array, element, typmod)
            many = True
        else:
            made = state.transform(state, each)
            many |= bool(state.catalog.base_element_type(type_of(made)))
        elements.append(made)
    location = state.place(raw)
    if array:
        target = array if many else element
        cast = tuple(known(_element(state, each, target, typmod)) for each in elements)
        return tree.ArrayExpr(array, element, cast, many, location=location)
    if not elements:
        hint = "Explicitly cast to the desired type, for example ARRAY[]::integer[]."
        raise state.error("cannot determine type of empty array", "42P18", location, hint=hint)
    target = common_type(state, elements, "ARRAY")
    array, element = (target, state.catalog.element_type(target)) if many else (state.catalog.array_type(target), target)
    if target >= FIRST_NORMAL_OID and not array:
        array = ROW_TYPE  # any user's type is as good: the filter is refused for it
    for found, what in ((element, "element"), (array, "array")):
        if not found:
            raise state.error(f"could not find {what} type for data type {state.label(target)}", "42704", location)
    cast = tuple(known(coerce_to_common(state, each, target, "ARRAY")) for each in elements)
    return tree.ArrayExpr(array, element, cast, many, location=location)


def _element(state: ParseState, node: Node, target: int, typmod: int) -> Node:
    made = coerce_to_target(state, node, target, typmod, CoercionContext.EXPLICIT, EXPLICIT_CAST, -1)
    if made is None:
        message = f"cannot cast type {state.label(type_of(node))} to {state.label(target)}"
        raise state.error(message, "42846", location_of(node))
    return made


def transform_row(state: ParseState, raw: Any) -> Node:
    args = tuple(known(state.transform(state, each)) for each in raw.args or ())
    names = tuple(f"f{number}" for number in range(1, len(args) + 1))
    return tree.RowExpr(oids.RECORD, args, names, IMPLICIT_CAST, location=state.place(raw))


def transform_coalesce(state: ParseState, raw: Any) -> Node:
    args = [state.transform(state, each) for each in raw.args]
    kind = common_type(state, args, "COALESCE")
    made = tuple(known(coerce_to_common(state, each, kind, "COALESCE")) for each in args)
    return tree.CoalesceExpr(kind, made, location=state.place(raw))


def transform_min_max(state: ParseState, raw: Any) -> Node:
    least = raw.op == MinMaxOp.IS_LEAST
    construct = "LEAST" if least else "GREATEST"
    args = [state.transform(state, each) for each in raw.args]
    kind = common_type(state, args, construct)
    made = tuple(known(coerce_to_common(state, each, kind, construct)) for each in args)
    return tree.MinMaxExpr(kind, least, made, location=state.place(raw))


def transform_null_test(state: ParseState, raw: Any) -> Node:
    arg = state.transform(state, raw.arg)
    kind = state.catalog.kind(state.catalog.base_type(type_of(arg)))
    of_row = type_of(arg) == oids.RECORD or kind == "c"
    return tree.NullTest(known(arg), raw.nulltesttype == NullTestType.IS_NOT_NULL, of_row, location=state.place(raw))


def transform_boolean_test(state: ParseState, raw: Any) -> Node:
    kind, construct = _BOOLEAN_TESTS[raw.booltesttype]
    arg = coerce_to_boolean(state, state.transform(state, raw.arg), construct)
    return tree.BooleanTest(arg, kind, location=state.place(raw))


def transform_xml(state: ParseState, raw: Any) -> Node:
    """transformXmlExpr."""
    named, names = [], []
    for target in raw.named_args or ():
        named.append(known(state.transform(state, target.val)))
        if target.name is None and not isinstance(target.val, ast.ColumnRef):
            what = "unnamed XML attribute value" if raw.op == XML_ELEMENT else "unnamed XML element value"
            raise state.error(f"{what} must be a column reference", "42601", state.place(target))
        names.append(xml_name(target.name or target.val.fields[-1].sval))
    if raw.op == XML_ELEMENT:
        repeated = next((name for at, name in enumerate(names) if name in names[:at]), None)
        if repeated is not None:
            raise state.error(f'XML attribute name "{repeated}" appears more than once', "42601", state.place(raw))
    args = tuple(
        _xml_argument(state, int(raw.op), place, state.transform(state, each)) for place, each in enumerate(raw.args or ())
    )
    name = None if raw.name is None else xml_name(raw.name)
    return tree.XmlExpr(
        int(raw.op), oids.XML, args, name, tuple(named), tuple(names), int(raw.xmloption), location=state.place(raw)
    )


def _xml_argument(state: ParseState, op: int, place: int, node: Node) -> tree.Expression:
    if op not in _XML_ARGUMENTS:
        return known(node)
    construct, first, others = _XML_ARGUMENTS[op]
    return coerce_to_specific(state, node, first[place] if place < len(first) else others, construct)


def xml_name(name: str) -> str:
    """map_sql_identifier_to_xml_name of a plain identifier: what XML does not take is written as _xHHHH_."""
    made = []
    for at, letter in enumerate(name):
        escaped = (letter == "_" and name[at + 1 : at + 2] == "x") or (letter == ":" and at == 0)
        allowed = re.match(r"[A-Za-z_:]" if at == 0 else r"[A-Za-z0-9_:.\-]", letter) or ord(letter) > 127
        made.append(f"_x{ord(letter):04X}_" if escaped or not allowed else letter)
    return "".join(made)


def transform_xml_serialize(state: ParseState, raw: Any, kind: int, typmod: int) -> Node:
    """transformXmlSerialize: as text, then as the type that was asked for."""
    arg = coerce_to_specific(state, state.transform(state, raw.expr), oids.XML, "XMLSERIALIZE")
    indent = bool(getattr(raw, "indent", False))
    made = tree.XmlExpr(
        XML_SERIALIZE, kind, (arg,), option=int(raw.xmloption), indent=indent, typmod=typmod, location=state.place(raw)
    )
    found = coerce_to_target(state, made, kind, typmod, CoercionContext.IMPLICIT, IMPLICIT_CAST, -1)
    if found is None:
        message = f"cannot cast XMLSERIALIZE result to {state.label(kind)}"
        raise state.error(message, "42846", location_of(made))
    return found
