"""Definitions of ours: their file, when they hold, and what is told with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cases import DBNAME
from support.pgoutput import Sent
from support.publication_scenarios import CHAIN, KEYED, PARTITIONED, ROOT, SPREAD
from support.publications import Scenario, Told, pipeline_of, sent_by, told_by
from support.servers import Server
from tailrace.errors import CorruptFile, InsufficientLogging, UnsupportedFile, UsageError
from tailrace.model import Lsn
from tailrace.pipeline import Pipeline
from tailrace.pipeline.open_snapshot import define
from tailrace.publications.catalog_snapshot import CatalogSnapshot
from tailrace.publications.commands.definition_file import Definitions, DefinitionStage, read_definitions, write_definitions
from tailrace.publications.commands.statements import parse_statement
from tailrace.publications.database_snapshot import DatabaseSnapshot
from tailrace.publications.publication import NODE_TREE, SQL, Publication, PublicationActions, PublishedTable, RowFilter
from tailrace.publications.publishing import filter_compiler
from tailrace.publications.publishing.database_facts import facts_of
from tailrace.publications.publishing.filter_compiler import FilterCompiler
from tailrace.publications.publishing.publisher import publisher_of
from tailrace.storage.publication_files import PublicationFiles
from tailrace.types.style import TextStyle

FILTER = RowFilter("a > 5 AND c = 'é'", SQL, ((1, "a"), (3, "c")), ((4, "{CONST}"),))
TABLES = (PublishedTable(16384, (1, 3), FILTER), PublishedTable(16390))
SOME = Publication(
    "p", "me", actions=PublicationActions(insert=True), via_root=True, tables=TABLES, schemas=(2200,), defined_here=True
)
STAGES = (DefinitionStage(Lsn(0x1000), "CREATE PUBLICATION p", (SOME,)), DefinitionStage(Lsn(0x2000), "DROP PUBLICATION p", ()))
DEFINED = Definitions(7, 5, "shop", STAGES)


def test_the_file_in_both_directions() -> None:
    data = write_definitions(DEFINED)
    assert read_definitions(data, "f") == DEFINED
    with pytest.raises(CorruptFile, match="incorrect checksum"):
        read_definitions(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "f")
    with pytest.raises(UnsupportedFile):
        read_definitions(b"PAR1" + data[4:], "f")


def test_each_stage_holds_from_its_lsn_on() -> None:
    assert [DEFINED.at(lsn) for lsn in (0xFFF, 0x1000, 0x1FFF, 0x2000)] == [(), (SOME,), (SOME,), ()]
    with pytest.raises(UsageError, match="have changed at 0/2000, they cannot change at 0/1FFF"):
        DEFINED.then(DefinitionStage(Lsn(0x1FFF), "", ()))


def test_a_change_that_fails_leaves_the_file(tmp_path: Path) -> None:
    files = PublicationFiles(tmp_path / "publications")
    assert files.change(7, 5, "shop", lambda found: found.then(STAGES[0])).current == (SOME,)
    with pytest.raises(UsageError):
        files.change(7, 5, "shop", lambda found: found.then(DefinitionStage(Lsn(1), "", ())))
    assert files.read(7, 5, "shop") == Definitions(7, 5, "shop", STAGES[:1])
    with pytest.raises(UsageError, match="are of system 7, not of 8"):
        files.read(8, 5, "shop")


SCENARIOS = (
    Scenario("filtered", (KEYED, "CREATE PUBLICATION w1 FOR TABLE x (id) WHERE (id > 5)"), CHAIN, ("w1",), 15),
    Scenario("partitions", (*PARTITIONED, f"CREATE PUBLICATION w1 FOR TABLE p WHERE (id % 2 = 0) {ROOT}"), SPREAD, ("w1",), 15),
    Scenario("renamed", (KEYED, "CREATE PUBLICATION w1 FOR TABLE x WHERE (id > 5)"), (
             "INSERT INTO x VALUES (1), (6)", "ALTER TABLE x RENAME id TO key", "ALTER TABLE x RENAME v TO id",
             "INSERT INTO x VALUES (2, '9'), (7, '1')", "ALTER TABLE x RENAME TO y", "DELETE FROM y"), ("w1",), 15),
    Scenario("virtual columns", ("CREATE TABLE x (id int PRIMARY KEY, double int GENERATED ALWAYS AS (id * 2) VIRTUAL, s text, "
             f"sorted bool GENERATED ALWAYS AS (id IN ({', '.join(str(i * 7 % 9973) for i in range(2000))})) VIRTUAL)",
             "CREATE PUBLICATION w1 FOR TABLE x WHERE (double > 10 OR sorted)"), (
             "INSERT INTO x (id) SELECT i FROM generate_series(1, 8) i", "UPDATE x SET id = id + 100 WHERE id < 3", "DELETE FROM x"), ("w1",), 18),
)  # fmt: skip


@pytest.mark.parametrize("major", [18, pytest.param(16, marks=pytest.mark.matrix)])
def test_what_is_defined_here_is_told_as_what_the_source_has(major: int, tmp_path: Path) -> None:
    """The server has a publication w1; here is another, of the same definition, that its log knows nothing of."""
    with Server(major, dbname=DBNAME, test_decoding=False) as server:
        server.checkpoint()
        told, start = told_by(server, SCENARIOS)
        pipeline = pipeline_of(server, start)
        for number, each in enumerate(told):
            _check_told(pipeline, each, PublicationFiles(tmp_path / str(number)))


def _check_told(pipeline: Pipeline, told: Told, files: PublicationFiles) -> None:
    history = pipeline.history
    compile_filter = FilterCompiler(history.major, facts_of(history, TextStyle()))
    text = next(statement for statement in told.scenario.setup if "PUBLICATION" in statement)
    text = text.replace("w1", "ours").replace("TABLE ", "TABLE sc.")

    def run(at: int, statement: str) -> Definitions:
        here = DatabaseSnapshot(1, history.database, DBNAME, CatalogSnapshot(history, at))
        return define(files, here, parse_statement(statement), statement).definitions

    def sent(definitions: Definitions) -> list[Sent]:
        return sent_by(pipeline, _asking(told, "ours"), compile_filter, definitions.in_order)

    definitions = run(told.start, text)
    assert sent(definitions) == told.sent, told.scenario.name
    _check_analysed_once(pipeline, told, definitions)
    # What the source has, by a timeline of all that comes out of the plan.
    whole = publisher_of(pipeline.plan, history, told.scenario.names, TextStyle())
    assert sent_by(pipeline, told, whole.compile, timeline=whole.timeline) == told.sent, told.scenario.name
    # From the second transaction on it publishes nothing, and from the third on all again. What was told before stays.
    second, third = told.sent[1].commit_lsn, told.sent[2].commit_lsn
    run(second, "ALTER PUBLICATION ours SET (publish = '')")
    defined = run(third, "ALTER PUBLICATION ours SET (publish = 'insert, update, delete, truncate')")
    assert sent(defined) == [told.sent[0], *told.sent[2:]], told.scenario.name
    assert [stage.since for stage in files.read(1, history.database, DBNAME).stages] == [told.start, second, third]


def _check_analysed_once(pipeline: Pipeline, told: Told, definitions: Definitions) -> None:
    """The publisher of a plan has the node trees of its filters, of each version of a table that has changes: nothing is left to analyse."""
    ours = publisher_of(pipeline.plan, pipeline.history, ("ours",), TextStyle(), definitions.in_order)
    assert {row_filter.form for row_filter, _ in ours.stored} == {SQL}
    assert {found.form for found in ours.stored.values() if isinstance(found, RowFilter)} == {NODE_TREE}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(filter_compiler, "analysed", None)
        asking = _asking(told, "ours")
        assert sent_by(pipeline, asking, ours.compile, timeline=ours.timeline, stored=ours.stored) == told.sent, (
            told.scenario.name
        )


def _asking(told: Told, *names: str) -> Told:
    scenario = Scenario(told.scenario.name, told.scenario.setup, told.scenario.work, names, told.scenario.first)
    return Told(scenario, told.start, told.stop, told.sent, told.error)


def test_changes_whose_identity_does_not_suffice_are_refused() -> None:
    scenario = Scenario(
        "no key", ("CREATE TABLE x (id int, v text)",), ("INSERT INTO x VALUES (1)", "UPDATE x SET v = 'a'"), ("ours",)
    )
    with Server(16, dbname=DBNAME, test_decoding=False) as server:
        server.checkpoint()
        told, start = told_by(server, (scenario,))
        pipeline = pipeline_of(server, start)
        _check_refusals(pipeline, told[0])


def _check_refusals(pipeline: Pipeline, told: Told) -> None:
    compile_filter = FilterCompiler(16, facts_of(pipeline.history, TextStyle()))
    relation = pipeline.history.relation_named("sc", "x", told.stop)
    assert relation is not None
    for actions, refused in ((PublicationActions(insert=True), False), (PublicationActions(insert=True, update=True), True)):
        ours = Publication("ours", actions=actions, tables=(PublishedTable(relation.oid),), defined_here=True)
        if refused:
            with pytest.raises(InsufficientLogging, match='cannot update table "x" because it does not have a replica') as caught:
                sent_by(pipeline, told, compile_filter, ((0, (ours,)),))
            assert caught.value.lsn is not None
        else:
            assert len(sent_by(pipeline, told, compile_filter, ((0, (ours,)),))) == 1
