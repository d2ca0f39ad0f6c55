"""Whole numbers, floats, words and bytes: the widths of Arrow, half-way floats, any value there and back."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from types_vectors import pg_type

from tailrace.types.registry import TextStyle, arrow_type, format_values, parse_texts, to_arrow
from tailrace.types.values import Texts, Values


def of(dtype: str, *numbers: float) -> Values:
    array = np.array(numbers, dtype)
    return Values(np.ones(len(array), np.bool_), fixed=array.view(np.uint8).reshape(len(array), array.itemsize))


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
    assert to_arrow(of(dtype, 1, 0, 1), pg_type(name)).to_pylist() == [1, 0, 1]


def test_unsigned_numbers_widen() -> None:
    assert to_arrow(of("<u4", 2**32 - 1), pg_type("oid")).to_pylist() == [2**32 - 1]
    assert to_arrow(of("<u8", 2**64 - 1, 0), pg_type("xid8")).to_pylist() == [2**64 - 1, 0]


def test_bytes_stay_bytes() -> None:
    assert to_arrow(Values.of_payloads([b"\0\xff", None, b""], -1), pg_type("bytea")).to_pylist() == [b"\0\xff", None, b""]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_integers_print_as_python_does(numbers: list[int]) -> None:
    assert format_values(of("<i8", *numbers), pg_type("int8")).to_list() == [str(number) for number in numbers]


@given(st.lists(st.floats(), min_size=1))
def test_doubles_read_back(numbers: list[float]) -> None:
    texts = format_values(of("<f8", *numbers), pg_type("float8"))
    assert np.array_equal(np.array([float(text) for text in texts.to_list()]), np.array(numbers), equal_nan=True)
    again = parse_texts(texts, np.ones(len(numbers), np.bool_), pg_type("float8"))
    assert np.array_equal(again.as_dtype("<f8"), np.array(numbers), equal_nan=True)


def test_digits_that_lie_half_way_between_floats_are_not_used() -> None:
    # The shortest digits that round to this float are 1e23, which PostgreSQL refuses to print (acceptBounds in common/d2s.c).
    assert format_values(of("<f8", 1e23, -1e23, 1e22), pg_type("float8")).to_list() == [
        "9.999999999999999e+22",
        "-9.999999999999999e+22",
        "1e+22",
    ]


def test_many_half_way_floats() -> None:
    assert set(format_values(of("<f8", *([1e23] * 100)), pg_type("float8")).to_list()) == {"9.999999999999999e+22"}


@given(st.lists(st.binary(max_size=40)))
def test_bytea_there_and_back(blobs: list[bytes]) -> None:
    values = Values.of_payloads(blobs, -1)
    for style in (TextStyle(), TextStyle(bytea_output="escape")):
        texts = format_values(values, pg_type("bytea"), style)
        assert parse_texts(texts, values.valid, pg_type("bytea")).payload_list() == blobs
    assert format_values(values, pg_type("bytea")).to_list() == ["\\x" + blob.hex() for blob in blobs]


@given(
    st.lists(st.tuples(st.integers(-(2**63) + 1, 2**63 - 2), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1)))
)
def test_intervals_there_and_back(parts: list[tuple[int, int, int]]) -> None:
    payloads = [struct.pack("<qii", *each) for each in parts]
    texts = format_values(Values.of_payloads(payloads, 16), pg_type("interval"))
    assert parse_texts(texts, np.ones(len(parts), np.bool_), pg_type("interval")).payload_list() == payloads


@given(st.lists(st.binary(min_size=16, max_size=16)))
def test_uuids_there_and_back(blobs: list[bytes]) -> None:
    values = Values.of_payloads(blobs, 16)
    assert parse_texts(format_values(values, pg_type("uuid")), values.valid, pg_type("uuid")).payload_list() == blobs


@given(st.lists(st.text("01", max_size=70)))
def test_bits_there_and_back(words: list[str]) -> None:
    valid = np.ones(len(words), np.bool_)
    assert format_values(parse_texts(Texts.of(words), valid, pg_type("varbit")), pg_type("varbit")).to_list() == words
