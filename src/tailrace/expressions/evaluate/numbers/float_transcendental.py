"""Powers, roots, logarithms and trigonometry of double precision (`adt/float.c`): what the C library gives, with PostgreSQL's checks around it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tailrace.expressions.evaluate.fmgr.function_calls import Implementation, columns
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error
from tailrace.expressions.evaluate.numbers import libm
from tailrace.expressions.evaluate.numbers.floats import overflow, underflow
from tailrace.expressions.evaluate.numbers.libm import Floats

_RADIANS_PER_DEGREE = 0.0174532925199432957692


def _raise_first(over: NDArray[np.bool_], under: NDArray[np.bool_] | None = None) -> None:
    """The error of the first row that has one, which both kinds may have."""
    first = int(np.argmax(over)) if over.any() else len(over)
    if under is not None and under[:first].any():
        raise underflow()
    if first < len(over):
        raise overflow()


def _input_is_out_of_range() -> Exception:
    return evaluation_error("input is out of range", "22003")


def _quiet(how: Callable[..., Floats]) -> Implementation:
    """Arithmetic that checks its results itself; nobody wants NumPy's warnings."""

    def run(*arguments: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return how(*arguments)

    return columns(run)


def _exponential(value: Floats) -> Floats:
    found = libm.results("exp", value)
    finite = ~np.isinf(value) & ~np.isnan(value)
    told = libm.out_of_range("exp", found, value) & finite
    _raise_first((told & (found != 0)) | (np.isinf(found) & finite), (found == 0) & finite)
    return found


def _logarithm(name: str) -> Callable[[Floats], Floats]:
    def run(value: Floats) -> Floats:
        wrong = np.flatnonzero(value <= 0)
        if len(wrong):
            what = "zero" if value[wrong[0]] == 0 else "a negative number"
            raise evaluation_error(f"cannot take logarithm of {what}", "2201E")
        found = libm.results(name, value)
        _raise_first(np.isinf(found) & ~np.isinf(value), (found == 0) & (value != 1))
        return found

    return run


def _power(base: Floats, exponent: Floats) -> Floats:
    """dpow: what POSIX says of NaN and of infinities, said again there, as not all libraries keep to it."""
    base, exponent = np.broadcast_arrays(base, exponent)
    known = ~np.isnan(base) & ~np.isnan(exponent)
    zero, odd = known & (base == 0) & (exponent < 0), known & (base < 0) & (np.floor(exponent) != exponent)
    wrong = np.flatnonzero(zero | odd)
    if len(wrong):
        if zero[wrong[0]]:
            raise evaluation_error("zero raised to a negative power is undefined", "2201F")
        raise evaluation_error("a negative number raised to a non-integer power yields a complex result", "2201F")
    found = libm.results("pow", base, exponent)
    finite = known & ~np.isinf(base) & ~np.isinf(exponent)
    told = libm.out_of_range("pow", found, base, exponent) & finite
    over = (told & (found != 0)) | (np.isinf(found) & finite)
    _raise_first(over, ((told & (found == 0)) | ((found == 0) & (base != 0))) & finite)
    return found


def _cube_root(value: Floats) -> Floats:
    return libm.results("cbrt", value)


def _within_one(name: str) -> Callable[[Floats], Floats]:
    def run(value: Floats) -> Floats:
        if (np.abs(value) > 1).any():
            raise _input_is_out_of_range()
        return libm.results(name, value)

    return run


def _of_angle(name: str) -> Callable[[Floats], Floats]:
    def run(value: Floats) -> Floats:
        if np.isinf(value).any():
            raise _input_is_out_of_range()
        return libm.results(name, value)

    return run


def _cotangent(value: Floats) -> Floats:
    return 1.0 / _of_angle("tan")(value)


def _hyperbolic_cosine(value: Floats) -> Floats:
    return libm.results("cosh", value)


def _inverse_hyperbolic_cosine(value: Floats) -> Floats:
    if (value < 1).any():
        raise _input_is_out_of_range()
    return libm.results("acosh", value)


# -- degrees: exact where the result is, as sind(30) is one half --------------------------------------------------------------------


@cache
def _unit(name: str) -> float:
    """init_degree_constants."""
    call = libm.function
    match name:
        case "sin_30":
            return call("sin")(30.0 * _RADIANS_PER_DEGREE)
        case "one_minus_cos_60":
            return 1.0 - call("cos")(60.0 * _RADIANS_PER_DEGREE)
        case "asin_0_5":
            return call("asin")(0.5)
        case "acos_0_5":
            return call("acos")(0.5)
        case _:
            return call("atan")(1.0)


def _sine_up_to_30(value: Floats) -> Floats:
    return (libm.results("sin", value * _RADIANS_PER_DEGREE) / _unit("sin_30")) / 2.0


def _cosine_up_to_60(value: Floats) -> Floats:
    return 1.0 - ((1.0 - libm.results("cos", value * _RADIANS_PER_DEGREE)) / _unit("one_minus_cos_60")) / 2.0


def _sine_of_quadrant(value: Floats) -> Floats:
    return np.where(value <= 30.0, _sine_up_to_30(value), _cosine_up_to_60(90.0 - value))


def _cosine_of_quadrant(value: Floats) -> Floats:
    return np.where(value <= 60.0, _cosine_up_to_60(value), _sine_up_to_30(90.0 - value))


def _folded(value: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """An angle in the first quadrant, and the signs that its place in the circle gives: below 0, beyond 180, and beyond 90 from there."""
    if np.isinf(value).any():
        raise _input_is_out_of_range()
    value = np.fmod(value, 360.0)
    below = np.where(value < 0, -1.0, 1.0)
    value = np.where(value < 0, -value, value)
    beyond = np.where(value > 180.0, -1.0, 1.0)
    value = np.where(value > 180.0, 360.0 - value, value)
    second = np.where(value > 90.0, -1.0, 1.0)
    return np.where(value > 90.0, 180.0 - value, value), below, beyond, second


def _sine_of_degrees(value: Floats) -> Floats:
    angle, below, beyond, _ = _folded(value)
    return _with_nan(value, below * beyond * _sine_of_quadrant(angle))


def _cosine_of_degrees(value: Floats) -> Floats:
    angle, _, _, second = _folded(value)
    return _with_nan(value, second * _cosine_of_quadrant(angle))


def _tangent_of_degrees(value: Floats) -> Floats:
    angle, below, beyond, second = _folded(value)
    at_45 = np.array([45.0])
    unit = _sine_of_quadrant(at_45) / _cosine_of_quadrant(at_45)
    return _with_nan(value, below * beyond * second * ((_sine_of_quadrant(angle) / _cosine_of_quadrant(angle)) / unit) + 0.0)


def _cotangent_of_degrees(value: Floats) -> Floats:
    angle, below, beyond, second = _folded(value)
    at_45 = np.array([45.0])
    unit = _cosine_of_quadrant(at_45) / _sine_of_quadrant(at_45)
    return _with_nan(value, below * beyond * second * ((_cosine_of_quadrant(angle) / _sine_of_quadrant(angle)) / unit) + 0.0)


def _with_nan(value: Floats, found: Floats) -> Floats:
    return np.where(np.isnan(value), np.nan, found)


def _arc_sine_of_quadrant(value: Floats) -> Floats:
    low = (libm.results("asin", value) / _unit("asin_0_5")) * 30.0
    return np.where(value <= 0.5, low, 90.0 - (libm.results("acos", value) / _unit("acos_0_5")) * 60.0)


def _arc_cosine_of_quadrant(value: Floats) -> Floats:
    low = 90.0 - (libm.results("asin", value) / _unit("asin_0_5")) * 30.0
    return np.where(value <= 0.5, low, (libm.results("acos", value) / _unit("acos_0_5")) * 60.0)


def _arc_sine_in_degrees(value: Floats) -> Floats:
    if (np.abs(value) > 1).any():
        raise _input_is_out_of_range()
    found = _arc_sine_of_quadrant(np.where(value >= 0, value, -value))
    return np.where(value >= 0, found, -found)


def _arc_cosine_in_degrees(value: Floats) -> Floats:
    if (np.abs(value) > 1).any():
        raise _input_is_out_of_range()
    return np.where(value >= 0, _arc_cosine_of_quadrant(np.abs(value)), 90.0 + _arc_sine_of_quadrant(np.abs(value)))


def _arc_tangent_in_degrees(*arguments: Floats) -> Floats:
    return (libm.results("atan2" if len(arguments) == 2 else "atan", *arguments) / _unit("atan_1_0")) * 45.0


# -- since 16 and 18 ---------------------------------------------------------------------------------------------------------------


def _gamma(value: Floats) -> Floats:
    found = libm.results("tgamma", value)
    told = np.array([libm.errors("tgamma", each) != 0 for each in value.tolist()], np.bool_)
    wrong = (told | np.isinf(found) | (np.isnan(found))) & ~np.isnan(value) & ~(value == math.inf)
    _raise_first(wrong & (found != 0), (found == 0) & ~np.isnan(value))
    return found


def _logarithm_of_gamma(value: Floats) -> Floats:
    found = libm.results("lgamma", value)
    _raise_first((libm.out_of_range("lgamma", found, value)) | (np.isinf(found) & ~np.isinf(value)))
    return found


def _plain(name: str) -> Implementation:
    return _quiet(lambda *arguments: libm.results(name, *arguments))


FUNCTIONS: dict[str, Implementation] = {
    "dexp": _quiet(_exponential), "dlog1": _quiet(_logarithm("log")), "dlog10": _quiet(_logarithm("log10")), "dpow": _quiet(_power),
    "dcbrt": _quiet(_cube_root), "dacos": _quiet(_within_one("acos")), "dasin": _quiet(_within_one("asin")), "datan": _plain("atan"),
    "datan2": _plain("atan2"), "dcos": _quiet(_of_angle("cos")), "dsin": _quiet(_of_angle("sin")), "dtan": _quiet(_of_angle("tan")),
    "dcot": _quiet(_cotangent), "dsind": _quiet(_sine_of_degrees), "dcosd": _quiet(_cosine_of_degrees), "dtand": _quiet(_tangent_of_degrees),
    "dcotd": _quiet(_cotangent_of_degrees), "dasind": _quiet(_arc_sine_in_degrees), "dacosd": _quiet(_arc_cosine_in_degrees),
    "datand": _quiet(_arc_tangent_in_degrees), "datan2d": _quiet(_arc_tangent_in_degrees), "dsinh": _plain("sinh"),
    "dcosh": _quiet(_hyperbolic_cosine), "dtanh": _plain("tanh"), "dasinh": _plain("asinh"),
    "dacosh": _quiet(_inverse_hyperbolic_cosine), "datanh": _quiet(_within_one("atanh")), "derf": _plain("erf"), "derfc": _plain("erfc"),
    "dgamma": _quiet(_gamma), "dlgamma": _quiet(_logarithm_of_gamma),
}  # fmt: skip
