"""anyelement, anyarray and their kin: what they stand for in one call (`parser/parse_coerce.c`, check_ and enforce_generic_type_consistency).

In: the types of the arguments and those that the function declares. Out: whether they agree; the declared types with the polymorphic ones resolved,
and the type of the result. The first family (anyelement …) wants one type exactly, the second (anycompatible …) what all can become.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.expressions.analysis.catalog import Catalog
from tailrace.expressions.analysis.coercion.pathways import CoercionContext, is_coercible
from tailrace.types import oids

ELEMENTS = frozenset({oids.ANYELEMENT, oids.ANYNONARRAY, oids.ANYENUM})
"""anyelement, anynonarray, anyenum"""

COMPATIBLE = frozenset({oids.ANYCOMPATIBLE, oids.ANYCOMPATIBLENONARRAY})

_FIRST = ELEMENTS | {oids.ANYARRAY, oids.ANYRANGE, oids.ANYMULTIRANGE}
_SECOND = COMPATIBLE | {oids.ANYCOMPATIBLEARRAY, oids.ANYCOMPATIBLERANGE, oids.ANYCOMPATIBLEMULTIRANGE}
_RANGES = {
    oids.ANYRANGE: "range", oids.ANYMULTIRANGE: "range", oids.ANYCOMPATIBLERANGE: "compatible_range",
    oids.ANYCOMPATIBLEMULTIRANGE: "compatible_range",
}  # fmt: skip
"""What must be known of an argument, and does not follow from the type of an element."""


def is_polymorphic(oid: int) -> bool:
    return oid in _FIRST or oid in _SECOND


@dataclass(slots=True)
class _Found:
    """What the arguments say so far; `compatible` are those that must have a common type. A contradiction sets `agree` to False."""

    element: int = 0
    array: int = 0
    range: int = 0
    multirange: int = 0
    compatible: list[int] = field(default_factory=list)
    compatible_range: int = 0
    compatible_multirange: int = 0
    common: int = 0
    agree: bool = True

    def put(self, name: str, oid: int) -> None:
        known = getattr(self, name)
        if not oid or (known and known != oid):
            self.agree = False
        setattr(self, name, oid or known)


def are_consistent(catalog: Catalog, sources: Sequence[int], targets: Sequence[int]) -> bool:
    """check_generic_type_consistency."""
    return _find(catalog, sources, targets).agree


def _find(catalog: Catalog, sources: Sequence[int], targets: Sequence[int]) -> _Found:
    found = _Found()
    for source, target in zip(sources, targets, strict=True):
        if source == oids.UNKNOWN:
            continue
        base = catalog.base_type(source)
        if target in ELEMENTS:
            found.put("element", source)
        elif target in (oids.ANYARRAY, oids.ANYRANGE, oids.ANYMULTIRANGE):
            found.put({oids.ANYARRAY: "array", oids.ANYRANGE: "range", oids.ANYMULTIRANGE: "multirange"}[target], base)
        elif target in COMPATIBLE:
            found.compatible.append(source)
        elif target == oids.ANYCOMPATIBLEARRAY:
            found.compatible.append(catalog.element_type(base))
        elif target == oids.ANYCOMPATIBLERANGE:
            found.put("compatible_range", base)
        elif target == oids.ANYCOMPATIBLEMULTIRANGE:
            found.put("compatible_multirange", base)
    _join_first(catalog, found)
    if oids.ANYNONARRAY in targets and catalog.base_element_type(found.element):
        found.agree = False
    if oids.ANYENUM in targets and catalog.kind(found.element) != "e":
        found.agree = False
    _join_second(catalog, found, targets)
    return found


def _join_first(catalog: Catalog, found: _Found) -> None:
    if found.array:
        found.put("element", catalog.element_type(found.array))
    if found.multirange:
        found.put("range", catalog.range_of_multirange(found.multirange))
    if found.range:
        found.put("element", catalog.range_subtype(found.range))


def _join_second(catalog: Catalog, found: _Found, targets: Sequence[int]) -> None:
    if found.compatible_multirange:
        found.put("compatible_range", catalog.range_of_multirange(found.compatible_multirange))
    if found.compatible_range:
        found.compatible.append(catalog.range_subtype(found.compatible_range))
    if 0 in found.compatible:
        found.agree = False
        return
    if not found.compatible:
        return
    found.common = common_of(catalog, found.compatible)
    if not found.common or (oids.ANYCOMPATIBLENONARRAY in targets and catalog.base_element_type(found.common)):
        found.agree = False
    if found.compatible_range and catalog.range_subtype(found.compatible_range) != found.common:
        found.agree = False


def common_of(catalog: Catalog, oids: Sequence[int]) -> int:
    """select_common_type_from_oids without an error: 0 where there is none."""
    chosen = oids[0]
    if all(oid == chosen for oid in oids):
        return chosen
    chosen = catalog.base_type(chosen)
    for oid in map(catalog.base_type, oids[1:]):
        if oid == chosen:
            continue
        if catalog.category(oid) != catalog.category(chosen):
            return 0
        forth = is_coercible(catalog, chosen, oid, CoercionContext.IMPLICIT)
        if not catalog.is_preferred(chosen) and forth and not is_coercible(catalog, oid, chosen, CoercionContext.IMPLICIT):
            chosen = oid
    return chosen if all(is_coercible(catalog, oid, chosen, CoercionContext.IMPLICIT) for oid in oids) else 0


def resolve(catalog: Catalog, sources: Sequence[int], targets: Sequence[int], result: int) -> tuple[list[int], int]:
    """enforce_generic_type_consistency: the declared types, where arguments must be coerced to something else than they are, and the result's."""
    if not any(map(is_polymorphic, targets)):
        return list(targets), result
    found = _find(catalog, sources, targets)
    if not found.agree:
        raise UsageError("arguments of polymorphic types are not all alike", sqlstate="42804")
    if any(target in _FIRST for target in targets) and not found.element:
        raise UsageError("could not determine polymorphic type because input has type unknown", sqlstate="42804")
    if any(target in _SECOND for target in targets) and not found.common:
        found.common = oids.TEXT
    for target in targets:
        if target in _RANGES and not getattr(found, _RANGES[target]):
            name = catalog.types[target].name
            raise UsageError(f"could not determine polymorphic type {name} because input has type unknown", sqlstate="42804")
    declared = []
    for source, target in zip(sources, targets, strict=True):
        known_first = target in _FIRST and source != oids.UNKNOWN
        declared.append(target if known_first else _meaning(catalog, found, target))
    return declared, _meaning(catalog, found, result)


def _meaning(catalog: Catalog, found: _Found, target: int) -> int:
    """What a polymorphic type stands for, and every other for itself."""
    if target in ELEMENTS:
        return found.element
    if target in COMPATIBLE:
        return found.common
    match target:
        case oids.ANYARRAY:
            return found.array or catalog.array_type(found.element)
        case oids.ANYRANGE:
            return found.range
        case oids.ANYMULTIRANGE:
            return found.multirange or catalog.types[found.range].multirange if found.range else 0
        case oids.ANYCOMPATIBLEARRAY:
            return catalog.array_type(found.common)
        case oids.ANYCOMPATIBLERANGE:
            return found.compatible_range
        case oids.ANYCOMPATIBLEMULTIRANGE:
            return found.compatible_multirange or catalog.types[found.compatible_range].multirange
    return target
