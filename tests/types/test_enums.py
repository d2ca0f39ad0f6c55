"""Enums: labels that the catalog lacks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from types_vectors import column, pg_type

from tailrace.errors import MissingHistory
from tailrace.types.registry import format_values


def test_an_enum_value_that_the_catalog_lacks_is_not_guessed() -> None:
    _, values = column("mood")
    older = replace(pg_type("mood"), labels=pg_type("mood").labels[:2])
    with pytest.raises(MissingHistory, match="invalid internal value for enum"):
        format_values(values, older)
    with pytest.raises(MissingHistory):
        format_values(values, replace(older, labels=()))
