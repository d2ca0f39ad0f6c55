"""Functions of ranges and multiranges (`adt/rangetypes.c`, `adt/multirangetypes.c`), on spans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tailrace.expressions.evaluate.comparison import type_comparison
from tailrace.expressions.evaluate.containers.range_values import EMPTY, Multi, RangeOrder, RangeValue, canonical, high_of, low_of
from tailrace.expressions.evaluate.fmgr.array_and_record import Array
from tailrace.expressions.evaluate.fmgr.datum_forms import reader_of, register_kind, type_of
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, not_in_an_aggregate, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error
from tailrace.expressions.evaluate.fmgr.vectors import Facts
from tailrace.model import PgType
from tailrace.types import oids
from tailrace.types.ranges.stored import LOWER_INCLUSIVE, UPPER_INCLUSIVE, Range, read_ranges, subtype_of
from tailrace.types.values import Values


def _span(stored: Range, read: Callable[[bytes], Any]) -> RangeValue:
    if stored.flags & 1:
        return EMPTY
    low = None if stored.lower is None else read(bytes(stored.lower))  # type: ignore[arg-type]
    high = None if stored.upper is None else read(bytes(stored.upper))  # type: ignore[arg-type]
    return RangeValue(False, low, high, bool(stored.flags & LOWER_INCLUSIVE), bool(stored.flags & UPPER_INCLUSIVE))


def _reader(pg_type: PgType, encoding: str) -> Callable[[bytes], Any]:
    read = reader_of(subtype_of(pg_type), encoding)

    def run(payload: bytes) -> Any:
        (spans,) = read_ranges(Values.of_payloads([payload], -1), pg_type)
        found = tuple(_span(each, read) for each in spans)
        return found if pg_type.kind == "m" else found[0]

    return run


register_kind("r", _reader)
register_kind("m", _reader)


def range_type_of(type_oid: int) -> PgType:
    """The range type that a range or a multirange is of."""
    found = type_of(type_oid)
    return found.element if found.kind == "m" and found.element is not None else found


def range_order(type_oid: int, facts: Facts) -> RangeOrder:
    range_type = range_type_of(type_oid)
    return RangeOrder(type_comparison.comparison(subtype_of(range_type).oid, facts), range_type.oid)


type_comparison.register_kind_order("r", lambda type_oid, facts, collation: range_order(type_oid, facts).cmp)
type_comparison.register_kind_order("m", lambda type_oid, facts, collation: _multi_order(range_order(type_oid, facts)))


def _multi_order(order: RangeOrder) -> type_comparison.Compare:
    def run(left: Multi, right: Multi) -> int:
        for mine, other in zip(left, right, strict=False):
            found = order.cmp(mine, other)
            if found:
                return found
        return type_comparison.plain(len(left), len(right))

    return run


def _with_order(how: Callable[..., Any], place: int | None = None) -> Implementation:
    """A function that takes the order of the range type before its arguments; the type is that of an argument, or of the result."""

    def make(call: FunctionCallInfo) -> Implementation:
        kinds = [each for each in (*call.types, call.result) if type_of(each).kind in "rm"]
        order = range_order(kinds[0], call.facts)
        return rows(lambda *arguments: how(order, *arguments), False)

    return made(make)


def _many(value: Any) -> Multi:
    """A range or a multirange as a tuple of ranges that are not empty."""
    if isinstance(value, RangeValue):
        return () if value.empty else (value,)
    return tuple(value)


def _hull(order: RangeOrder, spans: Sequence[RangeValue]) -> RangeValue:
    return order.of_bounds(low_of(spans[0]), high_of(spans[-1])) if spans else EMPTY


def _multi_contains(order: RangeOrder, left: Any, right: Any) -> bool:
    return all(any(order.contains(mine, each) for mine in _many(left)) for each in _many(right))


def _multi_overlaps(order: RangeOrder, left: Any, right: Any) -> bool:
    return any(order.overlaps(mine, other) for mine in _many(left) for other in _many(right))


def _ends(how: Callable[[RangeOrder, RangeValue, RangeValue], bool]) -> Implementation:
    """A test of the first and the last of their ranges; false where one has none."""

    def run(order: RangeOrder, left: Any, right: Any) -> bool:
        mine, other = _many(left), _many(right)
        return bool(mine and other) and how(order, _hull(order, mine), _hull(order, other))

    return _with_order(run)


def _multi_adjacent(order: RangeOrder, left: Any, right: Any) -> bool:
    mine, other = _many(left), _many(right)
    if not mine or not other:
        return False
    return order.touches(high_of(mine[-1]), low_of(other[0])) or order.touches(high_of(other[-1]), low_of(mine[0]))


def _multi_intersection(order: RangeOrder, left: Multi, right: Multi) -> Multi:
    return order.multi(order.intersection(mine, other) for mine in left for other in right)


def _multi_minus(order: RangeOrder, left: Multi, right: Multi) -> Multi:
    found = list(left)
    for other in right:
        found = [piece for each in found for piece in order.difference(each, other)]
    return order.multi(found)


def _constructed(order: RangeOrder, low: Any, high: Any, flags: str | None = "[)") -> RangeValue:
    if flags is None:
        raise evaluation_error("range constructor flags argument must not be null", "22000")
    if flags not in ("[]", "[)", "(]", "()"):
        raise evaluation_error("invalid range bound flags", "42601", 'Valid values are "[]", "[)", "(]", and "()".')
    return order.made(low, high, flags[0] == "[", flags[1] == "]")


def _multi_constructed(order: RangeOrder, spans: Array) -> Multi:
    if len(spans.lengths) > 1:
        raise evaluation_error("multiranges cannot be constructed from multidimensional arrays", "21000")
    if None in spans.items:
        raise evaluation_error("multirange values cannot contain null members", "22004")
    return order.multi(spans.items)


def _bound(low: bool) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        spans = _many(value)
        if not spans:
            return None
        return spans[0].low if low else spans[-1].high

    return run


def _included(low: bool) -> Callable[[Any], bool]:
    def run(value: Any) -> bool:
        spans = _many(value)
        return bool(spans) and (spans[0].low_included if low else spans[-1].high_included)

    return run


def _infinite(low: bool) -> Callable[[Any], bool]:
    def run(value: Any) -> bool:
        spans = _many(value)
        return bool(spans) and (spans[0].low if low else spans[-1].high) is None

    return run


TESTS: dict[str, Callable[[int], bool]] = {
    "eq": lambda found: found == 0, "ne": lambda found: found != 0, "lt": lambda found: found < 0, "le": lambda found: found <= 0,
    "gt": lambda found: found > 0, "ge": lambda found: found >= 0,
}  # fmt: skip
FUNCTIONS: dict[str, Implementation] = {
    "range_contains": _with_order(RangeOrder.contains), "range_contained_by": _with_order(lambda order, left, right: order.contains(right, left)),
    "range_contains_elem": _with_order(RangeOrder.contains_value),
    "elem_contained_by_range": _with_order(lambda order, value, span: order.contains_value(span, value)),
    "range_before": _with_order(RangeOrder.before), "range_after": _with_order(lambda order, left, right: order.before(right, left)),
    "range_overlaps": _with_order(RangeOrder.overlaps), "range_adjacent": _with_order(RangeOrder.adjacent),
    "range_overleft": _with_order(RangeOrder.overleft),
    "range_overright": _with_order(RangeOrder.overright), "range_union": _with_order(lambda order, left, right: order.union(left, right, True)),
    "range_merge": _with_order(lambda order, left, right: order.union(left, right, False)), "range_intersect": _with_order(RangeOrder.intersection),
    "range_minus": _with_order(RangeOrder.minus), "range_cmp": _with_order(RangeOrder.cmp),
    "range_empty": rows(lambda span: span.empty, True), "multirange_empty": rows(lambda spans: not spans, True),
    "range_constructor2": _with_order(_constructed), "range_constructor3": _with_order(_constructed),
    "multirange_constructor0": rows(lambda: (), True),
    "multirange_constructor1": rows(_many, True), "multirange_constructor2": _with_order(_multi_constructed),
    "range_merge_from_multirange": _with_order(_hull), "multirange_union": _with_order(lambda order, left, right: order.multi((*left, *right))),
    "multirange_intersect": _with_order(_multi_intersection),
    "multirange_minus": _with_order(_multi_minus), "multirange_cmp": _with_order(lambda order, left, right: _multi_order(order)(left, right)),
    "multirange_contains_elem": _with_order(lambda order, spans, value: any(order.contains_value(each, value) for each in spans)),
    "elem_contained_by_multirange": _with_order(lambda order, value, spans: any(order.contains_value(each, value) for each in spans)),
    "int4range_canonical": rows(lambda span: canonical(span, oids.INT4)),
    "int8range_canonical": rows(lambda span: canonical(span, oids.INT8)),
    "daterange_canonical": rows(lambda span: canonical(span, oids.DATE)),
}  # fmt: skip
for _symbol in ("range_intersect_agg_transfn", "multirange_intersect_agg_transfn"):
    FUNCTIONS[_symbol] = not_in_an_aggregate(_symbol)
for _name, _test in TESTS.items():
    FUNCTIONS[f"range_{_name}"] = _with_order(lambda order, left, right, test=_test: test(order.cmp(left, right)))
    FUNCTIONS[f"multirange_{_name}"] = _with_order(lambda order, left, right, test=_test: test(_multi_order(order)(left, right)))
for _kind in ("range", "multirange"):
    FUNCTIONS.update(
        {
            f"{_kind}_lower": rows(_bound(True), True), f"{_kind}_upper": rows(_bound(False), True), f"{_kind}_lower_inc": rows(_included(True),
            True),
            f"{_kind}_upper_inc": rows(_included(False), True), f"{_kind}_lower_inf": rows(_infinite(True), True),
            f"{_kind}_upper_inf": rows(_infinite(False), True),
        }
    )  # fmt: skip
for _pair in ("range_{}_multirange", "multirange_{}_range", "multirange_{}_multirange"):
    FUNCTIONS[_pair.format("contains")] = _with_order(_multi_contains)
    FUNCTIONS[_pair.format("contained_by")] = _with_order(lambda order, left, right: _multi_contains(order, right, left))
    FUNCTIONS[_pair.format("overlaps")] = _with_order(_multi_overlaps)
    FUNCTIONS[_pair.format("adjacent")] = _with_order(_multi_adjacent)
    FUNCTIONS[_pair.format("before")] = _ends(RangeOrder.before)
    FUNCTIONS[_pair.format("after")] = _ends(lambda order, left, right: order.before(right, left))
    FUNCTIONS[_pair.format("overleft")] = _ends(RangeOrder.overleft)
    FUNCTIONS[_pair.format("overright")] = _ends(RangeOrder.overright)
