"""tid, pg_snapshot and txid_snapshot, pg_lsn's file names, money, and rows: what is left of the types that are small."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tailrace.expressions.evaluate import ordering
from tailrace.expressions.evaluate.calls import Call, Implementation, made, rows
from tailrace.expressions.evaluate.refusals import division_by_zero, evaluation_error, refused
from tailrace.expressions.evaluate.wholes import Row

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


def _visible(xid: int, snapshot: tuple[int, int, tuple[int, ...]]) -> bool:
    xmin, xmax, running = snapshot
    xid &= (1 << 64) - 1
    return xid < xmin or (xid < xmax and xid not in running)


# -- rows --------------------------------------------------------------------------------------------------------------------------


_NO_COLLATION = -1
"""Of fields whose collations differ: what needs one is refused."""


def _row_compare(call: Call) -> Callable[[Row, Row], int]:
    """By the first field that differs; NULL is above all, and equals NULL (`record_cmp`)."""

    def run(left: Row, right: Row) -> int:
        for mine_type, other_type, mine, other, place in zip(
            left.types, right.types, left.values, right.values, range(1, 1664), strict=False
        ):
            if mine_type != other_type:
                raise evaluation_error(
                    f"cannot compare dissimilar column types {_label(mine_type)} and {_label(other_type)} at record column {place}",
                    "42804",
                )
            if mine is None or other is None:
                if (mine is None) != (other is None):
                    return 1 if mine is None else -1
                continue
            collation, others = left.collations[place - 1], right.collations[place - 1]
            found = ordering.comparison(mine_type, call.facts, collation if collation == others else _NO_COLLATION)(mine, other)
            if found:
                return -1 if found < 0 else 1
        if len(left.values) != len(right.values):
            raise evaluation_error("cannot compare record types with different numbers of columns", "42804")
        return 0

    return run


def _label(type_oid: int) -> str:
    from tailrace.expressions.evaluate.forms import type_of  # noqa: PLC0415

    return type_of(type_oid).label


def _rows_compared(test: Callable[[int], Any]) -> Implementation:
    def make(call: Call) -> Implementation:
        compare = _row_compare(call)
        return rows(lambda left, right: test(compare(left, right)))

    return made(make)


_TIDS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda left, right: left == right, "ne": lambda left, right: left != right, "lt": lambda left, right: left < right,
    "le": lambda left, right: left <= right, "gt": lambda left, right: left > right, "ge": lambda left, right: left >= right,
    "larger": lambda left, right: left if left >= right else right, "smaller": lambda left, right: left if left <= right else right,
}  # fmt: skip
FUNCTIONS: dict[str, Implementation] = {
    **{f"tid{name}": rows(test, True) for name, test in _TIDS.items()}, "bttidcmp": rows(ordering.plain, True),
    "pg_snapshot_xmin": rows(lambda snapshot: snapshot[0], True), "pg_snapshot_xmax": rows(lambda snapshot: snapshot[1], True),
    "pg_visible_in_snapshot": rows(_visible, True), "cash_pl": rows(lambda left, right: _money(left + right)),
    "cash_mi": rows(lambda left, right: _money(left - right)), "cash_mul_int8": rows(lambda value, factor: _money(value * factor)),
    "cash_mul_int4": rows(lambda value, factor: _money(value * factor)), "cash_mul_int2": rows(lambda value, factor: _money(value * factor)),
    "int8_mul_cash": rows(lambda factor, value: _money(value * factor)), "int4_mul_cash": rows(lambda factor, value: _money(value * factor)),
    "int2_mul_cash": rows(lambda factor, value: _money(value * factor)), "cash_div_int8": rows(_quotient), "cash_div_int4": rows(_quotient),
    "cash_div_int2": rows(_quotient), "cash_mul_flt8": rows(_float_product), "flt8_mul_cash": rows(lambda factor, value: _float_product(value,
    factor)),
    "cash_div_flt8": rows(_float_quotient), "cash_div_cash": rows(_ratio),
    "cash_mul_flt4": rows(_float_product), "flt4_mul_cash": rows(lambda factor, value: _float_product(value, factor)),
    "cash_div_flt4": rows(_float_quotient),
    "record_eq": _rows_compared(lambda found: found == 0), "record_ne": _rows_compared(lambda found: found != 0),
    "record_lt": _rows_compared(lambda found: found < 0), "record_le": _rows_compared(lambda found: found <= 0),
    "record_gt": _rows_compared(lambda found: found > 0), "record_ge": _rows_compared(lambda found: found >= 0),
    "btrecordcmp": _rows_compared(lambda found: found),
}  # fmt: skip
