"""exp, ln, log and power of numeric against servers: each digit and the scale of results, for numbers of all sizes, and the same errors."""

from __future__ import annotations

import random

import pytest
from function_calls import TRY, all_functions, compiled

from support.servers import Server
from tailrace.errors import UsageError
from tailrace.expressions.evaluate.fmgr.vectors import Facts, Scope, constant
from tailrace.expressions.evaluate.numbers import numeric_transcendental
from tailrace.expressions.evaluate.numbers.numeric_arithmetic import Numeric, parse, text_of
from tailrace.types import oids
from tailrace.types.built_in import built_in_type
from tailrace.types.style import TextStyle

NUMERIC = built_in_type(oids.NUMERIC)
EDGES = [
    "0", "0.000", "1", "1.0000", "-1", "2", "-2", "10", "0.5", "0.1", "0.9", "1.1", "0.99999999999999999999", "1.00000000000000000001", "3", "100.00",
    "-0.5", "-3", "4294967296", "2147483647", "-2147483648", "2147483648", "1" * 3950 + ".5", "6000", "5999.99", "-6000",
    "-5999.9", "0.0000000001", "1" + "0" * 130,
    "9" * 400, "0." + "0" * 300 + "1", "12345678901234567890.123456789012345678901234567890", "1.5", "-1.5", "99999999.99999999", "709.78", "301",
]  # fmt: skip


def number(chooser: random.Random) -> str:
    """Of any size, near 1 more often than not."""
    digits = "".join(chooser.choices("0123456789", k=chooser.choice([1, 2, 4, 8, 9, 17, 30, 60])))
    kind = chooser.random()
    sign = "-" if chooser.random() < 0.2 else ""
    if kind < 0.4:
        return f"{sign}{chooser.choice(['0', '1', '2', '7', '12', '250'])}.{digits}"
    if kind < 0.6:
        return f"{chooser.choice(['0.', '1.'])}{chooser.choice('09') * chooser.randrange(40)}{digits}"
    if kind < 0.8:
        return sign + str(int(digits))
    return f"{sign}{int(digits)}.{'0' * chooser.randrange(12)}{digits}"


def pairs_of(chooser: random.Random, count: int) -> list[tuple[str, str]]:
    """Powers that are worth to be taken: of small exponents, and of whole ones."""
    found = [(one, two) for one in EDGES for two in EDGES]
    exponents = ["2", "3", "-1", "-2", "-7", "25", "0.5", "1.5", "-0.25", "1000", "-1000", "70000", "0.0001", "-12.375"]
    return found + [(number(chooser), chooser.choice([*exponents, number(chooser)])) for _ in range(count)]


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("major", "count"),
    [(18, 60), *(pytest.param(major, 1500, marks=[pytest.mark.matrix, pytest.mark.marathon]) for major in (15, 16, 17, 18))],
)
def test_each_digit_is_the_servers(major: int, count: int) -> None:
    chooser = random.Random(major)
    with Server(major, test_decoding=False) as server, server.connect() as connection:
        connection.execute(TRY)
        functions = {each.symbol: each for each in all_functions() if each.symbol in numeric_transcendental.FUNCTIONS}
        assert len(functions) == len(numeric_transcendental.FUNCTIONS)
        for function in functions.values():
            rows: list[tuple[str, ...]] = [(each,) for each in (*EDGES, *(number(chooser) for _ in range(count)))]
            if len(function.arguments) == 2:
                rows = list(pairs_of(chooser, count))
            name = function.label.partition("(")[0]
            queries = [f"SELECT {name}({', '.join(f'({each}::numeric)' for each in row)})::text" for row in rows]
            answers = connection.execute(
                "SELECT good, said, state FROM unnest(%s::text[]) WITH ORDINALITY u(q, n), try(q) ORDER BY n", [queries]
            ).fetchall()
            part = compiled(function, [NUMERIC] * len(rows[0]), NUMERIC, Facts(style=TextStyle(major=major)))  # type: ignore[list-item]
            wrong = [
                (function.label, row, answer, found)
                for row, answer in zip(rows, answers, strict=True)
                if (found := ours(part, row)) != (answer if not answer[0] else (True, answer[1], None))
            ]
            assert wrong == []


def ours(part: object, row: tuple[str, ...]) -> tuple[bool, str, str | None]:
    values: list[Numeric] = [parse(each) for each in row]
    try:
        found = part.run(Scope(1, lambda place: constant(oids.NUMERIC, values[place - 1]))).value()  # type: ignore[attr-defined]
    except UsageError as error:
        return False, error.message, error.sqlstate
    return True, text_of(found), None
