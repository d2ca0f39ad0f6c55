"""Regular expressions that reach the engine mean there what they mean on the server; which those are, and that the others are refused."""

from __future__ import annotations

import itertools
import random

import duckdb
import pytest

from support.servers import Server
from tailrace.sql.query.re2_patterns import re2_pattern

PIECES = (
    "a",
    "B",
    "é",
    "\\.",
    ".",
    "^",
    "$",
    "\\d",
    "[a-c]",
    "[^b]",
    "[-.]",
    "[]a]",
    "\\n",
    "(",
    "(?:",
    ")",
    "|",
    "*",
    "+",
    "?",
    "{2}",
    "{1,}",
    "{0,2}",
    "_",
    " ",
    "{",
    "]",
)
TEXTS = ("", "a", "A", "ab", "aB", "b.", "é", "É", "a\nb", "aaa", "abc", "1", "-", "x{2}", "a b", "_", "]", "\N{KELVIN SIGN}k")
REFUSED = (
    "*", "a**", "a|", "|a", "()", "(a", "a)", "(?i)a", "(?=a)", "a{3,2}", "a{256}", "\\w", "\\1", "\\ma", "[[:alpha:]]", "[a-c-e]", "[", "[b-a]",
    "[a-Z]", "\\", "^*", "(*a)", "***=a",
)  # fmt: skip


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_is_refused(pattern: str) -> None:
    assert re2_pattern(pattern, folds=False) is None


def test_letters_beyond_ascii_are_not_folded() -> None:
    assert re2_pattern("é", folds=True) is None
    assert re2_pattern("é", folds=False) == "é"


@pytest.mark.postgres
def test_drawn_patterns() -> None:
    """Of patterns drawn from pieces, those that are taken match the same texts."""
    dice = random.Random(16)
    drawn = {"".join(dice.choices(PIECES, k=dice.randrange(1, 7))) for _ in range(4000)}
    cases = [(pattern, folds) for pattern in sorted(drawn) for folds in (False, True)]
    taken = [(pattern, folds, engine) for pattern, folds in cases if (engine := re2_pattern(pattern, folds=folds)) is not None]
    assert len(taken) > 500
    with Server(16) as server, server.connect() as connection, duckdb.connect() as there:
        asked = [(pattern, folds, text) for (pattern, folds, _), text in itertools.product(taken, TEXTS)]
        rows = connection.execute(
            "SELECT CASE WHEN f THEN t ~* p ELSE t ~ p END"
            " FROM unnest(%s::text[], %s::bool[], %s::text[]) WITH ORDINALITY AS u (p, f, t, n) ORDER BY n",
            list(map(list, zip(*asked, strict=True))),
        ).fetchall()
        found = []
        for _, _, engine in taken:
            query = "SELECT regexp_matches(t, $1, 's') FROM unnest($2) WITH ORDINALITY AS u (t, n) ORDER BY n"
            found += there.execute(query, [engine, list(TEXTS)]).fetchall()
    different = [case for case, one, other in zip(asked, found, rows, strict=True) if one[0] != other[0]]
    assert different == []
