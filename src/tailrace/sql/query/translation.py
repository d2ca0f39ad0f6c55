"""A SELECT over functions and views of the interface, as the engine that computes with their rows reads it.

In: a checked statement, its calls, and what columns relations have. Out: the engine's SQL, the names of the result's columns, and which tables it
reads: `_call0` and so on for calls, `_record0` for the same as values of type record, and the relations that were named. Types are followed as far as
pg_lsn needs it: the engine keeps positions as integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from pglast import enums
from pglast.stream import RawStream

from tailrace.errors import UsageError
from tailrace.sql.functions.calls import Call
from tailrace.sql.functions.signatures import Columns
from tailrace.sql.grammar import ast, name_of
from tailrace.sql.query.allowed import MATCHES, PATTERNS, check_nodes, check_recursion, refused
from tailrace.sql.query.column_names import figured
from tailrace.sql.query.engine_functions import AVERAGE, AVG, average, cast, check_function, function_value, widest
from tailrace.sql.query.json_fields import ARROWS, JSON, taken
from tailrace.sql.query.matching import like, matched
from tailrace.sql.query.positions import LSN, arithmetic, as_lsn, text_of
from tailrace.sql.query.scales import check_alike, check_scales
from tailrace.sql.query.scope import Scope, check_ordered, is_column, is_output, name_columns, output_kind, renamed
from tailrace.sql.query.series import is_series, series

ColumnsOf = Callable[[str, str], Columns | None]
"""The columns of a relation, by schema (empty if none was named) and name; None if there is none. Raises UsageError for one that is not read here."""
_UNKNOWN = ""


@dataclass(slots=True)
class Translated:
    """`relations` are internal names of tables -> the relation that was named; `averages` are columns that hold sums and counts."""

    sql: str
    names: list[str]
    relations: dict[str, str]
    averages: frozenset[int]


def translated(
    statement: Any, calls: Sequence[Call], columns_of: ColumnsOf, unread: Callable[[str], frozenset[str]], database: str
) -> Translated:
    """`unread` are the columns that a relation has on the server only. Raises UsageError for what is not supported, or is not there."""
    numbers = {id(call.node): number for number, call in enumerate(calls)}
    check_nodes(statement, numbers)
    check_recursion(statement)
    translator = _Translator(numbers, calls, columns_of, unread, database)
    columns = translator.select(statement, None, is_outermost=True)
    averages = frozenset(place for place, (_, kind) in enumerate(columns) if kind == AVERAGE)
    return Translated(RawStream()(statement), [name for name, _ in columns], translator.relations, averages)


@dataclass(slots=True)
class _Translator:
    numbers: dict[int, int]
    calls: Sequence[Call]
    columns_of: ColumnsOf
    unread: Callable[[str], frozenset[str]]
    database: str
    relations: dict[str, str] = field(default_factory=dict)

    # -- queries ---------------------------------------------------------------------------------------------------------------------

    def select(self, node: Any, outer: Scope | None, *, is_outermost: bool = False) -> list[tuple[str, str]]:
        """The result's columns. The tree is changed to the engine's."""
        scope = Scope(outer)
        for cte in node.withClause.ctes if node.withClause else ():
            self._with(cte, scope, is_recursive=bool(node.withClause.recursive))
        if node.op != enums.SetOperation.SETOP_NONE:
            columns = self.select(node.larg, scope)
            check_alike(columns, self.select(node.rarg, scope))
            self._ordered(node, scope, columns)
            return columns
        if node.valuesLists:
            for column in zip(*node.valuesLists, strict=False):
                check_scales(column)
            rows = [[self._typed(each, scope) for each in row] for row in node.valuesLists]
            node.valuesLists = tuple(tuple(value for value, _ in row) for row in rows)
            self._ordered(node, scope, [(f"column{number}", kind) for number, (_, kind) in enumerate(rows[0], 1)])
            return [(f"column{number}", kind) for number, (_, kind) in enumerate(rows[0], 1)]
        self._rows_as_target(node)
        if node.fromClause:
            node.fromClause = tuple(self._joined(item, scope) for item in node.fromClause)
        columns = self._targets(node, scope, averages=is_outermost and not node.distinctClause)
        node.whereClause = self._replaced(node.whereClause, scope)
        names = {name for name, _ in columns}
        node.groupClause = self._by_name(node.groupClause, scope, names)
        node.havingClause = self._replaced(node.havingClause, scope)
        if node.distinctClause and node.distinctClause[0] is not None:
            node.distinctClause = self._by_name(node.distinctClause, scope, names)
        for window in node.windowClause or ():
            self._window(window, scope)
        self._ordered(node, scope, columns)
        return columns

    def _rows_as_target(self, node: Any) -> None:
        """SELECT pg_logical_slot_get_changes(…): the rows are those of the function."""
        if node.fromClause or len(node.targetList or ()) != 1:
            return
        target = node.targetList[0]
        number = self.numbers.get(id(target.val))
        if number is not None and self.calls[number].function.is_set:
            name = self.calls[number].function.name
            target.name = target.name or name
            target.val = ast.ColumnRef(fields=(ast.String(sval=name),))
            node.fromClause = (ast.RangeVar(relname=f"_record{number}", inh=True, relpersistence="p"),)
            self.relations[f"_record{number}"] = ""

    def _with(self, cte: Any, scope: Scope, *, is_recursive: bool) -> None:
        """A WITH query; one that names itself has the columns of the part that does not."""
        query = cte.ctequery
        if is_recursive and query.op == enums.SetOperation.SETOP_UNION and not (query.sortClause or query.withClause):
            first = self.select(query.larg, scope)
            scope.queries[cte.ctename] = renamed(first, cte.aliascolnames)
            check_alike(first, self.select(query.rarg, scope))
        else:
            scope.queries[cte.ctename] = renamed(self.select(query, scope), cte.aliascolnames)

    def _targets(self, node: Any, scope: Scope, *, averages: bool) -> list[tuple[str, str]]:
        columns: list[tuple[str, str]] = []
        for target in node.targetList or ():
            if isinstance(target.val, ast.ColumnRef) and isinstance(target.val.fields[-1], ast.A_Star):
                alias = target.val.fields[-2].sval if len(target.val.fields) > 1 else ""
                if alias and not any(alias == name for name, _ in scope.tables):
                    message = f'missing FROM-clause entry for table "{alias}"'
                    raise UsageError(message, sqlstate="42P01").in_text(target.val.location + 1)
                columns += scope.star(alias)
                continue
            name = target.name or figured(target.val)
            if (
                averages
                and isinstance(target.val, ast.FuncCall)
                and name_of(target.val) in AVG
                and id(target.val) not in self.numbers
            ):
                target.val, kind = self._average(target.val, scope), AVERAGE
            else:
                target.val, kind = self._typed(target.val, scope)
            target.name = name
            columns.append((name, kind))
        return columns

    def _ordered(self, node: Any, scope: Scope, columns: Sequence[tuple[str, str]]) -> None:
        for item in node.sortClause or ():
            if item.useOp:
                raise refused("ORDER BY … USING", item.location)
            if any(kind == AVERAGE and is_column(item.node, name, place) for place, (name, kind) in enumerate(columns, 1)):
                raise refused("ORDER BY avg")
            kind = output_kind(item.node, columns)
            if kind is None:
                item.node, kind = self._typed(item.node, scope)
            check_ordered(item.node, kind)
        node.limitCount = self._replaced(node.limitCount, scope)
        node.limitOffset = self._replaced(node.limitOffset, scope)

    def _by_name(self, items: Any, scope: Scope, names: set[str]) -> Any:
        return tuple(each if is_output(each, names) else self._replaced(each, scope) for each in items) if items else items

    def _window(self, window: Any, scope: Scope) -> None:
        window.partitionClause = tuple(self._replaced(each, scope) for each in window.partitionClause or ()) or None
        for item in window.orderClause or ():
            item.node = self._replaced(item.node, scope)

    # -- FROM ------------------------------------------------------------------------------------------------------------------------

    def _from(self, item: Any, scope: Scope) -> None:
        if isinstance(item, ast.RangeVar):
            scope.tables.append(self._relation(item, scope))
        elif isinstance(item, ast.RangeSubselect):
            columns = self.select(item.subquery, scope if item.lateral else Scope(scope.outer, queries=scope.queries))
            name = item.alias.aliasname if item.alias else ""
            scope.tables.append((name, renamed(columns, item.alias.colnames if item.alias else None)))
        elif isinstance(item, ast.JoinExpr):
            self._join(item, scope)
        else:
            raise refused("this in FROM", getattr(item, "location", None))

    def _join(self, item: Any, scope: Scope) -> None:
        if item.alias or item.join_using_alias:
            raise refused("the alias of a join")
        before = len(scope.tables)
        item.larg = self._joined(item.larg, scope)
        between = len(scope.tables)
        item.rarg = self._joined(item.rarg, scope)
        if item.isNatural:
            name_columns(item, scope, before, between)
        for each in item.usingClause or ():
            kinds = [kind for _, columns in scope.tables for name, kind in columns if name == each.sval]
            if len(kinds) < 2:
                raise UsageError(
                    f'column "{each.sval}" specified in USING clause does not exist in both tables', sqlstate="42703"
                )
            if each.sval not in dict(scope.merged):
                scope.merged.append((each.sval, kinds[0]))
        item.quals = self._replaced(item.quals, scope)

    def _joined(self, side: Any, scope: Scope) -> Any:
        if isinstance(side, ast.RangeFunction):
            return self._function(side, scope)
        self._from(side, scope)
        return side

    def _relation(self, item: Any, scope: Scope) -> tuple[str, list[tuple[str, str]]]:
        name = item.relname
        alias = item.alias.aliasname if item.alias else name
        colnames = item.alias.colnames if item.alias else None
        query = None if item.schemaname else scope.query(name)
        if query is not None:
            return alias, renamed(query, colnames)
        if name.startswith("_record") and name in self.relations and item.schemaname is None:
            return name, [(self.calls[int(name[7:])].function.name, "record")]
        columns = None if item.catalogname else self.columns_of(item.schemaname or "", name)
        if columns is None:
            shown = f"{item.schemaname}.{name}" if item.schemaname else name
            raise UsageError(f'relation "{shown}" does not exist', sqlstate="42P01").in_text(item.location + 1)
        scope.unread |= self.unread(name)
        table = f"_table_{name}"
        self.relations[table] = name
        item.relname, item.schemaname, item.catalogname = table, None, None
        item.alias = ast.Alias(aliasname=alias, colnames=colnames)
        return alias, renamed(list(columns), colnames)

    def _function(self, item: Any, scope: Scope) -> Any:
        """A function in FROM, as the table that has its rows."""
        ((function, _),) = item.functions[:1]
        number = self.numbers.get(id(function))
        colnames = item.alias.colnames if item.alias else None
        if number is None and is_series(item, function):
            return series(function, item, scope)
        if number is None:
            raise refused(f"function {name_of(function)[1]} in FROM" if isinstance(function, ast.FuncCall) else "this in FROM")
        call = self.calls[number]
        alias = item.alias.aliasname if item.alias else call.function.name
        columns = list(call.function.columns)
        if not call.function.is_record and item.alias:
            columns = [(alias, columns[0][1])]  # a value in FROM is called as its table is
        if call.ordinality:
            columns.append(("ordinality", "int8"))
        columns = renamed(columns, colnames)
        table = f"_call{number}"
        self.relations[table] = ""
        scope.tables.append((alias, columns))
        names = tuple(ast.String(sval=name) for name, _ in columns)
        return ast.RangeVar(relname=table, inh=True, relpersistence="p", alias=ast.Alias(aliasname=alias, colnames=names))

    # -- expressions -------------------------------------------------------------------------------------------------------------------

    def _replaced(self, node: Any, scope: Scope) -> Any:
        return None if node is None else self._typed(node, scope)[0]

    def _typed(self, node: Any, scope: Scope) -> tuple[Any, str]:
        """What the engine is given in its place, and the type of it as far as it is known."""
        number = self.numbers.get(id(node))
        if number is not None:
            return self._called(number), self.calls[number].function.columns[0][1]
        if isinstance(node, ast.A_Indirection):
            return self._field(node)
        if isinstance(node, ast.ColumnRef):
            return node, scope.column([part.sval for part in node.fields], node.location)
        if isinstance(node, ast.A_Const):
            kinds = {ast.Integer: "int4", ast.Float: "numeric", ast.Boolean: "bool", ast.String: "unknown"}
            return node, "unknown" if node.isnull else kinds.get(type(node.val), _UNKNOWN)
        if isinstance(node, ast.SubLink):
            node.testexpr = self._replaced(node.testexpr, scope)
            columns = self.select(node.subselect, scope)
            is_value = node.subLinkType == enums.SubLinkType.EXPR_SUBLINK
            return node, columns[0][1] if is_value and columns else "bool"
        if isinstance(node, ast.TypeCast):
            node.arg, kind = self._typed(node.arg, scope)
            return cast(node, kind)
        if isinstance(node, ast.FuncCall):
            return self._function_value(node, scope)
        if isinstance(node, ast.A_Expr):
            return self._operator(node, scope)
        if isinstance(node, ast.CoalesceExpr | ast.MinMaxExpr):
            node.args, kind = self._alike(node.args, scope)
            return node, kind
        if isinstance(node, ast.CaseExpr):
            return self._case(node, scope)
        if isinstance(node, ast.SQLValueFunction):
            raise refused("this value", node.location)
        if isinstance(node, ast.BoolExpr | ast.NullTest | ast.BooleanTest):
            return self._test(node, scope), "bool"
        if isinstance(node, ast.A_ArrayExpr):
            node.elements, kind = self._alike(node.elements or (), scope)
            return node, f"{kind}[]"
        raise refused(type(node).__name__, getattr(node, "location", None))

    def _test(self, node: Any, scope: Scope) -> Any:
        if isinstance(node, ast.BoolExpr):
            node.args = tuple(self._replaced(each, scope) for each in node.args)
        else:
            node.arg = self._replaced(node.arg, scope)
        return node

    def _called(self, number: int) -> Any:
        """A call's value: the one row of its table."""
        call = self.calls[number]
        table = f"_record{number}" if call.function.is_record else f"_call{number}"
        return self._one(table, call.function.name)

    def _field(self, node: Any) -> tuple[Any, str]:
        """(pg_create_logical_replication_slot(…)).lsn"""
        number = self.numbers.get(id(node.arg))
        (part,) = node.indirection if len(node.indirection) == 1 else (None,)
        if number is None or not isinstance(part, ast.String) or self.calls[number].function.is_set:
            raise refused("a field or a subscript")
        call = self.calls[number]
        kind = dict(call.function.columns).get(part.sval)
        if kind is None:
            raise UsageError(f'column "{part.sval}" not found in data type record', sqlstate="42703").in_text(call.position)
        return self._one(f"_call{number}", part.sval), kind

    def _one(self, table: str, column: str) -> Any:
        self.relations[table] = ""
        query = ast.SelectStmt(
            targetList=(ast.ResTarget(val=ast.ColumnRef(fields=(ast.String(sval=column),))),),
            fromClause=(ast.RangeVar(relname=table, inh=True, relpersistence="p"),),
            op=enums.SetOperation.SETOP_NONE, limitOption=enums.LimitOption.LIMIT_OPTION_DEFAULT,
        )  # fmt: skip
        return ast.SubLink(subLinkType=enums.SubLinkType.EXPR_SUBLINK, subselect=query)

    def _case(self, node: Any, scope: Scope) -> tuple[Any, str]:
        node.arg, subject = (None, _UNKNOWN) if node.arg is None else self._typed(node.arg, scope)
        for when in node.args:
            when.expr, kind = self._typed(when.expr, scope)
            if subject == LSN and kind == "unknown":
                when.expr = as_lsn(when.expr)
        written = [when.result for when in node.args] + ([node.defresult] if node.defresult is not None else [])
        results, kind = self._alike(written, scope)
        for when, result in zip(node.args, results, strict=False):
            when.result = result
        if node.defresult is not None:
            node.defresult = results[-1]
        return node, kind

    def _alike(self, nodes: Sequence[Any], scope: Scope) -> tuple[tuple[Any, ...], str]:
        """Several that are to have one type."""
        check_scales(nodes)
        typed = [self._typed(each, scope) for each in nodes]
        kinds = [kind for _, kind in typed]
        if LSN in kinds:
            return tuple(as_lsn(each) if kind == "unknown" else each for each, kind in typed), LSN
        return tuple(each for each, _ in typed), next((kind for kind in kinds if kind not in ("", "unknown")), _UNKNOWN)

    def _function_value(self, node: Any, scope: Scope) -> tuple[Any, str]:
        check_function(node)
        typed = [self._typed(each, scope) for each in node.args or ()]
        node.args = tuple(each for each, _ in typed) or None
        node.agg_filter = self._replaced(node.agg_filter, scope)
        for item in node.agg_order or ():
            item.node = self._replaced(item.node, scope)
        if node.over is not None:
            self._window(node.over, scope)
        return function_value(node, [kind for _, kind in typed], self.database)

    def _operator(self, node: Any, scope: Scope) -> tuple[Any, str]:
        operator = node.name[-1].sval
        if operator in MATCHES and node.kind == enums.A_Expr_Kind.AEXPR_OP:
            return matched(node, operator, self._replaced(node.lexpr, scope)), "bool"
        if node.kind in PATTERNS:
            return like(node, operator, self._replaced(node.lexpr, scope)), "bool"
        left, one = (None, _UNKNOWN) if node.lexpr is None else self._typed(node.lexpr, scope)
        if isinstance(node.rexpr, tuple | list):
            several = [self._typed(each, scope) for each in node.rexpr]
            right: Any = tuple(as_lsn(each) if one == LSN and kind == "unknown" else each for each, kind in several)
            other = next((kind for _, kind in several if kind != "unknown"), "unknown")
        else:
            right, other = self._typed(node.rexpr, scope)
            right = as_lsn(right) if one == LSN and other == "unknown" and operator not in ("||",) else right
        left = as_lsn(left) if other == LSN and one == "unknown" and operator != "||" else left
        node.lexpr, node.rexpr = left, right
        if operator in ARROWS or (JSON in (one, other) and operator != "||"):
            return taken(operator, left, right, (one, other), node.location)
        if operator == "||":
            node.lexpr, node.rexpr = (text_of(left) if one == LSN else left), (text_of(right) if other == LSN else right)
            return node, "text"
        if operator not in ("+", "-", "*", "/", "%", "&", "|"):
            return node, "bool"
        if LSN in (one, other):
            return arithmetic(node, operator, one, other)
        if operator == "/" and "numeric" in (one, other):
            raise refused("division of numeric", node.location)
        return node, other if node.lexpr is None else widest(one, other)

    def _average(self, node: Any, scope: Scope) -> Any:
        node.funcname = (ast.String(sval="sum"),)
        if node.args is None or len(node.args) != 1:
            raise refused("avg of this", node.location)
        kind = self._typed(deepcopy(node.args[0]), scope)[1]
        if kind != LSN:
            self._function_value(node, scope)
        return average(node, kind)
