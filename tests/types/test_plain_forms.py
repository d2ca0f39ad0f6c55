"""What kernels read of texts is what the functions for single values read: a space before a text sends it to those."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import TailraceError
from tailrace.model import PgType
from tailrace.types.built_in import built_in_type
from tailrace.types.registry import format_binary, format_values, parse_binary, parse_texts
from tailrace.types.values import Texts, Values

_INTEGERS = (20, 21, 23, 26, 28, 29, 5069)
_digits = st.text("0123456789", max_size=20)
_integer = st.builds(lambda sign, digits: sign + digits, st.sampled_from(["", "-", "+"]), _digits)
_numeric = st.builds(
    lambda sign, whole, point, places, end: sign + whole + point + places + end,
    st.sampled_from(["", "-", "+"]), st.text("0123456789", max_size=80) | st.text("0", max_size=6), st.sampled_from(["", "."]),
    st.text("0123456789", max_size=80) | st.text("0", max_size=6), st.sampled_from(["", "", "", "e3", " ", "."]),
)  # fmt: skip
_day = st.builds("{:04d}-{:02d}-{:02d}".format, st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32))
_clock = st.builds("{:02d}:{:02d}:{:02d}".format, st.integers(0, 25), st.integers(0, 61), st.integers(0, 61))
_zone = st.sampled_from(["", "+00", "-03", "+05:30", "-00:00:15", "+0530", "Z", "+5", "+14:59:59", "+99:99"])
_stamp = st.builds(
    lambda day, gap, clock, fraction, zone, ago: day + gap + clock + fraction + zone + ago,
    _day, st.sampled_from([" ", "T", ""]), _clock, st.sampled_from(["", ".5", ".123456", ".1234567", ".", ".000001"]), _zone,
    st.sampled_from(["", "", "", " BC"]),
)  # fmt: skip
_word = st.sampled_from(
    ["t", "f", "true", "yes", "off", "1", "0", "x", "", "tf", "infinity", "-infinity", "NaN", "-inf", "1_0", "٣", "\0"]
)


def _read(texts: list[str], pg_type: PgType) -> list[bytes | None] | tuple[str, str]:
    try:
        values = parse_texts(Texts.of(texts), np.ones(len(texts), np.bool_), pg_type)
    except TailraceError as error:
        return error.message.replace(" ", ""), error.sqlstate
    return list(values.payload_list())


def _typed(oid: int) -> PgType:
    pg_type = built_in_type(oid)
    assert pg_type is not None
    return pg_type


@pytest.mark.parametrize(
    ("oids", "texts"),
    [(_INTEGERS, _integer), ((1700,), _numeric), ((1082,), _day), ((1114, 1184), _stamp), ((16, 23, 1700, 1082, 1114), _word)],
    ids=["integers", "numeric", "dates", "time stamps", "words"],
)
def test_the_kernel_reads_as_the_functions_do(oids: tuple[int, ...], texts: st.SearchStrategy[str]) -> None:
    @given(st.lists(texts, min_size=1, max_size=4))
    @settings(max_examples=400, derandomize=True, deadline=None)
    def check(rows: list[str]) -> None:
        for oid in oids:
            assert _read(rows, _typed(oid)) == _read([f" {row}" for row in rows], _typed(oid))

    check()


def test_what_is_rare_keeps_its_place_among_what_is_not() -> None:
    numbers = ["1.50", "NaN", "-0.001", " 7 ", "1e3", "", "12345678901234567890.5"]
    valid = np.array([True, True, True, True, True, False, True])
    values = parse_texts(Texts.of(numbers), valid, _typed(1700))
    assert format_values(values, _typed(1700)).to_list() == ["1.50", "NaN", "-0.001", "7", "1000", "", "12345678901234567890.5"]
    assert values.valid.tolist() == valid.tolist()
    sent = format_binary(values, _typed(1700))
    again = parse_binary(sent, valid, _typed(1700))
    assert again.payload_list() == values.payload_list()


@given(st.lists(st.integers(0, 9999) | st.integers(0, 65535), max_size=4), st.integers(-70, 70), st.sampled_from([0, 0x4000, 0xC000, 1]),
       st.integers(0, 100) | st.integers(0, 65535), st.binary(max_size=2))  # fmt: skip
@settings(max_examples=400, derandomize=True, deadline=None)
def test_binary_numerics_are_received_as_one_by_one(digits: list[int], weight: int, sign: int, scale: int, more: bytes) -> None:
    """Bytes behind a number send it to the function for one."""
    sent = b"".join(number.to_bytes(2, "big") for number in (len(digits), weight % 65536, sign, scale, *digits))

    def received(raw: bytes) -> Values | str:
        try:
            return parse_binary(Texts.of([raw]), np.ones(1, np.bool_), _typed(1700))
        except TailraceError as error:
            return error.message

    here, there = received(sent), received(sent + b"\0" + more)
    assert (here if isinstance(here, str) else here.payload_list()) == (there if isinstance(there, str) else there.payload_list())
