"""Which functions of the interface a statement calls, with which constants, and whether it calls them where they run exactly once.

In: a parsed statement (libpg_query by pglast), its text, the functions of a major. Out: a `FunctionCall` each, in the order in which they are to
be carried out. Raises UsageError, in the server's words where it has some, with the position in the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError, UsageError
from tailrace.expressions.analysis.parsing import constants_of
from tailrace.sql import sql_types
from tailrace.sql.functions import runs_once
from tailrace.sql.functions.runs_once import FROM, TARGET, VALUE, not_constant, refused_call
from tailrace.sql.functions.signatures import NEED_A_SERVER, REQUIRED, SqlFunction
from tailrace.sql.grammar import ast, children, name_of

_OUR_SCHEMAS = ("", "pg_catalog")
NO_FUNCTION = "No function matches the given name and argument types. You might need to add explicit type casts."


@dataclass(slots=True)
class FunctionCall:
    """`arguments` by the names, or places, of the signature: values, None for NULL, or other calls whose result they are. `options` is the variadic
    array, as `sql_types.read_array` gives arrays."""

    function: SqlFunction
    node: Any
    where: str
    arguments: list[object] = field(default_factory=list)
    options: list[Any] | None = field(default_factory=list)
    ordinality: bool = False

    @property
    def position(self) -> int:
        return int(self.node.location) + 1


def calls_of(statement: Any, text: str, functions: Mapping[str, SqlFunction]) -> list[FunctionCall]:
    """Find all calls in a statement."""
    finder = _Finder(functions, constants_of(statement, text))
    finder.walk(statement, _Context())
    return finder.calls


@dataclass(frozen=True, slots=True)
class _Context:
    """Of what is being looked at: whether it runs once (`why_not` says why it does not, empty if it does)."""

    why_not: str = ""
    where: str = VALUE


@dataclass(slots=True)
class _Finder:
    functions: Mapping[str, SqlFunction]
    places: Mapping[int, int]
    calls: list[FunctionCall] = field(default_factory=list)

    def walk(self, node: Any, context: _Context) -> None:
        if isinstance(node, ast.FuncCall):
            self._called(node, context)
        elif isinstance(node, ast.SelectStmt):
            self._select(node, context)
        elif isinstance(node, ast.SubLink):
            inside = _Context(context.why_not or runs_once.IN_SUBQUERY)
            self.walk(node.testexpr, inside)
            self.walk(node.subselect, inside)
        else:
            inside = _Context(context.why_not)
            for each in children(node):
                self.walk(each, inside)

    def _select(self, node: Any, context: _Context) -> None:
        why = context.why_not
        if node.limitCount is not None and _is_zero(node.limitCount):
            why = why or runs_once.LIMIT_ZERO
        if node.whereClause is not None and not _has_column(node.whereClause):
            why = why or runs_once.CONSTANT_WHERE
        if node.withClause is not None:
            self._with(node, why)
        for side in (node.larg, node.rarg):
            if side is not None:
                self.walk(side, _Context(why))
        for item in node.fromClause or ():
            self._from(item, _Context(why, FROM))
        alone = not node.fromClause and node.whereClause is None and node.groupClause is None
        for target in node.targetList or ():
            inside = _Context(why or ("" if alone else runs_once.PER_ROW), TARGET if alone else VALUE)
            value = target.val
            if alone and isinstance(value, ast.A_Indirection) and len(value.indirection) == 1 and _is_field(value.indirection[0]):
                value = value.arg
            self.walk(value, inside)
        per_row = _Context(why or runs_once.PER_ROW)
        for part in (
            "whereClause",
            "groupClause",
            "havingClause",
            "windowClause",
            "sortClause",
            "limitCount",
            "limitOffset",
            "valuesLists",
        ):
            self.walk(getattr(node, part), per_row)
        if node.distinctClause:
            self.walk(node.distinctClause, per_row)

    def _with(self, node: Any, why: str) -> None:
        for cte in node.withClause.ctes:
            uses = sum(_uses(part, cte.ctename) for part in children(node) if part is not node.withClause)
            uses += sum(_uses(other.ctequery, cte.ctename) for other in node.withClause.ctes if other is not cte)
            unused = "" if uses else runs_once.UNUSED
            recursive = runs_once.RECURSIVE if node.withClause.recursive else ""
            self.walk(cte.ctequery, _Context(why or recursive or unused))

    def _from(self, item: Any, context: _Context) -> None:
        if isinstance(item, ast.RangeFunction):
            self._range_function(item, context)
        elif isinstance(item, ast.JoinExpr):
            self._from(item.larg, context)
            self._from(item.rarg, context)
            self.walk(item.quals, _Context(context.why_not or runs_once.PER_ROW))
        elif isinstance(item, ast.RangeSubselect):
            why = context.why_not or (runs_once.IN_LATERAL_SUBQUERY if item.lateral else "")
            self.walk(item.subquery, _Context(why))
        else:
            self.walk(item, context)

    def _range_function(self, item: Any, context: _Context) -> None:
        for function, definition in item.functions:
            called = isinstance(function, ast.FuncCall) and self._known(function) is not None
            if called and (item.is_rowsfrom or definition or item.coldeflist):
                raise UsageError("ROWS FROM and column definition lists are not supported", sqlstate="0A000")
            before = len(self.calls)
            self.walk(function, context)
            if called:
                self.calls[-1].ordinality = bool(item.ordinality)
                assert len(self.calls) > before

    def _known(self, node: Any) -> SqlFunction | None:
        schema, name = name_of(node)
        return self.functions.get(name) if schema in _OUR_SCHEMAS else None

    def _called(self, node: Any, context: _Context) -> None:
        function = self._known(node)
        schema, name = name_of(node)
        if function is None:
            if name in NEED_A_SERVER and schema in _OUR_SCHEMAS:
                raise _needs_a_server(f"function {name}").in_text(node.location + 1)
            for each in children(node):
                self.walk(each, _Context(context.why_not or "in the argument of another function"))
            return
        if context.why_not and function.moves:
            raise refused_call(function, context.why_not).in_text(node.location + 1)
        if node.over or node.agg_filter or node.agg_distinct or node.agg_star or node.agg_order:
            raise UsageError(f"{name} is not an aggregate function", sqlstate="42809").in_text(node.location + 1)
        if context.where == VALUE and (function.is_record or function.moves):
            raise refused_call(function, runs_once.IN_EXPRESSION).in_text(node.location + 1)
        call = FunctionCall(function, node, context.where)
        self._match(call)
        self.calls.append(call)

    # -- arguments -------------------------------------------------------------------------------------------------------------------

    def _match(self, call: FunctionCall) -> None:
        function, node = call.function, call.node
        given = [self._constant(argument, call) for argument in node.args or ()]
        if function.variadic and not node.func_variadic and any(each.name for each in given):
            raise _no_such_function(call, given)  # where there are names, nothing is expanded into the array
        names = [argument.name for argument in function.arguments]
        values: list[object] = [argument.default for argument in function.arguments]
        rest: list[_Constant] = []
        taken: set[int] = set()
        for place, constant in enumerate(given):
            at = (names.index(constant.name) if constant.name in names else -1) if constant.name else place
            is_options = at >= len(names) or (at < 0 and constant.name == function.variadic != "")
            if is_options and function.variadic:
                rest.append(constant)
                continue
            if at < 0 or at >= len(names) or not sql_types.takes(function.arguments[at].kind, constant.kind):
                raise _no_such_function(call, given)
            if at in taken:
                message = f'argument name "{constant.name}" used more than once'
                raise UsageError(message, sqlstate="42601").in_text(node.args[place].location + 1)
            taken.add(at)
            values[at] = self._coerced(constant, function.arguments[at].kind)
        if any(value is REQUIRED for value in values) or (rest and not self._fits(rest, call)):
            raise _no_such_function(call, given)
        call.arguments = values
        call.options = self._options(rest, is_array=bool(node.func_variadic) or any(each.name for each in rest))

    def _fits(self, rest: Sequence[_Constant], call: FunctionCall) -> bool:
        if call.node.func_variadic or any(each.name for each in rest):
            return len(rest) == 1 and rest[0].kind in ("text[]", "unknown")
        return all(sql_types.takes("text", each.kind) for each in rest)

    def _options(self, rest: Sequence[_Constant], *, is_array: bool) -> list[Any] | None:
        if not is_array:
            return [None if each.value is None else str(each.value) for each in rest]
        if not rest:
            return []
        (only,) = rest
        if only.value is None or isinstance(only.value, list):
            return only.value
        value = self._coerced(only, "text[]")
        assert isinstance(value, list)
        return value

    def _coerced(self, constant: _Constant, kind: str) -> object:
        if constant.value is None or isinstance(constant.value, FunctionCall) or constant.kind != "unknown":
            return sql_types.cut_name(constant.value) if kind == "name" and isinstance(constant.value, str) else constant.value
        try:
            return sql_types.read(kind, str(constant.value))
        except TailraceError as error:
            raise error.in_text(constant.position) from None

    def _constant(self, node: Any, call: FunctionCall) -> _Constant:
        """What an argument is. Raises UsageError (0A000) for what is no constant."""
        if isinstance(node, ast.NamedArgExpr):
            inner = self._constant(node.arg, call)
            return _Constant(inner.value, inner.kind, inner.position, node.name)
        if isinstance(node, ast.A_Const):
            return self._literal(node)
        if isinstance(node, ast.TypeCast):
            return self._cast(node, call)
        if isinstance(node, ast.A_Expr) and node.lexpr is None and node.name[0].sval in "+-":
            inner = self._constant(node.rexpr, call)
            if isinstance(inner.value, int) and not isinstance(inner.value, bool):
                return _Constant(-inner.value if node.name[0].sval == "-" else inner.value, inner.kind, inner.position)
        if isinstance(node, ast.A_ArrayExpr):
            values = [self._constant(each, call).value for each in node.elements or ()]
            texts = [value if value is None or isinstance(value, list) else str(value) for value in values]
            return _Constant(texts, "text[]", call.position)
        if isinstance(node, ast.FuncCall) and (inner_function := self._known(node)) is not None and not inner_function.moves:
            before = len(self.calls)
            self._called(node, _Context(where=TARGET))
            called = self.calls.pop()
            assert len(self.calls) == before
            if not called.function.is_record:
                return _Constant(called, called.function.columns[0][1], call.position)
        refusal = (
            not_constant(call.function) if isinstance(node, ast.SubLink) or _has_column(node) else not_constant(call.function, "")
        )
        raise refusal.in_text(call.position)

    def _literal(self, node: Any) -> _Constant:
        at = self.places.get(id(node), 0) + 1
        if node.isnull:
            return _Constant(None, "unknown", at)
        value = node.val
        if isinstance(value, ast.Integer):
            return _Constant(value.ival, "int4", at)
        if isinstance(value, ast.Boolean):
            return _Constant(bool(value.boolval), "bool", at)
        if isinstance(value, ast.String):
            return _Constant(value.sval, "unknown", at)
        if isinstance(value, ast.Float):
            whole = value.fval.isdecimal() and int(value.fval) < 2**63
            return _Constant(int(value.fval) if whole else value.fval, "int8" if whole else "numeric", at)
        return _Constant(value.bsval, "bit", at)

    def _cast(self, node: Any, call: FunctionCall) -> _Constant:
        inner = self._constant(node.arg, call)
        kind = node.typeName.names[-1].sval
        kind = sql_types.SAME.get(kind, kind) + ("[]" if node.typeName.arrayBounds else "")
        if inner.value is None or isinstance(inner.value, FunctionCall) or (isinstance(inner.value, list) and kind == "text[]"):
            return _Constant(inner.value, kind, inner.position)
        try:
            return _Constant(sql_types.read(kind, str(inner.value)), kind, inner.position)
        except TailraceError as error:
            raise error.in_text(inner.position) from None


@dataclass(frozen=True, slots=True)
class _Constant:
    value: Any
    kind: str
    position: int
    name: str = ""


def _no_such_function(call: FunctionCall, given: Sequence[_Constant]) -> UsageError:
    shown = ", ".join((f"{each.name} => " if each.name else "") + sql_types.label(each.kind) for each in given)
    schema, name = name_of(call.node)
    return UsageError(
        f"function {schema + '.' if schema else ''}{name}({shown}) does not exist",
        hint=NO_FUNCTION,
        sqlstate="42883",
    ).in_text(call.position)


def _needs_a_server(what: str) -> UsageError:
    return UsageError(f"{what} needs a server", hint="Give --connect DSN, and it is sent there.", sqlstate="0A000")


def _is_zero(node: Any) -> bool:
    return isinstance(node, ast.A_Const) and isinstance(node.val, ast.Integer) and node.val.ival == 0


def _is_field(node: Any) -> bool:
    return isinstance(node, ast.String)


def _has_column(node: Any) -> bool:
    return isinstance(node, ast.ColumnRef) or any(
        _has_column(each) for each in children(node) if isinstance(each, ast.Node | tuple)
    )


def _uses(node: Any, name: str) -> int:
    if isinstance(node, ast.RangeVar):
        return int(node.relname == name and not node.schemaname)
    return sum(_uses(each, name) for each in children(node) if isinstance(each, ast.Node | tuple))
