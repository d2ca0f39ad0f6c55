"""How two polygons lie to each other (`adt/geo_ops.c`): whether they overlap, whether one holds the other, and how far they are apart."""

from __future__ import annotations

from tailrace.expressions.evaluate.fmgr.function_calls import Implementation, rows
from tailrace.expressions.evaluate.geometry.geo_arithmetic import Point, less, over, plus, same_point
from tailrace.expressions.evaluate.geometry.line_and_lseg import on_segment, segments_meet, segments_nearest
from tailrace.expressions.evaluate.geometry.path_and_polygon import Polygon, bounds, inside, steps
from tailrace.expressions.evaluate.geometry.point_box_circle import contain, overlap


def _overlap(one: Polygon, two: Polygon) -> bool:
    """Edges meet, or one polygon is in the other: then any of its corners is."""
    if not overlap(bounds(one), bounds(two)):
        return False
    if any(segments_meet(mine, other) is not None for mine in steps(one, True) for other in steps(two, True)):
        return True
    return inside(one[0], two) or inside(two[0], one)


def _distance(one: Polygon, two: Polygon) -> float | None:
    if _overlap(one, two):
        return 0.0
    best: float | None = None
    for mine in steps(one, True):
        for other in steps(two, True):
            found = segments_nearest(mine, other)[0]
            if best is None or less(found, best):
                best = found
    return best


def _contain(outer: Polygon, inner: Polygon) -> bool:
    """Each edge of the inner one is within the outer one."""
    if not contain(bounds(outer), bounds(inner)):
        return False
    return all(_holds_segment(edge[:2], edge[2:], outer, 0) for edge in steps(inner, True))


def _holds_segment(one: Point, two: Point, polygon: Polygon, start: int) -> bool:
    """lseg_inside_poly, of the edges from the start-th on: where one crosses, the two parts are looked at for themselves."""
    crossed = False
    for place in range(start, len(polygon)):
        edge = (*polygon[place - 1], *polygon[place])
        if on_segment(edge, one):
            if on_segment(edge, two):
                return True
            if not _holds_touching(one, two, edge, polygon, place + 1):
                return False
        elif on_segment(edge, two):
            if not _holds_touching(two, one, edge, polygon, place + 1):
                return False
        elif (met := segments_meet((*one, *two), edge)) is not None:
            crossed = True
            if not (_holds_segment(one, met, polygon, place + 1) and _holds_segment(two, met, polygon, place + 1)):
                return False
    if crossed:
        return True
    return inside((over(plus(one[0], two[0]), 2.0), over(plus(one[1], two[1]), 2.0)), polygon)


def _holds_touching(on: Point, off: Point, edge: tuple[float, float, float, float], polygon: Polygon, start: int) -> bool:
    """touched_lseg_inside_poly: of a segment of which one end is on the edge. If it lies along the edge, the rest beyond that is asked about."""
    first, second, whole = edge[:2], edge[2:], (*on, *off)
    if same_point(on, first):
        beyond = second if on_segment(whole, second) else None
    elif same_point(on, second):
        beyond = first if on_segment(whole, first) else None
    else:
        beyond = first if on_segment(whole, first) else second if on_segment(whole, second) else None
    return beyond is None or _holds_segment(off, beyond, polygon, start)


FUNCTIONS: dict[str, Implementation] = {
    "poly_overlap": rows(_overlap), "poly_distance": rows(_distance), "poly_contain": rows(_contain),
    "poly_contained": rows(lambda inner, outer: _contain(outer, inner)),
}  # fmt: skip
