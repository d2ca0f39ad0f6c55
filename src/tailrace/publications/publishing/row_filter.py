"""Which changes a row filter lets through, and as what (`pgoutput_row_filter` in `replication/pgoutput/pgoutput.c`).

In: the changes of a table as columns, and the condition of each action. Out: what each change is published as. The condition of
an UPDATE is evaluated for the new row, and for the old one where the record has it:

    old row   new row
    no        no        is not published
    no        yes       becomes an INSERT of the new row
    yes       no        becomes a DELETE of the old row
    yes       yes       remains an UPDATE
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.decode import DELETE, INSERT, NO_OLD, UPDATE
from tailrace.errors import InsufficientLogging, TailraceError
from tailrace.types.values import Mask, Values, binary_buffers


class RowCondition(Protocol):
    """A compiled row filter, which reads the `columns` of these attribute numbers. `error` is what its compilation raised; it
    stops the stream at the first change of the relation."""

    @property
    def columns(self) -> Sequence[int]: ...

    @property
    def error(self) -> TailraceError | None: ...

    def matches(self, values: Mapping[int, Values], count: int, /) -> Mask:
        """For which of the `count` rows, whose columns are `values`, it is true; neither false nor NULL."""
        ...


ColumnValues = Callable[[int], Values]
"""The values of a column, by its attribute number."""


@dataclass(frozen=True, slots=True)
class RowColumns:
    """The new or the old rows of changes; `of` gives the `Values` of a column by its attribute number."""

    of: ColumnValues

    def some(self, columns: frozenset[int], rows: NDArray[np.int64]) -> dict[int, Values]:
        """These columns of these rows, whose numbers ascend."""
        values = {number: self.of(number) for number in sorted(columns)}
        return {number: each if len(rows) == len(each) else each.take(rows) for number, each in values.items()}


@dataclass(slots=True)
class RowChanges:
    """Changes as row filters see them: kinds, which old rows there are, the LSNs of their records, and the rows."""

    kind: NDArray[np.uint8]
    old_kind: NDArray[np.uint8]
    lsn: NDArray[np.int64]
    new: RowColumns
    old: RowColumns | None


def filtered(changes: RowChanges, conditions: Mapping[int, RowCondition | None]) -> NDArray[np.uint8]:
    """What each change is published as: INSERT, UPDATE, DELETE, or 0 for not at all. `conditions` has the condition of each
    action, None if every row passes. Raises InsufficientLogging if a condition reads a value that the log does not have."""
    kind = changes.kind.copy()
    has_old = changes.old_kind != NO_OLD
    for action, condition in conditions.items():
        if condition is None:
            continue
        columns = frozenset(condition.columns)
        alone = np.flatnonzero((changes.kind == action) & (~has_old if action == UPDATE else True))
        if len(alone):
            tuples = changes.old if action == DELETE else changes.new
            assert tuples is not None
            values = tuples.some(columns, alone)
            kind[alone[~_met(condition, values, changes.lsn[alone])]] = 0
        both = np.flatnonzero((changes.kind == action) & has_old) if action == UPDATE else alone[:0]
        if len(both):
            assert changes.old is not None
            old, new = changes.old.some(columns, both), changes.new.some(columns, both)
            filled = {number: from_old(values, old[number]) for number, values in new.items()}
            before = _met(condition, old, changes.lsn[both])
            after = _met(condition, filled, changes.lsn[both])
            kind[both] = np.select([before & after, after, before], [UPDATE, INSERT, DELETE], 0)
    return kind


def _met(condition: RowCondition, values: Mapping[int, Values], lsn: NDArray[np.int64]) -> Mask:
    for number, column in values.items():
        if column.unchanged is not None and column.unchanged.any():
            raise InsufficientLogging(
                f"the WHERE clause of a publication reads column {number}, of which the log has no value",
                detail="The value is stored out of line and was not changed; it is not part of the replica identity.",
                lsn=int(lsn[np.flatnonzero(column.unchanged)[0]]),
            )
    return condition.matches(values, len(lsn))


NEW, OLD, NONE = 0, 1, 2


def from_old(new: Values, old: Values) -> Values:
    """The new values; those that the record did not carry because they are unchanged are taken from the old row, if that has
    them."""
    if new.unchanged is None:
        return new
    known = new.unchanged & old.valid & (True if old.unchanged is None else ~old.unchanged)
    return chosen(new, old, np.where(known, OLD, NEW)) if known.any() else new


def chosen(new: Values, old: Values | None, which: NDArray[np.integer]) -> Values:
    """Row by row the value of `new`, of `old`, or none at all (NULL)."""
    of_old, none = which == OLD, which == NONE
    valid = np.where(of_old, False if old is None else old.valid, new.valid) & ~none
    unchanged = None if new.unchanged is None else new.unchanged & (which == NEW)
    if new.fixed is not None:
        fixed = new.fixed.copy()
        if old is not None:
            assert old.fixed is not None
            fixed[of_old] = old.fixed[of_old]
        fixed[none] = 0
        return Values(valid, fixed=fixed, unchanged=unchanged)
    index = np.arange(len(new)) + np.where(of_old, len(new), 0)
    both = pa.concat_arrays([_binary(each) for each in (new, old) if each is not None])
    offsets, data = binary_buffers(both.take(pa.array(index, mask=none)))
    return Values(valid, offsets=offsets, data=data, unchanged=unchanged)


def _binary(values: Values) -> pa.Array:
    offsets, data = values.payloads
    return pa.Array.from_buffers(pa.large_binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
