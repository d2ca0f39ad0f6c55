"""The types that every cluster has are what the catalogs of recorded clusters, and live servers, say of them."""

from __future__ import annotations

import pytest

from support.servers import Server
from tailrace.types.built_in import built_in_type, built_in_types
from tailrace.types.registry import codec_of

_ACLITEM = 1033
_QUERY = """
SELECT oid::int, typname::text, typlen::int, format_type(oid, NULL) FROM pg_type t
WHERE oid < 10000 AND typtype <> 'c' AND NOT EXISTS (SELECT FROM pg_type e WHERE e.oid = t.typelem AND e.typtype = 'c')
"""


def test_elements_are_resolved() -> None:
    numbers, ranges = built_in_type(1231), built_in_type(4532)
    assert numbers is not None
    assert numbers.element is not None
    assert (numbers.label, numbers.kind, numbers.element.label, numbers.element.length) == ("numeric[]", "a", "numeric", -1)
    assert ranges is not None
    assert ranges.element is not None
    assert ranges.element.element is not None
    assert (ranges.kind, ranges.element.kind, ranges.element.element.name) == ("m", "r", "numeric")
    boxes = built_in_type(1020)
    assert boxes is not None
    assert boxes.element is not None
    assert (boxes.delimiter, boxes.element.delimiter) == (";", ";")
    assert built_in_type(16384) is None


def test_what_can_be_a_column_has_a_codec() -> None:
    for pg_type in built_in_types().values():
        if pg_type.kind != "p":
            codec_of(pg_type)


@pytest.mark.postgres
@pytest.mark.matrix
@pytest.mark.parametrize("major", [14, 15, 16, 17, 18])
def test_as_the_server_has_them(major: int) -> None:
    with Server(major) as server, server.connect() as connection:
        rows = connection.execute(_QUERY).fetchall()
    assert len(rows) > 170
    for oid, name, length, label in rows:
        pg_type = built_in_type(oid)
        assert pg_type is not None
        if oid != _ACLITEM or major >= 16:
            assert (pg_type.name, pg_type.length, pg_type.label) == (name, length, label)
