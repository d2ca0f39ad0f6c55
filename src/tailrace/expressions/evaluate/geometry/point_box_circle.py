"""point, box and circle (`adt/geo_ops.c`). A box is its upper right corner and its lower left one: (x, y, x, y)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tailrace.expressions.evaluate.fmgr.function_calls import Implementation, rows
from tailrace.expressions.evaluate.geometry.geo_arithmetic import (
    Point,
    above,
    added,
    apart,
    at_least,
    at_most,
    below,
    distance,
    divided,
    hypotenuse,
    less,
    minus,
    multiplied,
    near,
    over,
    plus,
    same_point,
    slope,
    subtracted,
    times,
)

Box = tuple[float, float, float, float]
Circle = tuple[float, float, float]


def make_box(one: Point, two: Point) -> Box:
    """Of any two corners."""
    x_first, y_first = less(two[0], one[0]), less(two[1], one[1])
    high = (one[0] if x_first else two[0], one[1] if y_first else two[1])
    low = (two[0] if x_first else one[0], two[1] if y_first else one[1])
    return (*high, *low)


def center(box: Box) -> Point:
    return over(plus(box[0], box[2]), 2.0), over(plus(box[1], box[3]), 2.0)


def _width(box: Box) -> float:
    return minus(box[0], box[2])


def _height(box: Box) -> float:
    return minus(box[1], box[3])


def _area(box: Box) -> float:
    return times(_width(box), _height(box))


def overlap(one: Box, two: Box) -> bool:
    return at_most(one[2], two[0]) and at_most(two[2], one[0]) and at_most(one[3], two[1]) and at_most(two[3], one[1])


def contain(one: Box, two: Box) -> bool:
    return at_least(one[0], two[0]) and at_most(one[2], two[2]) and at_least(one[1], two[1]) and at_most(one[3], two[3])


def holds(box: Box, point: Point) -> bool:
    return box[0] >= point[0] >= box[2] and box[1] >= point[1] >= box[3]


def _smaller(one: float, two: float) -> float:
    return one if less(one, two) else two


def _larger(one: float, two: float) -> float:
    return one if less(two, one) else two


def _intersection(one: Box, two: Box) -> Box | None:
    if not overlap(one, two):
        return None
    return _smaller(one[0], two[0]), _smaller(one[1], two[1]), _larger(one[2], two[2]), _larger(one[3], two[3])


def _bound(one: Box, two: Box) -> Box:
    return _larger(one[0], two[0]), _larger(one[1], two[1]), _smaller(one[2], two[2]), _smaller(one[3], two[3])


def _corners(how: Callable[[Point, Point], Point], ordered: bool) -> Callable[[Box, Point], Box]:
    def run(box: Box, point: Point) -> Box:
        high, low = how(box[:2], point), how(box[2:], point)
        return make_box(high, low) if ordered else (*high, *low)

    return run


def _box_polygon(box: Box) -> tuple[Point, ...]:
    return (box[2], box[3]), (box[2], box[1]), (box[0], box[1]), (box[0], box[3])


def _box_circle(box: Box) -> Circle:
    middle = center(box)
    return (*middle, distance(middle, box[:2]))


def _circle_box(circle: Circle) -> Box:
    delta = over(circle[2], math.sqrt(2.0))
    return plus(circle[0], delta), plus(circle[1], delta), minus(circle[0], delta), minus(circle[1], delta)


def _same_circle(one: Circle, two: Circle) -> bool:
    radii = (math.isnan(one[2]) and math.isnan(two[2])) or near(one[2], two[2])
    return radii and same_point(one[:2], two[:2])


def circle_area(circle: Circle) -> float:
    return times(times(circle[2], circle[2]), math.pi)


def _apart(one: Circle, two: Circle) -> float:
    found = minus(distance(one[:2], two[:2]), plus(one[2], two[2]))
    return 0.0 if found < 0.0 else found


def _point_circle(point: Point, circle: Circle) -> float:
    found = minus(distance(point, circle[:2]), circle[2])
    return 0.0 if found < 0.0 else found


def _moved(how: Callable[[Point, Point], Point]) -> Callable[[Circle, Point], Circle]:
    return lambda circle, point: (*how(circle[:2], point), circle[2])


def _safe(function: Callable[..., Any]) -> Implementation:
    return rows(function, True)


TESTS: dict[str, Callable[[float, float], bool]] = {"lt": below, "gt": above, "eq": near, "le": at_most, "ge": at_least}
FUNCTIONS: dict[str, Implementation] = {
    "construct_point": _safe(lambda x, y: (x, y)), "point_left": _safe(lambda one, two: below(one[0], two[0])),
    "point_right": _safe(lambda one, two: above(one[0], two[0])), "point_above": _safe(lambda one, two: above(one[1], two[1])),
    "point_below": _safe(lambda one, two: below(one[1], two[1])), "point_vert": _safe(lambda one, two: near(one[0], two[0])),
    "point_horiz": _safe(lambda one, two: near(one[1], two[1])), "point_eq": _safe(same_point), "point_ne": _safe(lambda one,
    two: not same_point(one, two)),
    "point_distance": rows(distance), "point_slope": rows(slope), "point_add": rows(added), "point_sub": rows(subtracted),
    "point_mul": rows(multiplied), "point_div": rows(divided), "points_box": _safe(make_box), "point_box": _safe(lambda point: (*point, *point)),
    "box_same": _safe(lambda one, two: same_point(one[:2], two[:2]) and same_point(one[2:], two[2:])), "box_overlap": _safe(overlap),
    "box_overleft": _safe(lambda one, two: at_most(one[0], two[0])), "box_left": _safe(lambda one, two: below(one[0], two[2])),
    "box_right": _safe(lambda one, two: above(one[2], two[0])), "box_overright": _safe(lambda one, two: at_least(one[2], two[2])),
    "box_below": _safe(lambda one, two: below(one[1], two[3])), "box_overbelow": _safe(lambda one, two: at_most(one[1], two[1])),
    "box_above": _safe(lambda one, two: above(one[3], two[1])), "box_overabove": _safe(lambda one, two: at_least(one[3], two[3])),
    "box_contain": _safe(contain), "box_contained": _safe(lambda one, two: contain(two, one)),
    "box_below_eq": _safe(lambda one, two: at_most(one[1], two[3])), "box_above_eq": _safe(lambda one, two: at_least(one[3], two[1])),
    "box_area": rows(_area), "box_width": rows(_width), "box_height": rows(_height), "box_center": rows(center),
    "box_distance": rows(lambda one, two: distance(center(one), center(two))), "box_intersect": _safe(_intersection),
    "box_diagonal": _safe(lambda box: box),
    "boxes_bound_box": _safe(_bound), "box_add": rows(_corners(added, False)), "box_sub": rows(_corners(subtracted, False)),
    "box_mul": rows(_corners(multiplied, True)), "box_div": rows(_corners(divided, True)), "box_poly": _safe(_box_polygon),
    "box_circle": rows(_box_circle),
    "circle_box": rows(_circle_box), "box_contain_pt": _safe(holds), "on_pb": _safe(lambda point, box: holds(box, point)),
    "circle_same": _safe(_same_circle), "circle_overlap": rows(lambda one, two: at_most(distance(one[:2], two[:2]), plus(one[2], two[2]))),
    "circle_overleft": rows(lambda one, two: at_most(plus(one[0], one[2]), plus(two[0], two[2]))),
    "circle_left": rows(lambda one, two: below(plus(one[0], one[2]), minus(two[0], two[2]))),
    "circle_right": rows(lambda one, two: above(minus(one[0], one[2]), plus(two[0], two[2]))),
    "circle_overright": rows(lambda one, two: at_least(minus(one[0], one[2]), minus(two[0], two[2]))),
    "circle_contained": rows(lambda one, two: at_most(distance(one[:2], two[:2]), minus(two[2], one[2]))),
    "circle_contain": rows(lambda one, two: at_most(distance(one[:2], two[:2]), minus(one[2], two[2]))),
    "circle_below": rows(lambda one, two: below(plus(one[1], one[2]), minus(two[1], two[2]))),
    "circle_above": rows(lambda one, two: above(minus(one[1], one[2]), plus(two[1], two[2]))),
    "circle_overbelow": rows(lambda one, two: at_most(plus(one[1], one[2]), plus(two[1], two[2]))),
    "circle_overabove": rows(lambda one, two: at_least(minus(one[1], one[2]), minus(two[1], two[2]))),
    "circle_add_pt": rows(_moved(added)), "circle_sub_pt": rows(_moved(subtracted)),
    "circle_mul_pt": rows(lambda circle, point: (*multiplied(circle[:2], point), times(circle[2], hypotenuse(*point)))),
    "circle_div_pt": rows(lambda circle, point: (*divided(circle[:2], point), over(circle[2], hypotenuse(*point)))),
    "circle_area": rows(circle_area), "circle_diameter": rows(lambda circle: times(circle[2], 2.0)), "circle_radius": _safe(lambda circle: circle[2]),
    "circle_center": _safe(lambda circle: circle[:2]), "circle_distance": rows(_apart),
    "circle_contain_pt": rows(lambda circle, point: distance(circle[:2], point) <= circle[2]),
    "pt_contained_circle": rows(lambda point, circle: distance(circle[:2], point) <= circle[2]), "dist_pc": rows(_point_circle),
    "dist_cpoint": rows(lambda circle, point: _point_circle(point, circle)), "cr_circle": _safe(lambda point, radius: (*point, radius)),
    "circle_ne": rows(lambda one, two: apart(circle_area(one), circle_area(two))),
}  # fmt: skip
for _name, _test in TESTS.items():
    FUNCTIONS[f"box_{_name}"] = rows(lambda one, two, test=_test: test(_area(one), _area(two)))
    FUNCTIONS[f"circle_{_name}"] = rows(lambda one, two, test=_test: test(circle_area(one), circle_area(two)))
