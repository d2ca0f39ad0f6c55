"""A statement about publications that are defined here, carried out under a snapshot of its source (`commands/publicationcmds.c`)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError, UsageError
from tailrace.model import FIRST_NORMAL_OID, Relation
from tailrace.publications.commands.definition_file import Definitions, DefinitionStage
from tailrace.publications.commands.publicationcmds import PublicationCommands
from tailrace.publications.commands.statements import Statement, WhereClause
from tailrace.publications.database_snapshot import DatabaseSnapshot
from tailrace.publications.publication import SQL, Publication, RowFilter
from tailrace.publications.publishing.filter_compiler import analysed
from tailrace.publications.publishing.relation_sync_entry import RelationSyncEntry, is_publishable, member_of, publish_as
from tailrace.publications.publishing.replica_identity import DELETE, UPDATE, replica_identity_error
from tailrace.publications.source_publications import SourcePublications
from tailrace.types.style import TextStyle


@dataclass(frozen=True, slots=True)
class CarriedOutCommand:
    """The command tag, what the server would say besides, and the publications as they are then."""

    tag: str
    notices: tuple[str, ...]
    definitions: Definitions


def carry_out(definitions: Definitions, here: DatabaseSnapshot, statement: Statement, text: str) -> CarriedOutCommand:
    """What the statement makes holds for transactions that commit at the snapshot's LSN or later. Raises UsageError as the server does."""
    defined = {publication.name: publication for publication in definitions.current}
    names = frozenset(publication.name for publication in here.of_source)
    commands = PublicationCommands(here.catalogs, here.major, defined, names, lambda where, table: _analysed(here, where, table))
    tag = commands.run(statement)
    publications = tuple(commands.defined[name] for name in sorted(commands.defined))
    return CarriedOutCommand(tag, tuple(commands.notices), definitions.then(DefinitionStage(here.lsn, text, publications)))


def _analysed(here: DatabaseSnapshot, where: WhereClause, table: Relation) -> RowFilter:
    """A filter that the server would take, and that can be evaluated here, with the names that its columns have now. Positions
    of errors are those in the statement."""
    names = tuple((column.number, column.name) for column in table.live_columns)
    row_filter = RowFilter(where.text, SQL, names, here.catalogs.virtual_columns(table))
    try:
        analysed(row_filter, table, here.major, TextStyle())
    except UsageError as error:
        if error.position is not None:
            error.position += where.at
        raise
    here.compiler((row_filter,), table)
    return row_filter


def refused_changes(here: DatabaseSnapshot, publication: Publication) -> Iterator[TailraceError]:
    """The errors that UPDATEs and DELETEs of its tables would raise, a table and command at a time."""
    classes = here.catalogs.history.table("pg_class")
    rows = classes.rows.seen(np.arange(len(classes.rows)), here.catalogs.lsn, -1)
    source = SourcePublications(here.catalogs.history)
    for oid in sorted(classes["oid"][rows[classes["oid"][rows] >= FIRST_NORMAL_OID]].tolist()):
        ancestry = source.ancestry(oid, here.catalogs.lsn)
        if ancestry is None or ancestry.kind != "r":
            continue
        actions, target, counting = publish_as(ancestry, [publication])
        if not counting:
            continue
        relation = here.catalogs.relation(oid)
        if relation is None or not is_publishable(relation):
            continue
        above = here.catalogs.relation(target.oid) if target.level else None
        entry = RelationSyncEntry(actions, above, tuple(member_of(each, target) for each in counting))
        for command in (UPDATE, DELETE):
            error = replica_identity_error(entry, relation, command, here.major, here.compiler.columns_of, everywhere=True)
            if error is not None:
                yield error
