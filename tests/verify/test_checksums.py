"""Sums by bucket, and the rows that one side alone has, beside counters of Python's."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.verify.checksums import BUCKETS, BucketSums, RowNumbers, bucket_of, only_here


def _numbers(dice: np.random.Generator, count: int, keys: int) -> RowNumbers:
    """Of few keys, so that many rows have the same one, and many are equal; the greatest hash is among them."""
    few = np.append(dice.integers(0, 1 << 63, keys, np.uint64) * np.uint64(2), np.uint64(2**64 - 1))
    return RowNumbers(dice.choice(few, count), dice.integers(0, 3, count, np.uint64), np.arange(count, dtype=np.int64))


def _pairs(numbers: RowNumbers) -> Counter[tuple[int, int]]:
    return Counter(zip(numbers.keys.tolist(), numbers.rows.tolist(), strict=True))


def _mixed(dice: np.random.Generator, numbers: RowNumbers, which: NDArray[np.int64]) -> RowNumbers:
    return numbers.chosen(dice.permutation(which))


@pytest.mark.parametrize("seed", range(20))
def test_the_rows_that_one_side_alone_has(seed: int) -> None:
    dice = np.random.default_rng(seed)
    whole = _numbers(dice, 1000, 50)
    one, other = (_mixed(dice, whole, np.flatnonzero(dice.random(1000) < 0.9)) for _ in range(2))
    assert _pairs(only_here(one, other)) == _pairs(one) - _pairs(other)
    assert _pairs(only_here(other, one)) == _pairs(other) - _pairs(one)
    assert len(only_here(one, one)) == 0


@pytest.mark.parametrize("seed", range(5))
def test_sums_tell_the_buckets_that_differ(seed: int) -> None:
    dice = np.random.default_rng(seed)
    rows = RowNumbers(dice.integers(0, 2**64, 5000, np.uint64), dice.integers(0, 2**64, 5000, np.uint64), np.arange(5000))
    lost = dice.choice(5000, 20, replace=False)
    one, other = BucketSums.none(), BucketSums.none()
    for half in np.array_split(dice.permutation(5000), 2):  # whatever comes first
        part = BucketSums.none()
        part.add_rows(rows.keys[half], rows.rows[half])
        one.add(part.packed().unpacked())
    rest = np.setdiff1d(np.arange(5000), lost)
    other.add_rows(rows.keys[rest], rows.rows[rest])
    differ = one.different(other)
    assert one.rows == 5000
    assert set(np.flatnonzero(differ)) == set(bucket_of(rows.keys[lost]).tolist())
    assert len(differ) == BUCKETS
    within = rows.of_buckets(differ)
    assert set(within.places.tolist()) >= set(lost.tolist())
    assert _pairs(only_here(within, rows.chosen(rest).of_buckets(differ))) == _pairs(rows.chosen(lost))
