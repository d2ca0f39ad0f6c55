"""Callbacks of a plugin in Python are called as PostgreSQL calls those of one in C: in the same order, with the same arguments, from startup on."""

from __future__ import annotations

from pathlib import Path

import pytest

from record_calls import record
from sql.places import Said, ours, session_of
from support.calls import FOLDER, check_same_calls, check_same_filters, replay
from support.cases import open_case
from support.tracing import CALLS, Tracing
from tailrace.errors import UsageError
from tailrace.pipeline import LocalRunner
from tailrace.plugins.callbacks import Context, OutputOptions
from tailrace.plugins.registry import register_plugin
from tailrace.sql.source_database import SourceDatabase


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


def test_sql_that_creates_a_slot_starts_its_plugin_up(tmp_path: Path) -> None:
    """One that refuses is not created."""

    class Refusing(Tracing):
        def startup(self, ctx: Context, options: OutputOptions, is_init: bool) -> None:
            super().startup(ctx, options, is_init)
            raise UsageError("not this slot")

    register_plugin("trace", Tracing)
    register_plugin("refusing", Refusing)
    case = open_case("xact", 16, "with_slot", tmp_path)
    CALLS.clear()
    with session_of(
        SourceDatabase(case.data_dir, "app", tmp_path / "state", lambda _: LocalRunner(1), lambda _: None)
    ) as session:
        assert ours(session, "SELECT slot_name FROM pg_create_logical_replication_slot('a', 'trace')") == [("a",)]
        assert CALLS == ["startup is_init=true options:", "shutdown"]
        CALLS.clear()
        refused = ours(session, "SELECT slot_name FROM pg_create_logical_replication_slot('b', 'refusing')")
        assert isinstance(refused, Said)
        assert refused.message == "not this slot"
        assert CALLS == ["startup is_init=true options:"]
        assert ours(session, "SELECT slot_name FROM pg_replication_slots") == [("a",)]


@pytest.mark.postgres
@pytest.mark.matrix
def test_so_they_are_when_they_are_recorded_anew(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded"
    recorded.mkdir()
    record(recorded)
    check(recorded, tmp_path)
