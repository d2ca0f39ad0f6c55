"""A session of the SQL interface: statements one after another, each to its end.

In: the text of a statement. Out: a `Result`, in a `with` block in which its rows are sent: only when that ends has a slot that
was consumed moved. A statement that fails, is refused or is cancelled has moved nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import field, replace
from typing import Any

import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.expressions.analysis.parsing import constants_of
from tailrace.sql.connected_server import ConnectedServer
from tailrace.sql.functions.calls import FunctionCall, calls_of
from tailrace.sql.functions.outcome import Outcome
from tailrace.sql.functions.settlement import Settlement, StatementSlots, settle
from tailrace.sql.functions.signatures import functions_of
from tailrace.sql.functions.statement_calls import StatementCalls, check_slots
from tailrace.sql.grammar import ast, children, parsed
from tailrace.sql.interrupt import Interrupt
from tailrace.sql.kept_translations import KeptTranslations
from tailrace.sql.parameters import AS_OF, Parameters
from tailrace.sql.query.allowed import check_lists, refused, what_is
from tailrace.sql.query.engine_function import EngineFunction
from tailrace.sql.query.expression_types import ExpressionTypes
from tailrace.sql.query.session_values import SessionValue, with_session_values
from tailrace.sql.query.system_functions import PREFIX
from tailrace.sql.query.translation import EngineQuery, QuerySurroundings, translated
from tailrace.sql.result import Result, TextColumn
from tailrace.sql.result_text import record_text, text_columns, texts_of
from tailrace.sql.source_database import SourceDatabase
from tailrace.sql.views.relations import Relations
from tailrace.sql.views.view_columns import function_columns

_HIDING = (
    ast.ExplainStmt,
    ast.ViewStmt,
    ast.PrepareStmt,
    ast.CreateTableAsStmt,
    ast.DeclareCursorStmt,
    ast.CopyStmt,
    ast.RuleStmt,
)
"""Statements that would run a function another time, or not at all."""

_IN_PARTS = "What is computed here stays here: leave the interface out of the statement, and it goes to the server whole."
_NESTED = "The statement is nested too deeply: write it with fewer subqueries in each other, operators or UNIONs in a row."


Engine = Callable[[str, Mapping[str, pa.Table], str, Mapping[str, EngineFunction], Interrupt], pa.Table]
"""Computes a query that `sql.query.translation` made over tables, in a time zone, with functions of ours, unless it is interrupted."""


@dataclass
class PostgresSession:
    """`server` takes what is not ours, if there is one; `instead` is what a hint says to clients who cannot have one. `value_of` gives what a session
    says of itself; `translations` are kept from other sessions, too."""

    database: SourceDatabase
    engine: Engine
    server: ConnectedServer | None = None
    parameters: Parameters = field(default_factory=Parameters)
    value_of: SessionValue = lambda node: None
    instead: str = ""
    translations: KeptTranslations = field(default_factory=KeptTranslations)

    @contextmanager
    def execute(self, text: str) -> Iterator[Result]:
        """The result of one statement. When the block ends without an error, what was consumed is confirmed; an error, in it or in the statement,
        ends temporary slots, as it does on the server (`PostgresMain`)."""
        try:
            with ExitStack() as held:
                slots = StatementSlots(self.database, held)
                try:
                    result, confirms = self._carried_out(parsed(text), text, slots)
                except RecursionError:
                    raise UsageError("stack depth limit exceeded", hint=_NESTED, sqlstate="54001") from None
                except UsageError as error:
                    if "--connect" in error.hint:
                        error.hint = _IN_PARTS if self.server is not None else self.instead or error.hint
                    raise
                yield result
                settle(confirms, slots)
        except BaseException:
            self.database.end_session()
            raise
        if result.error:
            self.database.end_session()

    def columns_of(self, text: str) -> list[TextColumn] | None:
        """The columns that a statement's result will have, without its rows; None for one that gives none."""
        statement = parsed(text)
        if not isinstance(statement, ast.SelectStmt):
            return None
        query, _ = self._query(statement, text, Relations(self.database, self.parameters))
        found = query.columns
        return [TextColumn(column.name, [], column.type, column.typmod) for column in found]

    def close(self) -> None:
        self.database.end_session()
        if self.server is not None:
            self.server.close()

    # -- one statement -----------------------------------------------------------------------------------------------------------------

    def _carried_out(self, statement: Any, text: str, slots: StatementSlots) -> tuple[Result, list[Settlement | None]]:
        if isinstance(statement, ast.VariableSetStmt | ast.VariableShowStmt) and (done := self._parameter(statement, text)):
            return done, []
        self._check_hidden(statement, text)
        if not isinstance(statement, ast.SelectStmt):
            if self.server is None:
                raise refused(what_is(statement))
            return self.server.run(text), []
        if self.server is not None and not self._is_ours(statement):
            return self.server.run(text), []
        return self._selected(statement, text, slots)

    def _selected(self, statement: Any, text: str, slots: StatementSlots) -> tuple[Result, list[Settlement | None]]:
        relations = Relations(self.database, self.parameters)
        query, calls = self._query(statement, text, relations)
        statement_calls = StatementCalls(slots, self.parameters.of_plugin)
        outcomes = [statement_calls.carry_out(call) for call in calls]
        tables = {name: relations.table(relation) for name, relation in query.relations.items() if relation}
        for number, (call, outcome) in enumerate(zip(calls, outcomes, strict=True)):
            tables[f"_call{number}"] = _numbered(outcome.rows) if call.ordinality else outcome.rows
            if f"_record{number}" in query.relations:
                tables[f"_record{number}"] = self._records(call, outcome)
        functions = relations.functions() if PREFIX in query.sql else {}
        table = self.engine(query.sql, tables, self.parameters.style.time_zone, functions, self.database.interrupt)
        style = replace(self.parameters.style, names=relations.name_of)
        columns = text_columns(table, query.columns, style, query.averages)
        settle([outcome.settles for outcome in outcomes], slots)
        table = table.rename_columns([column.name for column in columns])
        result = Result(columns, f"SELECT {table.num_rows}", rows=table.num_rows, table=table)
        return result, [outcome.confirms for outcome in outcomes]

    def _query(self, statement: Any, text: str, relations: Relations) -> tuple[EngineQuery, list[FunctionCall]]:
        """The statement as the engine reads it, and the calls of the interface in it."""
        key = (text, self.database.name, self.parameters.style)
        if (found := self.translations.find(key)) is not None:
            return found, []
        check_lists(statement)
        calls = calls_of(statement, text, functions_of(self.database.major))
        check_slots(calls)
        said: list[object] = []

        def value_of(node: Any) -> tuple[str, str | list[str] | None] | None:
            value = self.value_of(node)
            said.extend([] if value is None else [value])
            return value

        major = self.database.major
        types = ExpressionTypes(major, self.parameters.style, constants_of(statement, text))
        around = QuerySurroundings(
            relations.columns_of, relations.untracked, self.database.name, function_columns(major), relations.hint_of
        )
        query = translated(with_session_values(statement, value_of, major), calls, around, types)
        if not calls and not said:
            self.translations.keep(key, query)
        return query, calls

    def _records(self, call: FunctionCall, outcome: Outcome) -> pa.Table:
        """The rows as values of type record."""
        cells = [texts_of(column.combine_chunks(), self.parameters.style) for column in outcome.rows.columns]
        is_null = call.function.strict and all(cell[0] is None for cell in cells)
        texts = [None] if is_null else [record_text(list(row)) for row in zip(*cells, strict=True)]
        return pa.table({call.function.name: pa.array(texts, pa.string())})

    # -- what is whose -----------------------------------------------------------------------------------------------------------------

    def _is_ours(self, statement: Any) -> bool:
        """Whether it calls a function or names a relation of ours."""
        return any(True for _ in self._ours(statement, set()))

    def _ours(self, node: Any, queries: set[str]) -> Iterator[str]:
        if isinstance(node, ast.FuncCall):
            names = [part.sval for part in node.funcname]
            if names[-1] in functions_of(self.database.major) and names[:-1] in ([], ["pg_catalog"]):
                yield names[-1]
        if isinstance(node, ast.WithClause):
            queries = queries | {cte.ctename for cte in node.ctes}
        if isinstance(node, ast.RangeVar):
            relations = Relations(self.database)
            if node.relname not in queries and relations.columns_of(node.schemaname or "", node.relname) is not None:
                yield node.relname
        for each in children(node):
            yield from self._ours(each, queries)

    def _check_hidden(self, statement: Any, text: str) -> None:
        """Raise UsageError where a function of ours stands in a statement that would run it another time, or not at all."""
        if not isinstance(statement, _HIDING) and isinstance(statement, ast.SelectStmt):
            return
        functions = functions_of(self.database.major)
        for name in self._ours(statement, set()):
            if name in functions:
                what = "moves" if functions[name].moves else "reads"
                raise UsageError(
                    f"{name} cannot be called in {what_is(statement)}",
                    hint=f"It {what} a slot of this state location: call it in a SELECT of its own.", sqlstate="0A000",
                )  # fmt: skip

    # -- parameters --------------------------------------------------------------------------------------------------------------------

    def _parameter(self, statement: Any, text: str) -> Result | None:
        """SET, RESET and SHOW of what is ours; None for what a server is to do."""
        name = statement.name or ""
        if name.lower() == "transaction_isolation" or not name:
            return None
        if not self.parameters.knows(name):
            if self.server is None:
                raise UsageError(f'unrecognized configuration parameter "{name}"', sqlstate="42704")
            return None
        if isinstance(statement, ast.VariableShowStmt):
            shown, setting = self.parameters.shown(name)
            return Result([TextColumn(shown, [setting])], "SHOW", rows=1)
        value = ", ".join(_word(each) for each in statement.args) if statement.args else None
        changed = self.parameters.under(name, value, self.database.major)
        if self.server is not None and name.lower() != AS_OF:
            answer = self.server.run(text)
            if answer.error:
                return answer
        self.parameters = changed
        return Result(tag="SET" if value is not None or "reset" not in text.lower()[:8] else "RESET")


def _word(node: Any) -> str:
    if isinstance(node, ast.TypeCast):  # SET TIME ZONE INTERVAL …
        raise refused("this value of a parameter")
    value = node.val
    return str(getattr(value, "sval", None) or getattr(value, "fval", None) or getattr(value, "ival", ""))


def _numbered(table: pa.Table) -> pa.Table:
    return table.append_column("ordinality", pa.array(range(1, table.num_rows + 1), pa.int64()))
