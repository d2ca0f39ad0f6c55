"""What functions of text say under a database's default collation: the server's answers, and ours."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import psycopg
from function_calls import compiled

from tailrace.expressions.evaluate.fmgr.pg_proc import built_in_functions
from tailrace.expressions.evaluate.fmgr.vectors import Facts, Scope, Vector
from tailrace.types.built_in import built_in_type
from tailrace.types.style import TextStyle
from tailrace.types.values import Values

UPPER, LOWER, INITCAP, ILIKE, MATCHES, MATCHES_IN_ANY_CASE, LESS, COMPARED = 871, 870, 872, 1633, 1254, 1238, 740, 360
CLASSES = ("alpha", "digit", "alnum", "upper", "lower", "space", "punct", "print", "graph", "cntrl", "blank", "xdigit", "word")
EVERY_CHARACTER = [code for code in (*range(1, 0x20000), *range(0xE0000, 0xE0200)) if not 0xD800 <= code < 0xE000]
"""All planes that have cased letters, and then some; the others are CJK and empty."""
_LETTERS = "abcABCxyzXYZ019 -_.,'äÄöÖåÅéÉèñÑçßıİiIøØłŁžŽčČšαβΣσςжЖЁёаА日本語가각\u0301\u0308\U0001d400ﬁǅ"


def facts_of_database(connection: psycopg.Connection[Any], major: int, **others: str) -> Facts:
    """As `publications.filters.facts_of` finds them in WAL."""
    locale = {15: "daticulocale", 16: "daticulocale"}.get(major, "datlocale")
    row = connection.execute(
        f"SELECT datlocprovider, datcollate, datctype, coalesce(datcollversion, ''), {locale}, datname, pg_encoding_to_char(encoding) "
        "FROM pg_database WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    provider, collate, ctype, version, locale, name, encoding = row
    if provider != "c":
        collate = ctype = locale
    style = TextStyle(major=major, **others)  # type: ignore[arg-type]
    return Facts(encoding, collate, ctype, provider, version, "", name, (), style)


def ours(facts: Facts, oid: int, *columns: Sequence[str]) -> list[Any]:
    """The function's results for rows of texts; a single text stands for all rows."""
    function = built_in_functions()[oid]
    types = [built_in_type(each) for each in function.arguments]
    part = compiled(function, types, built_in_type(function.result), facts)  # type: ignore[arg-type]
    assert not isinstance(part, str), part
    rows = max(map(len, columns))
    codec = "utf-8" if facts.encoding == "UTF8" else "latin-1"
    vectors = []
    for texts in columns:
        payloads = [text.encode(codec) for text in texts]
        values = Values.of_payloads(payloads if len(payloads) == rows else payloads * rows, -1)
        vectors.append(Vector(25, values.valid, False, values, facts.encoding))
    return part.run(Scope(rows, lambda number: vectors[number - 1])).objects(rows)  # type: ignore[no-any-return]


def theirs(connection: psycopg.Connection[Any], expression: str, *columns: Sequence[str]) -> list[Any]:
    """An expression over texts a and b."""
    query = f"SELECT {expression} FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS t(a, b, n) ORDER BY n"
    return [row[0] for row in connection.execute(query, [list(columns[0]), list(columns[-1])]).fetchall()]


def some_texts(seed: int, count: int, letters: str = _LETTERS) -> list[str]:
    chooser = random.Random(seed)
    return ["".join(chooser.choices(letters, k=chooser.randrange(0, 9))) for _ in range(count)]


def some_pairs(seed: int, count: int, letters: str = _LETTERS) -> tuple[list[str], list[str]]:
    """Half of them are alike but for one letter or its case."""
    left, right = some_texts(seed, count, letters), some_texts(seed + 1, count, letters)
    chooser = random.Random(seed)
    for row in range(0, count, 2):
        text = left[row]
        at = chooser.randrange(len(text) + 1)
        letter = chooser.choice(letters)
        right[row] = text[:at] + letter + text[at + chooser.randrange(2) :]
        if row % 4:
            right[row] = text.swapcase() if set(text.swapcase()) <= set(letters) else right[row]
    return left, right


def differences(
    connection: psycopg.Connection[Any], facts: Facts, codes: Sequence[int], pairs: int, classes: Sequence[str] = CLASSES,
    letters: str = _LETTERS,
) -> list[str]:  # fmt: skip
    """All that the server and we say differently of these characters and of so many pairs of texts."""
    texts = [chr(code) for code in codes]
    wrong = []

    def compare(what: str, oid: int, expression: str, *columns: Sequence[str]) -> None:
        answers = zip(ours(facts, oid, *columns), theirs(connection, expression, *columns), strict=True)
        for row, (mine, its) in enumerate(answers):
            if mine != its:
                asked = [column[row if len(column) > 1 else 0] for column in columns]
                wrong.append(f"{what} of {asked!r}: expected {its!r}, found {mine!r}")

    for name, oid in (("upper", UPPER), ("lower", LOWER), ("initcap", INITCAP)):
        compare(name, oid, f"{name}(a)", texts)
        compare(name, oid, f"{name}(a)", [f"q{each}Q x{each}" for each in texts])
        compare(name, oid, f"{name}(a)", some_texts(3, pairs // 10, letters))
    for name in classes:
        pattern = f"[[:{name}:]]" if name != "word" else r"^\w$"
        compare(name, MATCHES, f"a ~ '{pattern}'", texts, [pattern])
    cased = [each for each in texts if each.lower() != each or each.upper() != each]
    variants = [
        (each, other) for each in cased for other in {each.lower()[0], each.upper()[0], each.swapcase()[0], "s", "I", "i"}
    ]
    variants = [(one, two) for one, two in variants if ord(one) < 256 or facts.encoding == "UTF8"] or [("a", "A")]
    variants = [(one, two) for one, two in variants if ord(two) < 256 or facts.encoding == "UTF8"]
    compare("~*", MATCHES_IN_ANY_CASE, "a ~* b", *zip(*[(two, one) for one, two in variants], strict=True))
    compare("ILIKE", ILIKE, "a ILIKE b", *zip(*variants, strict=True))
    left, right = some_pairs(5, pairs, letters)
    compare("<", LESS, "a < b", left, right)
    compare("bttextcmp", COMPARED, "bttextcmp(a, b)", left[:2000], right[:2000])
    return wrong
