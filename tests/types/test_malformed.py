"""What no input function takes."""

from __future__ import annotations

import pytest
from types_vectors import stored

from tailrace.errors import UsageError


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
