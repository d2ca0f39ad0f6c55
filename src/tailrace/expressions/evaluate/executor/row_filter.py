"""A row filter, compiled: which rows of a batch it lets through.

In: an `Expression`, the columns of the relation, and `Facts`. Out: a `Filter`,
to be asked about batches of rows in stored form. What is not evaluated
exactly as PostgreSQL does is refused when the filter is compiled (`Refused`); errors that the server
would raise for a row are raised with its words and SQLSTATE for the first such row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.expressions import tree
from tailrace.expressions.evaluate.executor.exec_expr import Compiler, Part, type_given
from tailrace.expressions.evaluate.executor.exec_expr_interp import spread
from tailrace.expressions.evaluate.fmgr.datum_forms import type_of
from tailrace.expressions.evaluate.fmgr.refusals import Refused, refused
from tailrace.expressions.evaluate.fmgr.vectors import Facts, Vector, scope_of
from tailrace.model import Column
from tailrace.types import oids
from tailrace.types.codec import MISREAD
from tailrace.types.registry import format_values
from tailrace.types.values import Mask, Values


@dataclass(frozen=True, slots=True)
class Filter:
    """`columns` are the attribute numbers that it needs; `error` what the planner would raise before the first row.

    Its functions do not travel to other processes: there it is compiled again from the tree.
    """

    columns: tuple[int, ...]
    part: Part | None
    types: Mapping[int, int]
    facts: Facts
    error: UsageError | None = field(default=None, compare=False)
    made_of: tuple[tree.Expression, tuple[Column, ...], Facts] | None = field(default=None, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        assert self.made_of is not None
        return compile_filter, self.made_of

    def matches(self, values: Mapping[int, Values], count: int) -> Mask:
        """Which of `count` rows pass: those for which the expression is true; NULL does not pass. `values` by attribute number.

        Raises UsageError with the server's words for the first row of which the server would, CorruptWal for values that are none of their type.
        """
        if self.error is not None and count:
            raise self.error
        if not count or self.part is None:
            return np.zeros(count, np.bool_)
        vectors = {
            number: Vector(self.types[number], values[number].valid, False, values[number], self.facts.encoding)
            for number in self.columns
        }
        try:
            return self._asked(vectors, count)
        except Refused:
            raise
        except UsageError:
            raise self._first_error(vectors, count) from None
        except MISREAD:
            self._check_values(values)
            raise

    def _check_values(self, values: Mapping[int, Values]) -> None:
        """Raises CorruptWal if a value is none of its type."""
        for number in self.columns:
            format_values(values[number], type_of(self.types[number]))

    def _asked(self, vectors: Mapping[int, Vector], count: int) -> Mask:
        assert self.part is not None
        data, valid = spread(self.part.run(scope_of(vectors, count)), count)
        return data.astype(np.bool_) & valid

    def _first_error(self, vectors: Mapping[int, Vector], count: int) -> UsageError:
        """The error of the first row that has one: how many rows before it have none is found by halving."""
        passing, failing = 0, count
        while failing - passing > 1:
            middle = (passing + failing) // 2
            if self._fails(vectors, passing, middle) is None:
                passing = middle
            else:
                failing = middle
        found = self._fails(vectors, passing, failing)
        assert found is not None
        return found

    def _fails(self, vectors: Mapping[int, Vector], start: int, stop: int) -> UsageError | None:
        rows = np.arange(start, stop)
        try:
            self._asked({number: vector.take(rows) for number, vector in vectors.items()}, stop - start)
        except Refused:
            raise
        except UsageError as error:
            return error
        return None


def compile_filter(expression: tree.Expression, columns: Sequence[Column], facts: Facts = Facts()) -> Filter:  # noqa: B008 (frozen)
    """The filter of a relation with these columns. Raises Refused for what is not evaluated."""
    known = {column.number: column for column in columns}
    needed = tree.columns_of(expression)
    types = {}
    for node in tree.walk(expression):
        if isinstance(node, tree.Var):
            column = known.get(node.attnum)
            if column is None or column.type is None or column.type.oid != node.type:
                raise refused(f"column number {node.attnum}, which is not the filter's any more")
            types[node.attnum] = node.type
    if type_given(expression) != oids.BOOL:
        label = type_of(type_given(expression)).label
        raise UsageError(f"argument of PUBLICATION WHERE must be type boolean, not type {label}", sqlstate="42804")
    try:
        part = Compiler(facts).part(expression)
    except Refused:
        raise
    except UsageError as error:
        return Filter(needed, None, types, facts, error, (expression, tuple(columns), facts))
    return Filter(needed, part, types, facts, None, (expression, tuple(columns), facts))
