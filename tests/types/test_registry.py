"""Every recorded type: what the server stored prints as the server printed it, and reads back to the same bytes."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from types_vectors import NAMED, column, names, pg_type, recorded, sent, typmod, with_nulls

from tailrace.errors import UnsupportedWal, UsageError
from tailrace.model import PgType
from tailrace.types.codec import format_each, parse_each
from tailrace.types.registry import (
    ArrowStyle,
    Codec,
    TextStyle,
    arrow_type,
    codec_of,
    format_binary,
    format_values,
    has_binary,
    parse_binary,
    parse_texts,
    printed_bool,
    quoting,
    register,
    to_arrow,
)
from tailrace.types.values import Texts, Values


@pytest.mark.parametrize("name", names())
def test_prints_what_the_server_prints(name: str) -> None:
    expected, values = column(name)
    assert format_values(values, pg_type(name), NAMED).to_list() == expected


@pytest.mark.parametrize("name", names())
def test_sends_what_the_server_sends(name: str) -> None:
    expected = sent(name)
    _, values = column(name)
    if expected is None:
        with pytest.raises(UsageError, match="no binary output function available"):
            format_binary(values, pg_type(name), NAMED)
    else:
        assert has_binary(pg_type(name))
        assert format_binary(values, pg_type(name), NAMED).to_bytes() == expected


@pytest.mark.parametrize(
    "name", [name for name in names() if sent(name) is not None and codec_of(pg_type(name)).receive is not None]
)
def test_receives_to_the_bytes_that_the_server_stores(name: str) -> None:
    _, values = column(name)
    again = parse_binary(Texts.of(sent(name) or []), values.valid, pg_type(name))
    assert np.array_equal(again.valid, values.valid)
    assert again.payload_list() == values.payload_list()


@pytest.mark.parametrize(
    ("settings", "name"), [(settings, name) for settings, found in recorded()["styles"] for name in found], ids=str
)
def test_prints_as_the_session_wishes(settings: dict[str, str], name: str) -> None:
    expected = next(found[name] for each, found in recorded()["styles"] if each == settings)
    fields = {"DateStyle": "date_style", "TimeZone": "time_zone", "IntervalStyle": "interval_style"}
    chosen = {
        fields.get(setting, setting): int(value) if setting == "extra_float_digits" else value
        for setting, value in settings.items()
    }
    _, values = column(name)
    assert format_values(values, pg_type(name), TextStyle(**chosen)).to_list() == with_nulls(expected, "")


@pytest.mark.parametrize(
    "style",
    [
        {"date_style": "Greek"},
        {"date_style": "ISO, SQL"},
        {"interval_style": "roman"},
        {"bytea_output": "x"},
        {"extra_float_digits": 4},
        {"unknown_types": "skip"},
    ],
)
def test_settings_that_postgres_refuses_are_refused(style: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"invalid value for parameter|outside the valid range"):
        TextStyle(**style)  # type: ignore[arg-type]


NAMES_OF_THINGS = {name for name in names() if name.startswith(("reg", "aclitem"))}
ONLY_PRINTED = {"jsonpath", "lquery", "ltxtquery"}


@pytest.mark.parametrize("name", names())
def test_reads_back_to_the_bytes_that_the_server_stores(name: str) -> None:
    expected, values = column(name)
    if name in ONLY_PRINTED:
        with pytest.raises(UsageError, match="cannot make a"):
            parse_texts(Texts.of(expected), values.valid, pg_type(name))
        return
    if name in NAMES_OF_THINGS:
        # A name is read only by who has a catalog; the oids that stand for names without one, by everybody.
        expected = format_values(values, pg_type(name)).to_list()
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
    for style in (ArrowStyle(arrays="text", text=NAMED), ArrowStyle(numeric="text", arrays="text", times="text", text=NAMED)):
        fitting = np.array([row for row, text in enumerate(expected) if style.times == "text" or not text.startswith("294276")])
        array = to_arrow(values.take(fitting), pg_type(name), style=style)
        array.validate(full=True)
        assert array.type == arrow_type(pg_type(name), style=style)
        assert np.array_equal(array.is_valid().to_numpy(zero_copy_only=False), values.valid[fitting])
        if array.type == pa.string():
            assert array.fill_null("").to_pylist() == [expected[row] for row in fitting.tolist()]


@pytest.mark.parametrize("name", names())
def test_reads_views_of_read_only_memory(name: str) -> None:
    expected, values = column(name)
    for array in (values.valid, values.fixed, values.offsets, values.data):
        if array is not None:
            array.flags.writeable = False
    assert format_values(values, pg_type(name), NAMED).to_list() == expected
    if sent(name) is not None:
        assert format_binary(values, pg_type(name), NAMED).to_bytes() == sent(name)


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


STRANGER = PgType(70000, "public", "geometry", "geometry", "b", -1, 4)
STRANGERS = PgType(70001, "public", "_geometry", "geometry[]", "a", -1, 4, element=STRANGER)


def test_an_unknown_type_names_itself() -> None:
    for use in (
        lambda: format_values(Values.of_payloads([b"x"], -1), STRANGER),
        lambda: format_binary(Values.of_payloads([b"x"], -1), STRANGER),
        lambda: arrow_type(STRANGER, -1),
        lambda: arrow_type(STRANGERS, -1),
    ):
        with pytest.raises(UnsupportedWal, match=r"geometry(.|\n)*unknown_types=hex"):
            use()


def test_an_unknown_type_can_be_shown_as_its_bytes() -> None:
    hexed = TextStyle(unknown_types="hex")
    values = Values.of_payloads([b"\0\xff", None, b""], -1)
    assert format_values(values, STRANGER, hexed).to_list() == ["\\x00ff", "", "\\x"]
    assert to_arrow(values, STRANGER, style=ArrowStyle(text=hexed)).to_pylist() == ["\\x00ff", None, "\\x"]
    assert quoting(STRANGER) == "quoted"
    assert not has_binary(STRANGER)
    _, lists = column("bytea[]")
    assert format_values(lists, STRANGERS, hexed).to_list() == format_values(lists, pg_type("bytea[]")).to_list()
    assert to_arrow(lists, STRANGERS, style=ArrowStyle(text=hexed)).type == pa.list_(pa.string())


def test_a_type_of_an_extension_can_be_registered_by_name() -> None:
    """As the registry's docstring says."""
    complex_ = PgType(70002, "public", "complex", "complex", "b", 16, 8)
    register(
        Codec(
            format=lambda values, pg_type, style: format_each(
                values, lambda payload: "({:g},{:g})".format(*struct.unpack("<2d", payload))
            ),
            parse=lambda texts, valid, pg_type: parse_each(texts, valid, pg_type, lambda text: struct.pack("<2d", *eval(text))),
            send=lambda values, pg_type, style: format_each(values, lambda payload: payload[7::-1] + payload[:7:-1]),
        ),
        name="complex",
    )
    values = Values.of_payloads([struct.pack("<2d", 1.5, -2), None], 16)
    assert format_values(values, complex_).to_list() == ["(1.5,-2)", ""]
    assert parse_texts(Texts.of(["(1.5,-2)", ""]), values.valid, complex_).payload_list() == values.payload_list()
    assert has_binary(complex_)
    assert to_arrow(values, complex_).to_pylist() == ["(1.5,-2)", None]


def test_names_of_things_are_asked_for_once_each() -> None:
    asked = []

    def name_of(reg_type: int, oid: int) -> str | None:
        asked.append((reg_type, oid))
        return "pg_class" if oid == 1259 else None

    values = Values.of_payloads([(oid).to_bytes(4, "little") for oid in (1259, 1259, 0, 7)] + [None], 4)
    assert format_values(values, pg_type("regclass"), TextStyle(names=name_of)).to_list() == [
        "pg_class",
        "pg_class",
        "-",
        "7",
        "",
    ]
    assert asked == [(2205, 7), (2205, 1259)]
    assert format_values(values, pg_type("regclass")).to_list() == ["1259", "1259", "-", "7", ""]
    assert format_values(values, pg_type("regoper")).to_list() == ["1259", "1259", "0", "7", ""]


def test_bytes_that_are_no_binary_form_are_refused() -> None:
    valid = np.ones(1, np.bool_)
    for name, sent_bytes in (
        ("int4", b"\0\0\0"),
        ("int4", b"\0\0\0\0\0"),
        ("numeric", b"\0\1\0\0\0\0\0\0\xff\xff"),
        ("numeric", b"\0\1"),
        ("jsonb", b"\2{}"),
        ("inet", b"\2\x40\0\4abcd"),
        ("int4[]", b"\0\0\0\7\0\0\0\0\0\0\0\x17"),
        ("tsquery", b"\0\0\0\1\3"),
        ("pg_snapshot", b"\0\0\0\1"),
    ):
        with pytest.raises(UsageError):
            parse_binary(Texts.of([sent_bytes]), valid, pg_type(name))
