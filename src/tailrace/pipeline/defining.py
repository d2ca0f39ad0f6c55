"""Publications that are defined here: a source opened at one moment, and statements carried out there.

In: a source, a database, an LSN or none, and the text of a statement. Out: what the publications are then, kept in a state location.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.errors import MissingHistory, TailraceError, UsageError
from tailrace.model import FIRST_NORMAL_OID, Lsn, Relation
from tailrace.pipeline import open_pipeline
from tailrace.pipeline.runner import Runner
from tailrace.plan.demand import OF_TABLES
from tailrace.publications.catalog_snapshot import CatalogSnapshot
from tailrace.publications.commands.definition_file import Definitions, DefinitionStage
from tailrace.publications.commands.publicationcmds import PublicationCommands
from tailrace.publications.commands.statements import Statement, WhereClause
from tailrace.publications.publication import SQL, Publication, RowFilter
from tailrace.publications.publishing.database_facts import facts_of
from tailrace.publications.publishing.filter_compiler import FilterCompiler, analysed
from tailrace.publications.publishing.relation_sync_entry import RelationSyncEntry, is_publishable, member_of, publish_as
from tailrace.publications.publishing.replica_identity import DELETE, UPDATE, replica_identity_error
from tailrace.publications.source_publications import SourcePublications
from tailrace.storage.publication_files import PublicationFiles
from tailrace.storage.source import Source
from tailrace.types.style import TextStyle


@dataclass(frozen=True, slots=True)
class SourceMoment:
    """A source's database at an LSN: which system and database that is, and its catalogs."""

    system: int
    database_oid: int
    database: str
    moment: CatalogSnapshot
    style: TextStyle

    @property
    def major(self) -> int:
        return self.moment.history.major

    @property
    def lsn(self) -> Lsn:
        return Lsn(self.moment.lsn)

    @property
    def of_source(self) -> list[Publication]:
        """The publications that the source has itself, by name."""
        return SourcePublications(self.moment.history).all_at(self.moment.lsn)

    @property
    def compiler(self) -> FilterCompiler:
        return FilterCompiler(self.major, facts_of(self.moment.history, self.style))

    def defined(self, files: PublicationFiles) -> Definitions:
        return files.read(self.system, self.database_oid, self.database)


def source_moment(
    source: Path, database: str, runner: Runner, *, catalog: CatalogState | None = None, at: Lsn | None = None,
    style: TextStyle = TextStyle(),  # noqa: B008 - immutable
) -> SourceMoment:  # fmt: skip
    """The database where its log ends, or `at` an LSN. Raises MissingHistory for one that the log at hand does not have."""
    opened = Source.open(source, catalog.needs_wal_from if catalog else None)
    demand = replace(OF_TABLES, search_path=style.schemas)
    pipeline = open_pipeline(opened, database, runner=runner, catalog=catalog, demand=demand)
    end = pipeline.log.end
    if at is not None and not pipeline.history.known_from <= at <= end:
        raise MissingHistory(
            f"LSN {at} is outside of the WAL at hand",
            hint=f"Catalogs are known from {Lsn(pipeline.history.known_from)} to {end}.",
            lsn=at,
        )
    moment = CatalogSnapshot(pipeline.history, int(end if at is None else at))
    return SourceMoment(opened.segments.system, pipeline.catalogs.state.database, database, moment, style)


@dataclass(frozen=True, slots=True)
class Done:
    """The command tag, what the server would say besides, and the publications as they are then."""

    tag: str
    notices: tuple[str, ...]
    definitions: Definitions


def define(files: PublicationFiles, here: SourceMoment, statement: Statement, text: str) -> Done:
    """Carry out a statement; what it makes holds for transactions that commit at that moment or later. Raises UsageError as the server does, and then
    nothing has changed."""
    tags: list[str] = []
    notices: list[str] = []

    def changed(definitions: Definitions) -> Definitions:
        defined = {publication.name: publication for publication in definitions.current}
        names = frozenset(publication.name for publication in here.of_source)
        defining = PublicationCommands(
            here.moment, here.major, defined, names, lambda where, table: _analysed(here, where, table)
        )
        tags.append(defining.run(statement))
        notices.extend(defining.notices)
        publications = tuple(defining.defined[name] for name in sorted(defining.defined))
        return definitions.then(DefinitionStage(here.lsn, text, publications))

    definitions = files.change(here.system, here.database_oid, here.database, changed)
    return Done(tags[0], tuple(notices), definitions)


def _analysed(here: SourceMoment, where: WhereClause, table: Relation) -> RowFilter:
    """A filter that the server would take, and that can be evaluated here, with the names that its columns have now. Positions of errors are those in
    the statement."""
    names = tuple((column.number, column.name) for column in table.live_columns)
    row_filter = RowFilter(where.text, SQL, names, here.moment.virtual_columns(table))
    try:
        analysed(row_filter, table, here.major, here.style)
    except UsageError as error:
        if error.position is not None:
            error.position += where.at
        raise
    here.compiler((row_filter,), table)
    return row_filter


def refused_changes(here: SourceMoment, publication: Publication) -> Iterator[TailraceError]:
    """The errors that UPDATEs and DELETEs of its tables would raise, a table and command at a time."""
    classes = here.moment.history.table("pg_class")
    rows = classes.rows.seen(np.arange(len(classes.rows)), here.moment.lsn, -1)
    source = SourcePublications(here.moment.history)
    for oid in sorted(classes["oid"][rows[classes["oid"][rows] >= FIRST_NORMAL_OID]].tolist()):
        ancestry = source.ancestry(oid, here.moment.lsn)
        if ancestry is None or ancestry.kind != "r":
            continue
        actions, target, counting = publish_as(ancestry, [publication])
        if not counting:
            continue
        relation = here.moment.relation(oid)
        if relation is None or not is_publishable(relation):
            continue
        above = here.moment.relation(target.oid) if target.level else None
        entry = RelationSyncEntry(actions, above, tuple(member_of(each, target) for each in counting))
        for command in (UPDATE, DELETE):
            error = replica_identity_error(entry, relation, command, here.major, here.compiler.columns_of, everywhere=True)
            if error is not None:
                yield error
