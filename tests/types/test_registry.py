"""Every recorded type: what the server stored prints as the server printed it, and reads back to the same bytes."""

from __future__ import annotations

import numpy as np
import pytest
from types_vectors import column, names, pg_type

from tailrace.types.registry import format_values, parse_texts
from tailrace.types.values import Texts


@pytest.mark.parametrize("name", names())
def test_prints_what_the_server_prints(name: str) -> None:
    expected, values = column(name)
    assert format_values(values, pg_type(name)).to_list() == expected


@pytest.mark.parametrize("name", names())
def test_reads_back_to_the_bytes_that_the_server_stores(name: str) -> None:
    expected, values = column(name)
    again = parse_texts(Texts.of(expected), values.valid, pg_type(name))
    assert np.array_equal(again.valid, values.valid)
    if values.fixed is not None:
        assert again.fixed is not None
        assert again.fixed.tobytes() == values.fixed.tobytes()
    else:
        assert again.offsets is not None and values.offsets is not None and again.data is not None and values.data is not None
        assert again.offsets.tolist() == values.offsets.tolist()
        assert again.data.tobytes() == values.data.tobytes()
