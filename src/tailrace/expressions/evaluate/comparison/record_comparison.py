"""Comparisons of records (`adt/rowtypes.c`): by what fields mean (`record_cmp`), and by what is stored (`record_image_cmp`), behind *= and *<.

The first field that differs decides; NULL is above all, and equals NULL.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tailrace.expressions.evaluate.comparison.type_comparison import comparison, plain
from tailrace.expressions.evaluate.fmgr.array_and_record import RecordValue
from tailrace.expressions.evaluate.fmgr.datum_forms import DTYPES, type_of, writer_of
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error
from tailrace.expressions.evaluate.fmgr.vectors import Facts

_NO_COLLATION = -1
"""Of fields whose collations differ: what needs one is refused."""
_DATUM = (1 << 64) - 1
CompareFields = Callable[[int, int, Any, Any], int]
"""Compares two values of a type under a collation."""


def _compared(left: RecordValue, right: RecordValue, compare: CompareFields) -> int:
    for place, (mine_type, other_type, mine, other) in enumerate(
        zip(left.types, right.types, left.values, right.values, strict=False)
    ):
        if mine_type != other_type:
            labels = f"{type_of(mine_type).label} and {type_of(other_type).label}"
            raise evaluation_error(f"cannot compare dissimilar column types {labels} at record column {place + 1}", "42804")
        if mine is None or other is None:
            found = (mine is None) - (other is None)
        else:
            collation, others = left.collations[place], right.collations[place]
            found = compare(mine_type, collation if collation == others else _NO_COLLATION, mine, other)
        if found:
            return -1 if found < 0 else 1
    if len(left.values) != len(right.values):
        raise evaluation_error("cannot compare record types with different numbers of columns", "42804")
    return 0


def _by_meaning(facts: Facts) -> CompareFields:
    return lambda type_oid, collation, mine, other: comparison(type_oid, facts, collation)(mine, other)


def _by_image(facts: Facts) -> CompareFields:
    """A number that is passed by value is compared as the datum that it is: its sign is stretched to eight bytes, which then have none."""

    def image(type_oid: int, value: Any) -> int | bytes:
        stored = writer_of(type_of(type_oid), facts.encoding)(value)
        return int.from_bytes(stored, "little", signed=True) & _DATUM if type_oid in DTYPES else stored

    return lambda type_oid, _, mine, other: plain(image(type_oid, mine), image(type_oid, other))


def _tested(test: Callable[[int, int], Any], by: Callable[[Facts], CompareFields]) -> Implementation:
    def make(call: FunctionCallInfo) -> Implementation:
        compare = by(call.facts)
        return rows(lambda left, right: test(_compared(left, right, compare), 0))

    return made(make)


_TESTS = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
FUNCTIONS: dict[str, Implementation] = {
    **{f"record_{name}": _tested(test, _by_meaning) for name, test in _TESTS.items()},
    **{f"record_image_{name}": _tested(test, _by_image) for name, test in _TESTS.items()},
    "btrecordcmp": _tested(operator.sub, _by_meaning), "btrecordimagecmp": _tested(operator.sub, _by_image),
}  # fmt: skip
