"""The tables of a database that a lake has rows of, as they are at an LSN: what is copied of each at first, and what it is compared with later.

In: catalogs, and publications, if not all tables are wanted. Out: `CopiedRelation`s, as a subscriber copies what is published.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tailrace.catalog.history.history import History
from tailrace.dataclass import dataclass
from tailrace.feed import FeedSpan
from tailrace.model import Lsn, Relation
from tailrace.past.tables_at_end import tables_there
from tailrace.publications.catalog_snapshot import CatalogSnapshot
from tailrace.publications.database_snapshot import DatabaseSnapshot
from tailrace.publications.publishing.entry_timeline import Definitions
from tailrace.publications.subscription import only_columns, stored_columns
from tailrace.publications.table_to_copy import tables_published


@dataclass(frozen=True, slots=True)
class CopiedRelation:
    """A table; the same with the columns that are wanted; and the condition that its rows meet, None where all are wanted."""

    relation: Relation
    shown: Relation
    where: str | None


def relations_to_copy(
    history: History, at: Lsn, span: FeedSpan, database: str, publications: Sequence[str], definitions: Definitions
) -> Iterator[CopiedRelation]:
    """Of the database of this name, which the span is of: what `publications` publish there, all tables if there are none. Raises UsageError for
    publications that contradict each other or, before 18, do not exist."""
    if not publications:
        yield from (CopiedRelation(relation, stored_columns(relation), None) for relation in tables_there(history, at))
        return
    here = DatabaseSnapshot(span.system, span.database, database, CatalogSnapshot(history, int(at)))
    for table in tables_published(here, publications, definitions):
        relation = history.relation_named(table.schema, table.name, int(at))
        assert relation is not None, "it is published"
        wanted = {column.number for column in relation.live_columns if column.name in table.columns}
        yield CopiedRelation(relation, only_columns(relation, wanted), table.copied)
