"""A snapshot of a source's database, opened: what publications publish there, and statements that define some, kept in a state location."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.errors import MissingHistory
from tailrace.model import Lsn
from tailrace.pipeline.arguments import GivenLsn, GivenState, lsn_of, state_of
from tailrace.pipeline.open_log import open_pipeline
from tailrace.pipeline.runner import LocalRunner, Runner
from tailrace.publications.catalog_snapshot import CatalogSnapshot
from tailrace.publications.commands.carry_out import CarriedOutCommand, carry_out
from tailrace.publications.commands.definition_file import Definitions
from tailrace.publications.commands.statements import Statement
from tailrace.publications.database_snapshot import DatabaseSnapshot
from tailrace.publications.subscription import publication_names
from tailrace.publications.table_to_copy import TableToCopy, tables_published
from tailrace.sources.source import Source
from tailrace.storage.publication_files import PublicationFiles
from tailrace.storage.state_location import definitions_in


def open_snapshot(
    source: str | Path | Source, database: str, runner: Runner, *, catalog: CatalogState | None = None, at: Lsn | None = None
) -> DatabaseSnapshot:
    """The database where its log ends, or `at` an LSN. Raises MissingHistory for one that the log at hand does not have."""
    pipeline = open_pipeline(source, database, runner=runner, catalog=catalog)
    end = pipeline.log.end
    if at is not None and not pipeline.history.known_from <= at <= end:
        raise MissingHistory(
            f"LSN {at} is outside of the WAL at hand",
            hint=f"Catalogs are known from {Lsn(pipeline.history.known_from)} to {end}.",
            lsn=at,
        )
    catalogs = CatalogSnapshot(pipeline.history, int(end if at is None else at))
    return DatabaseSnapshot(pipeline.source.segments.system, pipeline.catalogs.state.database, database, catalogs)


def define(files: PublicationFiles, here: DatabaseSnapshot, statement: Statement, text: str) -> CarriedOutCommand:
    """Carry out a statement. If that raises, nothing has changed."""
    done: list[CarriedOutCommand] = []

    def changed(definitions: Definitions) -> Definitions:
        done.append(carry_out(definitions, here, statement, text))
        return done[0].definitions

    files.change(here.system, here.database_oid, here.database, changed)
    return done[0]


def tables_to_copy(
    source: str | Path, database: str, publication: str | Sequence[str], *, state: str | Path | None = None, at: GivenLsn = None,
    catalog: GivenState = None, runner: Runner | None = None,
) -> list[TableToCopy]:  # fmt: skip
    """The tables that these publications publish where the log ends, or `at` an LSN, in the order of their names.
    `publication` and `state` are as in `LogFeed.publishing`. Raises UsageError for publications that contradict each other or,
    before 18, do not exist; 18 warns of these."""
    here = open_snapshot(source, database, runner or LocalRunner(), catalog=state_of(catalog), at=lsn_of(at))
    definitions = definitions_in(state, here.system, here.database_oid) if state else ()
    tables = tables_published(here, publication_names(publication), definitions)
    return sorted(tables, key=lambda table: (table.schema, table.name))
