"""path and polygon (`adt/geo_ops.c`). A path is (closed, points), a polygon its points."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from tailrace.expressions.evaluate.fmgr.function_calls import Implementation, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, invalid_parameter
from tailrace.expressions.evaluate.geometry.geo_arithmetic import (
    Point,
    Segment,
    above,
    added,
    at_least,
    at_most,
    below,
    distance,
    divided,
    less,
    minus,
    multiplied,
    near,
    near_zero,
    over,
    plus,
    same_point,
    subtracted,
    times,
)  # fmt: skip
from tailrace.expressions.evaluate.geometry.line_and_lseg import segment_nearest, segments_meet, segments_nearest
from tailrace.expressions.evaluate.geometry.point_box_circle import TESTS, Box, overlap
from tailrace.expressions.evaluate.numbers import libm

Path = tuple[bool, tuple[Point, ...]]
Polygon = tuple[Point, ...]


def steps(points: tuple[Point, ...], closed: bool) -> Iterator[Segment]:
    """The segments, that which closes it first."""
    if closed:
        yield (*points[-1], *points[0])
    for one, two in pairwise(points):
        yield (*one, *two)


def _path_area(path: Path) -> float | None:
    closed, points = path
    if not closed:
        return None
    area = 0.0
    for one, two in zip(points, (*points[1:], points[0]), strict=True):
        area = plus(area, times(one[0], two[1]))
        area = minus(area, times(one[1], two[0]))
    return over(abs(area), 2.0)


def _path_length(path: Path) -> float:
    closed, points = path
    total = 0.0
    for place, point in enumerate(points):
        if place == 0 and not closed:
            continue
        total = plus(total, distance(points[place - 1], point))
    return total


def _path_moved(how: Callable[[Point, Point], Point]) -> Callable[[Path, Point], Path]:
    return lambda path, point: (path[0], tuple(how(each, point) for each in path[1]))


def _joined(one: Path, two: Path) -> Path | None:
    return None if one[0] or two[0] else (False, one[1] + two[1])


def _point_path(point: Point, path: Path) -> float:
    """To the nearest segment; nothing where there is none."""
    best: float | None = None
    for segment in steps(path[1], path[0]):
        found = segment_nearest(segment, point)[0]
        if best is None or less(found, best):
            best = found
    return 0.0 if best is None else best


ON_BORDER = 2147483647


def _crosses(x: float, y: float, before_x: float, before_y: float) -> int:
    """How a step from one point to another goes round the origin (`lseg_crossing`)."""
    if near_zero(y):
        if near_zero(x):
            return ON_BORDER
        if above(x, 0.0):
            if near_zero(before_y):
                return 0 if above(before_x, 0.0) else ON_BORDER
            return 1 if below(before_y, 0.0) else -1
        return (0 if below(before_x, 0.0) else ON_BORDER) if near_zero(before_y) else 0
    sign = 1 if above(y, 0.0) else -1
    if near_zero(before_y):
        return 0 if below(before_x, 0.0) else sign
    if (sign < 0 and below(before_y, 0.0)) or (sign > 0 and above(before_y, 0.0)):
        return 0
    if at_least(x, 0.0) and above(before_x, 0.0):
        return 2 * sign
    if below(x, 0.0) and at_most(before_x, 0.0):
        return 0
    area = minus(times(minus(x, before_x), y), times(minus(y, before_y), x))
    if near_zero(area):
        return ON_BORDER
    return 0 if (sign < 0 and below(area, 0.0)) or (sign > 0 and above(area, 0.0)) else 2 * sign


def inside(point: Point, points: tuple[Point, ...]) -> bool:
    """In a polygon, or on its border."""
    relative = [subtracted(each, point) for each in points]
    total, before = 0, relative[0]
    for each in (*relative[1:], relative[0]):
        found = _crosses(*each, *before)
        if found == ON_BORDER:
            return True
        total, before = total + found, each
    return total != 0


def _on_path(point: Point, path: Path) -> bool:
    closed, points = path
    if closed:
        return inside(point, points)
    before = distance(point, points[0])
    for one, two in pairwise(points):
        after = distance(point, two)
        if near(plus(before, after), distance(one, two)):
            return True
        before = after
    return False


def bounds(points: tuple[Point, ...]) -> Box:
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    return max(xs), max(ys), min(xs), min(ys)


def _polygon_circle(points: Polygon) -> tuple[float, float, float]:
    middle = (0.0, 0.0)
    for point in points:
        middle = added(middle, point)
    middle = over(middle[0], len(points)), over(middle[1], len(points))
    radius = 0.0
    for point in points:
        radius = plus(radius, distance(point, middle))
    return (*middle, over(radius, len(points)))


def _same_points(one: Polygon, two: Polygon) -> bool:
    """The same corners, from any one on, in either direction."""
    if len(one) != len(two):
        return False
    count = len(one)
    for start in range(count):
        if not same_point(two[start], one[0]):
            continue
        if all(same_point(two[(start + step) % count], one[step]) for step in range(1, count)):
            return True
        if all(same_point(two[(start - step) % count], one[step]) for step in range(1, count)):
            return True
    return False


def _point_polygon(point: Point, polygon: Polygon) -> float:
    if inside(point, polygon):
        return 0.0
    best = None
    for segment in steps(polygon, True):
        found = segment_nearest(segment, point)[0]
        if best is None or less(found, best):
            best = found
    return best if best is not None else 0.0


def _circle_polygon(circle: tuple[float, float, float], polygon: Polygon) -> float:
    found = minus(_point_polygon(circle[:2], polygon), circle[2])
    return 0.0 if found < 0.0 else found


def _to_polygon(path: Path) -> Polygon:
    if not path[0]:
        raise invalid_parameter("open path cannot be converted to polygon")
    return path[1]


def _paths_meet(one: Path, two: Path) -> bool:
    if not overlap(bounds(one[1]), bounds(two[1])):
        return False
    return any(segments_meet(mine, other) is not None for mine in steps(one[1], one[0]) for other in steps(two[1], two[0]))


def _path_distance(one: Path, two: Path) -> float | None:
    best: float | None = None
    for mine in steps(one[1], one[0]):
        for other in steps(two[1], two[0]):
            found = segments_nearest(mine, other)[0]
            if best is None or less(found, best):
                best = found
    return best


def _of_bounds(test: Callable[[Box, Box], bool]) -> Implementation:
    return rows(lambda one, two: test(bounds(one), bounds(two)), True)


def _safe(function: Callable[..., Any]) -> Implementation:
    return rows(function, True)


def _polygon_of_circle(count: int, circle: tuple[float, float, float]) -> Polygon:
    """So many points around it, from the left on (`circle_poly`)."""
    x, y, radius = circle
    if near_zero(radius):
        raise evaluation_error("cannot convert circle with radius zero to polygon", "0A000")
    if count < 2:
        raise invalid_parameter("must request at least 2 points")
    if count > 134217727:
        raise evaluation_error("too many points requested", "54000")
    step = over(2.0 * math.pi, float(count))
    angles = [times(step, float(number)) for number in range(count)]
    cosine, sine = libm.function("cos"), libm.function("sin")
    return tuple((minus(x, times(radius, cosine(angle))), plus(y, times(radius, sine(angle)))) for angle in angles)


FUNCTIONS: dict[str, Implementation] = {
    "path_area": rows(_path_area), "path_length": rows(_path_length), "path_npoints": _safe(lambda path: len(path[1])),
    "path_isclosed": _safe(lambda path: path[0]), "path_isopen": _safe(lambda path: not path[0]),
    "path_close": _safe(lambda path: (True, path[1])), "path_open": _safe(lambda path: (False, path[1])), "path_poly": rows(_to_polygon),
    "path_add": _safe(_joined), "path_add_pt": rows(_path_moved(added)), "path_sub_pt": rows(_path_moved(subtracted)),
    "path_mul_pt": rows(_path_moved(multiplied)), "path_div_pt": rows(_path_moved(divided)), "path_inter": rows(_paths_meet),
    "path_distance": rows(_path_distance), "dist_ppath": rows(_point_path),
    "dist_pathp": rows(lambda path, point: _point_path(point, path)), "on_ppath": rows(_on_path),
    "path_contain_pt(path, point)": rows(lambda path, point: _on_path(point, path)), "poly_npoints": _safe(len), "poly_box": _safe(bounds),
    "poly_path": _safe(lambda points: (True, points)), "poly_circle": rows(_polygon_circle),
    "poly_center": rows(lambda points: _polygon_circle(points)[:2]), "poly_same": _safe(_same_points),
    "poly_left": _of_bounds(lambda one, two: one[0] < two[2]), "poly_overleft": _of_bounds(lambda one, two: one[0] <= two[0]),
    "poly_right": _of_bounds(lambda one, two: one[2] > two[0]), "poly_overright": _of_bounds(lambda one, two: one[2] >= two[2]),
    "poly_below": _of_bounds(lambda one, two: one[1] < two[3]), "poly_overbelow": _of_bounds(lambda one, two: one[1] <= two[1]),
    "poly_above": _of_bounds(lambda one, two: one[3] > two[1]), "poly_overabove": _of_bounds(lambda one, two: one[3] >= two[3]),
    "circle_poly": rows(_polygon_of_circle), "polygon(circle)": rows(lambda circle: _polygon_of_circle(12, circle)),
    "poly_contain_pt": rows(lambda points, point: inside(point, points)), "pt_contained_poly": rows(inside),
    "dist_ppoly": rows(_point_polygon), "dist_polyp": rows(lambda points, point: _point_polygon(point, points)),
    "dist_cpoly": rows(_circle_polygon), "dist_polyc": rows(lambda points, circle: _circle_polygon(circle, points)),
}  # fmt: skip
for _name, _test in TESTS.items():
    FUNCTIONS[f"path_n_{_name}"] = rows(lambda one, two, test=_test: test(len(one[1]), len(two[1])), True)
