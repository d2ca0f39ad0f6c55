"""Letters and orders of the locales that people have, against servers: those of the C library, of ICU and of the builtin provider."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from collation_questions import CLASSES, EVERY_CHARACTER, differences, facts_of_database, ours, some_pairs

from support.locales import LOCALES, use_icu, use_locales
from support.servers import Server
from tailrace.expressions.evaluate import Facts, Refused
from tailrace.expressions.evaluate.collations import libc
from tailrace.types.style import TextStyle

SAMPLE = [
    *range(1, 0x250),
    *range(0x370, 0x530),
    *range(0x10A0, 0x1100),
    *range(0x1E00, 0x2000),
    0x2126,
    0x212A,
    0xA64A,
    0xFB01,
    0x1F600,
]
LATIN = "abcABCxyz019 -_.,'äÄöÖåÅéÉèñÑçßøØÿ"
SLOW = [pytest.mark.matrix, pytest.mark.marathon]


def extent(whole: bool) -> tuple[Sequence[int], int, Sequence[str]]:
    """How many characters, pairs of texts and classes are asked about."""
    return (EVERY_CHARACTER, 100_000, CLASSES) if whole else (SAMPLE, 2000, ("alpha", "word"))


@pytest.fixture(scope="module")
def locales() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        use_locales(patch)
        yield
    libc.opened.cache_clear()


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("major", "names", "whole"),
    [
        pytest.param(18, ["en_US.UTF-8"], False, marks=pytest.mark.matrix),
        *(pytest.param(major, [*LOCALES, "C.UTF-8"], True, marks=SLOW) for major in (15, 16, 17, 18)),
    ],
)
def test_letters_and_orders_of_the_c_library(locales: None, major: int, names: list[str], whole: bool) -> None:
    with Server(major, test_decoding=False) as server:
        for name in names:
            encoding = "LATIN1" if "8859" in name else "UTF8"
            server.sql(f"CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING {encoding} LOCALE '{name}'")
            with server.connect(dbname=name) as connection:
                connection.execute("SET client_encoding = 'UTF8'")
                facts = facts_of_database(connection, major)
                assert facts.version == ("" if name.startswith("C.") else libc.actual_version())
                if encoding == "LATIN1":
                    wrong = differences(connection, facts, range(1, 256), 2000, letters=LATIN)
                else:
                    wrong = differences(connection, facts, *extent(whole))
                assert wrong == [], (name, len(wrong))


def test_another_version_is_refused_in_the_servers_words_unless_one_goes_on(locales: None) -> None:
    old = Facts("UTF8", "en_US.UTF-8", "en_US.UTF-8", "c", "2.17", "", "shop")
    left, right = some_pairs(1, 10)
    with pytest.raises(Refused, match='database "shop" has a collation version mismatch') as caught:
        old.order(100)
    assert caught.value.detail == (
        "The database was created using collation version 2.17, but the operating system provides version "
        f"{libc.actual_version()}."
    )
    assert "tailrace.collation_mismatch=ignore" in caught.value.hint
    assert ours(old, 871, ["abc"]) == ["ABC"], "ASCII is the same in all versions"
    with pytest.raises(Refused, match="function upper of letters beyond ASCII"):
        ours(old, 871, ["é"])
    going_on = Facts("UTF8", "en_US.UTF-8", "en_US.UTF-8", "c", "2.17", "", "shop", style=TextStyle(collation_mismatch="ignore"))
    assert ours(going_on, 871, ["é"]) == ["É"]
    assert len(ours(going_on, 740, left, right)) == 10


def test_a_locale_that_this_machine_lacks() -> None:
    absent = Facts("UTF8", "xx_YY.UTF-8", "xx_YY.UTF-8", "c", libc.actual_version())
    with pytest.raises(Refused, match=r'could not create locale "xx_YY\.UTF-8"'):
        absent.order(100)
    going_on = Facts("UTF8", "xx_YY.UTF-8", "xx_YY.UTF-8", style=TextStyle(collation_mismatch="ignore"))
    assert ours(going_on, 871, ["é"]) == ["É"]


def test_equal_texts_are_asked_about_once(locales: None, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = Facts("UTF8", "en_US.UTF-8", "en_US.UTF-8")
    asked = []
    order = facts.order(100)
    assert order is not None
    monkeypatch.setattr(Facts, "order", lambda self, oid: lambda left, right: asked.append(left) or order(left, right))
    assert ours(facts, 740, ["b", "a", "É"] * 1000, ["É"]) == [True, True, False] * 1000
    assert sorted(asked) == [b"a", b"b", "É".encode()]


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("major", "name", "whole"),
    [
        (18, "PG_UNICODE_FAST", False),
        *(pytest.param(*each, True, marks=SLOW) for each in ((17, "C.UTF-8"), (18, "C.UTF-8"), (18, "PG_UNICODE_FAST"))),
    ],
)
def test_letters_of_the_builtin_provider(major: int, name: str, whole: bool) -> None:
    with Server(major, test_decoding=False) as server:
        server.sql(
            f"CREATE DATABASE b TEMPLATE template0 ENCODING UTF8 LOCALE_PROVIDER builtin BUILTIN_LOCALE '{name}' LOCALE 'C'"
        )
        with server.connect(dbname="b") as connection:
            facts = facts_of_database(connection, major)
            assert (facts.provider, facts.ctype, facts.version) == ("b", name, "1")
            wrong = differences(connection, facts, *extent(whole))
            assert wrong == [], len(wrong)


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("major", "names", "whole"),
    [
        (16, ["en-US"], False),
        *(pytest.param(major, ["en-US", "tr", "sv", "und"], True, marks=SLOW) for major in (15, 16, 17, 18)),
    ],
)
def test_letters_and_orders_of_icu(major: int, names: list[str], whole: bool) -> None:
    with Server(major) as server:
        use_icu(server.build.home)
        for name in names:
            provider = f"LOCALE_PROVIDER icu ICU_LOCALE '{name}'"
            server.sql(f"CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING UTF8 {provider} LOCALE 'C'")
            with server.connect(dbname=name) as connection:
                facts = facts_of_database(connection, major)
                assert facts.provider == "i"
                assert facts.version
                wrong = differences(connection, facts, *extent(whole))
                assert wrong == [], (name, len(wrong))


def test_another_version_of_icu() -> None:
    old = Facts("UTF8", "sv", "sv", "i", "1.2", "", "shop")
    with pytest.raises(Refused, match='database "shop" has a collation version mismatch'):
        old.order(100)
    with pytest.raises(Refused, match='database "shop" has a collation version mismatch'):
        ours(old, 871, ["é"])
    assert ours(old, 871, ["e"]) == ["E"]
