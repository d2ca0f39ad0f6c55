"""Values that are made of values: arrays and rows, as the evaluator works on them."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error


class Array(NamedTuple):
    """Lengths and lower bounds of the dimensions, the elements in order (None is NULL), and their type."""

    lengths: tuple[int, ...]
    lowers: tuple[int, ...]
    items: list[Any]
    element: int

    @classmethod
    def of_list(cls, items: list[Any], element: int) -> Array:
        """A list from 1 on; without elements it has no dimension."""
        return cls((len(items),), (1,), items, element) if items else cls((), (), [], element)

    @classmethod
    def of_elements(cls, elements: list[Any], element: int, many_dimensions: bool) -> Array:
        """ARRAY[…] of elements, or of arrays of one shape (`ExecEvalArrayExpr`)."""
        if not many_dimensions:
            return cls.of_list(elements, element)
        inner = [each for each in elements if each is not None and each.lengths]
        if not inner:
            return cls((), (), [], element)
        if len(inner) != len(elements) or any(each.lengths != inner[0].lengths for each in inner):
            raise evaluation_error("multidimensional arrays must have array expressions with matching dimensions", "2202E")
        items = [item for each in inner for item in each.items]
        return cls((len(inner), *inner[0].lengths), (1, *inner[0].lowers), items, element)

    @property
    def size(self) -> int:
        return prod(self.lengths) if self.lengths else 0


class RecordValue(NamedTuple):
    """A record: the types of its fields, their values, and the collations of their texts."""

    types: tuple[int, ...]
    values: tuple[Any, ...]
    collations: tuple[int, ...] = ()
