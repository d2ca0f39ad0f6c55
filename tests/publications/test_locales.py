"""Filters in databases of the locales that people have: what the catalogs say of collations, and the same rows as pgoutput sends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.cases import DBNAME
from support.locales import use_locales
from support.publications import Scenario, pipeline_of, sent_by, told_by
from support.servers import Server
from tailrace.expressions.evaluate.collations import libc
from tailrace.pipeline.open_snapshot import open_snapshot
from tailrace.pipeline.runner import LocalRunner
from tailrace.publications.publishing.database_facts import facts_of
from tailrace.publications.publishing.filter_compiler import FilterCompiler
from tailrace.types.style import TextStyle

TABLE = "CREATE TABLE x (id int PRIMARY KEY, v text)"
WORDS = ("a", "B", "É", "é", "e", "ß", "Z", "zÄ", "ǆ", "日本", "straße", "İ", "ſ", "a b", "A-b")
WORK = tuple(f"INSERT INTO x VALUES ({number}, '{word}')" for number, word in enumerate(WORDS))
FILTERS = (
    "upper(v) = 'É'", "lower(v) < 'f'", "v > 'a'", "v ILIKE '%Ä'", "v ~* '^É$'", r"v ~ '^\w+$'", "initcap(v) = 'A B'",
    "v BETWEEN 'b' AND 'Éz'", "GREATEST(v, 'b') = 'b'", "v = ANY (ARRAY['é', 'A-b'])", "ROW(v, 1) < ROW('e', 2)",
)  # fmt: skip


@pytest.fixture(scope="module")
def locales() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        use_locales(patch)
        yield
    libc.opened.cache_clear()


def scenarios(first: int) -> list[Scenario]:
    return [
        Scenario(
            each, (TABLE, f"CREATE PUBLICATION w1 FOR TABLE x WHERE ({each}) WITH (publish = 'insert')"), WORK, ("w1",), first
        )
        for each in FILTERS
    ]


@pytest.mark.parametrize(
    "major", [18, *(pytest.param(each, marks=[pytest.mark.matrix, pytest.mark.marathon]) for each in (15, 16, 17))]
)
def test_rows_are_those_that_pgoutput_sends(locales: None, major: int) -> None:
    with Server(major, test_decoding=False) as server:
        server.sql(f"CREATE DATABASE {DBNAME} TEMPLATE template0 LOCALE 'en_US.UTF-8'")
        server.dbname = DBNAME
        server.checkpoint()
        told, start = told_by(server, scenarios(15))
        pipeline = pipeline_of(server, start)
        facts = facts_of(pipeline.history, TextStyle())
        assert (facts.provider, facts.collate, facts.ctype) == ("c", "en_US.UTF-8", "en_US.UTF-8")
        assert (facts.version, facts.database) == (libc.actual_version(), DBNAME)
        for each in told:
            ours = sent_by(pipeline, each, FilterCompiler(major, facts))
            assert each.error is None, each.scenario.name
            assert [sent.changes for sent in ours] == [sent.changes for sent in each.sent], each.scenario.name
            assert 0 < len(each.sent) < len(WORDS), each.scenario.name


def test_what_the_catalogs_say_of_a_collation(locales: None) -> None:
    """A filter may name what initdb found; the version is that of when it was made, until it is refreshed."""
    with Server(16) as server:  # the wheel's 18 knows nothing of ICU
        server.say(
            'CREATE TABLE t (id int PRIMARY KEY, v text COLLATE "de-x-icu")',
            "CREATE PUBLICATION p FOR TABLE t WHERE (v > 'a')",
            "UPDATE pg_database SET datcollversion = '1.2' WHERE datname = 'postgres'",
        )
        oid, version = server.sql("SELECT oid::int, collversion FROM pg_collation WHERE collname = 'de-x-icu'")[0]
        server.checkpoint()
        facts = open_snapshot(server.data_dir, "postgres", LocalRunner()).compiler.facts
    assert facts.version == "1.2"
    found = facts.collation(oid)
    assert found is not None
    assert (found.provider, found.collate, found.version, found.name) == ("i", "de", version, "de-x-icu")
    unicode = facts.collation(963)
    assert unicode is not None
    assert unicode.collate == "und"
