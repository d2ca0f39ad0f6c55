"""`->` and `->>` of json: a field or an element as the text has it, to the letter (`utils/adt/jsonfuncs.c`).

The engine has operators of these names, and writes anew what it takes out: 12.50 becomes 12.5. So it is given these functions instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace.expressions.analysis.literals.literals import read_json
from tailrace.expressions.evaluate.json.json_functions import as_text, element, field
from tailrace.sql.query.lsn_expressions import called

JSON = "json"
ARROWS = frozenset({"->", "->>"})
INPUT = "_json_in"
_AS_TEXT = "->>"


def taken(operator: str, left: Any, right: Any, other: str) -> Any:
    """What the engine is given for an operator between a json and a value of this type."""
    by = "element" if other in ("int2", "int4") else "field"
    return called(f"_json_{by}{'_text' if operator == _AS_TEXT else ''}", left, right)


def checked(text: str) -> str:
    """The text, if it is JSON. Raises UsageError (22P02)."""
    read_json(text)
    return text


FUNCTIONS: dict[str, tuple[Callable[..., str | None], tuple[str, ...]]] = {
    INPUT: (checked, ("VARCHAR",)),
    "_json_field": (field, ("VARCHAR", "VARCHAR")),
    "_json_field_text": (as_text(field), ("VARCHAR", "VARCHAR")),
    "_json_element": (element, ("VARCHAR", "INTEGER")),
    "_json_element_text": (as_text(element), ("VARCHAR", "INTEGER")),
}
"""By the engine's name: the function, and the types of its arguments."""
