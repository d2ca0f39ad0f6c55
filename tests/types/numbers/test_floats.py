"""Floats: half-way ones, and any value there and back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from types_vectors import pg_type, values_of

from tailrace.types.registry import format_values, parse_texts


@given(st.lists(st.floats(), min_size=1))
def test_doubles_read_back(numbers: list[float]) -> None:
    texts = format_values(values_of("<f8", *numbers), pg_type("float8"))
    assert np.array_equal(np.array([float(text) for text in texts.to_list()]), np.array(numbers), equal_nan=True)
    again = parse_texts(texts, np.ones(len(numbers), np.bool_), pg_type("float8"))
    assert np.array_equal(again.as_dtype("<f8"), np.array(numbers), equal_nan=True)


def test_digits_that_lie_half_way_between_floats_are_not_used() -> None:
    # The shortest digits that round to this float are 1e23, which PostgreSQL refuses to print (acceptBounds in common/d2s.c).
    assert format_values(values_of("<f8", 1e23, -1e23, 1e22), pg_type("float8")).to_list() == [
        "9.999999999999999e+22",
        "-9.999999999999999e+22",
        "1e+22",
    ]


def test_many_half_way_floats() -> None:
    assert set(format_values(values_of("<f8", *([1e23] * 100)), pg_type("float8")).to_list()) == {"9.999999999999999e+22"}
