"""Which of several operators or functions of one name is meant (`parser/parse_func.c`, func_match_argtypes and func_select_candidate).

In: the types of the arguments, some of them unknown, and candidates. Out: those that can be called, and the one that is meant, if one is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from tailrace.expressions.analysis.catalog import Catalog
from tailrace.expressions.analysis.coercion.coercion import can_coerce
from tailrace.expressions.analysis.coercion.pathways import CoercionContext
from tailrace.types import oids

_STRING = "S"


class HasArguments(Protocol):
    """What a candidate must tell: the types it takes, with a variadic one written out."""

    @property
    def takes(self) -> tuple[int, ...]: ...


Candidate = TypeVar("Candidate", bound=HasArguments)


def callable_with(catalog: Catalog, given: Sequence[int], candidates: Sequence[Candidate]) -> list[Candidate]:
    """func_match_argtypes."""
    return [each for each in candidates if can_coerce(catalog, given, each.takes, CoercionContext.IMPLICIT)]


def select(catalog: Catalog, given: Sequence[int], candidates: Sequence[Candidate]) -> Candidate | None:
    """func_select_candidate: None where several would do equally well."""
    bases = [oid if oid == oids.UNKNOWN else catalog.base_type(oid) for oid in given]
    unknown = [place for place, oid in enumerate(bases) if oid == oids.UNKNOWN]
    left = _best(
        candidates, lambda each: sum(oid != oids.UNKNOWN and oid == takes for oid, takes in zip(bases, each.takes, strict=True))
    )
    if len(left) == 1:
        return left[0]
    left = _best(left, lambda each: sum(_fits(catalog, oid, takes) for oid, takes in zip(bases, each.takes, strict=True)))
    if len(left) == 1:
        return left[0]
    if not unknown:
        return None
    left = _by_category(catalog, unknown, left)
    if len(left) == 1:
        return left[0]
    known = {oid for oid in bases if oid != oids.UNKNOWN}
    if len(known) == 1:
        same = callable_with(catalog, [next(iter(known))] * len(bases), left)
        if len(same) == 1:
            return same[0]
    return None


def _best(candidates: Sequence[Candidate], score: object) -> list[Candidate]:
    scores = [score(each) for each in candidates]  # type: ignore[operator]
    return [each for each, points in zip(candidates, scores, strict=True) if points == max(scores)]


def _fits(catalog: Catalog, given: int, takes: int) -> bool:
    """Exactly the type, or the preferred one of its category."""
    if given == oids.UNKNOWN:
        return False
    return given == takes or (catalog.category(given) == catalog.category(takes) and catalog.is_preferred(takes))


def _by_category(catalog: Catalog, unknown: Sequence[int], candidates: list[Candidate]) -> list[Candidate]:
    """Those that take, where the type is unknown, what most naturally stands there: a string if any takes one, else the category that all agree
    on."""
    wanted: dict[int, tuple[str, bool]] = {}
    for place in unknown:
        category, preferred, conflict = "", False, False
        for each in candidates:
            found, is_preferred = catalog.category(each.takes[place]), catalog.is_preferred(each.takes[place])
            if not category:
                category, preferred = found, is_preferred
            elif found == category:
                preferred |= is_preferred
            elif found == _STRING:
                category, preferred = found, is_preferred
            else:
                conflict = True
        if conflict and category != _STRING:
            return candidates
        wanted[place] = category, preferred
    kept = [
        each
        for each in candidates
        if all(
            catalog.category(each.takes[place]) == category and (catalog.is_preferred(each.takes[place]) or not preferred)
            for place, (category, preferred) in wanted.items()
        )
    ]
    return kept or candidates
