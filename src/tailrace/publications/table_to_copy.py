"""What to copy of a database at first, before its changes are followed: the tables that publications publish, and which rows and
columns of them, as SQL for a server to carry out (`copy_table` in `replication/logical/tablesync.c`).

In: a snapshot of a source's database, and names of publications. Out: `TableToCopy`s. The filter of a copy is that of a subscriber's:
whatever the actions, a row needs to pass the filter of one of the publications.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tailrace.dataclass import dataclass
from tailrace.model import FIRST_NORMAL_OID, Relation
from tailrace.publications.database_snapshot import DatabaseSnapshot
from tailrace.publications.publication import Publication
from tailrace.publications.publishing.entry_timeline import Definitions, SyncEntryBuilder
from tailrace.publications.publishing.published_relation import (
    Filters,
    check_publications_exist,
    published_relation,
    warn_of_missing,
)
from tailrace.publications.publishing.relation_sync_entry import is_publishable
from tailrace.publications.source_publications import SourcePublications
from tailrace.types.quoting import quote_identifier


@dataclass(frozen=True, slots=True)
class TableToCopy:
    """A table as which changes are published, and its columns that are. `where` has the WHERE clause of each action that is
    published (insert, update, delete), as pg_get_expr prints it, or None where all rows are; `copied` is that of a copy."""

    schema: str
    name: str
    kind: str
    columns: tuple[str, ...]
    where: Mapping[str, str | None]
    copied: str | None

    @property
    def query(self) -> str:
        """The SELECT that a subscriber copies with."""
        # Tables that inherit from it are copied by themselves; partitions are not, if it is published as itself.
        only = "ONLY " if self.kind == "r" else ""
        columns = ", ".join(map(quote_identifier, self.columns))
        where = f" WHERE {self.copied}" if self.copied else ""
        return f"SELECT {columns} FROM {only}{quote_identifier(self.schema)}.{quote_identifier(self.name)}{where}"


def tables_published(here: DatabaseSnapshot, names: Sequence[str], definitions: Definitions) -> Iterator[TableToCopy]:
    """Those that these publications publish there. Raises UsageError for publications that contradict each other or, before
    18, do not exist; 18 warns of these."""
    history, lsn = here.catalogs.history, here.catalogs.lsn
    entries = SyncEntryBuilder(SourcePublications(history), names, _defined(here, definitions), {})
    missing: set[str] = set()
    classes = history.table("pg_class")
    rows = classes.rows.seen(np.arange(len(classes.rows)), lsn, -1)
    for oid in sorted(set(classes["oid"][rows[classes["oid"][rows] >= FIRST_NORMAL_OID]].tolist())):
        if (found := _published(here, entries, oid, missing)) is not None:
            yield found
    warn_of_missing(missing)


def table_published(here: DatabaseSnapshot, names: Sequence[str], definitions: Definitions, oid: int) -> TableToCopy | None:
    """One table, if those of these publications that there are publish it as itself. Raises UsageError for publications that contradict each
    other."""
    source, defined = SourcePublications(here.catalogs.history), _defined(here, definitions)
    here_too = {each.name for each in defined}
    known = [name for name in names if name in here_too or source.named(name, here.catalogs.lsn) is not None]
    return _published(here, SyncEntryBuilder(source, known, defined, {}), oid, set()) if known else None


def _defined(here: DatabaseSnapshot, definitions: Definitions) -> Sequence[Publication]:
    """What holds for transactions that commit from there on."""
    return next((each for since, each in reversed(definitions) if since <= here.catalogs.lsn), ())


def _published(here: DatabaseSnapshot, entries: SyncEntryBuilder, oid: int, missing: set[str]) -> TableToCopy | None:
    relation = here.catalogs.relation(oid)
    if relation is None or not is_publishable(relation):
        return None
    entry = entries.entry(oid, here.catalogs.lsn, -1)
    check_publications_exist(entry, here.major)
    missing |= set(entry.missing)
    if entry.published_as is not None or not entry.actions.rows:
        return None
    what = published_relation(entry, relation, here.major)
    by_action = {"insert": what.insert, "update": what.update, "delete": what.delete}
    where = {name: _text(here, found, relation) for name, found in by_action.items() if getattr(what.actions, name)}
    columns = tuple(column.name for column in what.columns)
    return TableToCopy(relation.schema, relation.name, relation.kind, columns, where, _text(here, what.copy, relation))


def _text(here: DatabaseSnapshot, filters: Filters, relation: Relation) -> str | None:
    if filters is None:
        return None
    from tailrace.publications.publishing.filter_compiler import filter_text  # noqa: PLC0415 - expressions take long to load

    return " OR ".join(filter_text(here.compiler, each, relation) for each in filters)
