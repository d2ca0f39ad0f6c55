"""PostgreSQL's own grammar over the text of a row filter (libpg_query by pglast, whose grammar is that of 18).

In: `a > 5 AND b = 'x'`, without the parentheses of WHERE (…). Out: the parsed expression, and where its constants stand, which its nodes do not say.
Majors before 18 read a little less; what they do not read is refused in their words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pglast import ast
from pglast.parser import ParseError, parse_sql, parse_sql_json, scan

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.majors import NUMBERS_IN_OTHER_BASES, supports

_BEFORE = "CREATE PUBLICATION p FOR TABLE t WHERE ("
_AFTER = ")"


@dataclass(frozen=True, slots=True)
class Parsed:
    """The expression; places of constants by id of their node, in characters of the text that was parsed; how many characters stand before the
    filter."""

    expression: Any
    constants: dict[int, int]
    base: int


def parse_filter(text: str, major: int) -> Parsed:
    """Raises UsageError, syntax error, with the position in the text given."""
    statement = f"{_BEFORE}{text}{_AFTER}"
    try:
        (parsed,) = parse_sql(statement)
        made: Any = parsed.stmt
        (subject,) = made.pubobjects
        expression = subject.pubtable.whereClause
        whole = subject.pubtable.columns is None and expression is not None and not made.options
    except ParseError as error:
        raise _syntax_error(error, len(_BEFORE), len(statement)) from None
    except ValueError:
        whole = False
    if not whole:
        raise UsageError("a row filter must be one expression", sqlstate="42601")
    _check_numbers(statement, major, len(_BEFORE))
    return Parsed(expression, constants_of(made, statement), len(_BEFORE))


def parse_type_name(text: str) -> Any:
    """The TypeName that a text is."""
    try:
        (parsed,) = parse_sql(f"SELECT NULL::{text}")
        made: Any = parsed.stmt
        return made.targetList[0].val.typeName
    except (ParseError, ValueError, AttributeError):
        raise UsageError(f'invalid type name "{text}"', sqlstate="42601") from None


def constants_of(node: Any, source: str) -> dict[int, int]:
    """Where the constants below a parsed statement stand in its text, in characters, and -1 of those that the grammar puts in: from the statement's
    other form, which has the same nodes in the same order and says it of all."""
    places: list[int] = []
    _collect(json.loads(parse_sql_json(source)), places)
    raw = source.encode()
    starts = [at if at < 0 else len(raw[:at].decode(errors="replace")) for at in places]
    return {id(each): at for each, at in zip(_constants(node), starts, strict=True)}


def _collect(found: Any, places: list[int]) -> None:
    if isinstance(found, list):
        for each in found:
            _collect(each, places)
    elif isinstance(found, dict):
        for name, value in found.items():
            if name == "A_Const":
                places.append(value.get("location", 0))
            else:
                _collect(value, places)


def _constants(node: Any) -> Iterator[Any]:
    if isinstance(node, ast.A_Const):
        yield node
    elif isinstance(node, tuple | list):
        for each in node:
            yield from _constants(each)
    elif isinstance(node, ast.Node):
        for name in node:
            yield from _constants(getattr(node, name, None))


def _syntax_error(error: ParseError, base: int, length: int) -> UsageError:
    message, at = str(error.args[0]), error.args[1] if len(error.args) > 1 else None
    position = (length if at is None else int(at)) - base + 1
    return UsageError(message, sqlstate="42601").in_text(position)


def _check_numbers(statement: str, major: int, base: int) -> None:
    """Numbers as only newer majors read them, and parameters with something behind."""
    if supports(major, NUMBERS_IN_OTHER_BASES):
        return
    for token in scan(statement):
        word = statement[token.start : token.end + 1]
        if token.name in ("ICONST", "FCONST") and re.search(r"[xXoObB_]", word):
            message = f'trailing junk after numeric literal at or near "{word}"'
            raise UsageError(message, sqlstate="42601").in_text(token.start - base + 1)
