"""Text search by the configuration simple against servers: texts and queries made by chance, in a database without a locale and in one of libc's."""

from __future__ import annotations

import random

import pytest
from function_calls import LABELS, TRY, all_functions, compiled, decoded, literal, same

from support.servers import Server
from tailrace.errors import UsageError
from tailrace.expressions.evaluate.fmgr.vectors import Facts, Scope, constant
from tailrace.types import oids
from tailrace.types.style import TextStyle

PIECES = [
    *"abcXYZ019-_./:@<>&;#?=!'\"\\ ~+*()|,%", "http://", "www.", "ä", "é", "script", "style", "foo", "bar", "1.5", "e5", "--", "</", "<!--", "-->",
    "日", " ", " ", " or ", "<->",
]  # fmt: skip
SIMPLE = 3748
SYMBOLS = {
    "to_tsvector_byid": "tsvector", "to_tsquery_byid": "tsquery", "websearch_to_tsquery_byid": "tsquery", "phraseto_tsquery_byid": "tsquery",
}  # fmt: skip


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("major", "count"),
    [(18, 200), *(pytest.param(major, 5000, marks=[pytest.mark.matrix, pytest.mark.marathon]) for major in (15, 16, 17, 18))],
)
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_texts_made_by_chance_are_parsed_as_the_server_parses_them(major: int, count: int, locale: str) -> None:
    chooser = random.Random(f"{major} {locale}")
    texts = ["".join(chooser.choices(PIECES, k=chooser.randrange(1, 25))) for _ in range(count)]
    provider = " LOCALE_PROVIDER libc" if major != 15 else ""
    with Server(major, test_decoding=False) as server:
        server.sql(f"CREATE DATABASE d TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE '{locale}' LC_CTYPE '{locale}'{provider}")
        with server.connect("d") as connection:
            connection.execute(TRY)
            row = connection.execute("SELECT datcollversion FROM pg_database WHERE datname = 'd'").fetchone()
            facts = Facts(collate=locale, ctype=locale, version=(row or ("",))[0] or "", style=TextStyle(major=major))
            for function in all_functions():
                if function.symbol not in SYMBOLS:
                    continue
                result = LABELS[SYMBOLS[function.symbol]]
                part = compiled(function, [LABELS["regconfig"], LABELS["text"]], result, facts)
                name = function.label.partition("(")[0]
                queries = [f"SELECT {name}('simple'::regconfig, {literal(text)})::text" for text in texts]
                answers = connection.execute(
                    "SELECT good, said, state FROM unnest(%s::text[]) WITH ORDINALITY u(q, n), try(q) ORDER BY n", [queries]
                ).fetchall()
                for text, (good, said, state) in zip(texts, answers, strict=True):
                    expected = (decoded(said, result), "") if good else (said, state)
                    assert same(ours(part, text), expected), (function.label, text)


def ours(part: object, text: str) -> tuple[object, str]:
    values = {1: constant(oids.REGCONFIG, SIMPLE), 2: constant(oids.TEXT, text)}
    try:
        return part.run(Scope(1, values.__getitem__)).value(), ""  # type: ignore[attr-defined]
    except UsageError as error:
        return error.message, error.sqlstate
