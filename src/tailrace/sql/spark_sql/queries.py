"""Where a statement in Spark SQL calls functions of the interface and names its views, and whether it calls them where they
run exactly once.

In: a statement. Out: `FoundName`s, in the order in which they stand. Tokens say where calls stand, the tree what they stand
in; a call that the tree does not show, as in a statement that is no query, counts as one that may run again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import field

from sqlglot import exp
from sqlglot.tokens import TokenType

from tailrace.dataclass import dataclass
from tailrace.sql.functions import runs_once
from tailrace.sql.functions.runs_once import FROM, TARGET, VALUE, refused_call
from tailrace.sql.functions.signatures import SqlFunction
from tailrace.sql.spark_sql.grammar import SparkStatement

ELSEWHERE = "elsewhere"
"""Beside FROM, TARGET and VALUE: a call stands in a statement that is no query, or where the tree does not show it."""


@dataclass(frozen=True, slots=True)
class FoundName:
    """A call, with its arguments, or a relation, without. It stands at [start, end) of the text, with the schema that is
    named. `is_bare`: nothing gives it another name there. `why_not` says why it might not run once, empty if it does."""

    name: str
    start: int
    end: int
    where: str
    arguments: tuple[exp.Expression, ...] | None = None
    is_bare: bool = False
    is_lateral: bool = False
    why_not: str = ""


def found_in(statement: SparkStatement, functions: Collection[str], is_relation: Callable[[str], bool]) -> list[FoundName]:
    """All of a statement that is a query, or INSERT with one; of any other the calls alone."""
    calls = _calls(statement, functions)
    if not calls and not any(is_relation(statement.name(at)) for at in range(len(statement.tokens))):
        return []
    finder = _SparkFinder(statement, calls, is_relation)
    why = f"in {what_is(statement)}"
    if statement.query is not None:
        finder.statement(statement.query)
        why = "in a clause that is not understood here"
    missed = [FoundName(*span, ELSEWHERE, (), why_not=why) for span in finder.calls.values()]
    return sorted([*finder.found, *missed], key=lambda each: each.start)


def _calls(statement: SparkStatement, functions: Collection[str]) -> dict[int, tuple[str, int, int]]:
    """By where the function's name begins: its name, and where the whole call begins and ends. What stands among the
    arguments of a call is part of that call."""
    found, at = {}, 0
    while at < len(statement.tokens):
        token, name, start = statement.tokens[at], statement.name(at), statement.start_of_name(at)
        end = statement.closing.get(at + 1)
        at += 1
        if name in functions and start >= 0 and end is not None and statement.tokens[at].token_type == TokenType.L_PAREN:
            found[token.start] = name, statement.tokens[start].start, statement.tokens[end].end + 1
            at = end
    return found


def what_is(statement: SparkStatement) -> str:
    """A statement as a person calls it."""
    if not statement.is_single:
        return "several statements"
    words = statement.words
    if words[:1] == ["CREATE"]:
        return "CREATE " + next((word for word in words if word in ("VIEW", "TABLE", "FUNCTION")), "")
    if statement.begins_query:
        return "a query that is not understood here"
    return "CACHE TABLE" if words[:1] == ["CACHE"] else (words[0] if words else "this statement")


def check_runs_once(found: FoundName, function: SqlFunction) -> None:
    """Raise UsageError (0A000) where it stands where it must not."""
    why = found.why_not
    if found.where == ELSEWHERE and not function.moves:
        return
    if function.moves and found.is_lateral:
        why = why or runs_once.LATERAL
    in_expression = (found.where != FROM and function.is_set) or (found.where == VALUE and (function.is_record or function.moves))
    if in_expression:
        why = why or runs_once.IN_EXPRESSION
    elif not function.moves:
        why = ""
    if why:
        raise refused_call(function, why).in_text(found.start + 1)


@dataclass(slots=True)
class _SparkFinder:
    """`calls` are those that the tree has not shown yet."""

    statement_text: SparkStatement
    calls: dict[int, tuple[str, int, int]]
    is_relation: Callable[[str], bool]
    found: list[FoundName] = field(default_factory=list)
    numbers: dict[int, int] = field(init=False)
    """By where a token begins, its number."""
    with_names: frozenset[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        self.numbers = {token.start: number for number, token in enumerate(self.statement_text.tokens)}

    def statement(self, tree: exp.Expression) -> None:
        self.with_names = frozenset(each.alias.lower() for each in tree.find_all(exp.CTE))
        if isinstance(tree, exp.MultitableInserts):
            why = "in FROM … INSERT, which is not understood here"
            self._relation(tree.args["source"], why)
            for insert in tree.expressions:
                self.query(insert.expression, why)
        elif isinstance(tree, exp.Insert):
            self._with(tree, "")
            self.query(tree.expression, "")
        else:
            self.query(tree, "")

    def query(self, node: exp.Expression, why: str) -> None:
        """A query that runs once, but for `why`."""
        limit = node.args.get("limit")
        if limit is not None and isinstance(limit.expression, exp.Literal) and limit.expression.this == "0":
            why = why or runs_once.LIMIT_ZERO
        if isinstance(node, exp.Select):
            self._select(node, why)
        elif isinstance(node, exp.SetOperation):
            self._with(node, why)
            self.query(node.this, why)
            self.query(node.expression, why)
            self._others(node, why, ("with_", "this", "expression"))
        elif isinstance(node, exp.Subquery | exp.Table):
            self._relation(node, why)
        else:
            self._others(node, why)

    def _select(self, node: exp.Select, why: str) -> None:
        parts = node.args
        where = parts.get("where")
        if where is not None and _is_constant(where):
            why = why or runs_once.CONSTANT_WHERE
        self._with(node, why)
        if (source := parts.get("from_")) is not None:
            self._relation(source.this, why)
        self._joins(node, why)
        alone = not any(parts.get(name) for name in ("from_", "where", "group", "having"))
        for each in node.expressions:
            if alone:
                self._target(each, why, is_whole=True)
            else:
                self.expression(each, why)
        self._others(node, why, ("with_", "from_", "joins", "expressions"))

    def _with(self, node: exp.Expression, why: str) -> None:
        clause = node.args.get("with_")
        for query in clause.expressions if clause is not None else ():
            name, tokens = query.alias.lower(), self.statement_text
            uses = sum(tokens.name(at) == name for at in range(len(tokens.tokens)))
            recursive = runs_once.RECURSIVE if clause.args.get("recursive") else ""
            self.query(query.this, why or recursive or (runs_once.UNUSED if uses == 1 else ""))

    # -- FROM ------------------------------------------------------------------------------------------------------------

    def _joins(self, node: exp.Expression, why: str) -> None:
        for join in node.args.get("joins") or ():
            self._relation(join.this, why)
            self._others(join, why, ("this",))

    def _relation(self, node: exp.Expression, why: str) -> None:
        if isinstance(node, exp.Lateral) and not node.args.get("view"):
            if not self._call(node.this, FROM, why, is_bare=not node.alias, is_lateral=True):
                inner = node.this.this if isinstance(node.this, exp.Subquery) else node.this
                self.query(inner, why or runs_once.IN_LATERAL_SUBQUERY)
        elif isinstance(node, exp.Table):
            if isinstance(node.this, exp.Identifier):
                self._named(node)
            elif not self._call(node.this, FROM, why, is_bare=not node.alias):
                self.expression(node.this, why)
            self._joins(node, why)
            self._others(node, why, ("this", "db", "catalog", "joins"))
        elif isinstance(node, exp.Subquery):
            self._with(node, why)
            self.query(node.this, why)
            self._joins(node, why)
            self._others(node, why, ("with_", "this", "joins"))
        else:
            self.expression(node, why)

    def _named(self, table: exp.Table) -> None:
        """A relation, if it is one of ours."""
        at = self.numbers.get(table.this.meta.get("start", -1))
        if at is None:
            return
        tokens, start = self.statement_text, self.statement_text.start_of_name(at)
        name = tokens.name(at)
        if start < 0 or (start == at and name in self.with_names) or not self.is_relation(name):
            return
        span = tokens.tokens[start].start, tokens.tokens[at].end + 1
        self.found.append(FoundName(name, *span, FROM, is_bare=not table.alias))

    # -- expressions -----------------------------------------------------------------------------------------------------

    def _target(self, node: exp.Expression, why: str, *, is_whole: bool) -> None:
        """What a SELECT is for that has nothing else: it runs once."""
        if self._call(node, TARGET, why, is_bare=is_whole):
            return
        is_case = isinstance(node, exp.Case) or isinstance(node.parent, exp.Case)
        if isinstance(node, exp.Dot) and isinstance(node.this, exp.Identifier):
            self._target(node.expression, why, is_whole=is_whole)
        elif is_case or isinstance(node, exp.Alias | exp.Paren | exp.Binary | exp.Unary | exp.Cast):
            for each in node.iter_expressions():
                self._target(each, why, is_whole=False)
        else:
            self.expression(node, why)

    def expression(self, node: exp.Expression, why: str) -> None:
        if self._call(node, VALUE, why or runs_once.PER_ROW):
            return
        if isinstance(node, exp.Query):
            self.query(node, why or runs_once.IN_SUBQUERY)
        else:
            self._others(node, why)

    def _others(self, node: exp.Expression, why: str, but: Collection[str] = ()) -> None:
        for each in node.iter_expressions():
            if each.arg_key not in but:
                self.expression(each, why)

    def _call(
        self, node: exp.Expression, where: str, why: str, *, is_bare: bool = False, is_lateral: bool = False
    ) -> bool:  # fmt: skip
        """Whether this is a call of the interface."""
        place = node.meta.get("start", -1)
        if not isinstance(node, exp.Anonymous) or place not in self.calls:
            return False
        span = self.calls.pop(place)
        if self.numbers[place] in self.statement_text.piped:
            where, why = VALUE, why or "behind |>, which is not understood here"
        self.found.append(FoundName(*span, where, tuple(node.expressions), is_bare, is_lateral, why))
        return True


def _is_constant(where: exp.Expression) -> bool:
    """Whether it names no column, and calls nothing."""
    return not any(
        isinstance(each, exp.Identifier) or (isinstance(each, exp.Func) and not isinstance(each, exp.Connector))
        for each in where.walk()
    )
