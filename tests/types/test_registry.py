"""Every recorded type: what the server stored prints as the server printed it, and reads back to the same bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from types_vectors import column, names, pg_type, typmod

from tailrace.errors import UnsupportedWal
from tailrace.model import PgType
from tailrace.types.registry import Codec, arrow_type, format_values, parse_texts, printed_bool, quoting, register, to_arrow
from tailrace.types.strings import format_strings, parse_strings
from tailrace.types.values import Texts, Values


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
        assert again.payload_list() == values.payload_list()


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("payloads", [[], [None], [None, None, None]], ids=["no rows", "one NULL", "NULLs"])
def test_columns_without_values(name: str, payloads: list[None]) -> None:
    values = Values.of_payloads(payloads, pg_type(name).length)
    assert format_values(values, pg_type(name)).to_list() == [""] * len(payloads)
    array = to_arrow(values, pg_type(name), typmod(name))
    assert array.to_pylist() == payloads
    assert array.type == arrow_type(pg_type(name), typmod(name))


@pytest.mark.parametrize("name", names())
def test_arrow_has_the_promised_type_and_the_same_nulls(name: str) -> None:
    expected, values = column(name)
    fitting = [row for row, text in enumerate(expected) if not text.startswith(("294276", "18446744073709551615"))]
    expected, values = [expected[row] for row in fitting], values.take(np.array(fitting))
    array = to_arrow(values, pg_type(name), arrays="text")
    array.validate(full=True)
    assert array.type == arrow_type(pg_type(name), arrays="text")
    assert np.array_equal(array.is_valid().to_numpy(zero_copy_only=False), values.valid)
    if array.type == pa.string():
        assert array.fill_null("").to_pylist() == expected


@pytest.mark.parametrize("name", names())
def test_reads_views_of_read_only_memory(name: str) -> None:
    expected, values = column(name)
    for array in (values.valid, values.fixed, values.offsets, values.data):
        if array is not None:
            array.flags.writeable = False
    assert format_values(values, pg_type(name)).to_list() == expected


def test_picks_rows() -> None:
    for name in ("int4", "jsonb", "text"):
        expected, values = column(name)
        rows = np.array([2, 0, 2, len(expected) - 1, 1])
        assert format_values(values.take(rows), pg_type(name)).to_list() == [expected[row] for row in rows]


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("int4", "bare"),
        ("oid", "bare"),
        ("float8", "bare"),
        ("numeric", "bare"),
        ("bool", "bare"),
        ("varbit", "bits"),
        ("text", "quoted"),
        ("xid", "quoted"),
        ("positive", "quoted"),
        ("int4[]", "quoted"),
        ("mood", "quoted"),
        ("money", "quoted"),
        ("int8", "bare"),
    ],
)
def test_quoting_follows_test_decoding(name: str, how: str) -> None:
    assert quoting(pg_type(name)) == how


def test_bool_has_two_spellings() -> None:
    _, values = column("bool")
    assert sorted(printed_bool(values).to_list()) == ["", "", "", "false", "true"]


def test_an_unknown_type_names_itself() -> None:
    stranger = PgType(70000, "public", "hstore", "hstore", "b", -1, 4)
    with pytest.raises(UnsupportedWal, match="hstore"):
        format_values(Values.of_payloads([b"x"], -1), stranger)
    with pytest.raises(UnsupportedWal, match="hstore"):
        arrow_type(stranger, -1)


def test_a_type_of_an_extension_can_be_registered_by_name() -> None:
    citext = PgType(70001, "public", "citext", "citext", "b", -1, 4)
    register(Codec(format_strings, parse_strings), name="citext")
    assert format_values(Values.of_payloads([b"Hello"], -1), citext).to_list() == ["Hello"]
