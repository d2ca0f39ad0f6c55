"""Where a statement in Spark SQL calls functions of the interface and names its views, and whether it calls them where they run exactly once.

In: the items of a statement. Out: `Found`, in the order in which they stand. Of the grammar only as much is known as it takes to tell
FROM from expressions, and a query that runs once from one that may run again; what is not understood counts as the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tailrace.errors import UsageError
from tailrace.sql.functions.signatures import Function
from tailrace.sql.spark_sql.text import QUOTED, STRING, WORD, Group, Item, Token

FROM, TARGET, VALUE, ELSEWHERE = "FROM", "target", "value", "elsewhere"
"""Where a call stands: in FROM; in the list of a SELECT without FROM; in another expression; or in a statement that is no query."""
_SET_OPERATIONS = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS"})
_CLAUSES = {
    "SELECT": "SELECT", "FROM": "FROM", "JOIN": "FROM", "WHERE": "WHERE", "HAVING": "HAVING", "QUALIFY": "HAVING", "WINDOW": "WINDOW",
    "LIMIT": "LIMIT", "OFFSET": "LIMIT", "GROUP": "BY", "ORDER": "BY", "SORT": "BY", "CLUSTER": "BY", "DISTRIBUTE": "BY", "VALUES": "VALUES",
}  # fmt: skip
_BEGIN_QUERIES = frozenset({"SELECT", "WITH", "FROM", "VALUES"})
_BEFORE_RELATIONS = frozenset({"FROM", "JOIN"})
_NOT_ALIASES = frozenset(
    {
        *_CLAUSES, *_SET_OPERATIONS, "ON", "USING", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "OUTER", "NATURAL", "ANTI", "SEMI", "LATERAL",
        "TABLESAMPLE", "PIVOT", "UNPIVOT", "INSERT",
    }
)  # fmt: skip
_CONSTANTS = frozenset({"TRUE", "FALSE", "NULL", "NOT", "AND", "OR", "IS"})
_PER_ROW = "for each row of a query"
_IN_SUBQUERY = "in a subquery of an expression, which may run again, or not at all"


@dataclass(frozen=True, slots=True)
class Found:
    """A call, with its arguments, or a relation, without. It stands at [start, end) of the text, with the schema that is named. `is_bare`: nothing
    gives it another name there. `why_not` says why it might not run once, empty if it does."""

    name: str
    start: int
    end: int
    where: str
    arguments: Group | None = None
    is_bare: bool = False
    is_lateral: bool = False
    why_not: str = ""


def found_in(items: Sequence[Item], functions: Collection[str], is_relation: Callable[[str], bool]) -> list[Found]:
    """All of a statement that is a query, or INSERT with one; of any other the calls alone."""
    while items and isinstance(items[-1], Token) and items[-1].is_symbol(";"):
        items = items[:-1]
    finder = _Finder(functions, is_relation, _names(items))
    query = _query_of(items)
    if query is None or _words(items) & {";"}:
        finder.elsewhere = True
        finder.expression(items, f"in {what_is(items)}")
    else:
        inserts = [at for at, item in enumerate(query) if isinstance(item, Token) and item.word == "INSERT"]
        finder.query(query, "in FROM … INSERT, which is not understood here" if inserts else "")
    return sorted(finder.found, key=lambda each: each.start)


def what_is(items: Sequence[Item]) -> str:
    """A statement as a person calls it."""
    words = [item.word for item in items if isinstance(item, Token) and item.word]
    if words[:1] == ["CREATE"]:
        return "CREATE " + next((word for word in words if word in ("VIEW", "TABLE", "FUNCTION")), "")
    if words[:1] == ["CACHE"]:
        return "CACHE TABLE"
    return "several statements" if _words(items) & {";"} else (words[0] if words else "this statement")


def check_runs_once(found: Found, function: Function) -> None:
    """Raise UsageError (0A000) where it stands where it must not."""
    why = found.why_not
    if found.where == ELSEWHERE and not function.moves:
        return
    if function.moves and found.is_lateral:
        why = why or "in LATERAL, which runs it for each row"
    if (found.where != FROM and function.is_set) or (found.where == VALUE and function.is_record):
        why = why or "in an expression"
    elif not function.moves:
        why = ""
    elif found.where == VALUE:
        why = why or "in an expression"
    if why:
        hint = "It must run exactly once: call it in FROM, or in a SELECT of its own." if function.moves else "Call it in FROM."
        raise UsageError(f"{function.name} cannot be called {why}", hint=hint, sqlstate="0A000").in_text(found.start + 1)


@dataclass(slots=True)
class _Finder:
    functions: Collection[str]
    is_relation: Callable[[str], bool]
    queries: Mapping[str, int]
    """Names of WITH queries; what has the name of one is no relation of ours."""
    elsewhere: bool = False
    found: list[Found] = field(default_factory=list)

    def query(self, items: Sequence[Item], why: str) -> None:
        """A query that runs once, but for `why`."""
        if _has_limit_zero(items):
            why = why or "in a query with LIMIT 0, which does not run it"
        piped = next((at for at, item in enumerate(items) if isinstance(item, Token) and item.is_symbol("|>")), len(items))
        self.expression(items[piped:], why or "behind |>, which is not understood here")
        items = self._with(items[:piped], why)
        start = 0
        for at, item in enumerate([*items, None]):
            if item is None or (isinstance(item, Token) and item.word in _SET_OPERATIONS):
                self._select(items[start:at], why)
                start = at + 1

    def _with(self, items: Sequence[Item], why: str) -> Sequence[Item]:
        """What is behind the WITH clause, if there is one."""
        if not items or not isinstance(items[0], Token) or items[0].word != "WITH":
            return items
        recursive = "in a recursive query" if isinstance(items[1], Token) and items[1].word == "RECURSIVE" else ""
        at = 1
        while at < len(items):
            item = items[at]
            if isinstance(item, Token) and item.word in ("SELECT", "FROM", "VALUES", "INSERT"):
                return items[at:]
            if isinstance(item, Group) and isinstance(items[at - 1], Token) and items[at - 1].word == "AS":  # type: ignore[union-attr]
                named = next((each.name for each in reversed(items[: at - 1]) if isinstance(each, Token) and each.name), "")
                unused = "in a WITH query that nothing refers to, which does not run" if _count(self.queries, named) < 2 else ""
                self.query(item.items, why or recursive or unused)
                following = items[at + 1] if at + 1 < len(items) else None
                if isinstance(following, Group):
                    return items[at + 1 :]
            at += 1
        return ()

    def _select(self, items: Sequence[Item], why: str) -> None:
        """One SELECT, without set operations; or what stands for one, in parentheses."""
        words = {item.word for item in items if isinstance(item, Token)}
        if _where_is_constant(items):
            why = why or "in a query whose WHERE does not depend on rows, which may not run it"
        alone = not words & {"FROM", "WHERE", "GROUP", "HAVING"}
        self._walk(items, why, "", alone=alone)

    def expression(self, items: Sequence[Item], why: str) -> None:
        self._walk(items, why, "EXPRESSION", alone=False)

    def _walk(self, items: Sequence[Item], why: str, clause: str, *, alone: bool) -> None:
        for at, item in enumerate(items):
            before = items[at - 1] if at else None
            if isinstance(item, Group):
                if not self._is_call(items, at - 1):
                    self._group(item, before, why, clause, alone=alone)
                continue
            clause = _clause_at(item, before, clause)
            if self._is_call(items, at):
                self._call(items, at, why, clause, alone=alone)
            elif clause == "FROM" and self._names_relation(items, at):
                end = item.end
                start = _start_of_name(items, at)
                self.found.append(Found(item.name, items[start].start, end, FROM, is_bare=_is_bare(items, at + 1)))

    def _group(self, group: Group, before: Item | None, why: str, clause: str, *, alone: bool) -> None:
        in_from = clause == "FROM" and _is_before_relation(before)
        if _begins_query(group):
            if in_from or (
                clause == "" and (before is None or (isinstance(before, Token) and before.word in ("ALL", "DISTINCT")))
            ):
                self.query(group.items, why)
            elif clause == "FROM" and isinstance(before, Token) and before.word == "LATERAL":
                self.query(group.items, why or "in a LATERAL subquery, which runs for each row")
            else:
                self.query(group.items, why or _IN_SUBQUERY)
        elif in_from:
            self._walk([Token(WORD, "FROM", group.start, group.start), *group.items], why, "FROM", alone=False)
        elif clause == "SELECT" and not (isinstance(before, Token) and before.name and before.word not in _CLAUSES):
            self._walk(group.items, why, "SELECT", alone=alone)
        else:
            self.expression(group.items, why)

    # -- names -----------------------------------------------------------------------------------------------------------------------

    def _is_call(self, items: Sequence[Item], at: int) -> bool:
        if at < 0 or at + 1 >= len(items):
            return False
        item, following = items[at], items[at + 1]
        if not isinstance(item, Token) or item.name not in self.functions or not isinstance(following, Group):
            return False
        return following.bracket == "(" and _start_of_name(items, at) >= 0

    def _call(self, items: Sequence[Item], at: int, why: str, clause: str, *, alone: bool) -> None:
        token, arguments, start = items[at], items[at + 1], _start_of_name(items, at)
        assert isinstance(token, Token)
        assert isinstance(arguments, Group)
        before = items[start - 1] if start else None
        lateral = clause == "FROM" and isinstance(before, Token) and before.word == "LATERAL"
        span = (token.name, items[start].start, arguments.end)
        if lateral or (clause == "FROM" and _is_before_relation(before)):
            self.found.append(Found(*span, FROM, arguments, _is_bare(items, at + 2), lateral, why))
        elif clause == "SELECT" and alone:
            direct = isinstance(before, Token) and (before.word == "SELECT" or before.is_symbol(","))
            following = items[at + 2] if at + 2 < len(items) else None
            is_bare = direct and (following is None or (isinstance(following, Token) and following.is_symbol(",")))
            self.found.append(Found(*span, TARGET, arguments, is_bare, why_not=why))
        else:
            self.found.append(Found(*span, ELSEWHERE if self.elsewhere else VALUE, arguments, why_not=why or _PER_ROW))

    def _names_relation(self, items: Sequence[Item], at: int) -> bool:
        item = items[at]
        start = _start_of_name(items, at)
        if (
            not isinstance(item, Token)
            or not item.name
            or start < 0
            or not _is_before_relation(items[start - 1] if start else None)
        ):
            return False
        following = items[at + 1] if at + 1 < len(items) else None
        is_part = isinstance(following, Group) or (isinstance(following, Token) and following.is_symbol("."))
        named_query = start == at and item.name in self.queries and _is_query_name(self.queries, item.name)
        return not is_part and not named_query and item.word not in _CLAUSES and self.is_relation(item.name)


def _clause_at(token: Token, before: Item | None, clause: str) -> str:
    """The clause that goes on, or begins, with a token."""
    behind = before if isinstance(before, Token) else None
    if behind is not None and behind.is_symbol("."):
        return clause
    if clause == "EXPRESSION":
        return clause
    if token.word == "FROM" and behind is not None and behind.word == "DISTINCT":
        return clause
    if token.word == "VIEW" and behind is not None and behind.word == "LATERAL":
        return "LATERAL VIEW"
    if token.word in ("ON", "USING") and clause == "FROM":
        return "ON"
    if clause == "ON" and token.is_symbol(","):
        return "FROM"
    return _CLAUSES.get(token.word, clause)


def _start_of_name(items: Sequence[Item], at: int) -> int:
    """Where a name begins that may have the schema pg_catalog; -1 if it has another."""
    before = items[at - 1] if at else None
    if not isinstance(before, Token) or not before.is_symbol("."):
        return at
    schema = items[at - 2] if at > 1 else None
    further = items[at - 3] if at > 2 else None
    is_ours = isinstance(schema, Token) and schema.name == "pg_catalog"
    return at - 2 if is_ours and not (isinstance(further, Token) and further.is_symbol(".")) else -1


def _is_before_relation(item: Item | None) -> bool:
    return isinstance(item, Token) and (item.word in _BEFORE_RELATIONS or item.is_symbol(","))


def _is_bare(items: Sequence[Item], at: int) -> bool:
    """Whether no alias stands here."""
    if at >= len(items):
        return True
    item = items[at]
    if not isinstance(item, Token) or item.kind not in (WORD, QUOTED):
        return True
    return item.word in _NOT_ALIASES


def _begins_query(group: Group) -> bool:
    first = group.items[0] if group.items else None
    if isinstance(first, Group):
        return _begins_query(first)
    return isinstance(first, Token) and first.word in _BEGIN_QUERIES


def _query_of(items: Sequence[Item]) -> Sequence[Item] | None:
    """The query that a statement is, or inserts; None if it is another."""
    first = items[0] if items else None
    if isinstance(first, Group):
        return items if _begins_query(first) else None
    if first is not None and first.word == "INSERT":
        starts = (at for at, item in enumerate(items) if isinstance(item, Token) and item.word in _BEGIN_QUERIES)
        return items[next(starts, len(items)) :]
    return items if first is not None and first.word in _BEGIN_QUERIES else None


def _flat(items: Sequence[Item]) -> list[Token]:
    return [token for item in items for token in (_flat(item.items) if isinstance(item, Group) else [item])]


def _words(items: Sequence[Item]) -> set[str]:
    return {item.text for item in items if isinstance(item, Token)}


def _names(items: Sequence[Item]) -> dict[str, int]:
    """How often each name stands in a statement; negative for those that no WITH clause gives."""
    counts: dict[str, int] = {}
    for token in _flat(items):
        if token.name:
            counts[token.name] = counts.get(token.name, 0) + 1
    given = _with_names(items)
    return {name: count if name in given else -count for name, count in counts.items()}


def _with_names(items: Sequence[Item]) -> set[str]:
    """Names before AS and a query in parentheses."""
    found: set[str] = set()
    for at, item in enumerate(items):
        if not isinstance(item, Group):
            continue
        found |= _with_names(item.items)
        before = items[at - 1] if at else None
        if _begins_query(item) and isinstance(before, Token) and before.word == "AS":
            names = [each.name for each in items[:at] if isinstance(each, Token) and each.name]
            found |= {names[-2]} if len(names) > 1 else set()
    return found


def _is_query_name(counts: Mapping[str, int], name: str) -> bool:
    return counts.get(name, 0) > 0


def _count(counts: Mapping[str, int], name: str) -> int:
    return abs(counts.get(name, 0))


def _has_limit_zero(items: Sequence[Item]) -> bool:
    pairs = zip(items, items[1:], strict=False)
    return any(
        isinstance(one, Token) and one.word == "LIMIT" and isinstance(two, Token) and two.text == "0" for one, two in pairs
    )


def _where_is_constant(items: Sequence[Item]) -> bool:
    """Whether there is a WHERE, with no name of a column."""
    starts = [at for at, item in enumerate(items) if isinstance(item, Token) and item.word == "WHERE"]
    if not starts:
        return False
    condition: list[Item] = []
    for item in items[starts[0] + 1 :]:
        if isinstance(item, Token) and item.word in _CLAUSES:
            break
        condition.append(item)
    return not any(token.name and token.word not in _CONSTANTS for token in _flat(condition) if token.kind != STRING)
