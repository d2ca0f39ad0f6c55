"""What parse analysis carries from node to node: the table, the catalog, the session's settings; and where in the text things stand.

In: a parsed filter's surroundings. Out: `ParseState` (`parser/parse_node.h`), errors that know their position, and the questions that every step
asks of a node: its type, its modifier, its collation, its place (`nodes/nodeFuncs.c`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.expressions import tree
from tailrace.expressions.analysis.catalog import Catalog
from tailrace.model import Relation
from tailrace.types import oids
from tailrace.types.style import TextStyle

EXPLICIT_CALL, EXPLICIT_CAST, IMPLICIT_CAST, SQL_SYNTAX = 0, 1, 2, 3
"""CoercionForm: how a function or cast was written."""
XML_IS_DOCUMENT, XML_SERIALIZE = 7, 6
WHERE = "WHERE"
ROW_TYPE = 0xFFFF_FFFE
"""Stands for the row type of the table itself, whose oid nobody asks for: it is a user's, and refused."""


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A node that analysis makes and a row filter must not have; `what` is its name in `nodes/primnodes.h`."""

    what: str
    type: int
    args: tuple[Any, ...] = ()
    typmod: int = -1
    collation: int = 0
    location: int = -1
    form: int = 0


Node = tree.Expression | Forbidden


@dataclass(frozen=True, slots=True)
class ColumnEntry:
    """An attribute that a name may mean."""

    number: int
    type: int
    typmod: int
    collation: int


def _nothing_else(state: ParseState, raw: Any) -> Node | None:
    """What a row filter has: nothing but its own expression."""
    return None


@dataclass(slots=True)
class ParseState:
    """`base` is how many characters of the text that was parsed stand before the filter's own; `constants` the places of constants, by id of
    their node. `clause` is where the expression stands (p_expr_kind). `before` is asked first of each parsed node, for what a query has beside
    expressions: columns of its tables, subqueries (p_pre_columnref_hook). `made`, where somebody asks for it, has by their ids parsed nodes and what
    was made of each."""

    relation: Relation
    catalog: Catalog
    columns: Mapping[str, ColumnEntry]
    style: TextStyle
    path: tuple[str, ...]
    constants: Mapping[int, int] = field(default_factory=dict)
    base: int = 0
    transform: Callable[[ParseState, Any], Node] = field(default=lambda state, node: _unset())
    clause: str = WHERE
    before: Callable[[ParseState, Any], Node | None] = _nothing_else
    made: dict[int, tuple[Any, Node]] | None = None

    def place(self, raw: Any) -> int:
        """Where a parsed node stands, in characters of the filter's text; -1 if nobody knows."""
        at = self.constants.get(id(raw), -1) if type(raw).__name__ == "A_Const" else getattr(raw, "location", -1)
        return -1 if at is None or at < 0 else at - self.base

    def error(self, message: str, sqlstate: str, location: int = -1, *, detail: str = "", hint: str = "") -> UsageError:
        position = location + 1 if location >= 0 else None
        return UsageError(message, detail=detail, hint=hint, sqlstate=sqlstate).in_text(position)

    def label(self, oid: int) -> str:
        return self.catalog.label(oid)


def _unset() -> Node:
    raise AssertionError("a state without a transform")


def type_of(node: Node) -> int:
    """exprType: an XmlExpr is of type xml as a node, and gives something else where it tests or serializes."""
    if isinstance(node, tree.XmlExpr):
        return {XML_IS_DOCUMENT: oids.BOOL, XML_SERIALIZE: oids.TEXT}.get(node.op, oids.XML)
    return node.type


def typmod_of(node: Node) -> int:
    """exprTypmod."""
    match node:
        case tree.FuncExpr():
            return length_of_coercion(node)
        case tree.NullIfExpr():
            return typmod_of(node.args[0])
        case tree.CollateExpr():
            return typmod_of(node.arg)
        case tree.CaseExpr():
            return _common_typmod((node.default, *(when.result for when in node.whens)), node.type)
        case tree.CoalesceExpr() | tree.MinMaxExpr():
            return _common_typmod(node.args, node.type)
        case tree.ArrayExpr():
            kind = node.type if node.many_dimensions else node.element_type
            return _common_typmod(node.elements, kind)
        case _:
            return getattr(node, "typmod", -1)


def length_of_coercion(node: Node) -> int:
    """The modifier that a cast to a length applies, -1 for what is no such cast (exprIsLengthCoercion)."""
    if not isinstance(node, tree.FuncExpr) or node.form not in (EXPLICIT_CAST, IMPLICIT_CAST) or not 2 <= len(node.args) <= 3:
        return -1
    second = node.args[1]
    if not isinstance(second, tree.Const) or second.type != oids.INT4 or second.value is None:
        return -1
    return int.from_bytes(second.value, "little", signed=True)


def _common_typmod(nodes: tuple[Any, ...], kind: int) -> int:
    if not nodes or any(type_of(node) != kind for node in nodes):
        return -1
    found = {typmod_of(node) for node in nodes}
    return found.pop() if len(found) == 1 else -1


def collation_of(node: Node) -> int:
    """exprCollation: 0 for what has none, and, before collations were assigned, for what gets one then."""
    return getattr(node, "collation", 0)


def location_of(node: Node | None) -> int:
    """exprLocation: where the text of the expression begins."""
    match node:
        case None:
            return -1
        case tree.CollateExpr():
            return location_of(node.arg)
        case tree.RowCompareExpr():
            return first_location(node.left)
        case tree.RelabelType() | tree.NullTest() | tree.BooleanTest() | tree.Not():
            return leftmost(node.location, location_of(node.arg))
        case (
            tree.OpExpr() | tree.FuncExpr() | tree.DistinctExpr() | tree.NullIfExpr() | tree.ScalarArrayOpExpr() | tree.And()
            | tree.Or() | tree.XmlExpr()
        ):  # fmt: skip
            return leftmost(node.location, first_location(node.args))
        case Forbidden(what="SubscriptingRef") | Forbidden(what="FieldSelect"):
            return location_of(node.args[0])
        case (
            Forbidden(what="CoerceViaIO")
            | Forbidden(what="ArrayCoerceExpr")
            | Forbidden(what="NamedArgExpr")
            | Forbidden(what="CoerceToDomain")
        ):
            return leftmost(node.location, first_location(node.args))
        case _:
            return node.location


def first_location(nodes: tuple[Any, ...]) -> int:
    return next((at for at in map(location_of, nodes) if at >= 0), -1)


def leftmost(one: int, other: int) -> int:
    return max(one, other) if one < 0 or other < 0 else min(one, other)
