"""uuid: any bytes there and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from types_vectors import pg_type

from tailrace.types.registry import format_values, parse_texts
from tailrace.types.values import Values


@given(st.lists(st.binary(min_size=16, max_size=16)))
def test_uuids_there_and_back(blobs: list[bytes]) -> None:
    values = Values.of_payloads(blobs, 16)
    assert parse_texts(format_values(values, pg_type("uuid")), values.valid, pg_type("uuid")).payload_list() == blobs
