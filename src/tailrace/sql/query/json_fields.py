"""`->` and `->>` of json: a field or an element as the text has it, to the letter (`utils/adt/jsonfuncs.c`).

The engine has operators of these names, and writes anew what it takes out: 12.50 becomes 12.5. So it is given these functions instead.
"""

from __future__ import annotations

from typing import Any

from tailrace.expressions.analysis.literals.literals import read_json
from tailrace.expressions.evaluate.json.json_functions import as_text, element, field
from tailrace.sql.query.engine_function import EngineFunction
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


FUNCTIONS = {
    INPUT: EngineFunction(checked, ("VARCHAR",), "VARCHAR"),
    "_json_field": EngineFunction(field, ("VARCHAR", "VARCHAR"), "VARCHAR"),
    "_json_field_text": EngineFunction(as_text(field), ("VARCHAR", "VARCHAR"), "VARCHAR"),
    "_json_element": EngineFunction(element, ("VARCHAR", "INTEGER"), "VARCHAR"),
    "_json_element_text": EngineFunction(as_text(element), ("VARCHAR", "INTEGER"), "VARCHAR"),
}
"""By the engine's name."""
