"""Composite values: hostile texts, and fields that came or went."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hostile_texts import NASTY
from hypothesis import given
from hypothesis import strategies as st
from types_vectors import column, pg_type, stored

from tailrace.errors import UnsupportedWal
from tailrace.types.registry import format_values


@given(st.lists(st.tuples(st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)), NASTY), max_size=5))
def test_texts_of_any_kind_survive_in_composites(pairs: list[tuple[int | None, str | None]]) -> None:
    def quoted(word: str | None) -> str:
        return "" if word is None else '"' + word.replace("\\", "\\\\").replace('"', '""') + '"'

    values = stored("pair", *(f"({'' if a is None else a},{quoted(b)})" for a, b in pairs))
    again = stored("pair", *format_values(values, pg_type("pair")).to_list())
    assert again.payload_list() == values.payload_list()


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
