"""What differs between two sides of a table, row by row.

In: numbers of the rows that only one side has. Out: `Differences`: how many rows the second side lacks, has too many, or has with other values; and,
of as many as are wanted, the rows themselves. Rows of both sides that have the same key are compared with each other; without a key none is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.types.codec.arrow_to_text import texts_of
from tailrace.types.style import TextStyle
from tailrace.verify.checksums import BucketSums, Mask, RowNumbers, groups_of, only_here

MISSING, EXTRA, OTHER = "missing", "extra", "differs"
"""The second side lacks the row, has one too many, or has it with other values."""
MOST_HELD = 1_000_000
"""Rows of a table that differ, of which is kept where they are."""
_STYLE = TextStyle()
RowsAt = Callable[[NDArray[np.int64]], Iterable[tuple[NDArray[np.int64], pa.RecordBatch]]]
Row = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class Differences:
    """`counts` are by what is wrong; `only_first` and `only_second` are the rows in question of either side, as many as are held."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys((MISSING, OTHER, EXTRA), 0))
    only_first: RowNumbers = field(default_factory=lambda: RowNumbers.joined([]))
    only_second: RowNumbers = field(default_factory=lambda: RowNumbers.joined([]))

    @property
    def rows(self) -> int:
        return sum(self.counts.values())

    def with_more(self, first: RowNumbers, second: RowNumbers, most: int, *, is_keyed: bool) -> Differences:
        """With these, whose keys' hashes are greater; of all no more rows are held than `most`."""
        one, two = _paired(first, second) if is_keyed else (np.full(len(first), -1), np.full(len(second), -1))
        counts = dict(self.counts)
        counts[OTHER] += int((one >= 0).sum())
        counts[MISSING] += int((one < 0).sum())
        counts[EXTRA] += int((two < 0).sum())
        first, second = (RowNumbers.joined(list(each)) for each in ((self.only_first, first), (self.only_second, second)))
        return Differences(counts, first, second).first(most)

    def first(self, most: int) -> Differences:
        """With no more rows of either side than that, and of a key those of both sides or of none."""
        ends = [each.keys[most] for each in (self.only_first, self.only_second) if len(each) > most]
        if not ends:
            return self
        first, second = (each.chosen(each.keys < min(ends)) for each in (self.only_first, self.only_second))
        if not len(first) and not len(second):  # one row, more often than that
            first, second = (each.chosen(np.arange(len(each)) < most) for each in (self.only_first, self.only_second))
        return Differences(self.counts, first, second)


def find_differences(
    sums: tuple[BucketSums, BucketSums], first: Callable[[Mask], RowNumbers], second: Callable[[Mask], RowNumbers], *, is_keyed: bool
) -> Differences:  # fmt: skip
    """Of two sides with these sums, each of which gives the rows of buckets."""
    found, (one, two) = Differences(), sums
    for buckets in groups_of(one.different(two), one, two):
        mine, theirs = first(buckets), second(buckets)
        found = found.with_more(only_here(mine, theirs), only_here(theirs, mine), MOST_HELD, is_keyed=is_keyed)
    return found


@dataclass(frozen=True, slots=True)
class RowDifference:
    """`kind` says what is wrong with the row on the second side; values are texts, by column."""

    kind: str
    key: Row
    first: Row | None
    second: Row | None


def row_differences(
    found: Differences, key: Sequence[str], names: Sequence[str], first: RowsAt, second: RowsAt, most: int
) -> list[RowDifference]:
    """The first of the rows that are held, in the order of their keys. `names` are those of the first side's columns, by which both are told;
    `first` and `second` give rows by their places."""
    return sorted(_row_differences(found, key, names, first, second), key=_place)[:most]


def _place(one: RowDifference) -> list[tuple[int, str]]:
    """Where it is listed: by its key, numbers in their order."""
    return [(len(value or ""), value or "") for value in one.key.values()]


def _row_differences(
    found: Differences, key: Sequence[str], names: Sequence[str], first: RowsAt, second: RowsAt
) -> Iterator[RowDifference]:
    one, two = found.only_first, found.only_second
    pairs, others = _paired(one, two) if key else (np.full(len(one), -1), np.full(len(two), -1))
    rows, other_rows = _texts(one.places, names, first), _texts(two.places, names, second)
    for place, pair in zip(one.places.tolist(), pairs.tolist(), strict=True):
        row = rows.get(place)
        other = other_rows.get(int(two.places[pair])) if pair >= 0 else None
        yield RowDifference(OTHER if pair >= 0 else MISSING, _key_of(row, key), row, other)
    for place, pair in zip(two.places.tolist(), others.tolist(), strict=True):
        if pair < 0:
            row = other_rows.get(place)
            yield RowDifference(EXTRA, _key_of(row, key), None, row)


def _paired(first: RowNumbers, second: RowNumbers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each row which of the other side has the same key, -1 where none is left; both are in the order of keys."""
    one, two = np.full(len(first), -1, np.int64), np.full(len(second), -1, np.int64)
    rank = _ranks(first.keys)
    begin, end = np.searchsorted(second.keys, first.keys, "left"), np.searchsorted(second.keys, first.keys, "right")
    has = np.flatnonzero(begin + rank < end)
    one[has] = begin[has] + rank[has]
    two[one[has]] = has
    return one, two


def _ranks(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Of each in a run of equal ones its place there."""
    return np.arange(len(keys)) - np.searchsorted(keys, keys, "left")


def _texts(places: NDArray[np.int64], names: Sequence[str], rows: RowsAt) -> dict[int, Row]:
    found: dict[int, Row] = {}
    if not len(places):
        return found
    for at, batch in rows(places):
        columns = [_printed(column) for column in batch.columns]
        for place, *values in zip(at.tolist(), *columns, strict=True):
            found[place] = dict(zip(names, values, strict=True))
    return found


def _key_of(row: Row | None, key: Sequence[str]) -> Row:
    return {name: row[name] for name in key} if row is not None else {}


def _printed(column: pa.Array) -> list[str | None]:
    """As PostgreSQL prints values of the type, or as Python does, which has forms for all that Arrow nests."""
    try:
        return texts_of(column, _STYLE)
    except NotImplementedError:
        return [None if each is None else str(each) for each in column.to_pylist()]
