"""The evaluator against servers: what functions give for edge values, and which rows filters let through, written ones and ones made by chance.

The truth is the server's: `SELECT (filter) FROM t`, with its errors. A filter comes to tailrace as it is stored in pg_publication_rel. No row may be
wrong; a refusal is no error, but there may be few.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from filter_rows import Outcome, judge, make_table, stored_rows
from function_calls import Oracle, all_functions, concrete
from generated_filters import Generator

from support.servers import Server
from tailrace.expressions.evaluate.executor.fmgrtab import IMPLEMENTATIONS
from tailrace.types.values import Values

CASES = Path(__file__).parents[1] / "cases/row_filters"
WRITTEN = [line for line in (CASES / "expressions.txt").read_text().splitlines() if not line.startswith("# ")]
SEEDS, MADE_EACH = (1, 2, 3), 500
MAJORS = [
    pytest.param(18, marks=[pytest.mark.postgres, pytest.mark.matrix]),
    pytest.param(15, marks=[pytest.mark.postgres, pytest.mark.matrix]),
    *(pytest.param(major, marks=[pytest.mark.postgres, pytest.mark.matrix, pytest.mark.marathon]) for major in (16, 17)),
]


@pytest.fixture(scope="module", params=MAJORS)
def server(request: pytest.FixtureRequest) -> Iterator[tuple[psycopg.Connection[Any], int]]:
    major = int(request.param)
    with Server(major, test_decoding=major != 18) as started, started.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        make_table(connection)
        yield connection, major


@pytest.fixture(scope="module")
def stored(server: tuple[psycopg.Connection[Any], int]) -> dict[int, Values]:
    return stored_rows(server[0])


def outcomes(server: tuple[psycopg.Connection[Any], int], filters: list[str], stored: dict[int, Values]) -> list[Outcome]:
    connection, major = server
    return [judge(connection, expression, stored, major) for expression in filters]


@pytest.mark.parametrize("one_in", [4, pytest.param(1, marks=pytest.mark.marathon)])
def test_functions_give_what_the_server_gives(server: tuple[psycopg.Connection[Any], int], one_in: int) -> None:
    connection, major = server
    oracle = Oracle(connection, major)
    present = {row[0] for row in connection.execute("SELECT oid::int FROM pg_proc WHERE oid < 10000").fetchall()}
    if major == 18:  # the wheel's has no xml
        present -= {each.oid for each in all_functions() if 142 in (*each.arguments, each.result)}
    functions = [each for each in all_functions() if each.oid in present and each.symbol in IMPLEMENTATIONS]
    tried = [oracle.tried(function, types) for function in functions[::one_in] for types in concrete(function)]
    assert [wrong for each in tried for wrong in each.wrong] == []
    assert sum(each.calls for each in tried) > 80_000 // one_in
    assert sum(each.refused_rows for each in tried) < 1_000


def test_written_filters_let_the_same_rows_through(
    server: tuple[psycopg.Connection[Any], int], stored: dict[int, Values]
) -> None:
    found = outcomes(server, WRITTEN, stored)
    assert [each.said for each in found if each.kind not in ("agrees", "refused")] == []
    assert sum(each.kind == "agrees" for each in found) > len(WRITTEN) - 10
    assert len(WRITTEN) > 400


@pytest.mark.parametrize("seed", SEEDS)
def test_filters_made_by_chance_let_the_same_rows_through(
    server: tuple[psycopg.Connection[Any], int], stored: dict[int, Values], seed: int
) -> None:
    generator = Generator(server[0], seed)
    found = outcomes(server, [generator.condition(3) for _ in range(MADE_EACH)], stored)
    assert [each.said for each in found if each.kind not in ("agrees", "refused")] == []
    assert sum(each.kind == "agrees" for each in found) > 0.9 * MADE_EACH
