"""An expression after type analysis, as PostgreSQL stores it (`nodes/primnodes.h`); types, operators, functions and collations are oids.

In: nothing. Out: the nouns that `node_tree` and the analysis make, and that the evaluator and the deparser read. These are the nodes that a
publication's row filter may have (`check_simple_rowfilter_expr_walker` in `commands/publicationcmds.c`, the same from 15 to 18).
`location` is where in the text a node began, in bytes, or -1; it does not take part in comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from tailrace.dataclass import dataclass
from tailrace.types import oids


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    location: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Condition(_Node):
    @property
    def type(self) -> int:
        return oids.BOOL


@dataclass(frozen=True, slots=True)
class Var(_Node):
    """An attribute of the row that is tested."""

    attnum: int
    type: int
    typmod: int = -1
    collation: int = 0


@dataclass(frozen=True, slots=True)
class Const(_Node):
    """`value` is the stored form without a varlena's length word (of `Values`), None for NULL."""

    type: int
    value: bytes | None
    typmod: int = -1
    collation: int = 0


@dataclass(frozen=True, slots=True)
class OpExpr(_Node):
    """`function` is what carries the operator out (pg_operator.oprcode)."""

    oid: int
    function: int
    type: int
    args: tuple[Expression, ...]
    collation: int = 0
    input_collation: int = 0
    returns_set: bool = False


@dataclass(frozen=True, slots=True)
class FuncExpr(_Node):
    """`form` is how it was written (CoercionForm): 0 as a call, 1 as an explicit cast, 2 not at all, 3 in SQL's own syntax.

    With `variadic` the last argument is an array that was passed with the keyword, or made of the arguments at the end.
    """

    oid: int
    type: int
    args: tuple[Expression, ...]
    form: int = 0
    collation: int = 0
    input_collation: int = 0
    variadic: bool = False
    returns_set: bool = False


@dataclass(frozen=True, slots=True)
class DistinctExpr(_Node):
    """`a IS DISTINCT FROM b`, with the operator of equality."""

    oid: int
    function: int
    args: tuple[Expression, Expression]
    type: int = oids.BOOL
    collation: int = 0
    input_collation: int = 0


@dataclass(frozen=True, slots=True)
class NullIfExpr(_Node):
    """The first argument, or NULL where the operator of equality says that it equals the second."""

    oid: int
    function: int
    type: int
    args: tuple[Expression, Expression]
    collation: int = 0
    input_collation: int = 0


@dataclass(frozen=True, slots=True)
class ScalarArrayOpExpr(_Condition):
    """`a op ANY (array)` with `use_or`, else `a op ALL (array)`."""

    oid: int
    function: int
    use_or: bool
    args: tuple[Expression, Expression]
    input_collation: int = 0


@dataclass(frozen=True, slots=True)
class RowCompareExpr(_Condition):
    """`(a, b) < (c, d)`. `kind` is RowCompareType: 1 <, 2 <=, 4 >=, 5 >. Each pair has an operator, its family, a collation."""

    kind: int
    operators: tuple[int, ...]
    families: tuple[int, ...]
    input_collations: tuple[int, ...]
    left: tuple[Expression, ...]
    right: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class And(_Condition):
    args: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or(_Condition):
    args: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not(_Condition):
    arg: Expression


@dataclass(frozen=True, slots=True)
class RelabelType(_Node):
    """The same bytes seen as another type. `form` as in `FuncExpr`."""

    arg: Expression
    type: int
    typmod: int = -1
    collation: int = 0
    form: int = 2


@dataclass(frozen=True, slots=True)
class CollateExpr(_Node):
    arg: Expression
    collation: int

    @property
    def type(self) -> int:
        return self.arg.type


@dataclass(frozen=True, slots=True)
class CaseTestExpr(_Node):
    """The argument of the CASE around it."""

    type: int
    typmod: int = -1
    collation: int = 0


@dataclass(frozen=True, slots=True)
class CaseWhen(_Node):
    condition: Expression
    result: Expression


@dataclass(frozen=True, slots=True)
class CaseExpr(_Node):
    """With `arg` the conditions compare a `CaseTestExpr` with something."""

    type: int
    whens: tuple[CaseWhen, ...]
    default: Expression
    arg: Expression | None = None
    collation: int = 0


@dataclass(frozen=True, slots=True)
class ArrayExpr(_Node):
    """`ARRAY[…]`; with `many_dimensions` the elements are arrays of the same type."""

    type: int
    element_type: int
    elements: tuple[Expression, ...]
    many_dimensions: bool = False
    collation: int = 0


@dataclass(frozen=True, slots=True)
class RowExpr(_Node):
    """`ROW(…)`. `type` is record (2249) or a composite type; `form` as in `FuncExpr`."""

    type: int
    args: tuple[Expression, ...]
    names: tuple[str, ...] = ()
    form: int = 0


@dataclass(frozen=True, slots=True)
class CoalesceExpr(_Node):
    type: int
    args: tuple[Expression, ...]
    collation: int = 0


@dataclass(frozen=True, slots=True)
class MinMaxExpr(_Node):
    """GREATEST, or LEAST with `least`."""

    type: int
    least: bool
    args: tuple[Expression, ...]
    collation: int = 0
    input_collation: int = 0


@dataclass(frozen=True, slots=True)
class XmlExpr(_Node):
    """`op` is XmlExprOp: 0 XMLCONCAT, 1 XMLELEMENT, 2 XMLFOREST, 3 XMLPARSE, 4 XMLPI, 5 XMLROOT, 6 XMLSERIALIZE, 7 IS DOCUMENT.
    `option` is XmlOptionType: 0 DOCUMENT, 1 CONTENT."""

    op: int
    type: int
    args: tuple[Expression, ...]
    name: str | None = None
    named_args: tuple[Expression, ...] = ()
    arg_names: tuple[str, ...] = ()
    option: int = 0
    indent: bool = False
    typmod: int = -1


@dataclass(frozen=True, slots=True)
class NullTest(_Condition):
    """IS NULL, or IS NOT NULL with `negated`. With `of_row` all fields of the row are asked, or none."""

    arg: Expression
    negated: bool
    of_row: bool = False


@dataclass(frozen=True, slots=True)
class BooleanTest(_Condition):
    """`kind` is BoolTestType: 0 IS TRUE, 1 IS NOT TRUE, 2 IS FALSE, 3 IS NOT FALSE, 4 IS UNKNOWN, 5 IS NOT UNKNOWN."""

    arg: Expression
    kind: int


@dataclass(frozen=True, slots=True)
class SQLValueFunction(_Node):
    """CURRENT_TIMESTAMP and its kin, by their number (`SQLValueFunctionOp`). A filter has none; a default may."""

    kind: int
    type: int
    typmod: int = -1


@dataclass(frozen=True, slots=True)
class OtherCast(_Node):
    """CoerceViaIO, by what one type prints and another reads; ArrayCoerceExpr, of elements; CoerceToDomain. A filter has none; a default may."""

    arg: Expression
    type: int
    form: int
    typmod: int = -1


Expression = (
    Var | Const | OpExpr | FuncExpr | DistinctExpr | NullIfExpr | ScalarArrayOpExpr | RowCompareExpr | And | Or | Not | RelabelType
    | CollateExpr | CaseTestExpr | CaseExpr | ArrayExpr | RowExpr | CoalesceExpr | MinMaxExpr | XmlExpr | NullTest | BooleanTest
    | SQLValueFunction | OtherCast
)  # fmt: skip


def children(node: Expression) -> tuple[Expression, ...]:
    """What stands below a node, in the order in which PostgreSQL walks it (`expression_tree_walker`)."""
    match node:
        case Var() | Const() | CaseTestExpr() | SQLValueFunction():
            return ()
        case Not() | RelabelType() | CollateExpr() | NullTest() | BooleanTest() | OtherCast():
            return (node.arg,)
        case RowCompareExpr():
            return (*node.left, *node.right)
        case CaseExpr():
            whens = tuple(part for when in node.whens for part in (when.condition, when.result))
            return (*((node.arg,) if node.arg is not None else ()), *whens, node.default)
        case ArrayExpr():
            return node.elements
        case XmlExpr():
            return (*node.named_args, *node.args)
        case _:
            return node.args


def walk(node: Expression) -> Iterator[Expression]:
    """The node and everything below it, each before what is below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def columns_of(node: Expression) -> tuple[int, ...]:
    """The attribute numbers that the expression uses, in order."""
    return tuple(sorted({each.attnum for each in walk(node) if isinstance(each, Var)}))
