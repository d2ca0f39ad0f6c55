"""The parameters of a prepared statement: `$1` and so on, which types they have, and their values in their places (`parser/parse_param.c`).

In: a statement, its text, and what its client says of the types. Out: their oids; or a text in which every parameter has become a literal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pglast.parser import scan

from tailrace.errors import UsageError
from tailrace.sql.functions.signatures import SqlFunction
from tailrace.sql.grammar import ast, children, name_of
from tailrace.sql.sql_types import SAME, oid_of
from tailrace.types import oids
from tailrace.types.built_in import built_in_types
from tailrace.types.quoting import quote_literal

_PARAM = "PARAM"
_UNSAID = (0, oids.UNKNOWN)


def parameter_types(statement: Any, given: Sequence[int], functions: Mapping[str, SqlFunction]) -> tuple[int, ...]:
    """The type of each: what the client gave; or what it is cast to, what a function of ours takes there, a number behind LIMIT and OFFSET; text
    where nothing says so. Raises UsageError (42P18) for one that does not occur."""
    found: dict[int, int] = {}
    for number, kind in _occurrences(statement, functions):
        if kind or number not in found:
            found[number] = found.get(number) or kind
    count = max([*found, len(given)], default=0)
    types = []
    for number in range(1, count + 1):
        said = given[number - 1] if number <= len(given) else 0
        if said in _UNSAID and number not in found:
            raise UsageError(f"could not determine data type of parameter ${number}", sqlstate="42P18")
        types.append((found[number] or oids.TEXT) if said in _UNSAID else said)
    return tuple(types)


def _occurrences(node: Any, functions: Mapping[str, SqlFunction]) -> Iterator[tuple[int, int]]:
    """Number and type, 0 where none is said."""
    if isinstance(node, ast.ParamRef):
        yield node.number, 0
        return
    typed: dict[int, int] = {}
    if isinstance(node, ast.TypeCast) and isinstance(node.arg, ast.ParamRef):
        typed[id(node.arg)] = _named_type(node.typeName)
    if isinstance(node, ast.SelectStmt):
        typed |= {id(each): oids.INT8 for each in (node.limitCount, node.limitOffset) if isinstance(each, ast.ParamRef)}
    if isinstance(node, ast.FuncCall) and (function := functions.get(name_of(node)[1])) is not None:
        kinds = zip(node.args or (), function.arguments, strict=False)
        typed |= {id(each): oid_of(argument.kind) for each, argument in kinds if isinstance(each, ast.ParamRef)}
    for each in children(node):
        if id(each) in typed:
            yield each.number, typed[id(each)]
        else:
            yield from _occurrences(each, functions)


def _named_type(node: Any) -> int:
    name = node.names[-1].sval
    brackets = "[]" if node.arrayBounds else ""
    try:
        return oid_of(SAME.get(name, name) + brackets)
    except AssertionError:
        return 0


def with_values(text: str, types: Sequence[int], values: Sequence[str | None]) -> str:
    """The text with literals in the places of its parameters; a value is the text of its type."""
    raw, parts, at = text.encode("utf-8", "surrogateescape"), [], 0
    for token in scan(text):
        if token.name != _PARAM:
            continue
        start, stop = _byte(text, token.start), _byte(text, token.end + 1)
        number = int(raw[start + 1 : stop])
        if number > len(values):
            raise UsageError(f"there is no parameter ${number}", sqlstate="42P02")
        parts += [raw[at:start].decode("utf-8", "surrogateescape"), _literal(values[number - 1], types[number - 1])]
        at = stop
    return "".join([*parts, raw[at:].decode("utf-8", "surrogateescape")])


def _byte(text: str, at: int) -> int:
    return len(text[:at].encode("utf-8", "surrogateescape"))


def _literal(value: str | None, kind: int) -> str:
    """Of text as it is, so that it may become what stands there; of another type with its name."""
    if value is not None and kind in (oids.INT2, oids.INT4, oids.INT8) and value.isascii() and value.removeprefix("-").isdigit():
        return f"({value})" if value.startswith("-") else value
    shown = "NULL" if value is None else quote_literal(value)
    found = built_in_types().get(kind)
    return shown if kind in (oids.TEXT, oids.UNKNOWN) or found is None else f"{shown}::{found.label}"
