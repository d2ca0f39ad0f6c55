"""bytea: any bytes there and back, in both forms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from types_vectors import pg_type

from tailrace.types.registry import TextStyle, format_values, parse_texts, to_arrow
from tailrace.types.values import Values


def test_bytes_stay_bytes() -> None:
    assert to_arrow(Values.of_payloads([b"\0\xff", None, b""], -1), pg_type("bytea")).to_pylist() == [b"\0\xff", None, b""]


@given(st.lists(st.binary(max_size=40)))
def test_bytea_there_and_back(blobs: list[bytes]) -> None:
    values = Values.of_payloads(blobs, -1)
    for style in (TextStyle(), TextStyle(bytea_output="escape")):
        texts = format_values(values, pg_type("bytea"), style)
        assert parse_texts(texts, values.valid, pg_type("bytea")).payload_list() == blobs
    assert format_values(values, pg_type("bytea")).to_list() == ["\\x" + blob.hex() for blob in blobs]
