"""Arrays, JSON trees, ranges and composites: shapes, hostile texts, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from types_vectors import column, pg_type, rows, typmod

from tailrace.errors import CorruptWal, MissingHistory, UnsupportedWal, UsageError
from tailrace.types.registry import ArrowStyle, arrow_type, format_values, parse_texts, to_arrow
from tailrace.types.values import Texts, Values

WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
NASTY = st.one_of(
    st.none(), WORDS, st.sampled_from(["", "NULL", "null", '"', "\\", "{", "}", ",", " ", "\t", "(", ")", "[", "é\\"])
)


def stored(name: str, *texts: str) -> Values:
    return parse_texts(Texts.of(texts), np.ones(len(texts), np.bool_), pg_type(name))


def test_lists() -> None:
    values = stored("int4[]", "{1,NULL,3}", "{}", "{7}")
    array = to_arrow(values, pg_type("int4[]"))
    array.validate(full=True)
    assert array.type == arrow_type(pg_type("int4[]")) == pa.list_(pa.int32())
    assert array.to_pylist() == [[1, None, 3], [], [7]]
    decimals = stored("numeric(10,2)[]", "{1.50,-3.00}")
    assert to_arrow(decimals, pg_type("numeric[]"), typmod("numeric(10,2)[]")).to_pylist() == [
        [Decimal("1.50"), Decimal("-3.00")]
    ]
    assert to_arrow(stored("tags[]", '{"{a,b}"}'), pg_type("tags[]")).to_pylist() == [[["a", "b"]]]


@pytest.mark.parametrize("text", ["{{1,2},{3,4}}", "[0:1]={1,2}"])
def test_other_shapes_do_not_fit_a_list(text: str) -> None:
    values = stored("int4[]", "{1}", text)
    with pytest.raises(UsageError, match=r"does not fit a list(.|\n)*arrays=text"):
        to_arrow(values, pg_type("int4[]"))
    assert to_arrow(values, pg_type("int4[]"), style=ArrowStyle(arrays="text")).to_pylist() == ["{1}", text]


@given(st.lists(st.lists(NASTY, max_size=6), max_size=4))
def test_texts_of_any_kind_survive_in_arrays(lists: list[list[str | None]]) -> None:
    def quoted(word: str | None) -> str:
        return "NULL" if word is None else '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'

    values = stored("text[]", *("{" + ",".join(map(quoted, words)) + "}" for words in lists))
    assert to_arrow(values, pg_type("text[]")).to_pylist() == lists
    again = stored("text[]", *format_values(values, pg_type("text[]")).to_list())
    assert again.payload_list() == values.payload_list()


@given(st.lists(st.tuples(st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)), NASTY), max_size=5))
def test_texts_of_any_kind_survive_in_composites(pairs: list[tuple[int | None, str | None]]) -> None:
    def quoted(word: str | None) -> str:
        return "" if word is None else '"' + word.replace("\\", "\\\\").replace('"', '""') + '"'

    values = stored("pair", *(f"({'' if a is None else a},{quoted(b)})" for a, b in pairs))
    again = stored("pair", *format_values(values, pg_type("pair")).to_list())
    assert again.payload_list() == values.payload_list()


TREES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**30), 10**30), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=40), st.dictionaries(WORDS, inner, max_size=40)),
    max_leaves=100,
)


@given(st.lists(TREES, max_size=4))
def test_json_trees_survive(trees: list[object]) -> None:
    texts = format_values(stored("jsonb", *(json.dumps(tree) for tree in trees)), pg_type("jsonb")).to_list()
    assert [json.loads(text) for text in texts] == trees
    assert format_values(stored("jsonb", *texts), pg_type("jsonb")).to_list() == texts


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("int4[]", "{1"),
        ("int4[]", "{{1,2,3},{4},{5,6}}"),
        ("int4[]", "{{{{{{{1}}}}}}}"),
        ("int4[]", "}"),
        ("int4[]", "1}"),
        ("int4[]", "{1}x"),
        ("text[]", '{"a}'),
        ("int4[]", "{{1},{2,3}}"),
        ("pair", "(1)"),
        ("pair", "1,2"),
        ("int4range", "1,2"),
        ("int4multirange", "[1,2)"),
        ("jsonb", "{"),
        ("jsonb", "NaN"),
        ("mood", "glad"),
        ("int4[]", "{a}"),
        ("uuid", "12"),
        ("bool", "maybe"),
        ("int2", "40000"),
        ("inet", "1.2.3"),
        ("bytea", "\\xf"),
        ("interval", "soon"),
        ("point", "(1)"),
        ("varbit", "2"),
        ("tid", "1"),
        ("money", "x"),
        ("pg_lsn", "0"),
        ("float8", "x"),
        ("time", "25:00:00"),
        ("oid", "-1"),
        ('"char"', "ab"),
    ],
)
def test_refuses_malformed_texts(name: str, text: str) -> None:
    with pytest.raises(UsageError):
        stored(name, text)


def test_an_enum_value_that_the_catalog_lacks_is_not_guessed() -> None:
    _, values = column("mood")
    older = replace(pg_type("mood"), labels=pg_type("mood").labels[:2])
    with pytest.raises(MissingHistory, match="invalid internal value for enum"):
        format_values(values, older)
    with pytest.raises(MissingHistory):
        format_values(values, replace(older, labels=()))


def test_a_compressed_element_is_damage() -> None:
    _, payloads = rows("text[]")
    body = bytearray(payloads[3])
    assert body[:4] == (1).to_bytes(4, "little")
    at = int.from_bytes(body[4:8], "little") - 4 if body[4:8] != bytes(4) else 20
    body[at] |= 2
    with pytest.raises(CorruptWal, match="compressed"):
        format_values(Values.of_payloads([bytes(body)], -1), pg_type("text[]"))


def test_a_dropped_field_of_a_composite_is_not_guessed() -> None:
    _, values = column("pair")
    without_first = replace(pg_type("pair"), fields=pg_type("pair").fields[1:])
    with pytest.raises(UnsupportedWal, match="dropped attribute"):
        format_values(values, without_first)


def test_a_field_added_later_is_null() -> None:
    _, values = column("pair")
    second = pg_type("pair").fields[1]
    longer = replace(pg_type("pair"), fields=(*pg_type("pair").fields, replace(second, number=3, name="c")))
    assert all(text.endswith(",)") for text in format_values(values, longer).to_list() if text)
