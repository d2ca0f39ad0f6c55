"""Calls of the interface's functions with arguments as Spark SQL writes them, or as its functions are given them.

In: tokens, or values. Out: the `Call` that PostgreSQL's own grammar and rules make of the same arguments, with its errors. Positions may be
numbers: that is what they are in rows here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tailrace.catalog.names.quoting import quote_literal
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.sql.functions.calls import Call, calls_of
from tailrace.sql.functions.signatures import Function
from tailrace.sql.grammar import parsed
from tailrace.sql.spark_sql.text import NUMBER, STRING, Group, Item, Token, string_value

_TYPES = {
    "STRING": "text", "BIGINT": "int8", "LONG": "int8", "INT": "int4", "INTEGER": "int4", "BOOLEAN": "bool", "PG_LSN": "pg_lsn", "TEXT": "text",
    "NAME": "name",
}  # fmt: skip
_WORDS = frozenset({"NULL", "TRUE", "FALSE"})


def call_with(function: Function, functions: Mapping[str, Function], arguments: Sequence[Any], named: Mapping[str, Any]) -> Call:
    """The call with these values: None, bool, int, str, and for options a list. Raises UsageError as the server does."""
    given = [_positioned(_literal(value), function, place=place) for place, value in enumerate(arguments)]
    given += [_named(name, _positioned(_literal(value), function, name=name), function) for name, value in named.items()]
    return _call(function, functions, given)


def call_written(function: Function, functions: Mapping[str, Function], group: Group, *, escapes: bool) -> Call | None:
    """The call with the arguments in these parentheses; None if one of them is no constant. Raises UsageError as the server does."""
    given: list[str] = []
    for place, items in enumerate(_separated(group.items)):
        name = items[0].name if len(items) > 2 and isinstance(items[0], Token) and _is(items[1], "=>") else ""
        text = _constant(items[2:] if name else items, functions, escapes=escapes)
        if text is None:
            return None
        text = _positioned(text, function, place=place, name=name)
        given.append(_named(name, text, function) if name else text)
    return _call(function, functions, given)


def _call(function: Function, functions: Mapping[str, Function], given: Sequence[str]) -> Call:
    text = f"SELECT * FROM {function.name}({', '.join(given)})"
    try:
        (call,) = calls_of(parsed(text), text, functions)
    except UsageError as error:
        error.position = None  # of a text that nobody has written
        raise
    return call


def _named(name: str, text: str, function: Function) -> str:
    array = name == function.variadic and not text.startswith("VARIADIC ")
    return f"{'VARIADIC ' if array or text.startswith('VARIADIC ') else ''}{name} => {text.removeprefix('VARIADIC ')}"


def _positioned(text: str, function: Function, *, place: int = 0, name: str = "") -> str:
    """A number where a position is asked for is one."""
    names = [argument.name for argument in function.arguments]
    at = (names.index(name) if name in names else -1) if name else place
    is_lsn = 0 <= at < len(names) and function.arguments[at].kind == "pg_lsn"
    return f"'{Lsn(int(text))}'" if is_lsn and text.isdecimal() and int(text) < 1 << 64 else text


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"VARIADIC ARRAY[{', '.join(_literal(each) for each in value)}]::text[]"
    return str(value) if isinstance(value, int) else quote_literal(str(value))


# -- as it is written ----------------------------------------------------------------------------------------------------------------


def _separated(items: Sequence[Item]) -> list[Sequence[Item]]:
    """What stands between commas."""
    commas = [at for at, item in enumerate(items) if _is(item, ",")]
    bounds = zip([0, *(at + 1 for at in commas)], [*commas, len(items)], strict=True)
    return [items[start:end] for start, end in bounds] if items else []


def _is(item: Item, symbol: str) -> bool:
    return isinstance(item, Token) and item.is_symbol(symbol)


def _constant(items: Sequence[Item], functions: Mapping[str, Function], *, escapes: bool) -> str | None:
    """A constant as PostgreSQL writes it; None for what is none, or is not understood."""
    if len(items) > 2 and _is(items[-2], "::"):
        return _cast(_constant(items[:-2], functions, escapes=escapes), items[-1:])
    first = items[0] if items else None
    if not isinstance(first, Token):
        return None
    if len(items) == 1:
        return _one(first, escapes=escapes)
    if first.word == "VARIADIC":
        text = _constant(items[1:], functions, escapes=escapes)
        return None if text is None else "VARIADIC " + text.removeprefix("VARIADIC ")
    second = items[1]
    if len(items) != 2:
        return None
    if first.text in "+-" and isinstance(second, Token) and second.kind == NUMBER:
        text = _one(second, escapes=escapes)
        return None if text is None else first.text + text
    if first.word == "PG_LSN" and isinstance(second, Token) and second.kind == STRING:
        return _cast(_one(second, escapes=escapes), [first])
    return _applied(first, second, functions, escapes=escapes) if isinstance(second, Group) else None


def _one(token: Token, *, escapes: bool) -> str | None:
    if token.kind == STRING:
        value = string_value(token, escapes=escapes)
        return None if value is None else quote_literal(value)
    if token.kind == NUMBER:
        digits = token.text.rstrip("lLsSyY")
        return digits if digits.replace(".", "", 1).isdecimal() else None
    return token.word if token.word in _WORDS else None


def _applied(first: Token, group: Group, functions: Mapping[str, Function], *, escapes: bool) -> str | None:
    """An array, a cast, a position, or a function of ours that only reads."""
    if first.word == "CAST" and len(group.items) > 2 and isinstance(group.items[-2], Token) and group.items[-2].word == "AS":
        return _cast(_constant(group.items[:-2], functions, escapes=escapes), group.items[-1:])
    parts = [_constant(each, functions, escapes=escapes) for each in _separated(group.items)]
    texts = [each for each in parts if each is not None]
    if len(texts) < len(parts):
        return None
    if first.word == "ARRAY":
        return f"VARIADIC ARRAY[{', '.join(texts)}]::text[]"
    if first.word in ("PG_LSN", "LSN_VALUE") and len(texts) == 1:
        return f"({texts[0]})::pg_lsn"
    function = functions.get(first.name)
    if function is None or function.moves or function.is_record:
        return None
    return f"{function.name}({', '.join(texts)})"


def _cast(text: str | None, kind: Sequence[Item]) -> str | None:
    name = _TYPES.get(kind[0].word) if isinstance(kind[0], Token) else None
    return None if text is None or name is None else f"({text})::{name}"
