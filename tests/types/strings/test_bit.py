"""varbit: any bits there and back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from types_vectors import pg_type

from tailrace.types.registry import format_values, parse_texts
from tailrace.types.values import Texts


@given(st.lists(st.text("01", max_size=70)))
def test_bits_there_and_back(words: list[str]) -> None:
    valid = np.ones(len(words), np.bool_)
    assert format_values(parse_texts(Texts.of(words), valid, pg_type("varbit")), pg_type("varbit")).to_list() == words
