"""By which cast one type becomes another (`parser/parse_coerce.c`, find_coercion_pathway), of types that are not polymorphic."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from tailrace.expressions.analysis.catalog import Catalog
from tailrace.types import oids
from tailrace.types.format_type import VECTORS


class CoercionContext(IntEnum):
    """CoercionContext, each allowing what those before it allow."""

    IMPLICIT = 0
    ASSIGNMENT = 1
    EXPLICIT = 3


class Path(NamedTuple):
    """How to come from one type to another: `how` is relabel, function, text or elements."""

    how: str
    function: int = 0


RELABEL = Path("relabel")
THROUGH_TEXT = Path("text")
_CONTEXTS = {"i": CoercionContext.IMPLICIT, "a": CoercionContext.ASSIGNMENT, "e": CoercionContext.EXPLICIT}


def find_path(catalog: Catalog, target: int, source: int, context: CoercionContext) -> Path | None:
    """find_coercion_pathway."""
    source, target = catalog.base_type(source), catalog.base_type(target)
    if source == target:
        return RELABEL
    cast = catalog.casts.get((source, target))
    if cast is not None:
        if context < _CONTEXTS[cast.context]:
            return None
        return {"f": Path("function", cast.function), "b": RELABEL, "i": THROUGH_TEXT}[cast.method]
    target_element, source_element = catalog.element_type(target), catalog.element_type(source)
    if target not in VECTORS and target_element and source_element:
        path = find_path(catalog, target_element, source_element, context)
        if path is not None:
            return Path("elements", path.function)
    if context >= CoercionContext.ASSIGNMENT and catalog.category(target) == "S":
        return THROUGH_TEXT
    if context >= CoercionContext.EXPLICIT and catalog.category(source) == "S":
        return THROUGH_TEXT
    return None


def is_coercible(catalog: Catalog, source: int, target: int, context: CoercionContext) -> bool:
    """can_coerce_type, of one."""
    if target in (source, oids.ANY) or source == oids.UNKNOWN or find_path(catalog, target, source, context) is not None:
        return True
    if (source == oids.RECORD and catalog.kind(target) == "c") or (target == oids.RECORD and catalog.kind(source) == "c"):
        return True
    return target == oids.RECORDARRAY and catalog.kind(catalog.element_type(source)) == "c"
