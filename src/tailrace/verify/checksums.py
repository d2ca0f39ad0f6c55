"""Checksums of a table's rows by buckets of their keys, and the rows of those buckets that differ.

In: of each row three numbers: a hash of its key, one of the whole row, and its place on the side that has it. Out: sums by bucket, which two sides
compare without seeing each other's rows; and of the rows in buckets that differ, those that only one side has. The first bits of the hash of a key
say in which bucket a row is, so each side finds the rows of a bucket by itself, in whatever order it has them. Where a table has no key all of a row
is its key, and of equal rows each counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.kernels import kernel
from tailrace.types.row_hashes import Hashes

BUCKETS = 1 << 16
_SHIFT = 48
_GROUP_ROWS = 1 << 21
"""Of each side so many rows, or those of one bucket, are compared at once."""
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class BucketSums:
    """Of each bucket how many rows there are, and the sum of their hashes, modulo 2^64: neither depends on the order of the rows."""

    counts: NDArray[np.int64]
    sums: Hashes

    @classmethod
    def none(cls) -> BucketSums:
        return cls(np.zeros(BUCKETS, np.int64), np.zeros(BUCKETS, np.uint64))

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    def add_rows(self, keys: Hashes, rows: Hashes) -> None:
        _add_rows(keys, rows, self.counts, self.sums)

    def add(self, other: BucketSums) -> None:
        np.add(self.counts, other.counts, out=self.counts)
        np.add(self.sums, other.sums, out=self.sums)

    def packed(self) -> PackedSums:
        at = np.flatnonzero(self.counts)
        return PackedSums(at, self.counts[at], self.sums[at])

    def different(self, other: BucketSums) -> Mask:
        """The buckets in which not the same rows are."""
        return (self.counts != other.counts) | (self.sums != other.sums)


@dataclass(frozen=True, slots=True)
class PackedSums:
    """The same of the buckets that have any rows: those of small tables are few."""

    at: NDArray[np.int64]
    counts: NDArray[np.int64]
    sums: Hashes

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    def unpacked(self) -> BucketSums:
        whole = BucketSums.none()
        whole.counts[self.at], whole.sums[self.at] = self.counts, self.sums
        return whole


def bucket_of(keys: Hashes) -> NDArray[np.int64]:
    return (keys >> np.uint64(_SHIFT)).astype(np.int64)


def groups_of(buckets: Mask, one: BucketSums, other: BucketSums) -> Iterator[Mask]:
    """These buckets, so many at a time as have no more rows than are held at once."""
    chosen = np.flatnonzero(buckets)
    rows = np.cumsum(np.maximum(one.counts, other.counts)[chosen])
    for number in np.unique(rows // _GROUP_ROWS).tolist():
        group = np.zeros(BUCKETS, np.bool_)
        group[chosen[rows // _GROUP_ROWS == number]] = True
        yield group


@dataclass(frozen=True, slots=True)
class RowNumbers:
    """Rows of one side, in no order."""

    keys: Hashes
    rows: Hashes
    places: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def joined(cls, parts: list[RowNumbers]) -> RowNumbers:
        if not parts:
            return cls(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.int64))
        return cls(*(np.concatenate([getattr(each, name) for each in parts]) for name in ("keys", "rows", "places")))

    def chosen(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> RowNumbers:
        return RowNumbers(self.keys[which], self.rows[which], self.places[which])

    def of_buckets(self, buckets: Mask) -> RowNumbers:
        return self.chosen(_within(self.keys, buckets))


def only_here(these: RowNumbers, others: RowNumbers) -> RowNumbers:
    """The rows that the other side does not have, or not as often, in the order of their keys' hashes."""
    mine, theirs = (_in_order(each) for each in (these, others))
    return mine.chosen(~_paired(mine.keys, mine.rows, theirs.keys, theirs.rows))


def _in_order(numbers: RowNumbers) -> RowNumbers:
    return numbers.chosen(np.lexsort((numbers.places, numbers.rows, numbers.keys)))


@kernel
def _add_rows(keys: Any, rows: Any, counts: Any, sums: Any) -> None:
    for row in range(len(keys)):
        bucket = np.int64(keys[row] >> np.uint64(_SHIFT))
        counts[bucket] += 1
        sums[bucket] += rows[row]


@kernel
def _within(keys: Any, buckets: Any) -> Any:
    found = np.zeros(len(keys), np.bool_)
    for row in range(len(keys)):
        found[row] = buckets[np.int64(keys[row] >> np.uint64(_SHIFT))]
    return found


@kernel
def _paired(keys: Any, rows: Any, other_keys: Any, other_rows: Any) -> Any:
    """Of rows in the order of (key, row), which have one of the others, in the same order, to themselves."""
    found = np.zeros(len(keys), np.bool_)
    at = 0
    for row in range(len(keys)):
        while at < len(other_keys) and (
            other_keys[at] < keys[row] or (other_keys[at] == keys[row] and other_rows[at] < rows[row])
        ):
            at += 1
        if at < len(other_keys) and other_keys[at] == keys[row] and other_rows[at] == rows[row]:
            found[row] = True
            at += 1
    return found
