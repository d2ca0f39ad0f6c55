"""The fields of the nodes of stored expressions, as servers of each major write them (`nodes/outfuncs.c`, after `primnodes.h`).

In: nothing. Out: `FIELDS` and `LABELS`, by which `node_tree` reads and writes every node that is a class of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from tailrace.dataclass import dataclass
from tailrace.expressions import tree
from tailrace.majors import IN_ALL, Capability, Compared

COMPARED = Compared(__name__, "nodes/primnodes.h", upto=18)

NODES: dict[str, tuple[type | None, str]] = {
    "VAR": (
        tree.Var,
        "varno==1 varattno=attnum vartype=type vartypmod=typmod varcollid=collation varnullingrels==(b)@16- varlevelsup==0 "
        "varreturningtype==0@18- varnosyn==1 varattnosyn=attnum location",
    ),
    "CONST": (None, "consttype consttypmod constcollid constlen constbyval constisnull location constvalue"),
    "OPEXPR": (
        tree.OpExpr,
        "opno=oid opfuncid=function opresulttype=type opretset=returns_set opcollid=collation inputcollid=input_collation "
        "args location",
    ),
    "DISTINCTEXPR": (
        tree.DistinctExpr,
        "opno=oid opfuncid=function opresulttype=type opretset==false opcollid=collation inputcollid=input_collation args "
        "location",
    ),
    "NULLIFEXPR": (
        tree.NullIfExpr,
        "opno=oid opfuncid=function opresulttype=type opretset==false opcollid=collation inputcollid=input_collation args "
        "location",
    ),
    "FUNCEXPR": (
        tree.FuncExpr,
        "funcid=oid funcresulttype=type funcretset=returns_set funcvariadic=variadic funcformat=form funccollid=collation "
        "inputcollid=input_collation args location",
    ),
    "SCALARARRAYOPEXPR": (
        tree.ScalarArrayOpExpr,
        "opno=oid opfuncid=function hashfuncid==0 negfuncid==0 useOr=use_or inputcollid=input_collation args location",
    ),
    "ROWCOMPAREEXPR": (
        tree.RowCompareExpr,
        "rctype=kind@-17 cmptype=kind@18- opnos=operators opfamilies=families inputcollids=input_collations largs=left "
        "rargs=right",
    ),
    "BOOLEXPR": (None, "boolop args location"),
    "RELABELTYPE": (tree.RelabelType, "arg resulttype=type resulttypmod=typmod resultcollid=collation relabelformat=form location"),
    "COLLATEEXPR": (tree.CollateExpr, "arg collOid=collation location"),
    "CASEEXPR": (tree.CaseExpr, "casetype=type casecollid=collation arg args=whens defresult=default location"),
    "CASEWHEN": (tree.CaseWhen, "expr=condition result location"),
    "CASETESTEXPR": (tree.CaseTestExpr, "typeId=type typeMod=typmod collation"),
    "ARRAYEXPR": (
        tree.ArrayExpr,
        "array_typeid=type array_collid=collation element_typeid=element_type elements multidims=many_dimensions "
        "list_start==-1@18- list_end==-1@18- location",
    ),
    "ROWEXPR": (tree.RowExpr, "args row_typeid=type row_format=form colnames=names location"),
    "COALESCEEXPR": (tree.CoalesceExpr, "coalescetype=type coalescecollid=collation args location"),
    "MINMAXEXPR": (tree.MinMaxExpr, "minmaxtype=type minmaxcollid=collation inputcollid=input_collation op=least:enum args location"),
    "XMLEXPR": (tree.XmlExpr, "op name named_args arg_names args xmloption=option indent@16- type typmod location"),
    "NULLTEST": (tree.NullTest, "arg nulltesttype=negated:enum argisrow=of_row location"),
    "BOOLEANTEST": (tree.BooleanTest, "arg booltesttype=kind location"),
    "SQLVALUEFUNCTION": (tree.SQLValueFunction, "op=kind type typmod location"),
    "COERCEVIAIO": (None, "arg resulttype resultcollid coerceformat location"),
    "ARRAYCOERCEEXPR": (None, "arg elemexpr resulttype resulttypmod resultcollid coerceformat location"),
    "COERCETODOMAIN": (None, "arg resulttype resulttypmod resultcollid coercionformat location"),
}  # fmt: skip
"""By the label of a node our class for it, or None where `node_tree` has functions for it; and its fields in the server's order.
`a` is our attribute `a`, `a=b` is our `b`, and `a==x` says x in whatever is stored. A field with `@16-` is there since 16, one
with `@-17` up to 17. With `:enum` a flag of ours is the number 0 or 1 there."""
LABELS_OF_14 = {
    "CASE": "CASEEXPR", "WHEN": "CASEWHEN", "ARRAY": "ARRAYEXPR", "ROW": "ROWEXPR", "ROWCOMPARE": "ROWCOMPAREEXPR",
    "COALESCE": "COALESCEEXPR", "MINMAX": "MINMAXEXPR",
}  # fmt: skip
"""Up to 14, which has no row filters; its defaults are read."""


@dataclass(frozen=True, slots=True)
class NodeField:
    """A field of a node, and what it is to us: the `attribute`, which is declared as `kind`, or always the same `constant`."""

    name: str
    attribute: str
    constant: str
    kind: str
    majors: Capability

    @property
    def in_all(self) -> bool:
        """Whether every major has it."""
        return self.majors == IN_ALL


def _fields_of(kind: type | None, spec: str) -> Iterator[NodeField]:
    declared = {} if kind is None else {each.name: str(each.type) for each in fields(kind)}
    for word in spec.split():
        field, _, majors = word.partition("@")
        field, _, form = field.partition(":")
        name, _, constant = field.partition("==")
        name, _, attribute = name.partition("=")
        attribute = "" if constant else attribute or name
        yield NodeField(name, attribute, constant, form or declared.get(attribute, ""), Capability.of(majors))


FIELDS = {label: {field.name: field for field in _fields_of(*node)} for label, node in NODES.items()}
"""By label and name."""
LABELS = {kind: label for label, (kind, _) in NODES.items() if kind is not None}
