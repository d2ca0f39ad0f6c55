"""Keys are found in rows, whatever columns they have, and as many copies of a row as are to go."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.apply.keys import is_ascending, row_codes
from tailrace.apply.matching import KeyIndex, KeySet, first_of_each

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
    has = KeySet(_columns(wanted, kinds)).has(_columns(rows, kinds))
    assert has.tolist() == [name is not None for name in found]


@settings(deadline=None)
@given(st.lists(st.integers(-3, 9), max_size=8), st.lists(st.integers(-3, 9), max_size=30))
def test_found_in_order(wanted: list[int], rows: list[int]) -> None:
    different, rows = list(dict.fromkeys(wanted)), sorted(rows)
    found = KeyIndex([pa.array(wanted, pa.int64())]).find([pa.array(rows, pa.int64())])
    assert [different[number] if number >= 0 else None for number in found] == [row if row in different else None for row in rows]


WHOLE = (pa.int16(), pa.int64(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
SOME = st.one_of(st.none(), st.integers(-3, 9), st.sampled_from([-(2**15), 2**15 - 1]))


@pytest.mark.parametrize("kind", WHOLE, ids=str)
@settings(deadline=None)
@given(st.lists(SOME.filter(lambda value: value is not None), max_size=8), st.lists(SOME, max_size=30), st.booleans())
def test_whole_numbers_are_found(kind: pa.DataType, wanted: list[int], rows: list[int | None], in_order: bool) -> None:
    if in_order:
        rows = sorted(row for row in rows if row is not None)
    found = KeySet([_of_kind(wanted, kind)]).has([_of_kind(rows, kind)])
    assert found.tolist() == [row in wanted for row in rows]


@pytest.mark.parametrize("kind", WHOLE, ids=str)
@settings(deadline=None)
@given(st.lists(SOME, max_size=30))
def test_equal_rows_have_equal_numbers(kind: pa.DataType, rows: list[int | None]) -> None:
    """Numbers that Arrow gives to the values of a dictionary, in the order in which they come."""
    column = _of_kind(rows, kind)
    assert row_codes([column]).tolist() == pc.dictionary_encode(column, null_encoding="encode").indices.to_pylist()
    assert is_ascending(column) == (None not in rows and all(one < other for one, other in pairwise(rows)))


def _of_kind(values: Sequence[int | None], kind: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)


@settings(deadline=None)
@given(st.lists(st.integers(-1, 4), max_size=30), st.lists(st.integers(0, 3), min_size=5, max_size=5))
def test_so_many_of_each(numbers: list[int], most: list[int]) -> None:
    taken = first_of_each(np.array(numbers, np.int64), np.array(most, np.int64))
    for place, number in enumerate(numbers):
        assert taken[place] == (number >= 0 and numbers[:place].count(number) < most[number])
