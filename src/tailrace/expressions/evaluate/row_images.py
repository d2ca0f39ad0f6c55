"""Comparisons of records by what is stored, not by what it means (`record_image_cmp` in `adt/rowtypes.c`): behind *= and *<, and by name.

A number that is passed by value is compared as the datum that it is: its sign is stretched to eight bytes, which then have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace.expressions.evaluate import ordering
from tailrace.expressions.evaluate.calls import Call, Implementation, made, rows
from tailrace.expressions.evaluate.forms import DTYPES, type_of, writer_of
from tailrace.expressions.evaluate.refusals import evaluation_error
from tailrace.expressions.evaluate.wholes import Row

_DATUM = (1 << 64) - 1


def _image(type_oid: int, value: Any, encoding: str) -> int | bytes:
    stored = writer_of(type_of(type_oid), encoding)(value)
    return int.from_bytes(stored, "little", signed=True) & _DATUM if type_oid in DTYPES else stored


def _compared(left: Row, right: Row, encoding: str) -> int:
    for place, (mine_type, other_type, mine, other) in enumerate(
        zip(left.types, right.types, left.values, right.values, strict=False), 1
    ):
        if mine_type != other_type:
            labels = type_of(mine_type).label, type_of(other_type).label
            raise evaluation_error(
                f"cannot compare dissimilar column types {labels[0]} and {labels[1]} at record column {place}", "42804"
            )
        if mine is None or other is None:
            found = (mine is None) - (other is None)
        else:
            found = ordering.plain(_image(mine_type, mine, encoding), _image(mine_type, other, encoding))
        if found:
            return found
    if len(left.values) != len(right.values):
        raise evaluation_error("cannot compare record types with different numbers of columns", "42804")
    return 0


def _tested(test: Callable[[int], Any]) -> Implementation:
    def make(call: Call) -> Implementation:
        encoding = call.facts.encoding
        return rows(lambda left, right: test(_compared(left, right, encoding)))

    return made(make)


FUNCTIONS: dict[str, Implementation] = {
    "record_image_eq": _tested(lambda found: found == 0), "record_image_ne": _tested(lambda found: found != 0),
    "record_image_lt": _tested(lambda found: found < 0), "record_image_le": _tested(lambda found: found <= 0),
    "record_image_gt": _tested(lambda found: found > 0), "record_image_ge": _tested(lambda found: found >= 0),
    "btrecordimagecmp": _tested(lambda found: found),
}  # fmt: skip
