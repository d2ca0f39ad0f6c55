"""money (`adt/cash.c`): an integer of the smallest unit."""

from __future__ import annotations

import math

from tailrace.expressions.evaluate.fmgr.function_calls import Implementation, rows
from tailrace.expressions.evaluate.fmgr.refusals import division_by_zero, evaluation_error, refused

_INT64 = 1 << 63


def _money(value: int) -> int:
    if not -_INT64 <= value < _INT64:
        raise evaluation_error("money out of range", "22003")
    return value


def _float_product(value: int, factor: float) -> int:
    found = value * factor
    if math.isinf(found) and not math.isinf(factor):
        raise evaluation_error("value out of range: overflow", "22003")
    if math.isnan(found) or not -_INT64 <= _rint(found) < _INT64:
        raise evaluation_error("money out of range", "22003")
    return int(_rint(found))


def _rint(number: float) -> float:
    return number if math.isinf(number) or math.isnan(number) else float(round(number))


def _float_quotient(value: int, divisor: float) -> int:
    if divisor == 0.0:
        raise division_by_zero()
    found = value / divisor
    if math.isinf(found):
        raise evaluation_error("value out of range: overflow", "22003")
    if found == 0 and value and not math.isinf(divisor):
        raise evaluation_error("value out of range: underflow", "22003")
    if math.isnan(found) or not -_INT64 <= _rint(found) < _INT64:
        raise evaluation_error("money out of range", "22003")
    return int(_rint(found))


def _quotient(value: int, divisor: int) -> int:
    if divisor == 0:
        raise division_by_zero()
    found = abs(value) // abs(divisor)
    if value == -_INT64 and divisor == -1:
        raise refused("the least amount of money divided by -1")
    return _money(-found if (value < 0) != (divisor < 0) else found)


def _ratio(left: int, right: int) -> float:
    if right == 0:
        raise division_by_zero()
    return float(left) / float(right)


_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
).split()
_TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
_THOUSANDS = " quadrillion ", " trillion ", " billion ", " million ", " thousand ", ""


def _number_words(number: int) -> str:
    """num_word, of up to 999."""
    hundreds, rest = divmod(number, 100)
    below = _SMALL[rest] if rest < 20 else _TENS[rest // 10] + (f" {_SMALL[rest % 10]}" if rest % 10 else "")
    if not hundreds:
        return below
    return f"{_SMALL[hundreds]} hundred" + (f" {'and ' if rest < 20 else ''}{below}" if rest else "")


def _words(value: int) -> str:
    whole, cents = divmod(abs(value), 100)
    groups = [whole // 1000**place % 1000 for place in range(5, -1, -1)]
    words = "".join(_number_words(group) + unit for group, unit in zip(groups, _THOUSANDS, strict=True) if group)
    words = f"{words or 'zero'} dollar{'' if whole == 1 else 's'} and {_number_words(cents)} cent{'' if cents == 1 else 's'}"
    words = "minus " + words if value < 0 else words
    return words[0].upper() + words[1:]


_DIVIDED_BY = {"int8": _quotient, "int4": _quotient, "int2": _quotient, "flt8": _float_quotient, "flt4": _float_quotient}
FUNCTIONS: dict[str, Implementation] = {
    "cash_pl": rows(lambda left, right: _money(left + right)), "cash_mi": rows(lambda left, right: _money(left - right)),
    "cash_div_cash": rows(_ratio), "cash_words": rows(_words, True), **{f"cash_div_{name}": rows(how) for name, how in _DIVIDED_BY.items()},
    **{f"cash_mul_{name}": rows(lambda value, factor: _money(value * factor)) for name in ("int8", "int4", "int2")},
    **{f"{name}_mul_cash": rows(lambda factor, value: _money(value * factor)) for name in ("int8", "int4", "int2")},
    **{f"cash_mul_{name}": rows(_float_product) for name in ("flt8", "flt4")},
    **{f"{name}_mul_cash": rows(lambda factor, value: _float_product(value, factor)) for name in ("flt8", "flt4")},
}  # fmt: skip
