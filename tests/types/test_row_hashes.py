"""Rows have equal hashes exactly if their values are equal, whatever form Arrow gives them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tailrace.types.row_hashes import row_hashes

_COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False]), "int": (pa.int32(), [0, 1, -1, 2**31 - 1]), "long": (pa.int64(), [0, 1, -1, 2**63 - 1, 2**32]),
    "lsn": (pa.uint64(), [0, 2**64 - 1]), "float": (pa.float64(), [0.0, -0.0, 1.5, float("nan"), float("inf")]),
    "real": (pa.float32(), [0.0, -0.0, 1.5]), "text": (pa.string(), ["", "a", "b", "a\x00", "abcdefgh", "abcdefghi", "ibcdefgha", "é"]),
    "bytes": (pa.binary(), [b"", b"\x00", b"\x00\x00", b"\x01" * 16]), "date": (pa.date32(), [date(2026, 1, 1), date(1, 1, 1)]),
    "at": (pa.timestamp("us", "UTC"), [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)]),
    "decimal": (pa.decimal128(38, 2), [Decimal("0.00"), Decimal("1.25"), Decimal("-1.25"), Decimal(10) ** 35]),
    "list": (pa.list_(pa.int32()), [[], [None], [1], [1, 2], [2, 1], [1, None]]),
    "lists": (pa.list_(pa.list_(pa.string())), [[], [[]], [["a"], ["b"]], [["a", "b"]], [None]]),
    "struct": (pa.struct({"a": pa.int32(), "b": pa.string()}), [{"a": 1, "b": None}, {"a": None, "b": "1"}, {"a": None, "b": None}]),
}  # fmt: skip


@pytest.mark.parametrize("name", _COLUMNS)
def test_different_values_have_different_hashes(name: str) -> None:
    """NULL among them; and a part of a column has the hashes that the whole has there."""
    kind, values = _COLUMNS[name]
    array = pa.array([None, *values, None], kind)
    hashes = row_hashes([array], len(array))
    assert len(set(hashes.tolist())) == len(values) + 1
    assert hashes[0] == hashes[-1]
    for start in range(len(array)):
        part = array.slice(start, 2)
        assert row_hashes([part], len(part)).tolist() == hashes[start : start + 2].tolist()
    without = array.slice(1, len(values))
    assert row_hashes([pa.array(without.to_pylist(), kind)], len(values)).tolist() == hashes[1:-1].tolist()


def test_the_form_does_not_count() -> None:
    numbers = [0, -5, None, 100]
    forms = [row_hashes([pa.array(numbers, kind)], 4).tolist() for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())]
    assert all(each == forms[0] for each in forms)
    texts = [row_hashes([pa.array(["a", None, ""], kind)], 3).tolist() for kind in (pa.string(), pa.large_string())]
    assert texts[0] == texts[1]
    lists = [
        row_hashes([pa.array([[1], None, []], kind)], 3).tolist() for kind in (pa.list_(pa.int32()), pa.large_list(pa.int64()))
    ]
    assert lists[0] == lists[1]


def test_a_value_in_another_column_is_another_value() -> None:
    one, two, none = (pa.array([value], pa.int32()) for value in (1, 2, None))
    rows = [[one, two], [two, one], [one, none], [none, one], [none, none], [one, one]]
    assert len({int(row_hashes(each, 1)[0]) for each in rows}) == len(rows)
    texts = [["ab", "c"], ["a", "bc"], ["", "abc"], ["abc", ""]]
    assert len({int(row_hashes([pa.array([text]) for text in each], 1)[0]) for each in texts}) == len(texts)


def test_hashes_go_on_from_others() -> None:
    first, second = pa.array([1, 2, 3]), pa.array(["a", None, "c"])
    assert row_hashes([second], 3, row_hashes([first], 3)).tolist() == row_hashes([first, second], 3).tolist()


def test_each_bit_counts() -> None:
    """Of a number and of a text each changes about half of the hash's bits."""
    for whole in (
        pa.array([1 << bit for bit in range(62)], pa.int64()),
        pa.array([bytes([0] * at + [1] + [0] * (20 - at)) for at in range(21)]),
    ):
        changed = row_hashes([whole], len(whole)) ^ row_hashes([whole.slice(0, 1)], 1)[0]
        bits = [int(each).bit_count() for each in changed[1:]]
        assert 24 < np.mean(bits) < 40
        assert min(bits) > 8
