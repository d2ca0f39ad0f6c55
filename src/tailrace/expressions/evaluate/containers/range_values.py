"""Ranges as they are worked on: a `RangeValue`, and the `RangeOrder` on which the spans of a range type lie (`adt/rangetypes.c`).

A multirange is a tuple of spans, in order, none empty, none touching another. Discrete ranges are kept as [low, high).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cmp_to_key
from typing import Any, NamedTuple

from tailrace.dataclass import dataclass
from tailrace.expressions.evaluate.comparison import type_comparison
from tailrace.expressions.evaluate.datetimes.datetime_limits import date_out_of_range
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, out_of_range
from tailrace.types import oids
from tailrace.types.times.calendar import DATEVAL_NOBEGIN, DATEVAL_NOEND, END_DATE


class RangeValue(NamedTuple):
    """None for a bound that is infinite; `empty` alone counts where it is true."""

    empty: bool
    low: Any = None
    high: Any = None
    low_included: bool = False
    high_included: bool = False


EMPTY = RangeValue(True)
Multi = tuple[RangeValue, ...]
DISCRETE = {oids.INT4RANGE: oids.INT4, oids.INT8RANGE: oids.INT8, oids.DATERANGE: oids.DATE}
"""int4range, int8range, daterange: the types of their bounds."""


@dataclass(frozen=True, slots=True)
class RangeOrder:
    """The order in which bounds of a range type lie, and its steps if it has any."""

    compare: type_comparison.Compare
    range_type: int

    # -- bounds: (value, is low, included); None is infinite --------------------------------------------------------------------

    def cmp_bounds(self, one: tuple[Any, bool, bool], other: tuple[Any, bool, bool]) -> int:
        """Where one bound lies to another: an excluded low one is after its value, an excluded high one before (`range_cmp_bounds`)."""
        (value, low, included), (value2, low2, included2) = one, other
        if value is None or value2 is None:
            mine = 0 if value is not None else -1 if low else 1
            theirs = 0 if value2 is not None else -1 if low2 else 1
            return type_comparison.plain(mine, theirs)
        found = self.compare(value, value2)
        if found:
            return -1 if found < 0 else 1
        side = 0 if included else 1 if low else -1
        side2 = 0 if included2 else 1 if low2 else -1
        return type_comparison.plain(side, side2)

    def cmp(self, left: RangeValue, right: RangeValue) -> int:
        """An empty range is first; then by the low bounds, then by the high ones."""
        if left.empty or right.empty:
            return right.empty - left.empty if left.empty != right.empty else 0
        return self.cmp_bounds(low_of(left), low_of(right)) or self.cmp_bounds(high_of(left), high_of(right))

    def contains_value(self, span: RangeValue, value: Any) -> bool:
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

    def contains(self, left: RangeValue, right: RangeValue) -> bool:
        if right.empty or left.empty:
            return right.empty
        return self.cmp_bounds(low_of(left), low_of(right)) <= 0 and self.cmp_bounds(high_of(left), high_of(right)) >= 0

    def before(self, left: RangeValue, right: RangeValue) -> bool:
        return not (left.empty or right.empty) and self.cmp_bounds(high_of(left), low_of(right)) < 0

    def overlaps(self, left: RangeValue, right: RangeValue) -> bool:
        if left.empty or right.empty:
            return False
        return self.cmp_bounds(low_of(left), high_of(right)) <= 0 and self.cmp_bounds(low_of(right), high_of(left)) <= 0

    def touches(self, high: tuple[Any, bool, bool], low: tuple[Any, bool, bool]) -> bool:
        """Whether nothing lies between a high bound and a low one behind it, and they do not overlap (`bounds_adjacent`)."""
        if high[0] is None or low[0] is None:
            return False
        found = self.compare(high[0], low[0])
        if found < 0 and self.range_type in DISCRETE:
            return self.made(high[0], low[0], not high[2], not low[2]).empty
        return found == 0 and high[2] != low[2]

    def adjacent(self, left: RangeValue, right: RangeValue) -> bool:
        if left.empty or right.empty:
            return False
        return self.touches(high_of(left), low_of(right)) or self.touches(high_of(right), low_of(left))

    def overleft(self, left: RangeValue, right: RangeValue) -> bool:
        return not (left.empty or right.empty) and self.cmp_bounds(high_of(left), high_of(right)) <= 0

    def overright(self, left: RangeValue, right: RangeValue) -> bool:
        return not (left.empty or right.empty) and self.cmp_bounds(low_of(left), low_of(right)) >= 0

    # -- new ranges ------------------------------------------------------------------------------------------------------------

    def made(self, low: Any, high: Any, low_included: bool, high_included: bool) -> RangeValue:
        """A range of two bounds, in its canonical form (`make_range`)."""
        low_included, high_included = low_included and low is not None, high_included and high is not None
        if low is not None and high is not None:
            found = self.compare(low, high)
            if found > 0:
                raise evaluation_error("range lower bound must be less than or equal to range upper bound", "22000")
            if found == 0 and not (low_included and high_included):
                return EMPTY
        span = RangeValue(False, low, high, low_included, high_included)
        return canonical(span, DISCRETE[self.range_type]) if self.range_type in DISCRETE else span

    def of_bounds(self, low: tuple[Any, bool, bool], high: tuple[Any, bool, bool]) -> RangeValue:
        return self.made(low[0], high[0], low[2], high[2])

    def union(self, left: RangeValue, right: RangeValue, strict: bool) -> RangeValue:
        if left.empty or right.empty:
            return right if left.empty else left
        if strict and not self.overlaps(left, right) and not self.adjacent(left, right):
            raise evaluation_error("result of range union would not be contiguous", "22000")
        low = low_of(left) if self.cmp_bounds(low_of(left), low_of(right)) < 0 else low_of(right)
        high = high_of(left) if self.cmp_bounds(high_of(left), high_of(right)) > 0 else high_of(right)
        return self.of_bounds(low, high)

    def intersection(self, left: RangeValue, right: RangeValue) -> RangeValue:
        if not self.overlaps(left, right):
            return EMPTY
        low = low_of(left) if self.cmp_bounds(low_of(left), low_of(right)) >= 0 else low_of(right)
        high = high_of(left) if self.cmp_bounds(high_of(left), high_of(right)) <= 0 else high_of(right)
        return self.of_bounds(low, high)

    def difference(self, left: RangeValue, right: RangeValue) -> list[RangeValue]:
        """What remains: nothing, one range, or the two beside a range in the middle."""
        if left.empty or right.empty or not self.overlaps(left, right):
            return [left]
        found = []
        if self.cmp_bounds(low_of(left), low_of(right)) < 0:
            found.append(self.of_bounds(low_of(left), (right.low, False, not right.low_included)))
        if self.cmp_bounds(high_of(left), high_of(right)) > 0:
            found.append(self.of_bounds((right.high, True, not right.high_included), high_of(left)))
        return [each for each in found if not each.empty]

    def minus(self, left: RangeValue, right: RangeValue) -> RangeValue:
        found = self.difference(left, right)
        if len(found) > 1:
            raise evaluation_error("result of range difference would not be contiguous", "22000")
        return found[0] if found else EMPTY

    def multi(self, spans: Iterable[RangeValue]) -> Multi:
        """Those ranges as a multirange: sorted, and what touches is one (`multirange_canonicalize`)."""
        found: list[RangeValue] = []
        for each in sorted((span for span in spans if not span.empty), key=cmp_to_key(self.cmp)):
            if found and (self.overlaps(found[-1], each) or self.adjacent(found[-1], each)):
                found[-1] = self.union(found[-1], each, False)
            else:
                found.append(each)
        return tuple(found)


def low_of(span: RangeValue) -> tuple[Any, bool, bool]:
    return span.low, True, span.low_included


def high_of(span: RangeValue) -> tuple[Any, bool, bool]:
    return span.high, False, span.high_included


def canonical(span: RangeValue, subtype: int) -> RangeValue:
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
    return RangeValue(False, low, high, low_included, high_included)


def _endless(value: int, subtype: int) -> bool:
    return subtype == oids.DATE and value in (DATEVAL_NOBEGIN, DATEVAL_NOEND)


def _next(value: int, subtype: int) -> int:
    if subtype == oids.DATE:
        if value + 1 >= END_DATE:
            raise date_out_of_range()
    elif value + 1 >= 1 << (31 if subtype == oids.INT4 else 63):
        raise out_of_range("integer" if subtype == oids.INT4 else "bigint")
    return value + 1
