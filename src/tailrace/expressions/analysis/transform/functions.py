"""Calls of functions (`parser/parse_func.c`, ParseFuncOrColumn).

In: a name, analysed arguments, and how the call was written. Out: a `Function`, or a cast where a type's name was called like one. Aggregates, window
functions and functions that return sets are found, and refused where a clause may not have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.expressions import tree
from tailrace.expressions.analysis.catalog import FunctionRow
from tailrace.expressions.analysis.catalog.names import in_path, name_list
from tailrace.expressions.analysis.coercion import polymorphism
from tailrace.expressions.analysis.coercion.coercion import coerce, coerce_arguments
from tailrace.expressions.analysis.coercion.pathways import CoercionContext, find_path
from tailrace.expressions.analysis.state import EXPLICIT_CALL, Forbidden, Node, ParseState, location_of, type_of
from tailrace.expressions.analysis.transform.candidates import callable_with, select
from tailrace.types import oids

MOST_ARGUMENTS = 100
_WITH_AGGREGATES, _WITH_WINDOWS = ("SELECT", "HAVING", "ORDER BY"), ("SELECT", "ORDER BY")
"""Clauses that may have them."""
_AMBIGUOUS = "Could not choose a best candidate function. You might need to add explicit type casts."
_NONE_FITS = "No function matches the given name and argument types. You might need to add explicit type casts."


@dataclass(frozen=True, slots=True)
class FuncCall:
    """How a call was written: `form` is CoercionForm, `variadic` whether the keyword was there, `names` of arguments that were given by name."""

    form: int = EXPLICIT_CALL
    variadic: bool = False
    star: bool = False
    distinct: bool = False
    ordered: bool = False
    within_group: bool = False
    filtered: bool = False
    over: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _FunctionCandidate:
    """A function as this call would use it: the types it takes, in the order in which the arguments were given; how many go into its variadic
    array."""

    row: FunctionRow
    takes: tuple[int, ...]
    gathered: int = 0

    @property
    def is_special(self) -> bool:
        return self.gathered > 0 or len(self.takes) != len(self.row.arguments)


def call_function(state: ParseState, names: list[str], args: Sequence[Node], call: FuncCall, location: int) -> Node:
    """The call, or its refusal."""
    if len(args) > MOST_ARGUMENTS:
        raise state.error(f"cannot pass more than {MOST_ARGUMENTS} arguments to a function", "54023", location)
    given = [type_of(arg) for arg in args]
    candidates = _candidates(state, names, len(args), call, location)
    chosen = next((each for each in candidates if list(each.takes) == given), None)
    if chosen is None:
        cast = _as_cast(state, names, args, given, call, location)
        if cast is not None:
            return cast
        fitting = callable_with(state.catalog, given, candidates)
        chosen = fitting[0] if len(fitting) == 1 else select(state.catalog, given, fitting) if fitting else None
        if chosen is None:
            raise _not_found(state, names, given, call, location, ambiguous=bool(fitting))
    _check_kind(state, chosen.row, names, given, call, location)
    return _made(state, chosen, args, given, call, location)


def _candidates(state: ParseState, names: list[str], count: int, call: FuncCall, location: int) -> list[_FunctionCandidate]:
    """FuncnameGetCandidates: functions of the name that this many arguments may call. Of two that take the same, the one that takes it without a
    variadic or a default is meant."""
    rows = in_path(state, state.catalog.functions_named.get(names[-1], []), names, location, lambda row: row.arguments)
    best: dict[tuple[int, ...], _FunctionCandidate] = {}
    for row in rows:
        candidate = _named(row, count, call.names) if call.names else _positional(row, count, call)
        if candidate is not None:
            known = best.get(candidate.takes)
            if known is None or (known.is_special and not candidate.is_special):
                best[candidate.takes] = candidate
    return list(best.values())


def _positional(row: FunctionRow, count: int, call: FuncCall) -> _FunctionCandidate | None:
    wanted = len(row.arguments)
    if row.variadic and not call.variadic and count >= wanted:
        gathered = count - wanted + 1
        return _FunctionCandidate(row, row.arguments[:-1] + (row.variadic,) * gathered, gathered)
    if not wanted - row.defaults <= count <= wanted:
        return None
    return _FunctionCandidate(row, row.arguments[:count])


def _named(row: FunctionRow, count: int, names: tuple[str, ...]) -> _FunctionCandidate | None:
    """MatchNamedCall: positions first, then names, then defaults."""
    first = count - len(names)
    if row.variadic or any(name not in row.names[first:] for name in names) or len(row.arguments) < count:
        return None
    places = [*range(first), *(row.names.index(name) for name in names)]
    missing = set(range(len(row.arguments))) - set(places)
    if any(place < len(row.arguments) - row.defaults for place in missing):
        return None
    return _FunctionCandidate(row, tuple(row.arguments[place] for place in places))


def _as_cast(
    state: ParseState, names: list[str], args: Sequence[Node], given: list[int], call: FuncCall, location: int
) -> Node | None:
    """A call of one argument by the name of a type may be a cast (FUNCDETAIL_COERCION)."""
    if len(args) != 1 or call.names:
        return None
    rows = in_path(state, state.catalog.types_named.get(names[-1], []), names, location, lambda row: row.name)
    if not rows or rows[0].kind == "c":
        return None
    target, source = rows[0].oid, given[0]
    if not (source == oids.UNKNOWN and isinstance(args[0], tree.Const)):
        path = find_path(state.catalog, target, source, CoercionContext.EXPLICIT)
        of_row = source == oids.RECORD or state.catalog.kind(source) == "c"
        if path is None or path.how not in ("relabel", "text"):
            return None
        if path.how == "text" and of_row and state.catalog.category(target) == "S":
            return None
    return coerce(state, args[0], target, -1, CoercionContext.EXPLICIT, EXPLICIT_CALL, location)


def _signature(state: ParseState, names: list[str], given: list[int], call: FuncCall) -> str:
    first = len(given) - len(call.names)
    labels = [
        f"{call.names[place - first]} => {state.label(oid)}" if place >= first else state.label(oid)
        for place, oid in enumerate(given)
    ]
    return f"{name_list(names)}({', '.join(labels)})"


def _not_found(
    state: ParseState, names: list[str], given: list[int], call: FuncCall, location: int, *, ambiguous: bool
) -> UsageError:
    signature = _signature(state, names, given, call)
    if ambiguous:
        return state.error(f"function {signature} is not unique", "42725", location, hint=_AMBIGUOUS)
    return state.error(f"function {signature} does not exist", "42883", location, hint=_NONE_FITS)


def _check_kind(state: ParseState, row: FunctionRow, names: list[str], given: list[int], call: FuncCall, location: int) -> None:
    """What only aggregates and window functions may have, and that they may not stand here at all."""
    name = name_list(names)
    if row.kind == "p":
        message = f"{_signature(state, names, given, call)} is a procedure"
        raise state.error(message, "42809", location, hint="To call a procedure, use CALL.")
    if row.kind == "a" and not given and not call.star:
        raise state.error(f"{name}(*) must be used to call a parameterless aggregate function", "42809", location)
    if row.kind == "w" and not call.over:
        raise state.error(f"window function {name} requires an OVER clause", "42809", location)
    if row.kind in ("a", "w"):
        if call.over and state.clause not in _WITH_WINDOWS:
            raise state.error(f"window functions are not allowed in {state.clause}", "42P20", location)
        if not call.over and state.clause not in _WITH_AGGREGATES:
            raise state.error(f"aggregate functions are not allowed in {state.clause}", "42803", location)
        return
    only_aggregates = (
        (call.star, f"{name}(*)"), (call.distinct, "DISTINCT"), (call.within_group, "WITHIN GROUP"), (call.ordered, "ORDER BY"),
        (call.filtered, "FILTER"),
    )  # fmt: skip
    for there, what in only_aggregates:
        if there:
            raise state.error(f"{what} specified, but {name} is not an aggregate function", "42809", location)
    if call.over:
        message = f"OVER specified, but {name} is not a window function nor an aggregate function"
        raise state.error(message, "42809", location)


def _made(
    state: ParseState, chosen: _FunctionCandidate, args: Sequence[Node], given: list[int], call: FuncCall, location: int
) -> Node:
    row, variadic = chosen.row, call.variadic
    try:
        declared, result = polymorphism.resolve(state.catalog, given, chosen.takes, row.result)
    except UsageError as error:
        raise state.error(error.message, error.sqlstate) from None
    if call.names:
        inner = coerce_arguments(state, [arg.args[0] if isinstance(arg, Forbidden) else arg for arg in args], declared)
        first = len(args) - len(call.names)
        passed: tuple[Any, ...] = (
            *inner[:first],
            *(
                Forbidden("NamedArgExpr", type_of(each), (each,), location=getattr(arg, "location", -1))
                for each, arg in zip(inner[first:], args[first:], strict=True)
            ),
        )
    else:
        passed = coerce_arguments(state, args, declared)
    if chosen.gathered and row.variadic != oids.ANY:
        kept, gathered = passed[: -chosen.gathered], passed[-chosen.gathered :]
        element = type_of(gathered[0])
        array = state.catalog.array_type(element)
        if not array:
            at = location_of(gathered[0])
            raise state.error(f"could not find array type for data type {state.label(element)}", "42704", at)
        passed = (*kept, tree.ArrayExpr(array, element, gathered, location=location_of(gathered[0])))
        variadic = True
    if row.returns_set:
        raise state.error(f"set-returning functions are not allowed in {state.clause}", "0A000", location)
    return tree.FuncExpr(
        row.oid, result, tuple(passed), call.form, variadic=variadic, returns_set=row.returns_set, location=location
    )
