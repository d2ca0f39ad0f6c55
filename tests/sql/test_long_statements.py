"""Statements that programs write: nested deeper than a person would, or of very many values. Computed, or refused as the server does it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sql.places import Said, ours, session_of
from support.cases import open_case
from tailrace.pipeline import LocalRunner
from tailrace.sql.postgres_session import PostgresSession
from tailrace.sql.query.allowed import MOST_VALUES
from tailrace.sql.source_database import SourceDatabase


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresSession]:
    folder = tmp_path_factory.mktemp("xact")
    case = open_case("xact", 16, "with_slot", folder)
    database = SourceDatabase(case.data_dir, case.meta["dbname"], folder / "state", lambda _: LocalRunner(), lambda _: None)
    with session_of(database) as made:
        yield made


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM " + "(SELECT * FROM " * 500 + "pg_replication_slots" + ") x" * 500,
        " UNION ALL ".join(["SELECT 1"] * 5000),
        "SELECT " + "1 + " * 5000 + "1",
    ],
    ids=["subqueries", "unions", "operators"],
)
def test_nested_too_deeply(text: str, session: PostgresSession) -> None:
    said = ours(session, text)
    assert isinstance(said, Said)
    assert (said.sqlstate, said.message) == ("54001", "stack depth limit exceeded")
    assert ours(session, "SELECT 1") == [("1",)]


def test_many_values(session: PostgresSession) -> None:
    values = ", ".join(f"'s{number}'" for number in range(10_000))
    assert ours(session, f"SELECT count(*) FROM pg_replication_slots WHERE slot_name IN ({values})") == [("0",)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM pg_replication_slots WHERE slot_name NOT IN ({})",
        pytest.param("SELECT * FROM (VALUES {}) x", marks=pytest.mark.marathon),
        "SELECT 1 WHERE 'a' = ANY (ARRAY[{}])",
    ],
)
def test_more_values_than_are_computed_with(text: str, session: PostgresSession) -> None:
    """Refused at once: the server takes its time for them, too, and this would take minutes."""
    value = "('s')" if "VALUES" in text else "'s'"
    said = ours(session, text.format(", ".join([value] * 4 * MOST_VALUES)))
    assert isinstance(said, Said)
    assert (said.sqlstate, said.message) == ("54000", "a list of 200,000 values is not supported outside of the server")
