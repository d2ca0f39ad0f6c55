"""Types of a query's expressions, as PostgreSQL's parse analysis finds them (`expressions.analysis`), with its errors.

In: parsed expressions, and what their clause may refer to beside itself. Out: for every node below them its type; columns of
results with type and modifier, as a RowDescription has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.expressions.analysis.catalog import built_in_catalog
from tailrace.expressions.analysis.coercion.coercion import coerce_to_boolean, common_type
from tailrace.expressions.analysis.state import Forbidden, Node, ParseState, type_of, typmod_of
from tailrace.expressions.analysis.transform.nodes import transform
from tailrace.majors import ROW_FILTERS
from tailrace.model import Relation
from tailrace.sql.sql_types import oid_of
from tailrace.types import oids
from tailrace.types.style import TextStyle

SELECT, WHERE, HAVING, ORDER_BY = "SELECT", "WHERE", "HAVING", "ORDER BY"
_NO_TABLE = Relation(0, "", "", "r", "p", "d", 0, ())


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """Of a query or of a table: its name, the oid of its type, and the type's modifier."""

    name: str
    type: int
    typmod: int = -1


def columns_named(columns: Sequence[tuple[str, str]]) -> list[ResultColumn]:
    """Those of a function or view."""
    return [ResultColumn(name, oid_of(kind)) for name, kind in columns]


def value_of(type_oid: int, typmod: int = -1, location: int = -1) -> Node:
    """What stands in an expression for a value that comes from elsewhere: a column, a subquery, a call."""
    return Forbidden("Var", type_oid, typmod=typmod, location=location)


@dataclass(slots=True)
class ExpressionTypes:
    """Of one statement of a session. `constants` says where constants stand in its text."""

    major: int
    style: TextStyle
    constants: Mapping[int, int]
    state: ParseState = field(init=False)

    def __post_init__(self) -> None:
        catalog = built_in_catalog(max(self.major, ROW_FILTERS.first))  # 14 has no row filters, and the same types
        self.state = ParseState(
            _NO_TABLE, catalog, {}, self.style, self.style.schemas, self.constants, transform=transform, made={}
        )  # fmt: skip

    def analyse(self, raw: Any, clause: str, before: Callable[[ParseState, Any], Node | None]) -> Node:
        """The expression, analysed; `before` gives what is not its own. Raises UsageError in the server's words."""
        state = replace(self.state, clause=clause, before=before)
        node = transform(state, raw)
        return coerce_to_boolean(state, node, clause) if clause in (WHERE, HAVING) else node

    def kind(self, raw: Any) -> str:
        """The name in pg_type of the type of a node that was analysed, or stands below one; empty for another."""
        assert self.state.made is not None
        _, node = self.state.made.get(id(raw), (None, None))
        return "" if node is None else self.name(type_of(node))

    def is_analysed(self, raw: Any) -> bool:
        assert self.state.made is not None
        return id(raw) in self.state.made

    def name(self, type_oid: int) -> str:
        return self.state.catalog.types[type_oid].name

    def common(self, columns: Sequence[ResultColumn], construct: str) -> ResultColumn:
        """What UNION, VALUES and their like make of columns that meet, under the first one's name (select_common_type)."""
        chosen = common_type(self.state, [value_of(each.type) for each in columns], construct)
        typmods = {each.typmod for each in columns if each.type == chosen}
        is_one = len(typmods) == 1 and all(each.type == chosen for each in columns)
        return ResultColumn(columns[0].name, chosen, typmods.pop() if is_one else -1)


def result_column(name: str, node: Node) -> ResultColumn:
    return ResultColumn(name, type_of(node), typmod_of(node))


def resolved(columns: Sequence[ResultColumn]) -> list[ResultColumn]:
    """A query's own: a literal of no type is text (resolveTargetListUnknowns)."""
    return [replace(each, type=oids.TEXT, typmod=-1) if each.type == oids.UNKNOWN else each for each in columns]
