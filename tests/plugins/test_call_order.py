"""Callbacks of a plugin in Python are called as PostgreSQL calls those of one in C: in the same order, with the same, startup and shutdown included."""

from __future__ import annotations

from pathlib import Path

import pytest

from record_calls import record
from support.calls import FOLDER, check_same_calls, check_same_filters, replay


def check(recorded: Path, folder: Path) -> None:
    found: list[str] = []
    expected: list[str] = []
    for each, calls, error in replay(recorded, folder):
        assert error == each.error, each.text
        check_same_calls(calls, each.calls)
        found += calls
        expected += each.calls
    check_same_filters(found, expected)


def test_calls_are_those_of_a_plugin_in_c(tmp_path: Path) -> None:
    check(FOLDER, tmp_path)


@pytest.mark.postgres
@pytest.mark.matrix
def test_so_they_are_when_they_are_recorded_anew(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded"
    recorded.mkdir()
    record(recorded)
    check(recorded, tmp_path)
