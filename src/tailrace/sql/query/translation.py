"""A SELECT over functions and views of the interface, as the engine that computes with their rows reads it.

In: a checked statement, its calls, and what columns relations have. Out: the engine's SQL, the result's columns with their types,
and which tables it reads: `_call0` and so on for calls, `_record0` for the same as values of type record, and the relations
that were named. `query.engine_expressions` translates expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from pglast import enums
from pglast.stream import RawStream

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.expressions.analysis.state import Node, ParseState
from tailrace.sql.functions.calls import FunctionCall
from tailrace.sql.functions.signatures import Columns
from tailrace.sql.grammar import ast, name_of
from tailrace.sql.query.allowed import SETS, check_nodes, check_recursion, refused
from tailrace.sql.query.column_names import figured
from tailrace.sql.query.engine_expressions import EngineExpressions
from tailrace.sql.query.engine_functions import AVG
from tailrace.sql.query.expression_types import (
    HAVING,
    ORDER_BY,
    SELECT,
    WHERE,
    ExpressionTypes,
    ResultColumn,
    columns_named,
    resolved,
    result_column,
    value_of,
)
from tailrace.sql.query.generate_series import is_series, series
from tailrace.sql.query.lsn_expressions import called
from tailrace.sql.query.scales import check_alike, check_scales
from tailrace.sql.query.scope import QueryScope, check_ordered, is_column, is_output, name_columns, output_column, renamed
from tailrace.sql.query.system_functions import REG_KINDS, is_set_call, query_of, rows_as_list, set_in_target, unnested
from tailrace.sql.sql_types import oid_of
from tailrace.types.oid_aliases import OID_ALIASES

FROM = "functions in FROM"
ColumnsOf = Callable[[str, str], Columns | None]
"""The columns of a relation, by schema (empty if none was named) and name; None if there is none. Raises UsageError for one that is not read here."""


@dataclass(slots=True)
class EngineQuery:
    """`relations` are internal names of tables -> the relation that was named; `averages` are columns that hold sums and counts."""

    sql: str
    columns: list[ResultColumn]
    relations: dict[str, str]
    averages: frozenset[int]


@dataclass(frozen=True, slots=True)
class QuerySurroundings:
    """What a query is read in: columns of relations, those that a relation has on the server only, the database's name, the columns of functions
    that give records, and what is to be said of a relation of this schema and name that is not read here."""

    columns_of: ColumnsOf
    unread: Callable[[str], frozenset[str]]
    database: str
    rows_of: Mapping[str, Columns]
    hint_of: Callable[[str, str], str]


def translated(statement: Any, calls: Sequence[FunctionCall], around: QuerySurroundings, types: ExpressionTypes) -> EngineQuery:
    """Raises UsageError for what is not supported, or is not there."""
    numbers = {id(call.node): number for number, call in enumerate(calls)}
    check_nodes(statement, numbers)
    check_recursion(statement)
    translator = _QueryTranslator(numbers, calls, around, types)
    columns = resolved(translator.select(statement, None, is_outermost=True))
    if any(types.state.catalog.element_type(column.type) in OID_ALIASES for column in columns):
        raise refused("an array of names of objects")
    return EngineQuery(RawStream()(statement), columns, translator.relations, frozenset(translator.averages))


@dataclass(slots=True)
class _QueryTranslator:
    numbers: dict[int, int]
    calls: Sequence[FunctionCall]
    around: QuerySurroundings
    types: ExpressionTypes
    relations: dict[str, str] = field(default_factory=dict)
    averages: set[int] = field(default_factory=set)
    expressions: EngineExpressions = field(init=False)

    def __post_init__(self) -> None:
        self.expressions = EngineExpressions(self.types, self._called, self.around.database)

    # -- queries ---------------------------------------------------------------------------------------------------------------------

    def select(self, node: Any, outer: QueryScope | None, *, is_outermost: bool = False) -> list[ResultColumn]:
        """The result's columns; a literal of no type is of type unknown yet. The tree is changed to the engine's."""
        scope = QueryScope(outer)
        for cte in node.withClause.ctes if node.withClause else ():
            self._with(cte, scope, is_recursive=bool(node.withClause.recursive))
        if node.op != enums.SetOperation.SETOP_NONE:
            left, right = self.select(node.larg, scope), self.select(node.rarg, scope)
            check_alike(left, right)
            columns = self._common([left, right], enums.SetOperation(node.op).name.removeprefix("SETOP_"))
            self._ordered(node, scope, columns)
            return columns
        if node.valuesLists:
            return self._values(node, scope)
        self._rows_as_target(node)
        if node.fromClause:
            node.fromClause = tuple(self._joined(item, scope) for item in node.fromClause)
        columns = self._targets(node, scope, averages=is_outermost and not node.distinctClause)
        node.whereClause = self._engine(node.whereClause, scope, WHERE)
        names = {column.name for column in columns}
        node.groupClause = self._by_name(node.groupClause, scope, names, "GROUP BY")
        node.havingClause = self._engine(node.havingClause, scope, HAVING)
        if node.distinctClause and node.distinctClause[0] is not None:
            node.distinctClause = self._by_name(node.distinctClause, scope, names, SELECT)
        for window in node.windowClause or ():
            self.expressions.window(window, partial(self._before, scope))
        self._ordered(node, scope, columns)
        return columns

    def _values(self, node: Any, scope: QueryScope) -> list[ResultColumn]:
        for column in zip(*node.valuesLists, strict=False):
            check_scales(column)
        rows = []
        for row in node.valuesLists:
            analysed = [self._analysed(each, scope, "VALUES") for each in row]
            rows.append([result_column(f"column{number}", each) for number, each in enumerate(analysed, 1)])
        node.valuesLists = tuple(tuple(self._engine(each, scope, "VALUES") for each in row) for row in node.valuesLists)
        columns = self._common(rows, "VALUES")
        self._ordered(node, scope, columns)
        return columns

    def _common(self, rows: Sequence[Sequence[ResultColumn]], construct: str) -> list[ResultColumn]:
        return [self.types.common(each, construct) for each in zip(*rows, strict=False)]

    def _analysed(self, node: Any, scope: QueryScope, clause: str) -> Node:
        return self.types.analyse(node, clause, partial(self._before, scope))

    def _engine(self, node: Any, scope: QueryScope, clause: str) -> Any:
        return self.expressions.translated(node, clause, partial(self._before, scope))

    def _before(self, scope: QueryScope, state: ParseState, raw: Any) -> Node | None:
        """What stands in an expression and is the query's: its columns, subqueries, and calls of the interface."""
        if (number := self.numbers.get(id(raw))) is not None:
            function = self.calls[number].function
            return value_of(oid_of("record" if function.is_record else function.columns[0][1]), location=raw.location)
        if isinstance(raw, ast.ColumnRef):
            column = scope.column([part.sval for part in raw.fields], raw.location)
            return value_of(column.type, column.typmod, raw.location)
        if isinstance(raw, ast.TypeCast) and raw.typeName.names[-1].sval in REG_KINDS and isinstance(raw.arg, ast.A_Const):
            state.transform(state, raw.arg)  # the name that a literal may be is looked up with the rows
            return value_of(oid_of(raw.typeName.names[-1].sval), location=raw.location)
        if isinstance(raw, ast.A_Indirection):
            if len(raw.indirection) == 1 and isinstance(raw.indirection[0], ast.A_Indices):
                return None
            return value_of(oid_of(self._field_kind(raw)))
        if isinstance(raw, ast.SubLink):
            if self.types.is_analysed(raw):
                assert state.made is not None
                return state.made[id(raw)][1]
            if raw.testexpr is not None:
                state.transform(state, raw.testexpr)
            columns = resolved(self.select(raw.subselect, scope))
            if raw.subLinkType == enums.SubLinkType.EXPR_SUBLINK and columns:
                return value_of(columns[0].type, columns[0].typmod, raw.location)
            if raw.subLinkType == enums.SubLinkType.ARRAY_SUBLINK:
                return value_of(state.catalog.array_type(columns[0].type), location=raw.location)
            return value_of(oid_of("bool"), location=raw.location)
        return None

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

    def _with(self, cte: Any, scope: QueryScope, *, is_recursive: bool) -> None:
        """A WITH query; one that names itself has the columns of the part that does not."""
        query = cte.ctequery
        if is_recursive and query.op == enums.SetOperation.SETOP_UNION and not (query.sortClause or query.withClause):
            first = resolved(self.select(query.larg, scope))
            scope.queries[cte.ctename] = renamed(first, cte.aliascolnames)
            check_alike(first, self.select(query.rarg, scope))
        else:
            scope.queries[cte.ctename] = renamed(resolved(self.select(query, scope)), cte.aliascolnames)

    def _targets(self, node: Any, scope: QueryScope, *, averages: bool) -> list[ResultColumn]:
        columns: list[ResultColumn] = []
        for target in node.targetList or ():
            if isinstance(target.val, ast.ColumnRef) and isinstance(target.val.fields[-1], ast.A_Star):
                alias = target.val.fields[-2].sval if len(target.val.fields) > 1 else ""
                if alias and not any(alias == name for name, _ in scope.tables):
                    message = f'missing FROM-clause entry for table "{alias}"'
                    raise UsageError(message, sqlstate="42P01").in_text(target.val.location + 1)
                columns += scope.star(alias)
                continue
            if (rows := set_in_target(target.val)) is not None:
                columns += self._rows_of_target(target, rows, scope)
                continue
            name = target.name or figured(target.val, self.types.major)
            column = result_column(name, self._analysed(target.val, scope, SELECT))
            is_call = isinstance(target.val, ast.FuncCall) and id(target.val) not in self.numbers
            if averages and is_call and name_of(target.val) in AVG:
                self.averages.add(len(columns))
                target.val = self.expressions.average(target.val, partial(self._before, scope))
            else:
                target.val = self._engine(target.val, scope, SELECT)
            target.name = name
            columns.append(column)
        return columns

    def _rows_of_target(self, target: Any, function: Any, scope: QueryScope) -> list[ResultColumn]:
        """SELECT f(…), or (f(…)).*: rows of a function that tells of the catalogs."""
        in_columns = target.val is not function
        columns = self._columns_of_set(function, function.funcname[-1].sval)
        if in_columns != (len(columns) > 1) or function.funcname[-1].sval == "generate_series":
            raise refused("this set-returning function", function.location)
        target.val = unnested(self._list_of_rows(function, scope, SELECT), function)
        target.name = None if in_columns else target.name or columns[0].name
        return columns if in_columns else [replace(columns[0], name=target.name)]

    def _columns_of_set(self, function: Any, alias: str) -> list[ResultColumn]:
        kind = SETS[function.funcname[-1].sval]
        return columns_named(self.around.rows_of[function.funcname[-1].sval] if kind == "record" else [(alias, kind)])

    def _list_of_rows(self, function: Any, scope: QueryScope, clause: str) -> Any:
        kinds = [self.types.name(self._analysed(each, scope, clause).type) for each in function.args or ()]
        return rows_as_list(function, kinds, [self._engine(each, scope, clause) for each in function.args or ()])

    def _ordered(self, node: Any, scope: QueryScope, columns: Sequence[ResultColumn]) -> None:
        for item in node.sortClause or ():
            if item.useOp:
                raise refused("ORDER BY … USING", item.location)
            averages = [place for place in self.averages if place < len(columns)]
            if any(is_column(item.node, columns[place].name, place + 1) for place in averages):
                raise refused("ORDER BY avg")
            column = output_column(item.node, columns)
            if column is None and not is_output(item.node, set()):
                column = result_column("", self._analysed(item.node, scope, ORDER_BY))
                item.node = self._engine(item.node, scope, ORDER_BY)
            if column is not None:
                check_ordered(item.node, self.types.name(column.type))
        node.limitCount = self._engine(node.limitCount, scope, "LIMIT")
        node.limitOffset = self._engine(node.limitOffset, scope, "OFFSET")

    def _by_name(self, items: Any, scope: QueryScope, names: set[str], clause: str) -> Any:
        return tuple(each if is_output(each, names) else self._engine(each, scope, clause) for each in items) if items else items

    # -- FROM ------------------------------------------------------------------------------------------------------------------------

    def _from(self, item: Any, scope: QueryScope) -> None:
        if isinstance(item, ast.RangeVar):
            scope.tables.append(self._relation(item, scope))
        elif isinstance(item, ast.RangeSubselect):
            columns = resolved(
                self.select(item.subquery, scope if item.lateral else QueryScope(scope.outer, queries=scope.queries))
            )
            name = item.alias.aliasname if item.alias else ""
            scope.tables.append((name, renamed(columns, item.alias.colnames if item.alias else None)))
        elif isinstance(item, ast.JoinExpr):
            self._join(item, scope)
        else:
            raise refused("this in FROM", getattr(item, "location", None))

    def _join(self, item: Any, scope: QueryScope) -> None:
        if item.alias or item.join_using_alias:
            raise refused("the alias of a join")
        before = len(scope.tables)
        item.larg = self._joined(item.larg, scope)
        between = len(scope.tables)
        item.rarg = self._joined(item.rarg, scope)
        if item.isNatural:
            name_columns(item, scope, before, between)
        for each in item.usingClause or ():
            found = [column for _, columns in scope.tables for column in columns if column.name == each.sval]
            if len(found) < 2:
                raise UsageError(
                    f'column "{each.sval}" specified in USING clause does not exist in both tables', sqlstate="42703"
                )
            if all(column.name != each.sval for column in scope.merged):
                scope.merged.append(found[0])
        item.quals = self._engine(item.quals, scope, "JOIN conditions")

    def _joined(self, side: Any, scope: QueryScope) -> Any:
        if isinstance(side, ast.RangeFunction):
            return self._function(side, scope)
        self._from(side, scope)
        return side

    def _relation(self, item: Any, scope: QueryScope) -> tuple[str, list[ResultColumn]]:
        name = item.relname
        alias = item.alias.aliasname if item.alias else name
        colnames = item.alias.colnames if item.alias else None
        query = None if item.schemaname else scope.query(name)
        if query is not None:
            return alias, renamed(query, colnames)
        if name.startswith("_record") and name in self.relations and item.schemaname is None:
            return name, columns_named([(self.calls[int(name[7:])].function.name, "record")])
        columns = None if item.catalogname else self.around.columns_of(item.schemaname or "", name)
        if columns is None:
            shown = f"{item.schemaname}.{name}" if item.schemaname else name
            hint = self.around.hint_of(item.schemaname or "", name)
            raise UsageError(f'relation "{shown}" does not exist', hint=hint, sqlstate="42P01").in_text(item.location + 1)
        scope.unread |= self.around.unread(name)
        table = f"_table_{name}"
        self.relations[table] = name
        item.relname, item.schemaname, item.catalogname = table, None, None
        item.alias = ast.Alias(aliasname=alias, colnames=colnames)
        return alias, renamed(columns_named(columns), colnames)

    def _function(self, item: Any, scope: QueryScope) -> Any:
        """A function in FROM, as the table that has its rows."""
        ((function, _),) = item.functions[:1]
        number = self.numbers.get(id(function))
        colnames = item.alias.colnames if item.alias else None
        if number is None and is_series(item, function):
            return series(function, item, scope)
        if number is None and is_set_call(function) and not (item.is_rowsfrom or item.coldeflist):
            return self._set_in_from(item, function, scope)
        if number is None:
            raise refused(f"function {name_of(function)[1]} in FROM" if isinstance(function, ast.FuncCall) else "this in FROM")
        call = self.calls[number]
        alias = item.alias.aliasname if item.alias else call.function.name
        given = list(call.function.columns)
        if not call.function.is_record and item.alias:
            given = [(alias, given[0][1])]  # a value in FROM is called as its table is
        if call.ordinality:
            given.append(("ordinality", "int8"))
        columns = renamed(columns_named(given), colnames)
        table = f"_call{number}"
        self.relations[table] = ""
        scope.tables.append((alias, columns))
        names = tuple(ast.String(sval=column.name) for column in columns)
        return ast.RangeVar(relname=table, inh=True, relpersistence="p", alias=ast.Alias(aliasname=alias, colnames=names))

    def _set_in_from(self, item: Any, function: Any, scope: QueryScope) -> Any:
        """Rows of a function that tells of the catalogs, as a subquery; its arguments may be columns of what stands before it."""
        check_nodes(function.args)
        alias = item.alias.aliasname if item.alias else function.funcname[-1].sval
        columns = self._columns_of_set(function, "relid" if function.funcname[-1].sval == "pg_partition_ancestors" else alias)
        rows = self._list_of_rows(function, scope, FROM)
        values = [unnested(rows, function)]
        if item.ordinality:
            columns.append(ResultColumn("ordinality", oid_of("int8")))
            values.append(called("generate_subscripts", rows, ast.A_Const(val=ast.Integer(ival=1))))
        columns = renamed(columns, item.alias.colnames if item.alias else None)
        scope.tables.append((alias, columns))
        names = tuple(ast.String(sval=column.name) for column in columns)
        return ast.RangeSubselect(lateral=True, subquery=query_of(*values), alias=ast.Alias(aliasname=alias, colnames=names))

    # -- calls of the interface ----------------------------------------------------------------------------------------------

    def _called(self, node: Any) -> Any:
        """What stands for a call, or for a field of the record that one gives; None for any other node."""
        if isinstance(node, ast.A_Indirection) and id(node.arg) in self.numbers:
            return self._one(f"_call{self.numbers[id(node.arg)]}", node.indirection[0].sval)
        number = self.numbers.get(id(node))
        if number is None:
            return None
        function = self.calls[number].function
        return self._one(f"_record{number}" if function.is_record else f"_call{number}", function.name)

    def _field_kind(self, node: Any) -> str:
        """Of (pg_create_logical_replication_slot(…)).lsn"""
        number = self.numbers.get(id(node.arg))
        (part,) = node.indirection if len(node.indirection) == 1 else (None,)
        if number is None or not isinstance(part, ast.String) or self.calls[number].function.is_set:
            raise refused("a field or a subscript")
        call = self.calls[number]
        kind = dict(call.function.columns).get(part.sval)
        if kind is None:
            raise UsageError(f'column "{part.sval}" not found in data type record', sqlstate="42703").in_text(call.position)
        return kind

    def _one(self, table: str, column: str) -> Any:
        """The value that is the one row of a table."""
        self.relations[table] = ""
        query = ast.SelectStmt(
            targetList=(ast.ResTarget(val=ast.ColumnRef(fields=(ast.String(sval=column),))),),
            fromClause=(ast.RangeVar(relname=table, inh=True, relpersistence="p"),),
            op=enums.SetOperation.SETOP_NONE, limitOption=enums.LimitOption.LIMIT_OPTION_DEFAULT,
        )  # fmt: skip
        return ast.SubLink(subLinkType=enums.SubLinkType.EXPR_SUBLINK, subselect=query)
