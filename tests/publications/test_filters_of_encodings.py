"""Filters that are written here are in UTF-8, whatever the encoding of the rows that they are asked about."""

from __future__ import annotations

import pytest

from tailrace.errors import UsageError
from tailrace.expressions.evaluate import Facts
from tailrace.model import Column, Relation
from tailrace.publications.publication import SQL, RowFilter
from tailrace.publications.publishing.filter_compiler import FilterCompiler
from tailrace.types.built_in import built_in_type
from tailrace.types.values import Values

TABLE = Relation(20000, "public", "t", "r", "p", "d", 0, (Column(1, "v", built_in_type(25), -1, -1, 4),))


def _matches(text: str, encoding: str, stored: bytes) -> list[bool]:
    asked = FilterCompiler(18, Facts(encoding=encoding))((RowFilter(text, SQL, ((1, "v"),)),), TABLE)
    return asked.matches({1: Values.of_payloads([stored], -1)}, 1).tolist()  # type: ignore[no-any-return]


def test_characters_that_the_database_has_otherwise_are_refused() -> None:
    assert _matches("v = 'é'", "UTF8", "é".encode()) == [True]
    assert _matches("v = 'é'", "SQL_ASCII", "é".encode()) == [True]
    assert _matches("length(v) = 1", "EUC_JP", "日".encode("euc_jp")) == [True]
    for encoding in ("LATIN1", "EUC_JP"):
        with pytest.raises(UsageError, match=f"characters beyond ASCII in a database whose encoding is {encoding}"):
            _matches("v = 'é'", encoding, b"\xe9")
