"""Calls of the interface's functions with arguments as Spark SQL writes them, or as its functions are given them.

In: sqlglot's trees of arguments, or values. Out: the `FunctionCall` that PostgreSQL's own grammar and rules make of the same arguments,
with its errors. Positions may be numbers: that is what they are in rows here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.sql.functions.calls import FunctionCall, calls_of
from tailrace.sql.functions.signatures import SqlFunction
from tailrace.sql.grammar import parsed
from tailrace.sql.spark_sql.grammar import SparkStatement
from tailrace.types.quoting import quote_literal

_KINDS = exp.DataType.Type
_TYPES = {
    _KINDS.TEXT: "text", _KINDS.BIGINT: "int8", _KINDS.INT: "int4", _KINDS.BOOLEAN: "bool", _KINDS.INET: "pg_lsn",
    _KINDS.NAME: "name",
}  # fmt: skip


def call_with(
    function: SqlFunction, functions: Mapping[str, SqlFunction], arguments: Sequence[Any], named: Mapping[str, Any]
) -> FunctionCall:
    """The call with these values: None, bool, int, str, and for options a list. Raises UsageError as the server does."""
    given = [_positioned(_literal(value), function, place=place) for place, value in enumerate(arguments)]
    given += [_named(name, _positioned(_literal(value), function, name=name), function) for name, value in named.items()]
    return _call(function, functions, given)


def call_written(
    function: SqlFunction, functions: Mapping[str, SqlFunction], arguments: Sequence[exp.Expression], statement: SparkStatement
) -> FunctionCall | None:
    """The call with arguments as they stand in a statement; None if one of them is no constant. Raises UsageError as the
    server does."""
    given: list[str] = []
    for place, argument in enumerate(arguments):
        name, value = (argument.name.lower(), argument.expression) if isinstance(argument, exp.Kwarg) else ("", argument)
        text = _constant(value, functions, statement)
        if text is None:
            return None
        text = _positioned(text, function, place=place, name=name)
        given.append(_named(name, text, function) if name else text)
    return _call(function, functions, given)


def _call(function: SqlFunction, functions: Mapping[str, SqlFunction], given: Sequence[str]) -> FunctionCall:
    text = f"SELECT * FROM {function.name}({', '.join(given)})"
    try:
        (call,) = calls_of(parsed(text), text, functions)
    except UsageError as error:
        error.position = None  # of a text that nobody has written
        raise
    return call


def _named(name: str, text: str, function: SqlFunction) -> str:
    array = name == function.variadic and not text.startswith("VARIADIC ")
    return f"{'VARIADIC ' if array or text.startswith('VARIADIC ') else ''}{name} => {text.removeprefix('VARIADIC ')}"


def _positioned(text: str, function: SqlFunction, *, place: int = 0, name: str = "") -> str:
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


# -- as it is written ----------------------------------------------------------------------------------------------------


def _constant(node: exp.Expression, functions: Mapping[str, SqlFunction], statement: SparkStatement) -> str | None:
    """A constant as PostgreSQL writes it; None for what is none, or is not understood."""
    if isinstance(node, exp.Null | exp.Boolean):
        return "NULL" if isinstance(node, exp.Null) else str(node.this).lower()
    if isinstance(node, exp.Literal):
        return _literal_written(node, statement)
    if isinstance(node, exp.RawString):
        return quote_literal(str(node.this))
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        text = _constant(node.this, functions, statement)
        return None if text is None else f"-{text}"
    if isinstance(node, exp.Variadic):
        text = _constant(node.this, functions, statement)
        return None if text is None else "VARIADIC " + text.removeprefix("VARIADIC ")
    if isinstance(node, exp.Cast):
        text, kind = _constant(node.this, functions, statement), _TYPES.get(node.to.this)
        if isinstance(node.this, exp.Literal) and _written(node.this, statement)[-1:].isalpha():
            return text  # 3L
        return None if text is None or kind is None else f"({text})::{kind}"
    if not isinstance(node, exp.Array | exp.Anonymous):
        return None
    texts = [text for each in node.expressions if (text := _constant(each, functions, statement)) is not None]
    if len(texts) < len(node.expressions):
        return None
    if isinstance(node, exp.Array):
        return f"VARIADIC ARRAY[{', '.join(texts)}]::text[]"
    name = node.name.lower()
    if name in ("pg_lsn", "lsn_value") and len(texts) == 1:
        return f"({texts[0]})::pg_lsn"
    function = functions.get(name)
    return None if function is None or function.moves or function.is_record else f"{function.name}({', '.join(texts)})"


def _literal_written(node: exp.Literal, statement: SparkStatement) -> str | None:
    """A number that has an exponent is not understood, nor a string in which a backslash says something."""
    written = _written(node, statement)
    if not written:
        return None
    if node.is_string:
        return None if statement.escapes and "\\" in written else quote_literal(str(node.this))
    return str(node.this) if str(node.this).replace(".", "", 1).isdecimal() else None


def _written(node: exp.Literal, statement: SparkStatement) -> str:
    """As it stands in the statement; empty where sqlglot has put it there."""
    return statement.text[node.meta["start"] : node.meta["end"] + 1] if "start" in node.meta else ""
