"""exp, sin and their kin against servers: each bit of the results for numbers of all sizes, and the same error where there is one."""

from __future__ import annotations

import math
import random
import struct
from typing import Any

import numpy as np
import pytest
from function_calls import TRY, compiled

from support.servers import Server
from tailrace.errors import UsageError
from tailrace.expressions.evaluate.fmgr.pg_proc import BuiltIn, built_in_functions
from tailrace.expressions.evaluate.fmgr.vectors import Facts, Scope, Vector
from tailrace.expressions.evaluate.numbers import float_transcendental
from tailrace.types.built_in import built_in_type
from tailrace.types.style import TextStyle
from tailrace.types.values import Values

FLOAT8 = built_in_type(701)
EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    math.inf,
    -math.inf,
    math.nan,
    5e-324,
    1e308,
    -1e308,
    709.8,
    -745.2,
    -708.5,
    710.5,
    171.7,
    -170.5,
    0.5,
    -0.5,
]


def numbers(seed: int, count: int) -> list[float]:
    """Edges, multiples of 15 degrees, and numbers of all sizes."""
    chooser = random.Random(seed)
    made = [chooser.uniform(-1, 1) * 10.0 ** chooser.choice((-300, -5, 0, 0, 0, 1, 2, 2, 3, 8, 300)) for _ in range(count)]
    return [*EDGES, *(15.0 * each for each in range(-50, 50)), *made]


def ours(function: BuiltIn, rows: list[tuple[float, ...]], major: int) -> list[Any]:
    part = compiled(function, [FLOAT8] * len(function.arguments), FLOAT8, Facts(style=TextStyle(major=major)))  # type: ignore[list-item]

    def asked(some: list[tuple[float, ...]]) -> list[Any]:
        """All at once, or where there is an error each alone."""
        columns = [Values.of_payloads([struct.pack("<d", each) for each in column], 8) for column in zip(*some, strict=True)]
        vectors = [Vector(701, values.valid, False, values) for values in columns]
        try:
            found = part.run(Scope(len(some), lambda number: vectors[number - 1])).objects(len(some))
            return [struct.pack("<d", each) if not math.isnan(each) else "NaN" for each in found]
        except UsageError as error:
            if len(some) == 1:
                return [(error.sqlstate, error.message)]
            return [each for row in some for each in asked([row])]

    return [each for at in range(0, len(rows), 50) for each in asked(rows[at : at + 50])]


def theirs(connection: Any, function: BuiltIn, rows: list[tuple[float, ...]]) -> list[Any]:
    name = f'pg_catalog."{function.label.partition("(")[0]}"'
    queries = [f"SELECT {name}({', '.join(repr(str(each)) + '::float8' for each in row)})" for row in rows]
    answers = connection.execute(
        "SELECT good, said, state FROM unnest(%s::text[]) WITH ORDINALITY u(q, n), try(q) ORDER BY n", [queries]
    )
    return [
        (state, said) if not good else "NaN" if said == "NaN" else struct.pack("<d", float(said))
        for good, said, state in answers.fetchall()
    ]


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("major", "count"),
    [(18, 60), *(pytest.param(major, 2000, marks=[pytest.mark.matrix, pytest.mark.marathon]) for major in (15, 16, 17, 18))],
)
def test_each_bit_is_the_servers(major: int, count: int) -> None:
    with Server(major, test_decoding=False) as server, server.connect() as connection:
        connection.execute(TRY)
        there = {row[0] for row in connection.execute("SELECT prosrc FROM pg_proc").fetchall()}
        seen = 0
        for function in {each.symbol: each for each in built_in_functions().values()}.values():
            if function.symbol not in float_transcendental.FUNCTIONS.keys() & there:
                continue
            rows = [(each,) for each in numbers(1, count)]
            if len(function.arguments) == 2:
                rows = [(one, two) for one in EDGES for two in [*EDGES, 2.0, 3.0, -3.0, 0.25]]
                rows += list(
                    zip(numbers(2, count), random.Random(3).sample(numbers(4, count), len(numbers(4, count))), strict=True)
                )  # type: ignore[arg-type]
            pairs = zip(rows, ours(function, rows, major), theirs(connection, function, rows), strict=True)
            assert [(function.label, *each) for each in pairs if each[1] != each[2]] == []
            seen += len(rows)
        assert seen > 28 * count


def test_a_column_is_one_call() -> None:
    """Equal numbers are asked about once, and NULL is not asked about at all."""
    exponential = built_in_functions()[1347]
    part = compiled(exponential, [FLOAT8], FLOAT8, Facts())  # type: ignore[list-item]
    values = Values(np.array([True, False, True, True]), fixed=np.array([0.0, 1e9, 1.0, 0.0]).view(np.uint8).reshape(-1, 8))
    found = part.run(Scope(4, lambda number: Vector(701, values.valid, False, values)))
    assert found.objects(4) == [1.0, None, math.e, 1.0]
