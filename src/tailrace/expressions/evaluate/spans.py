"""Ranges as they are worked on: a `Span`, and the `Line` on which the spans of a range type lie (`adt/rangetypes.c`).

A multirange is a tuple of spans, in order, none empty, none touching another. Discrete ranges are kept as [low, high).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, NamedTuple

from tailrace.expressions.evaluate import ordering
from tailrace.expressions.evaluate.refusals import evaluation_error, out_of_range
from tailrace.expressions.evaluate.time_ranges import date_out_of_range
from tailrace.types import oids
from tailrace.types.times.calendar import DATEVAL_NOBEGIN, DATEVAL_NOEND, END_DATE


class Span(NamedTuple):
    """None for a bound that is infinite; `empty` alone counts where it is true."""

    empty: bool
    low: Any = None
    high: Any = None
    low_included: bool = False
    high_included: bool = False


EMPTY = Span(True)
Multi = tuple[Span, ...]
DISCRETE = {oids.INT4RANGE: oids.INT4, oids.INT8RANGE: oids.INT8, oids.DATERANGE: oids.DATE}
"""int4range, int8range, daterange: the types of their bounds."""


@dataclass(frozen=True, slots=True)
class Line:
    """The order in which bounds of a range type lie, and its steps if it has any."""

    compare: ordering.Compare
    range_type: int

    # -- bounds: (value, is low, included); None is infinite --------------------------------------------------------------------

    def bounds(self, one: tuple[Any, bool, bool], other: tuple[Any, bool, bool]) -> int:
        """Where one bound lies to another: an excluded low one is after its value, an excluded high one before (`range_cmp_bounds`)."""
        (value, low, included), (value2, low2, included2) = one, other
        if value is None or value2 is None:
            mine = 0 if value is not None else -1 if low else 1
            theirs = 0 if value2 is not None else -1 if low2 else 1
            return ordering.plain(mine, theirs)
        found = self.compare(value, value2)
        if found:
            return -1 if found < 0 else 1
        side = 0 if included else 1 if low else -1
        side2 = 0 if included2 else 1 if low2 else -1
        return ordering.plain(side, side2)

    def order(self, left: Span, right: Span) -> int:
        """An empty range is first; then by the low bounds, then by the high ones."""
        if left.empty or right.empty:
            return right.empty - left.empty if left.empty != right.empty else 0
        return self.bounds(low_of(left), low_of(right)) or self.bounds(high_of(left), high_of(right))

    def contains_value(self, span: Span, value: Any) -> bool:
        if span.empty:
            return False
        if span.low is not None:
            found = self.compare(span.low, value)
            if found > 0 or (found == 0 and not span.low_included):
                return False
        if span.high is not None:
            found = self.compare(span.high, value)
            if found < 0 or (found == 0 and not span.high_included):
                return False
        return True

    def contains(self, left: Span, right: Span) -> bool:
        if right.empty or left.empty:
            return right.empty
        return self.bounds(low_of(left), low_of(right)) <= 0 and self.bounds(high_of(left), high_of(right)) >= 0

    def before(self, left: Span, right: Span) -> bool:
        return not (left.empty or right.empty) and self.bounds(high_of(left), low_of(right)) < 0

    def overlaps(self, left: Span, right: Span) -> bool:
        if left.empty or right.empty:
            return False
        return self.bounds(low_of(left), high_of(right)) <= 0 and self.bounds(low_of(right), high_of(left)) <= 0

    def touches(self, high: tuple[Any, bool, bool], low: tuple[Any, bool, bool]) -> bool:
        """Whether nothing lies between a high bound and a low one behind it, and they do not overlap (`bounds_adjacent`)."""
        if high[0] is None or low[0] is None:
            return False
        found = self.compare(high[0], low[0])
        if found < 0 and self.range_type in DISCRETE:
            return self.made(high[0], low[0], not high[2], not low[2]).empty
        return found == 0 and high[2] != low[2]

    def adjacent(self, left: Span, right: Span) -> bool:
        if left.empty or right.empty:
            return False
        return self.touches(high_of(left), low_of(right)) or self.touches(high_of(right), low_of(left))

    def overleft(self, left: Span, right: Span) -> bool:
        return not (left.empty or right.empty) and self.bounds(high_of(left), high_of(right)) <= 0

    def overright(self, left: Span, right: Span) -> bool:
        return not (left.empty or right.empty) and self.bounds(low_of(left), low_of(right)) >= 0

    # -- new ranges ------------------------------------------------------------------------------------------------------------

    def made(self, low: Any, high: Any, low_included: bool, high_included: bool) -> Span:
        """A range of two bounds, in its canonical form (`make_range`)."""
        low_included, high_included = low_included and low is not None, high_included and high is not None
        if low is not None and high is not None:
            found = self.compare(low, high)
            if found > 0:
                raise evaluation_error("range lower bound must be less than or equal to range upper bound", "22000")
            if found == 0 and not (low_included and high_included):
                return EMPTY
        span = Span(False, low, high, low_included, high_included)
        return canonical(span, DISCRETE[self.range_type]) if self.range_type in DISCRETE else span

    def of_bounds(self, low: tuple[Any, bool, bool], high: tuple[Any, bool, bool]) -> Span:
        return self.made(low[0], high[0], low[2], high[2])

    def union(self, left: Span, right: Span, strict: bool) -> Span:
        if left.empty or right.empty:
            return right if left.empty else left
        if strict and not self.overlaps(left, right) and not self.adjacent(left, right):
            raise evaluation_error("result of range union would not be contiguous", "22000")
        low = low_of(left) if self.bounds(low_of(left), low_of(right)) < 0 else low_of(right)
        high = high_of(left) if self.bounds(high_of(left), high_of(right)) > 0 else high_of(right)
        return self.of_bounds(low, high)

    def intersection(self, left: Span, right: Span) -> Span:
        if not self.overlaps(left, right):
            return EMPTY
        low = low_of(left) if self.bounds(low_of(left), low_of(right)) >= 0 else low_of(right)
        high = high_of(left) if self.bounds(high_of(left), high_of(right)) <= 0 else high_of(right)
        return self.of_bounds(low, high)

    def difference(self, left: Span, right: Span) -> list[Span]:
        """What remains: nothing, one range, or the two beside a range in the middle."""
        if left.empty or right.empty or not self.overlaps(left, right):
            return [left]
        found = []
        if self.bounds(low_of(left), low_of(right)) < 0:
            found.append(self.of_bounds(low_of(left), (right.low, False, not right.low_included)))
        if self.bounds(high_of(left), high_of(right)) > 0:
            found.append(self.of_bounds((right.high, True, not right.high_included), high_of(left)))
        return [each for each in found if not each.empty]

    def minus(self, left: Span, right: Span) -> Span:
        found = self.difference(left, right)
        if len(found) > 1:
            raise evaluation_error("result of range difference would not be contiguous", "22000")
        return found[0] if found else EMPTY

    def multi(self, spans: Iterable[Span]) -> Multi:
        """Those ranges as a multirange: sorted, and what touches is one (`multirange_canonicalize`)."""
        found: list[Span] = []
        for each in sorted((span for span in spans if not span.empty), key=cmp_to_key(self.order)):
            if found and (self.overlaps(found[-1], each) or self.adjacent(found[-1], each)):
                found[-1] = self.union(found[-1], each, False)
            else:
                found.append(each)
        return tuple(found)


def low_of(span: Span) -> tuple[Any, bool, bool]:
    return span.low, True, span.low_included


def high_of(span: Span) -> tuple[Any, bool, bool]:
    return span.high, False, span.high_included


def canonical(span: Span, subtype: int) -> Span:
    """[low, high) of a type with steps (`int4range_canonical`); infinite dates have no next day."""
    if span.empty:
        return span
    low, high = span.low, span.high
    if low is not None and not span.low_included and not _endless(low, subtype):
        low = _next(low, subtype)
    low_included = low is not None and (span.low_included or not _endless(span.low, subtype))
    high_included = span.high_included
    if high is not None and span.high_included and not _endless(high, subtype):
        high, high_included = _next(high, subtype), False
    if low is not None and high is not None and low == high and not (low_included and high_included):
        return EMPTY
    return Span(False, low, high, low_included, high_included)


def _endless(value: int, subtype: int) -> bool:
    return subtype == oids.DATE and value in (DATEVAL_NOBEGIN, DATEVAL_NOEND)


def _next(value: int, subtype: int) -> int:
    if subtype == oids.DATE:
        if value + 1 >= END_DATE:
            raise date_out_of_range()
    elif value + 1 >= 1 << (31 if subtype == oids.INT4 else 63):
        raise out_of_range("integer" if subtype == oids.INT4 else "bigint")
    return value + 1
