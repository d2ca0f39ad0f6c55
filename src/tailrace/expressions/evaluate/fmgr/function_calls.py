"""How families say what a function does, and how it is called for many rows.

A family's module has a table `FUNCTIONS: symbol -> Implementation`. There are three kinds: `rows` takes one row's values, `columns` the arrays of all
rows where no argument is NULL, `whole` the vectors themselves. A `made` one is made at compile time, when the types and the constants of
a call are known; it may refuse. `safe` says that it never raises, so that it may be asked about rows that do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.expressions.evaluate.collations import Compare, Letters
from tailrace.expressions.evaluate.fmgr.datum_forms import array_of
from tailrace.expressions.evaluate.fmgr.pg_proc import BuiltIn
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error
from tailrace.expressions.evaluate.fmgr.vectors import Facts, Vector
from tailrace.types.values import Mask


@dataclass(frozen=True, slots=True)
class FunctionCallInfo:
    """A function and with what it is called: types of the arguments and of the result, collation, what is constant among the arguments."""

    function: BuiltIn
    types: tuple[int, ...]
    result: int
    collation: int
    facts: Facts
    arguments: tuple[Vector | None, ...] = ()
    variadic: bool = False

    def constant(self, place: int) -> Any:
        """The constant value of an argument, or None where it is not constant (or NULL)."""
        found = self.arguments[place] if place < len(self.arguments) else None
        return None if found is None else found.value()

    def order(self) -> Compare | None:
        """How the call's collation orders texts; None where it is by their bytes. Raises Refused where it is not known."""
        return self.facts.order(self.collation)

    def letters(self) -> Letters:
        """What the call's collation says of letters."""
        return self.facts.letters(self.collation)


@dataclass(frozen=True, slots=True)
class Implementation:
    """What a function does; exactly one of the kinds is given."""

    rows: Callable[..., Any] | None = None
    columns: Callable[..., Any] | None = None
    whole: Callable[[Sequence[Vector], int, Mask], NDArray] | None = None
    made: Callable[[FunctionCallInfo], Implementation] | None = None
    safe: bool = False


def rows(function: Callable[..., Any], safe: bool = False) -> Implementation:
    """Of Python values, one row at a time; None is NULL."""
    return Implementation(rows=function, safe=safe)


def columns(function: Callable[..., Any], safe: bool = False) -> Implementation:
    """Of arrays, whose rows are all valid; a constant is an array of one."""
    return Implementation(columns=function, safe=safe)


def whole(function: Callable[[Sequence[Vector], int, Mask], NDArray]) -> Implementation:
    """Of vectors, how many rows there are and which are valid; gives data for all rows, and never raises."""
    return Implementation(whole=function, safe=True)


def made(function: Callable[[FunctionCallInfo], Implementation]) -> Implementation:
    return Implementation(made=function)


def not_in_an_aggregate(symbol: str) -> Implementation:
    """A step of an aggregate that refuses to be called by others."""

    def run(*arguments: object) -> None:
        raise evaluation_error(f"{symbol} called in non-aggregate context", "XX000")

    return rows(run)


def bound(implementation: Implementation, call: FunctionCallInfo) -> Implementation:
    """One that is not made any further."""
    while implementation.made is not None:
        implementation = implementation.made(call)
    return implementation


def apply(implementation: Implementation, result: int, strict: bool, arguments: Sequence[Vector], count: int) -> Vector:
    """Call it for all rows; a strict function is not asked where an argument is NULL."""
    is_constant = all(each.constant for each in arguments)
    count = 1 if is_constant else count
    if not strict:
        return _apply_loose(implementation, result, arguments, count, is_constant)
    valid = np.ones(count, np.bool_)
    for each in arguments:
        valid &= each.valid
    if not valid.any():
        return Vector(result, valid, is_constant, None, "UTF8", array_of(result, [None] * count))
    if implementation.whole is not None:
        return Vector(result, valid, is_constant, None, "UTF8", implementation.whole(arguments, count, valid))
    if implementation.columns is not None:
        return _apply_columns(implementation.columns, result, arguments, valid, is_constant)
    return _apply_rows(implementation, result, arguments, valid, is_constant)


def _apply_columns(
    function: Callable[..., Any], result: int, arguments: Sequence[Vector], valid: Mask, is_constant: bool
) -> Vector:
    some = not valid.all()
    arrays = [each.data[valid] if some and not each.constant else each.data for each in arguments]
    found = function(*arrays)
    count = int(valid.sum()) if some else len(valid)
    if len(found) != count:
        found = np.broadcast_to(found, (count,))
    if not some:
        return Vector(result, valid, is_constant, None, "UTF8", found)
    data = np.zeros(len(valid), found.dtype)
    data[valid] = found
    return Vector(result, valid, is_constant, None, "UTF8", data)


def _apply_rows(
    implementation: Implementation, result: int, arguments: Sequence[Vector], valid: Mask, is_constant: bool
) -> Vector:
    function = implementation.rows
    assert function is not None
    count = len(valid)
    lists = [each.objects(count) for each in arguments]
    if valid.all():
        objects = [function(*row) for row in zip(*lists, strict=True)] if lists else [function()]
    else:
        objects = [function(*row) if there else None for there, *row in zip(valid.tolist(), *lists, strict=True)]
    there = np.array([each is not None for each in objects], np.bool_)
    return Vector(result, there, is_constant, None, "UTF8", array_of(result, objects))


def _apply_loose(
    implementation: Implementation, result: int, arguments: Sequence[Vector], count: int, is_constant: bool
) -> Vector:
    function = implementation.rows
    assert function is not None, "a function that takes NULL takes a row at a time"
    lists = [each.objects(count) for each in arguments]
    objects = [function(*row) for row in zip(*lists, strict=True)] if lists else [function()]
    there = np.array([each is not None for each in objects], np.bool_)
    return Vector(result, there, is_constant, None, "UTF8", array_of(result, objects))
