"""Which cases of a test run when."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

ONE_IN = 20
"""Of each test of the matrix, one case in so many runs before a change lands, and one at least; the others are in the marathon."""
MATRIX = pytest.StashKey[Counter[str]]()
"""Of each test of the matrix that was collected, how many cases run before a change lands."""
COMPARED = "times a plugin gave by another way what it gives at once"
"""A property of tests, which is summed up when all have run."""


def sampled(items: Sequence[pytest.Item]) -> Counter[str]:
    """Mark the cases of the matrix that are in the marathon. Which these are differs from test to test, so that every major is met."""
    matrix = [item for item in items if item.get_closest_marker("matrix") is not None]
    cases = [item for item in matrix if item.get_closest_marker("marathon") is None]
    count, met = Counter(map(_test, cases)), Counter[str]()
    kept = Counter(dict.fromkeys(map(_test, matrix), 0))
    for item in items:  # of the same tests, what `make test` runs
        if _test(item) in kept and not any(item.get_closest_marker(each) for each in ("matrix", "marathon")):
            kept[_test(item)] += 1
    for item in cases:
        test = _test(item)
        if (met[test] + zlib.crc32(test.encode())) % min(ONE_IN, count[test]):
            item.add_marker(pytest.mark.marathon)
        else:
            kept[test] += 1
        met[test] += 1
    return kept


def _test(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def some_of(params: Sequence[Any], one_in: int) -> list[Any]:
    """Parameters of a test that costs seconds each: `make test` runs one in so many, and `make marathon` the others. Which, their order decides."""
    wrapped = [
        param if isinstance(param, ParameterSet) else pytest.param(param, id="-".join(map(str, param))) for param in params
    ]
    return [
        param if number % one_in == 0 else param._replace(marks=[*param.marks, pytest.mark.marathon])
        for number, param in enumerate(wrapped)
    ]
