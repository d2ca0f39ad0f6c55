"""What names mean in a query: its tables and their columns, and those of the queries around it.

In: names as they are written. Out: types of columns; UsageError in the server's words, with the position, for what is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.sql.grammar import ast
from tailrace.sql.query.allowed import refused
from tailrace.sql.query.expression_types import ResultColumn


@dataclass(slots=True)
class QueryScope:
    """What names mean: tables of this query by alias, in order; then those around it. `merged` are columns of JOIN … USING."""

    outer: QueryScope | None
    tables: list[tuple[str, list[ResultColumn]]] = field(default_factory=list)
    merged: list[ResultColumn] = field(default_factory=list)
    queries: dict[str, list[ResultColumn]] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    """Columns that its tables have on the server, and not here."""

    def query(self, name: str) -> list[ResultColumn] | None:
        found = self.queries.get(name)
        return found if found is not None or self.outer is None else self.outer.query(name)

    def star(self, alias: str = "") -> list[ResultColumn]:
        if alias:
            return next((columns for name, columns in self.tables if name == alias), [])
        merged = [column.name for column in self.merged]
        return [*self.merged, *(column for _, columns in self.tables for column in columns if column.name not in merged)]

    def column(self, names: Sequence[str], location: int) -> ResultColumn:
        """The column that is named. Raises UsageError (42703, 42702, 42P01)."""
        table, name = (names[-2] if len(names) > 1 else ""), names[-1]
        merged = next((column for column in self.merged if column.name == name), None)
        if not table and merged is not None:
            return merged
        places = [columns for alias, columns in self.tables if not table or alias == table]
        found = [column for columns in places for column in columns if column.name == name]
        if len(found) > 1:
            raise UsageError(f'column reference "{name}" is ambiguous', sqlstate="42702").in_text(location + 1)
        if found:
            return found[0]
        if self.outer is not None and not (table and places):
            return self.outer.column(names, location)
        if table and not places:
            raise UsageError(f'missing FROM-clause entry for table "{table}"', sqlstate="42P01").in_text(location + 1)
        if name in self.unread:
            raise refused(f'column "{name}"', location)
        shown = f"column {table}.{name}" if table else f'column "{name}"'
        raise UsageError(f"{shown} does not exist", sqlstate="42703").in_text(location + 1)


def renamed(columns: Sequence[ResultColumn], names: Any) -> list[ResultColumn]:
    """The columns under the names that an alias gives them."""
    given = [each.sval for each in names or ()]
    if len(given) > len(columns):
        message = f"table has {len(columns)} columns available but {len(given)} columns specified"
        raise UsageError(message, sqlstate="42P10")
    return [replace(each, name=given[place]) if place < len(given) else each for place, each in enumerate(columns)]


def name_columns(item: Any, scope: QueryScope, before: int, between: int) -> None:
    """NATURAL is USING with the columns that both sides have; where they have none, all rows meet."""
    merged = {column.name for column in scope.merged}
    left, right = (
        [column.name for _, columns in tables for column in columns]
        for tables in (scope.tables[before:between], scope.tables[between:])
    )
    shared = [name for name in dict.fromkeys(left) if name in right]
    for side, names in (("left", left), ("right", right)):
        for name in shared:
            if names.count(name) > 1 and name not in merged:
                message = f'common column name "{name}" appears more than once in {side} table'
                raise UsageError(message, sqlstate="42702")
    item.isNatural = False
    item.usingClause = tuple(ast.String(sval=name) for name in shared) or None
    if not shared:
        item.quals = ast.A_Const(val=ast.Boolean(boolval=True))


def is_column(node: Any, name: str, place: int) -> bool:
    """Whether an item of ORDER BY is this column of the result."""
    if isinstance(node, ast.A_Const):
        return getattr(node.val, "ival", None) == place
    return isinstance(node, ast.ColumnRef) and [getattr(each, "sval", None) for each in node.fields] == [name]


def is_output(node: Any, names: set[str]) -> bool:
    """Whether it names a column of the result, or is its number."""
    if isinstance(node, ast.A_Const):
        return True
    return isinstance(node, ast.ColumnRef) and len(node.fields) == 1 and getattr(node.fields[0], "sval", None) in names


def output_column(node: Any, columns: Sequence[ResultColumn]) -> ResultColumn | None:
    """The result's column that it names, or whose number it is; None for what is neither."""
    if not is_output(node, {column.name for column in columns}):
        return None
    if isinstance(node, ast.ColumnRef):
        return next(column for column in columns if column.name == node.fields[0].sval)
    number = getattr(node.val, "ival", 0)
    return columns[number - 1] if 0 < number <= len(columns) else None


def check_ordered(node: Any, kind: str) -> None:
    """Raise UsageError for a type that has no order (`get_sort_group_operators`)."""
    if kind in ("xid", "json"):
        hint = "Use an explicit ordering operator or modify the query."
        error = UsageError(f"could not identify an ordering operator for type {kind}", hint=hint, sqlstate="42883")
        raise error.in_text(node.location + 1) if isinstance(node, ast.ColumnRef) else error
