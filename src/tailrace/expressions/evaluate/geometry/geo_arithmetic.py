"""Numbers and points of the plane as `adt/geo_ops.c` has them: comparisons allow for a millionth, arithmetic raises what float8's does."""

from __future__ import annotations

import math

from tailrace.expressions.evaluate.fmgr.refusals import division_by_zero
from tailrace.expressions.evaluate.numbers.floats import overflow, underflow

Point = tuple[float, float]
Segment = tuple[float, float, float, float]
Line = tuple[float, float, float]
EPSILON = 1.0e-06


def near_zero(one: float) -> bool:
    return abs(one) <= EPSILON


def near(one: float, two: float) -> bool:
    return one == two or abs(one - two) <= EPSILON


def apart(one: float, two: float) -> bool:
    """FPne, which a NaN does not pass either."""
    return one != two and abs(one - two) > EPSILON


def below(one: float, two: float) -> bool:
    return one + EPSILON < two


def at_most(one: float, two: float) -> bool:
    return one <= two + EPSILON


def above(one: float, two: float) -> bool:
    return one > two + EPSILON


def at_least(one: float, two: float) -> bool:
    return one + EPSILON >= two


def plus(one: float, two: float) -> float:
    found = one + two
    if math.isinf(found) and not math.isinf(one) and not math.isinf(two):
        raise overflow()
    return found


def minus(one: float, two: float) -> float:
    return plus(one, -two)


def times(one: float, two: float) -> float:
    found = one * two
    if math.isinf(found) and not math.isinf(one) and not math.isinf(two):
        raise overflow()
    if found == 0.0 and one != 0.0 and two != 0.0:
        raise underflow()
    return found


def over(one: float, two: float) -> float:
    if two == 0.0:
        if math.isnan(one):
            return one
        raise division_by_zero()
    found = one / two
    if math.isinf(found) and not math.isinf(one):
        raise overflow()
    if found == 0.0 and one != 0.0 and not math.isinf(two):
        raise underflow()
    return found


def hypotenuse(one: float, two: float) -> float:
    """pg_hypot, which is not the library's."""
    if math.isinf(one) or math.isinf(two):
        return math.inf
    if math.isnan(one) or math.isnan(two):
        return math.nan
    long, short = max(abs(one), abs(two)), min(abs(one), abs(two))
    if short == 0.0:
        return long
    ratio = short / long
    found = long * math.sqrt(1.0 + ratio * ratio)
    if math.isinf(found):
        raise overflow()
    if found == 0.0:
        raise underflow()
    return found


def distance(one: Point, two: Point) -> float:
    return hypotenuse(minus(one[0], two[0]), minus(one[1], two[1]))


def same_float(one: float, two: float) -> bool:
    return one == two or (math.isnan(one) and math.isnan(two))


def less(one: float, two: float) -> bool:
    """float8_lt: NaN is above all."""
    return not math.isnan(one) and (math.isnan(two) or one < two)


def same_point(one: Point, two: Point) -> bool:
    if any(map(math.isnan, (*one, *two))):
        return same_float(one[0], two[0]) and same_float(one[1], two[1])
    return near(one[0], two[0]) and near(one[1], two[1])


def slope(one: Point, two: Point) -> float:
    if near(one[0], two[0]):
        return math.inf
    if near(one[1], two[1]):
        return 0.0
    return over(minus(one[1], two[1]), minus(one[0], two[0]))


def inverse_slope(one: Point, two: Point) -> float:
    """Of what stands at right angles."""
    if near(one[0], two[0]):
        return 0.0
    if near(one[1], two[1]):
        return math.inf
    return over(minus(one[0], two[0]), minus(two[1], one[1]))


def added(one: Point, two: Point) -> Point:
    return plus(one[0], two[0]), plus(one[1], two[1])


def subtracted(one: Point, two: Point) -> Point:
    return minus(one[0], two[0]), minus(one[1], two[1])


def multiplied(one: Point, two: Point) -> Point:
    """As complex numbers: turned and scaled."""
    return minus(times(one[0], two[0]), times(one[1], two[1])), plus(times(one[0], two[1]), times(one[1], two[0]))


def divided(one: Point, two: Point) -> Point:
    size = plus(times(two[0], two[0]), times(two[1], two[1]))
    return (
        over(plus(times(one[0], two[0]), times(one[1], two[1])), size),
        over(minus(times(two[0], one[1]), times(two[1], one[0])), size),
    )
