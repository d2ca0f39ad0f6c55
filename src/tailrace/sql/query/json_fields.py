"""`->` and `->>` of json: a field or an element as the text has it, to the letter (`utils/adt/jsonfuncs.c`).

The engine has operators of these names, and writes anew what it takes out: 12.50 becomes 12.5. So it is given these functions instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from tailrace.errors import UsageError
from tailrace.sql.query.lsn_expressions import called

JSON = "json"
ARROWS = frozenset({"->", "->>"})
INPUT = "_json_in"
_AS_TEXT = "->>"
_SPACE = " \t\n\r"


def _no_constant(name: str) -> None:
    """What Python reads beside JSON: NaN and infinities."""
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def taken(operator: str, left: Any, right: Any, other: str) -> Any:
    """What the engine is given for an operator between a json and a value of this type."""
    by = "element" if other in ("int2", "int4") else "field"
    return called(f"_json_{by}{'_text' if operator == _AS_TEXT else ''}", left, right)


def checked(text: str) -> str:
    """The text, if it is JSON. Raises UsageError (22P02)."""
    try:
        _, end = _DECODER.raw_decode(text, _behind_space(text, 0))
    except (ValueError, RecursionError):
        end = -1
    if end < 0 or text[end:].strip(_SPACE):
        raise UsageError("invalid input syntax for type json", sqlstate="22P02")
    return text


def field(text: str, key: str) -> str | None:
    """A field of an object, the last of that name; None if it is none, or there is no such field."""
    return next((value for name, value in reversed(list(_members(text, "{", "}"))) if name == key), None)


def element(text: str, place: int) -> str | None:
    """An element of an array, from its end if `place` is negative; None if it is none, or has not so many."""
    elements = [value for _, value in _members(text, "[", "]")]
    return elements[place] if -len(elements) <= place < len(elements) else None


def unquoted(value: str | None) -> str | None:
    """What `->>` gives: strings without quotes, null as NULL, all else as it stands."""
    if value is None or value == "null":
        return None
    return str(json.loads(value)) if value.startswith('"') else value


FUNCTIONS: dict[str, tuple[Callable[..., str | None], tuple[str, ...]]] = {
    INPUT: (checked, ("VARCHAR",)),
    "_json_field": (field, ("VARCHAR", "VARCHAR")),
    "_json_field_text": (lambda text, key: unquoted(field(text, key)), ("VARCHAR", "VARCHAR")),
    "_json_element": (element, ("VARCHAR", "INTEGER")),
    "_json_element_text": (lambda text, place: unquoted(element(text, place)), ("VARCHAR", "INTEGER")),
}
"""By the engine's name: the function, and the types of its arguments."""


def _members(text: str, opening: str, closing: str) -> Iterator[tuple[str, str]]:
    """Names and values of an object, or of an array its elements, which have no names; nothing of what begins with another bracket."""
    at = _behind_space(text, 0)
    if text[at] != opening:
        return
    name, at = "", _behind_space(text, at + 1)
    while text[at] != closing:
        if opening == "{":
            name, at = _DECODER.raw_decode(text, at)
            at = _behind_space(text, _behind_space(text, at) + 1)  # the colon
        _, end = _DECODER.raw_decode(text, at)
        yield name, text[at:end]
        at = _next(text, end)


def _next(text: str, at: int) -> int:
    """Where the next one begins, or the bracket stands."""
    at = _behind_space(text, at)
    return _behind_space(text, at + 1) if text[at] == "," else at


def _behind_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at
