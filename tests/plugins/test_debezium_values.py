"""Values as Debezium tells them, against Python's own arithmetic and base64."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import UsageError
from tailrace.kernels import kernel
from tailrace.model import Column, PgType
from tailrace.plugins.column_texts import ColumnTexts
from tailrace.plugins.debezium.binary import base64_texts
from tailrace.plugins.debezium.numbers import decimal_literals
from tailrace.plugins.debezium.options import parse_options
from tailrace.plugins.debezium.values import ValueConverters
from tailrace.plugins.json_text.columns import literal_columns, put_literal
from tailrace.types import registry
from tailrace.types.built_in import built_in_types
from tailrace.types.encodings.server_encodings import UTF8
from tailrace.types.style import TextStyle
from tailrace.types.values import Texts

TYPES = built_in_types()
INFINITY = 9223372036825200000


def told(type_name: str, texts: list[str | None], typmod: int = -1, options: dict[str, str] | None = None) -> list[Any]:
    """What is told of these values of a built-in type, read as JSON."""
    (pg_type,) = [each for each in TYPES.values() if each.name == type_name]
    return told_of(pg_type, texts, typmod, options)


def told_of(pg_type: PgType, texts: list[str | None], typmod: int = -1, options: dict[str, str] | None = None) -> list[Any]:
    valid = np.array([text is not None for text in texts])
    stored = registry.parse_texts(Texts.of([text or "" for text in texts]), valid, pg_type)
    column = Column(1, "a", pg_type, typmod, pg_type.length, pg_type.align)
    how = ValueConverters(parse_options(options or {}), TextStyle(time_zone="Europe/Berlin"), UTF8).of(column)
    side = literal_columns([stored], [column], len(texts), lambda values, _: how.text_of(values))
    return [json.loads(text) for text in literals(side)]


def literals(side: ColumnTexts) -> list[str]:
    """As the kernel of events writes them."""
    out = np.empty(side.room + 8 * side.state.shape[1], np.uint8)
    ends = write_column(out, side)
    return [out[start:stop].tobytes().decode() for start, stop in zip([0, *ends[:-1]], ends, strict=True)]


@kernel
def write_column(out, side):  # type: ignore[no-untyped-def]
    """Where each value of the only column ends in `out`."""
    ends = np.zeros(side.state.shape[1], np.int64)
    to = 0
    for row in range(len(ends)):
        to = put_literal(out, to, side, 0, row)
        ends[row] = to
    return ends


def unscaled(encoded: str) -> int:
    raw = base64.b64decode(encoded, validate=True)
    value = int.from_bytes(raw, "big", signed=True)
    assert raw == value.to_bytes((8 + (value + (value < 0)).bit_length()) // 8, "big", signed=True)  # as few as BigInteger takes
    return value


@settings(deadline=None)
@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=4) | st.decimals(-300, 300, places=4), min_size=1))
def test_decimals(numbers: list[Decimal]) -> None:
    texts = Texts.of([f"{number:f}" for number in numbers])
    plain = decimal_literals(texts, np.ones(len(numbers), np.bool_), variable=False)
    assert [unscaled(json.loads(text)) for text in plain.to_list()] == [int(f"{number:f}".replace(".", "")) for number in numbers]
    of_their_own = decimal_literals(texts, np.ones(len(numbers), np.bool_), variable=True)
    for number, text in zip(numbers, of_their_own.to_list(), strict=True):
        told = json.loads(text)
        assert Decimal(unscaled(told["value"])).scaleb(-told["scale"], Context(1000)) == number
        assert told["scale"] == 0 or unscaled(told["value"]) % 10  # no zeros behind


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40)))
def test_base64(values: list[bytes]) -> None:
    texts = Texts.of(values)
    assert base64_texts(texts.offsets, texts.data).to_list() == [base64.b64encode(value).decode() for value in values]


def test_decimals_by_mode() -> None:
    two_of_five = (5 << 16 | 2) + 4
    assert [unscaled(each) for each in told("numeric", ["1.20", "-0.01"], two_of_five)] == [120, -1]
    (small, large) = told("numeric", ["1.5", "-" + "9" * 400])
    assert (small["scale"], unscaled(small["value"])) == (1, 15)
    assert (large["scale"], unscaled(large["value"])) == (0, -(10**400) + 1)
    assert told("numeric", ["NaN", "Infinity", None]) == [None, None, None]
    assert told("numeric", ["1.50", "NaN"], options={"decimal.handling.mode": "string"}) == ["1.50", "NAN"]
    assert told("numeric", ["1.50", "NaN"], options={"decimal.handling.mode": "double"}) == [1.5, "NaN"]
    assert [unscaled(each) for each in told("money", ["$1.25", "-$0.07"])] == [125, -7]
    assert told("money", ["$1,000.25", "-$0.07"], options={"decimal.handling.mode": "string"}) == ["1000.25", "-0.07"]
    assert told("money", ["-$0.07"], options={"decimal.handling.mode": "double"}) == [-0.07]


def test_what_has_no_form_in_a_column_that_is_not_null() -> None:
    """There the engine stops, too."""
    numeric = TYPES[1700]
    column = Column(1, "n", numeric, -1, numeric.length, numeric.align, not_null=True)
    for text in ("NaN", "-Infinity"):
        stored = registry.parse_texts(Texts.of(["1", text]), np.ones(2, np.bool_), numeric)
        with pytest.raises(UsageError, match=rf'numeric value "{text}" of column "n", which is not null'):
            ValueConverters(parse_options({}), TextStyle(), UTF8).of(column).text_of(stored)


def test_times_by_mode() -> None:
    connect, micros = {"time.precision.mode": "connect"}, {"time.precision.mode": "adaptive_time_microseconds"}
    assert told("date", ["2001-02-03", "1969-12-31", None]) == [(date(2001, 2, 3) - date(1970, 1, 1)).days, -1, None]
    clock = time(1, 2, 3, 456789)
    since_midnight = (datetime.combine(date.min, clock) - datetime.min) // timedelta(microseconds=1)
    for typmod, options, divisor in ((-1, {}, 1), (3, {}, 1000), (3, micros, 1), (-1, connect, 1000)):
        assert told("time", [str(clock)], typmod, options) == [since_midnight // divisor]
    moment = datetime(1960, 2, 3, 4, 5, 6, 789123, UTC)
    since_epoch = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    for typmod, options, divisor in ((-1, {}, 1), (4, {}, 1), (3, {}, 1000), (2, micros, 1000), (6, connect, 1000)):
        assert told("timestamp", [moment.strftime("%Y-%m-%d %H:%M:%S.%f")], typmod, options) == [since_epoch // divisor]
    assert told("timestamp", ["infinity", "-infinity"]) == [INFINITY, -9223372036832400000]
    east = timezone(timedelta(hours=5, minutes=30))
    (text, exact) = told("timestamptz", [moment.astimezone(east).isoformat(" "), "2020-01-01 00:00:00+00"])
    assert text.endswith("Z")
    assert (datetime.fromisoformat(text), exact) == (moment, "2020-01-01T00:00:00.000000Z")
    assert told("timetz", ["01:02:03.5+05:30", "23:00:00-02"]) == ["19:32:03.5Z", "01:00:00Z"]


def test_intervals_are_microseconds() -> None:
    day = 86_400_000_000
    assert told("interval", ["1 mon", "1 day 01:02:03.4", "-00:00:00.5", "1 year -1 day"]) == [
        int(365.25 / 12 * day), day + 3_723_400_000, -500_000, int(365.25 * day) - day
    ]  # fmt: skip
    assert told("interval", ["178000000 years"]) == [2**63 - 1]


def test_bits_and_bytes() -> None:
    assert told("bit", ["1", "0"], 1) == [True, False]
    (five,) = told("bit", ["10011"], 5)
    assert base64.b64decode(five) == bytes([0b10011])
    (ten, none) = told("varbit", ["1000000001", ""])
    assert (base64.b64decode(ten), none) == (bytes([1, 2]), "")
    assert told("bytea", ["\\x00ff", "\\x"]) == ["AP8=", ""]
    assert told("bytea", ["\\x00ff", "\\x"], options={"binary.handling.mode": "hex"}) == ["00ff", ""]


@pytest.mark.parametrize(
    ("type_name", "text", "expected"),
    [
        ("bool", "t", True), ("int2", "-7", -7), ("int8", "9223372036854775807", 2**63 - 1), ("oid", "4294967295", 2**32 - 1),
        ("float8", "1e+300", 1e300), ("float4", "-Infinity", "-Infinity"), ("text", 'a"\\\n\x01ü', 'a"\\\n\x01ü'), ("jsonb", '{"a": 1}', '{"a": 1}'),
        ("_int4", "{1,NULL}", "{1,NULL}"), ("int4range", "[1,3)", "[1,3)"),
    ],
)  # fmt: skip
def test_others(type_name: str, text: str, expected: object) -> None:
    assert told(type_name, [text, None]) == [expected, None]


def test_a_domain_is_told_as_what_it_is_made_of() -> None:
    numeric = TYPES[1700]
    inner = PgType(90001, "public", "amount", "amount", "d", -1, 4, element=numeric, typmod=(8 << 16 | 3) + 4)
    outer = PgType(90002, "public", "price", "price", "d", -1, 4, element=inner)
    (encoded,) = told_of(outer, ["1.250"])
    assert unscaled(encoded) == 1250
