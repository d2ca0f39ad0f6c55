"""KeyIndex are found in rows, whatever columns they have, and as many copies of a row as are to go."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.apply.matching import KeyIndex, first_of_each

TYPES = (pa.int32(), pa.string(), pa.list_(pa.int64()))
VALUES = ((None, 1, 2, 3), (None, "a", "b", ""), (None, [], [1], [1, None]))
ROW = st.tuples(*(st.sampled_from(values) for values in VALUES))


def _columns(rows: list[tuple], kinds: list[int]) -> list[pa.Array]:
    return [pa.array([row[kind] for row in rows], TYPES[kind]) for kind in kinds]


@settings(deadline=None)
@given(st.lists(ROW, max_size=8), st.lists(ROW, max_size=30), st.permutations(range(3)), st.integers(1, 3))
def test_found(wanted: list[tuple], rows: list[tuple], order: list[int], count: int) -> None:
    kinds = order[:count]
    names = [repr([row[kind] for kind in kinds]) for row in wanted]
    different = list(dict.fromkeys(names))
    keys = KeyIndex(_columns(wanted, kinds))
    assert [different[number] for number in keys.of_rows] == names
    found = [different[number] if number >= 0 else None for number in keys.find(_columns(rows, kinds))]
    assert found == [name if (name := repr([row[kind] for kind in kinds])) in different else None for row in rows]


@settings(deadline=None)
@given(st.lists(st.integers(-3, 9), max_size=8), st.lists(st.integers(-3, 9), max_size=30))
def test_found_in_order(wanted: list[int], rows: list[int]) -> None:
    different, rows = list(dict.fromkeys(wanted)), sorted(rows)
    found = KeyIndex([pa.array(wanted, pa.int64())]).find([pa.array(rows, pa.int64())])
    assert [different[number] if number >= 0 else None for number in found] == [row if row in different else None for row in rows]


@settings(deadline=None)
@given(st.lists(st.integers(-1, 4), max_size=30), st.lists(st.integers(0, 3), min_size=5, max_size=5))
def test_so_many_of_each(numbers: list[int], most: list[int]) -> None:
    taken = first_of_each(np.array(numbers, np.int64), np.array(most, np.int64))
    for place, number in enumerate(numbers):
        assert taken[place] == (number >= 0 and numbers[:place].count(number) < most[number])
