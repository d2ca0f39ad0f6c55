"""Names of objects: lists of words, and where they are looked for (`catalog/namespace.c`).

In: the words of a qualified name, and objects of the last of them. Out: those that the name may mean, nearer schemas first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from tailrace.expressions.analysis.catalog import BUILT_IN_SCHEMA
from tailrace.expressions.analysis.state import ParseState

OTHER_SCHEMAS = ("information_schema", "public")
"""That a new database has."""


class InSchema(Protocol):
    """An object of a schema."""

    @property
    def schema(self) -> str: ...


Object = TypeVar("Object", bound=InSchema)


def words(raw: Any) -> list[str]:
    """A parsed list of names."""
    return [str(each.sval) for each in raw or ()]


def name_list(names: Sequence[str]) -> str:
    """NameListToString."""
    return ".".join(names)


def check_schema(state: ParseState, names: Sequence[str], location: int) -> None:
    """That a schema that a name begins with is there: one that every database has, the table's, or one of the search path or of the database's own
    objects."""
    if len(names) < 2:
        return
    known = {BUILT_IN_SCHEMA, *OTHER_SCHEMAS, state.relation.schema, *state.path}
    if names[0] not in known and all(row.schema != names[0] for row in state.catalog.types.values()):
        raise state.error(f'schema "{names[0]}" does not exist', "3F000", location)


def in_path(
    state: ParseState, rows: Sequence[Object], names: Sequence[str], location: int, signature: Callable[[Object], object]
) -> list[Object]:
    """The objects that a name means: of its schema if it names one, else of the search path's; one of a nearer schema hides others of its
    signature."""
    if len(names) > 3:
        raise state.error(f"improper qualified name (too many dotted names): {name_list(names)}", "42601", location)
    if len(names) == 3:
        raise state.error(f"cross-database references are not implemented: {name_list(names)}", "0A000", location)
    if len(names) == 2:
        found = [row for row in rows if row.schema == names[0]]
        if not found:
            check_schema(state, names, location)
        return found
    nearest: dict[object, Object] = {}
    for row in sorted((row for row in rows if row.schema in state.path), key=lambda row: state.path.index(row.schema)):
        nearest.setdefault(signature(row), row)
    return list(nearest.values())
