"""interval: any value there and back."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from types_vectors import pg_type

from tailrace.types.registry import format_values, parse_texts
from tailrace.types.values import Values


@given(
    st.lists(st.tuples(st.integers(-(2**63) + 1, 2**63 - 2), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1)))
)
def test_intervals_there_and_back(parts: list[tuple[int, int, int]]) -> None:
    payloads = [struct.pack("<qii", *each) for each in parts]
    texts = format_values(Values.of_payloads(payloads, 16), pg_type("interval"))
    assert parse_texts(texts, np.ones(len(parts), np.bool_), pg_type("interval")).payload_list() == payloads
