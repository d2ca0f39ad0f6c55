"""numeric: decimals in Arrow, the limits of decimal128, and every number that Python's Decimal can print."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from types_vectors import column, pg_type, typmod

from tailrace.errors import UsageError
from tailrace.types.registry import ArrowStyle, arrow_type, format_values, parse_texts, to_arrow
from tailrace.types.typmods import numeric_typmod
from tailrace.types.values import Texts, Values

NUMERIC = pg_type("numeric")


def stored(*texts: str) -> Values:
    return parse_texts(Texts.of(texts), np.ones(len(texts), np.bool_), NUMERIC)


def modifier(precision: int, scale: int) -> int:
    return (precision << 16 | scale & 0x7FF) + 4


@pytest.mark.parametrize("name", ["numeric(38,10)", "numeric(20,0)", "numeric(5,5)"])
def test_decimals_are_exact(name: str) -> None:
    expected, values = column(name)
    array = to_arrow(values, NUMERIC, typmod(name))
    assert array.type == pa.decimal128(*numeric_typmod(typmod(name)))
    assert array.to_pylist() == [Decimal(text) if text else None for text in expected]


def test_only_modifiers_that_fit_become_decimals() -> None:
    assert arrow_type(NUMERIC, -1) == pa.string()
    assert arrow_type(NUMERIC, modifier(39, 2)) == pa.string()
    assert arrow_type(NUMERIC, modifier(5, -2)) == pa.string()
    assert arrow_type(NUMERIC, modifier(2, 5)) == pa.string()
    assert arrow_type(NUMERIC, modifier(10, 2), ArrowStyle(numeric="text")) == pa.string()
    assert arrow_type(NUMERIC, modifier(10, 2)) == pa.decimal128(10, 2)


@pytest.mark.parametrize(
    "text", ["NaN", "Infinity", "1.234", "1e39", "1e37", "-3e300", "99999999999999999999999999999999999999.5"]
)
def test_what_does_not_fit_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match=r"does not fit(.|\n)*numeric=text"):
        to_arrow(stored("1", text), NUMERIC, modifier(38, 2))
    assert (
        to_arrow(stored(text), NUMERIC, modifier(38, 2), ArrowStyle(numeric="text")).to_pylist()
        == format_values(stored(text), NUMERIC).to_list()
    )


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**20), max_value=10**20)))
def test_round_trip(numbers: list[Decimal]) -> None:
    texts = [f"{number:f}".replace("-0.000000", "0.000000") if number == 0 else f"{number:f}" for number in numbers]
    values = stored(*texts)
    assert format_values(values, NUMERIC).to_list() == texts
    assert to_arrow(values, NUMERIC, modifier(38, 6)).to_pylist() == [Decimal(text) for text in texts]


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_all_of_decimal128(digits: int, scale: int) -> None:
    text = f"{Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale)):f}"
    got = to_arrow(stored(text), NUMERIC, modifier(38, scale)).to_pylist()[0]
    assert (got.as_tuple().sign, int("".join(map(str, got.as_tuple().digits)))) == (int(digits < 0), abs(digits))


@given(st.integers(0, 300), st.integers(-300, 300), st.integers(0, 10**40))
def test_any_weight_and_scale(places: int, exponent: int, digits: int) -> None:
    text = f"{digits}e{exponent}"
    printed = format_values(stored(text), NUMERIC).to_list()[0]
    assert Decimal(printed) == Decimal(text)
    assert format_values(stored(printed), NUMERIC).to_list() == [printed]


@pytest.mark.parametrize("text", ["", "1.2.3", "abc", "1e", "--1", ".", "1 2"])
def test_refuses_what_is_no_number(text: str) -> None:
    with pytest.raises(UsageError, match="invalid input syntax for type numeric"):
        stored(text)
