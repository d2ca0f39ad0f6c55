"""What we say of the values in a file holds of every row, in the digits of the rows; and what is read of it finds every row."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace.delta_log.actions import DataFile
from tailrace.delta_log.file_bounds import file_bounds, row_count, rows_left
from tailrace.delta_log.file_statistics import EXACT, FileStatistics, with_wide_bounds

UTC_MICROSECONDS, LOCAL_MICROSECONDS = pa.timestamp("us", "UTC"), pa.timestamp("us")


def text_of(values: list[Any], kind: pa.DataType) -> str:
    table, footers = pa.table({"c": pa.array(values, kind)}), list[pq.FileMetaData]()
    text = FileStatistics.of(table, ["c"]).as_json()
    pq.write_table(table, pa.BufferOutputStream(), metadata_collector=footers)
    assert FileStatistics.written(table, footers[0], ["c"]).as_json() == text
    return text


def bounds_text(values: list[Any], kind: pa.DataType) -> tuple[Any, Any]:
    """The bounds as they are written: numbers in their digits."""
    said = json.loads(text_of(values, kind), parse_int=str, parse_float=str)
    assert said["numRecords"] == str(len(values))
    assert said["nullCount"]["c"] == str(values.count(None))
    return said["minValues"].get("c"), said["maxValues"].get("c")


def read_bounds(text: str, kind: pa.DataType, tags: dict[str, str | None] | None = None) -> tuple[pa.Scalar, pa.Scalar]:
    file = DataFile("f", 1, 1, text, tags=EXACT if tags is None else tags)
    found = file_bounds([file], pa.schema({"c": kind}), ["c"])["c"]
    assert found.lower.type == found.upper.type == kind
    return found.lower[0], found.upper[0]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (pa.int64(), [5, None, -(2**63), 2**63 - 1], (str(-(2**63)), str(2**63 - 1))),
        (pa.int8(), [3, -4], ("-4", "3")),
        (pa.decimal128(38, 0), [Decimal("9" * 38), Decimal(1)], ("1", "9" * 38)),
        (pa.decimal128(38, 38), [Decimal("1e-38"), Decimal("0." + "9" * 38)], (f"0.{'0' * 37}1", "0." + "9" * 38)),
        (pa.decimal128(18, 2), [Decimal("1234567890123456.78")], ("1234567890123456.78", "1234567890123456.78")),
        (pa.decimal128(10, 8), [Decimal("0.00000010"), Decimal("-0.00000001")], ("-0.00000001", "0.00000010")),
        (pa.float64(), [1e-300, 0.1, 1e300], ("1e-300", "1e+300")),
        (pa.float32(), [0.1], ("0.10000000149011612", "0.10000000149011612")),
        (pa.float64(), [0.0], ("-0.0", "0.0")),
        (pa.float64(), [1.0, float("nan")], (None, None)),
        (pa.float64(), [1.0, float("-inf")], (None, None)),
        (pa.string(), ["b", None, "a"], ("a", "b")),
        (pa.string(), ["x" * 100], ("x" * 64, "x" * 63 + "y")),
        (pa.string(), ["\U0001f600" * 65], ("\U0001f600" * 64, None)),
        (pa.string(), ["a" + "\uffff" * 99], ("a" + "\uffff" * 63, "b")),
        (pa.string(), ["", '"\\\n\x01é'], ("", '"\\\n\x01é')),
        (pa.date32(), [0, -719162, 2932896], ("0001-01-01", "9999-12-31")),
        (pa.date32(), [2932897, 0], (None, None)),
        (pa.date32(), [-719163, 0], (None, None)),
        (pa.date32(), [2**31 - 1], (None, None)),
        (UTC_MICROSECONDS, [1_001, 1_999], ("1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.002Z")),
        (LOCAL_MICROSECONDS, [-1], ("1969-12-31T23:59:59.999", "1970-01-01T00:00:00.000")),
        (UTC_MICROSECONDS, [253402300799999999], ("9999-12-31T23:59:59.999Z", None)),
        (UTC_MICROSECONDS, [253402300800000000, 0], (None, None)),
        (LOCAL_MICROSECONDS, [-(2**63)], (None, None)),
        (pa.bool_(), [True, False], (None, None)),
        (pa.binary(), [b"a"], (None, None)),
        (pa.list_(pa.int64()), [[1], None], (None, None)),
        (pa.int64(), [None, None], (None, None)),
        (pa.int64(), [], (None, None)),
    ],
)
def test_awkward_values(kind: pa.DataType, values: list[Any], expected: tuple[str | None, str | None]) -> None:
    assert bounds_text(values, kind) == expected


def drawn(kind: pa.DataType) -> Any:
    if pa.types.is_decimal(kind):
        return Decimal(random.randrange(-(10**kind.precision) + 1, 10**kind.precision)).scaleb(-kind.scale, Context(prec=38))
    if pa.types.is_integer(kind):
        return random.randrange(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1))
    if pa.types.is_floating(kind):
        return random.choice([random.uniform(-1, 1), random.gauss(0, 1e30), 0.0, -0.0])
    if pa.types.is_timestamp(kind):
        at = datetime(1, 1, 1, tzinfo=UTC) + timedelta(microseconds=random.randrange(315537897599 * 10**6))
        return at if kind.tz else at.replace(tzinfo=None)
    if pa.types.is_date32(kind):
        return random.randrange(-719162, 2932897)
    letters = random.choice(["ab", "\ud7fe\ud7ff\ue000", "z\uffff\U00010000\U0010ffff", "é\x00\t"])
    return "".join(random.choices(letters, k=random.choice([0, 1, 63, 64, 65, 130])))


KINDS = (
    pa.int64(), pa.int16(), pa.decimal128(38, 10), pa.decimal128(20, 0), pa.decimal128(38, 38), pa.decimal128(9, 4), pa.float64(), pa.string(),
    UTC_MICROSECONDS, LOCAL_MICROSECONDS, pa.date32(),
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_value_lies_between_what_is_read_again(kind: pa.DataType) -> None:
    for seed in range(100):
        random.seed(seed)
        values = pa.array([drawn(kind) for _ in range(random.choice([1, 2, 9]))], kind)
        halves = [pa.table({"c": values[:1]}), pa.table({"c": values[1:]})]
        text = (FileStatistics.of(halves[0], ["c"]) + FileStatistics.of(halves[1], ["c"])).as_json()
        assert text == FileStatistics.of(pa.table({"c": values}), ["c"]).as_json()
        for said in (text, with_wide_bounds(text)):
            lower, upper = read_bounds(said, kind)
            for value in values:
                assert not lower.is_valid or not pa.compute.less(value, lower).as_py(), seed
                assert not upper.is_valid or not pa.compute.greater(value, upper).as_py(), seed
            if pa.types.is_decimal(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
                assert (lower, upper) == (pa.compute.min(values), pa.compute.max(values)), seed


@pytest.mark.parametrize("order", ["utf-8", "utf-16-be"])
def test_a_text_that_is_cut_sorts_behind_what_it_was(order: str) -> None:
    """In the order of Parquet's and Spark's bytes as in that of Java's strings."""
    for seed in range(300):
        random.seed(seed)
        value = drawn(pa.string())
        said = json.loads(text_of([value], pa.string()))
        assert value.startswith(said["minValues"]["c"]), seed
        assert "c" not in said["maxValues"] or said["maxValues"]["c"].encode(order) >= value.encode(order), seed


def test_what_others_say_is_believed_only_as_far_as_they_are_right() -> None:
    """delta-rs has decimals through floats, leaves NaN out, and everybody cuts timestamps to milliseconds."""
    said = '{"numRecords":1,"minValues":{"c":1234567890123456.8},"maxValues":{"c":1234567890123456.8}}'
    assert not read_bounds(said, pa.decimal128(18, 2), {})[0].is_valid
    assert read_bounds(said, pa.decimal128(18, 2))[0].as_py() == Decimal("1234567890123456.80")
    assert not read_bounds(said, pa.float64(), {})[1].is_valid
    at = '{"numRecords":1,"minValues":{"c":"2024-01-01T00:00:00.123Z"},"maxValues":{"c":"2024-01-01T00:00:00.123Z"}}'
    assert read_bounds(at, UTC_MICROSECONDS, {})[1].as_py() == datetime(2024, 1, 1, 0, 0, 0, 123999, UTC)


@pytest.mark.parametrize(
    "value",
    ['"x"', "1.5", "true", "null", "{}", "[]", "9223372036854775808", "1e999", '"9999-99-99"', '"2024-01-01T00:00:00+99:00"'],
)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_is_no_value_is_no_bound(kind: pa.DataType, value: str) -> None:
    found = read_bounds(f'{{"minValues":{{"c":{value}}},"maxValues":{{"c":{value}}}}}', kind)
    assert found[0].is_valid == found[1].is_valid


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "1", '{"numRecords":-1}', '{"numRecords":true}', '{"numRecords":"1"}', "[" * 100_000]
)
def test_statistics_that_say_nothing(text: str) -> None:
    assert row_count(DataFile("f", 1, 1, text)) is None
    assert rows_left(DataFile("f", 1, 1, text)) is None


def test_wide_bounds_keep_digits() -> None:
    said = '{"numRecords":2,"minValues":{"a":0.10,"b":{"c":-1E+2}},"nullCount":{"a":0},"tightBounds":true,"x":["é",null]}'
    assert with_wide_bounds(said) == said.replace("true", "false")
    assert with_wide_bounds("") == ""


def test_names_of_columns_that_paths_in_parquet_have_as_well() -> None:
    """The path of a struct's field may be the name of another column."""
    table = pa.table({"s": [{"a": 1, "b": 2}], "s.a": [3], "l": [[4]], "l.list.element": [5], "n.b": [6]})
    names, footers = ["s.a", "l.list.element", "n.b"], list[pq.FileMetaData]()
    pq.write_table(table, pa.BufferOutputStream(), metadata_collector=footers)
    assert FileStatistics.written(table, footers[0], names) == FileStatistics.of(table, names)
