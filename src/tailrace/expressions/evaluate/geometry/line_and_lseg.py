"""line and lseg (`adt/geo_ops.c`). A line is (A, B, C) of Ax + By + C = 0, a segment (x, y, x, y)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from tailrace.expressions.evaluate.fmgr.function_calls import Implementation, rows
from tailrace.expressions.evaluate.fmgr.refusals import invalid_parameter
from tailrace.expressions.evaluate.geometry.geo_arithmetic import (
    Line,
    Point,
    Segment,
    distance,
    hypotenuse,
    inverse_slope,
    less,
    minus,
    near,
    near_zero,
    over,
    plus,
    same_float,
    same_point,
    slope,
    times,
)
from tailrace.expressions.evaluate.geometry.point_box_circle import TESTS, Box, center, holds, make_box, overlap

# -- lines -------------------------------------------------------------------------------------------------------------------------


def line_through(point: Point, steepness: float) -> Line:
    if math.isinf(steepness):
        return -1.0, 0.0, point[0]
    if steepness == 0:
        return 0.0, -1.0, point[1]
    constant = minus(point[1], times(steepness, point[0]))
    return steepness, -1.0, constant if constant != 0.0 else 0.0


def _line_of(one: Point, two: Point) -> Line:
    if same_point(one, two):
        raise invalid_parameter("invalid line specification: must be two distinct points")
    return line_through(one, slope(one, two))


def crossing(one: Line, two: Line) -> Point | None:
    """Where two lines meet; None for parallel ones."""
    if near_zero(one[1]):
        if near_zero(two[1]):
            return None
        one, two = two, one
        swapped = True
    else:
        swapped = False
    if swapped:
        if near(two[0], times(one[0], over(two[1], one[1]))):
            return None
    elif near(two[0], times(one[0], over(two[1], one[1]))):
        return None
    x = over(minus(times(one[1], two[2]), times(two[1], one[2])), minus(times(one[0], two[1]), times(two[0], one[1])))
    y = over(-plus(times(one[0], x), one[2]), one[1])
    return (x if x != 0.0 else 0.0), (y if y != 0.0 else 0.0)


def _perpendicular(one: Line, two: Line) -> bool:
    if near_zero(one[0]):
        return near_zero(two[1])
    if near_zero(two[0]):
        return near_zero(one[1])
    if near_zero(one[1]):
        return near_zero(two[0])
    if near_zero(two[1]):
        return near_zero(one[0])
    return near(over(times(one[0], two[0]), times(one[1], two[1])), -1.0)


def _same_line(one: Line, two: Line) -> bool:
    if any(map(math.isnan, (*one, *two))):
        return all(map(same_float, one, two))
    ratio = 1.0
    for mine, other in zip(one, two, strict=True):
        if not near_zero(other):
            ratio = over(mine, other)
            break
    return all(near(mine, times(ratio, other)) for mine, other in zip(one, two, strict=True))


def _line_distance(one: Line, two: Line) -> float:
    if crossing(one, two) is not None:
        return 0.0
    ratio = 1.0
    for mine, other in zip(one[:2], two[:2], strict=True):
        if not near_zero(mine) and not math.isnan(mine) and not near_zero(other) and not math.isnan(other):
            ratio = over(mine, other)
            break
    return over(abs(minus(one[2], times(ratio, two[2]))), hypotenuse(one[0], one[1]))


def _inverse_of(line: Line) -> float:
    if near_zero(line[0]):
        return math.inf
    if near_zero(line[1]):
        return 0.0
    return over(line[1], line[0])


def _slope_of(line: Line) -> float:
    if near_zero(line[0]):
        return 0.0
    if near_zero(line[1]):
        return math.inf
    return over(line[0], -line[1])


def on_line(line: Line, point: Point) -> bool:
    return near_zero(plus(plus(times(line[0], point[0]), times(line[1], point[1])), line[2]))


def line_nearest(line: Line, point: Point) -> tuple[float, Point]:
    found = crossing(line_through(point, _inverse_of(line)), line)
    return (0.0, point) if found is None else (distance(found, point), found)


# -- segments ----------------------------------------------------------------------------------------------------------------------


def on_segment(segment: Segment, point: Point) -> bool:
    one, two = segment[:2], segment[2:]
    return near(plus(distance(point, one), distance(point, two)), distance(one, two))


def segment_slope(segment: Segment) -> float:
    return slope(segment[:2], segment[2:])


def segment_on_line(segment: Segment, line: Line) -> Point | None:
    """Where a segment meets a line; of its ends, where those are near, exactly."""
    found = crossing(line_through(segment[:2], segment_slope(segment)), line)
    if found is None or not on_segment(segment, found):
        return None
    if same_point(segment[:2], found):
        return segment[:2]
    return segment[2:] if same_point(segment[2:], found) else found


def segments_meet(one: Segment, two: Segment) -> Point | None:
    found = segment_on_line(one, line_through(two[:2], segment_slope(two)))
    return found if found is not None and on_segment(two, found) else None


def segment_nearest_line(segment: Segment, line: Line) -> tuple[float, Point]:
    found = segment_on_line(segment, line)
    if found is not None:
        return 0.0, found
    first, second = line_nearest(line, segment[:2])[0], line_nearest(line, segment[2:])[0]
    return (first, segment[:2]) if first < second else (second, segment[2:])


def segment_nearest(segment: Segment, point: Point) -> tuple[float, Point]:
    _, found = segment_nearest_line(segment, line_through(point, inverse_slope(segment[:2], segment[2:])))
    return distance(found, point), found


def segments_nearest(on: Segment, to: Segment) -> tuple[float, Point]:
    met = segments_meet(on, to)
    if met is not None:
        return 0.0, met
    ends = ((segment_nearest(to, end)[0], end) for end in (on[:2], on[2:]))
    return _least(segment_nearest(on, to[:2]), (segment_nearest(on, to[2:]), *ends))


def _length(segment: Segment) -> float:
    return distance(segment[:2], segment[2:])


# -- segments and boxes ------------------------------------------------------------------------------------------------------------


def sides(box: Box) -> list[Segment]:
    high, low = box[:2], box[2:]
    left_top, right_bottom = (low[0], high[1]), (high[0], low[1])
    return [(*low, *left_top), (*high, *left_top), (*low, *right_bottom), (*high, *right_bottom)]


def box_nearest(box: Box, point: Point) -> tuple[float, Point]:
    if holds(box, point):
        return 0.0, point
    first, *others = (segment_nearest(side, point) for side in sides(box))
    return _least(first, others)


def box_meets(box: Box, segment: Segment) -> bool:
    if not overlap(make_box(segment[:2], segment[2:]), box):
        return False
    if holds(box, segment[:2]) or holds(box, segment[2:]):
        return True
    return any(segments_meet(side, segment) is not None for side in sides(box))


def _box_nearest_to_segment(box: Box, segment: Segment) -> tuple[float, Point]:
    """box_closept_lseg: where they meet, the point of the segment nearest to the middle of the box."""
    if box_meets(box, segment):
        return 0.0, segment_nearest(segment, center(box))[1]
    first, *others = (segments_nearest(side, segment) for side in sides(box))
    return _least(first, others)


def _least(best: tuple[float, Point], others: Iterable[tuple[float, Point]]) -> tuple[float, Point]:
    """The nearest of some; of equal ones the first."""
    for each in others:
        best = each if less(each[0], best[0]) else best
    return best


def _close_segments(one: Segment, two: Segment) -> Point | None:
    if segment_slope(one) == segment_slope(two):
        return None
    found, point = segments_nearest(two, one)
    return None if math.isnan(found) else point


def _known(found: tuple[float, Point]) -> Point | None:
    return None if math.isnan(found[0]) else found[1]


def _close_line_segment(line: Line, segment: Segment) -> Point | None:
    if segment_slope(segment) == _slope_of(line):
        return None
    return _known(segment_nearest_line(segment, line))


def _any_side_on_line(line: Line, box: Box) -> bool:
    return any(segment_on_line(side, line) is not None for side in sides(box))


def _safe(function: Callable[..., Any]) -> Implementation:
    return rows(function, True)


FUNCTIONS: dict[str, Implementation] = {
    "line_construct_pp": rows(_line_of), "line_vertical": _safe(lambda line: near_zero(line[1])),
    "line_horizontal": _safe(lambda line: near_zero(line[0])), "line_perp": rows(_perpendicular), "line_eq": rows(_same_line),
    "line_intersect": rows(lambda one, two: crossing(one, two) is not None),
    "line_parallel": rows(lambda one, two: crossing(one, two) is None), "line_interpt": rows(crossing),
    "line_distance": rows(_line_distance), "lseg_construct": _safe(lambda one, two: (*one, *two)),
    "lseg_parallel": rows(lambda one, two: near(segment_slope(one), segment_slope(two))),
    "lseg_perp": rows(lambda one, two: near(segment_slope(one), inverse_slope(two[:2], two[2:]))),
    "lseg_vertical": _safe(lambda one: near(one[0], one[2])), "lseg_horizontal": _safe(lambda one: near(one[1], one[3])),
    "lseg_eq": _safe(lambda one, two: same_point(one[:2], two[:2]) and same_point(one[2:], two[2:])),
    "lseg_ne": _safe(lambda one, two: not (same_point(one[:2], two[:2]) and same_point(one[2:], two[2:]))), "lseg_length": rows(_length),
    "lseg_center": rows(center), "lseg_intersect": rows(lambda one, two: segments_meet(one, two) is not None),
    "lseg_interpt": rows(segments_meet), "lseg_distance": rows(lambda one, two: segments_nearest(one, two)[0]),
    "dist_pl": rows(lambda point, line: line_nearest(line, point)[0]), "dist_lp": rows(lambda line, point: line_nearest(line, point)[0]),
    "dist_ps": rows(lambda point, one: segment_nearest(one, point)[0]), "dist_sp": rows(lambda one, point: segment_nearest(one, point)[0]),
    "dist_ls": rows(lambda line, one: segment_nearest_line(one, line)[0]),
    "dist_sl": rows(lambda one, line: segment_nearest_line(one, line)[0]), "dist_pb": rows(lambda point, box: box_nearest(box, point)[0]),
    "dist_bp": rows(lambda box, point: box_nearest(box, point)[0]), "dist_sb": rows(lambda one, box: _box_nearest_to_segment(box, one)[0]),
    "dist_bs": rows(lambda box, one: _box_nearest_to_segment(box, one)[0]), "close_lseg": rows(_close_segments),
    "close_ps": rows(lambda point, one: _known(segment_nearest(one, point))),
    "close_pl": rows(lambda point, line: _known(line_nearest(line, point))), "close_ls": rows(_close_line_segment),
    "close_pb": rows(lambda point, box: _known(box_nearest(box, point))),
    "close_sb": rows(lambda one, box: _known(_box_nearest_to_segment(box, one))),
    "inter_sl": rows(lambda one, line: segment_on_line(one, line) is not None), "inter_lb": rows(_any_side_on_line),
    "inter_sb": rows(lambda one, box: box_meets(box, one)), "on_pl": rows(lambda point, line: on_line(line, point)),
    "on_ps": rows(lambda point, one: on_segment(one, point)),
    "on_sl": rows(lambda one, line: on_line(line, one[:2]) and on_line(line, one[2:])),
    "on_sb": _safe(lambda one, box: holds(box, one[:2]) and holds(box, one[2:])),
}  # fmt: skip
for _name, _test in TESTS.items():
    if _name != "eq":
        FUNCTIONS[f"lseg_{_name}"] = rows(lambda one, two, test=_test: test(_length(one), _length(two)))
