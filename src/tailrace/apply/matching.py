"""Which rows of a file have one of the keys that a run deletes or replaces.

In: keys, a column each, as Arrow arrays, and rows in the same columns. Out: for each row the number of its key, or -1. Values are compared exactly as
stored; NULL equals NULL, as in a replica identity that is FULL.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace.apply.keys import comparable, whole_numbers
from tailrace.kernels import kernel

Numbers = NDArray[np.int64]


class KeySet:
    """Keys of which it only counts whether a row has one."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        values = whole_numbers(columns[0]) if len(columns) == 1 else None
        self._ordered = np.sort(values) if values is not None else None
        self._index = KeyIndex(columns) if values is None else None

    def has(self, columns: Sequence[pa.Array]) -> NDArray[np.bool_]:
        """Which rows have one of the keys."""
        if self._index is not None:
            return self._index.find(columns) >= 0
        assert self._ordered is not None
        column = columns[0]
        found = np.zeros(len(column), np.bool_)
        if column.null_count:
            there = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
            found[there] = self.has([column.take(pa.array(there))])
        elif len(self._ordered) and (rows := whole_numbers(column)) is not None:
            if _is_sorted(rows):
                find_in_order(rows, self._ordered, found)
            else:
                places = np.minimum(np.searchsorted(self._ordered, rows), len(self._ordered) - 1)
                found[:] = self._ordered[places] == rows
        return found


@kernel
def find_in_order(rows, keys, found):  # type: ignore[no-untyped-def]
    """Which of `rows` are among `keys`; both are ascending."""
    at = 0
    for row in range(len(rows)):
        while at < len(keys) and keys[at] < rows[row]:
            at += 1
        found[row] = at < len(keys) and keys[at] == rows[row]


class KeyIndex:
    """Different keys, numbered in the order of their first rows. A key of several columns is found column by column: what the columns so far have
    matched, and the next one's value, are a pair that either is among the keys or is not."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._values: list[pa.Array] = []
        self._pairs: list[pa.Array] = []
        self._ordered, self._order = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._is_sortable = False
        if len(columns) == 1 and (values := whole_numbers(columns[0])) is not None:
            self._number_in_order(columns[0], values)
            return
        numbers = np.zeros(len(columns[0]), np.int64)
        for place, column in enumerate(map(comparable, columns)):
            values = pc.unique(column)
            self._values.append(values)
            at = _index_in(column, values)
            if place:
                pairs = pa.array(numbers * len(values) + at)
                self._pairs.append(pc.unique(pairs))
                at = _index_in(pairs, self._pairs[-1])
            numbers = at
        self.of_rows: Numbers = numbers
        """Of each row that was given, its key."""
        self._count = int(numbers.max(initial=-1)) + 1

    def _number_in_order(self, column: pa.Array, values: NDArray[np.int64]) -> None:
        """Keys that are whole numbers are sorted: they often are already, or in a few runs."""
        self._ordered, first, places = np.unique(values, return_index=True, return_inverse=True)
        by_first = np.argsort(first, kind="stable")
        self._order = np.empty(len(first), np.int64)
        self._order[by_first] = np.arange(len(first))
        self.of_rows, self._count, self._is_sortable = self._order[places], len(first), True
        self._values.append(column.take(pa.array(first[by_first])))

    def __len__(self) -> int:
        return self._count

    def find(self, columns: Sequence[pa.Array]) -> Numbers:
        """The number of each row's key, -1 where it has none of them."""
        found = np.full(len(columns[0]), -1, np.int64)
        if not self._count:
            return found
        if self._is_sortable and (rows := whole_numbers(columns[0])) is not None and _is_sorted(rows):
            self._find_in_order(rows, found)
            return found
        at, numbers = np.arange(len(found)), np.zeros(len(found), np.int64)
        for place, (column, values) in enumerate(zip(columns, self._values, strict=True)):
            left = column if len(at) == len(found) else column.take(pa.array(at))
            matched = _index_in(comparable(left), values)
            there = matched >= 0
            if place:
                matched = _index_in(pa.array(numbers * len(values) + matched), self._pairs[place - 1])
                there &= matched >= 0
            at, numbers = at[there], matched[there]
        found[at] = numbers
        return found

    def _find_in_order(self, rows: NDArray[np.int64], found: Numbers) -> None:
        """What lies in the order of the key is looked up by halving: there are fewer keys than rows."""
        if not len(rows):
            return
        low, high = np.searchsorted(self._ordered, rows[0], "left"), np.searchsorted(self._ordered, rows[-1], "right")
        wanted = self._ordered[low:high]
        first = np.searchsorted(rows, wanted, "left")
        behind = np.searchsorted(rows, wanted, "right")
        counts = behind - first
        numbers = np.repeat(self._order[low:high], counts)
        within = np.arange(len(numbers)) - np.repeat(np.cumsum(counts) - counts, counts)
        found[np.repeat(first, counts) + within] = numbers


def is_in_order(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether the rows are known to lie in the order of this column."""
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values = whole_numbers(flat)
    return values is not None and _is_sorted(values)


def first_of_each(numbers: Numbers, most: Numbers) -> NDArray[np.bool_]:
    """Which of these rows (of keys, by number) are among the first `most[key]` of their key: a table without a key loses so many copies of a row."""
    taken = np.zeros(len(numbers), np.bool_)
    rows = np.flatnonzero(numbers >= 0)
    order = rows[np.argsort(numbers[rows], kind="stable")]
    ranked = numbers[order]
    taken[order] = np.arange(len(ranked)) - np.searchsorted(ranked, ranked) < most[ranked]
    return taken


def _index_in(column: pa.Array, values: pa.Array) -> Numbers:
    """-1 where the value is none of them."""
    at = pc.index_in(column, value_set=values)
    return (at if not at.null_count else pc.fill_null(at, -1)).to_numpy().astype(np.int64)


def _is_sorted(values: NDArray[np.int64]) -> bool:
    return bool((values[1:] >= values[:-1]).all())
