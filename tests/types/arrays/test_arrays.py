"""Arrays: shapes, hostile texts, and what is refused."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hostile_texts import NASTY
from hypothesis import given
from hypothesis import strategies as st
from types_vectors import pg_type, rows, stored, typmod

from tailrace.errors import CorruptWal, UsageError
from tailrace.types.registry import ArrowStyle, arrow_type, format_values, to_arrow
from tailrace.types.values import Values


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


def test_a_compressed_element_is_damage() -> None:
    _, payloads = rows("text[]")
    body = bytearray(payloads[3])
    assert body[:4] == (1).to_bytes(4, "little")
    at = int.from_bytes(body[4:8], "little") - 4 if body[4:8] != bytes(4) else 20
    body[at] |= 2
    with pytest.raises(CorruptWal, match="compressed"):
        format_values(Values.of_payloads([bytes(body)], -1), pg_type("text[]"))
