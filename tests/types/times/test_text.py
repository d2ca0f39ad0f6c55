"""Dates and times as text: any value there and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from types_vectors import pg_type, values_of

from tailrace.errors import UsageError
from tailrace.types.registry import format_values, parse_texts
from tailrace.types.values import Texts

DATE, STAMP, STAMPTZ = (pg_type(name) for name in ("date", "timestamp", "timestamptz"))
FIRST, LAST = -211813488000000000, 9223371331200000000 - 1
"""The bounds of timestamp (`datatype/timestamp.h`)."""


@given(st.lists(st.integers(FIRST, LAST), min_size=1))
def test_timestamps_round_trip(stamps: list[int]) -> None:
    for pg_type_ in (STAMP, STAMPTZ):
        texts = format_values(values_of("<i8", *stamps), pg_type_)
        again = parse_texts(texts, np.ones(len(stamps), np.bool_), pg_type_)
        assert again.as_dtype("<i8").tolist() == stamps


@given(st.lists(st.integers(-2451545, 2145031948), min_size=1))
def test_dates_round_trip(days: list[int]) -> None:
    texts = format_values(values_of("<i4", *days), DATE)
    assert parse_texts(texts, np.ones(len(days), np.bool_), DATE).as_dtype("<i4").tolist() == days


@pytest.mark.parametrize("text", ["2024-13-01", "2024-02-30", "yesterday", "", "2024-1-1"])
def test_refuses_what_is_no_date(text: str) -> None:
    with pytest.raises(UsageError):
        parse_texts(Texts.of([text]), np.ones(1, np.bool_), DATE)
