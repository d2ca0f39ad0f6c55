"""Whole numbers: the widths of Arrow, and any value there and back."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from types_vectors import pg_type, values_of

from tailrace.types.registry import arrow_type, format_values, to_arrow


@pytest.mark.parametrize(
    ("name", "dtype", "kind"),
    [
        ("int2", "<i2", pa.int16()),
        ("int4", "<i4", pa.int32()),
        ("int8", "<i8", pa.int64()),
        ("oid", "<u4", pa.int64()),
        ("xid8", "<u8", pa.decimal128(20, 0)),
        ("float4", "<f4", pa.float32()),
        ("float8", "<f8", pa.float64()),
        ("bool", "u1", pa.bool_()),
    ],
)
def test_numbers_keep_their_width_in_arrow(name: str, dtype: str, kind: pa.DataType) -> None:
    assert arrow_type(pg_type(name), -1) == kind
    assert to_arrow(values_of(dtype, 1, 0, 1), pg_type(name)).to_pylist() == [1, 0, 1]


def test_unsigned_numbers_widen() -> None:
    assert to_arrow(values_of("<u4", 2**32 - 1), pg_type("oid")).to_pylist() == [2**32 - 1]
    assert to_arrow(values_of("<u8", 2**64 - 1, 0), pg_type("xid8")).to_pylist() == [2**64 - 1, 0]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_integers_print_as_python_does(numbers: list[int]) -> None:
    assert format_values(values_of("<i8", *numbers), pg_type("int8")).to_list() == [str(number) for number in numbers]
