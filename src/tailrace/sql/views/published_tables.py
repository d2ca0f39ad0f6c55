"""pg_publication_tables, and pg_get_publication_tables: which tables, columns and rows each publication has (`catalog/pg_publication.c`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tailrace.dataclass import dataclass
from tailrace.majors import GENERATED_COLUMNS_ALWAYS_SHOWN, PUBLISHED_GENERATED_COLUMNS, ROW_FILTERS, supports
from tailrace.model import FIRST_NORMAL_OID, Column, Relation
from tailrace.publications.database_snapshot import DatabaseSnapshot
from tailrace.publications.publication import STORED_GENERATED_COLUMNS, Publication, RowFilter
from tailrace.publications.publishing.filter_compiler import filter_text
from tailrace.publications.publishing.published_relation import STORED
from tailrace.publications.publishing.relation_sync_entry import RelationAncestry, is_publishable, topmost_level
from tailrace.publications.source_publications import SourcePublications
from tailrace.sql.views.view_columns import function_columns


@dataclass(frozen=True, slots=True)
class PublicationTableRow:
    """A table that a publication has, as `publish_via_partition_root` has it listed. `listed`: the columns are those of a column list."""

    publication: Publication
    relation: Relation
    ancestors: tuple[int, ...]
    columns: list[Column]
    listed: bool
    filter: RowFilter | None


def published_tables(here: DatabaseSnapshot, publications: Sequence[Publication]) -> Iterator[list[Any]]:
    """The rows of pg_publication_tables, by publication, schema and table."""
    for row in _rows(here, publications):
        relation = row.relation
        shown: list[Any] = [row.publication.name, relation.schema, relation.name]
        if supports(here.major, ROW_FILTERS):
            where = filter_text(here.compiler, row.filter, relation) if row.filter else None
            shown += [[column.name for column in row.columns], where]
        yield shown


def tables_of(
    here: DatabaseSnapshot, publications: Sequence[Publication], oids: dict[str, int]
) -> list[dict[str, Any]]:  # fmt: skip
    """The rows of pg_get_publication_tables. Where one publishes partitions as their root, they are listed with no other, either."""
    rows = list(_rows(here, publications))
    if any(publication.via_root for publication in publications):
        listed = {row.relation.oid for row in rows}
        rows = [row for row in rows if not listed.intersection(row.ancestors)]
    found = []
    for row in rows:
        has_attributes = row.listed or not supports(here.major, GENERATED_COLUMNS_ALWAYS_SHOWN)
        values = {
            "pubid": oids.get(row.publication.name),
            "relid": row.relation.oid,
            "attrs": " ".join(str(column.number) for column in row.columns) if has_attributes else None,
            "qual": here.compiler.stored(row.filter, row.relation).text if row.filter else None,
        }
        found.append({name: values[name] for name, _ in function_columns(here.major)["pg_get_publication_tables"]})
    return found


def _rows(here: DatabaseSnapshot, publications: Sequence[Publication]) -> Iterator[PublicationTableRow]:
    tables = _publishable(here)
    for publication in publications:
        for relation, ancestry in tables:
            if _has(publication, ancestry):
                yield _row(here, publication, relation, ancestry)


def _publishable(here: DatabaseSnapshot) -> list[tuple[Relation, RelationAncestry]]:
    classes = here.catalogs.history.table("pg_class")
    rows = classes.rows.seen(np.arange(len(classes.rows)), here.catalogs.lsn, -1)
    source = SourcePublications(here.catalogs.history)
    found = []
    for oid in sorted(classes["oid"][rows[classes["oid"][rows] >= FIRST_NORMAL_OID]].tolist()):
        ancestry = source.ancestry(oid, here.catalogs.lsn)
        if ancestry is None or ancestry.kind not in "rp":
            continue
        relation = here.catalogs.relation(oid)
        if relation is not None and is_publishable(relation):
            found.append((relation, ancestry))
    return found


def _has(publication: Publication, ancestry: RelationAncestry) -> bool:
    """Whether the relation is listed: of a partition tree its leaves, or with publish_via_partition_root its topmost member."""
    itself = publication.all_tables or publication.table(ancestry.oid) is not None or ancestry.schema in publication.schemas
    above = topmost_level(publication, ancestry.ancestors) if not publication.all_tables else len(ancestry.ancestors)
    if publication.via_root:
        return itself and not above
    return ancestry.kind != "p" and (itself or above > 0)


def _row(
    here: DatabaseSnapshot, publication: Publication, relation: Relation, ancestry: RelationAncestry
) -> PublicationTableRow:  # fmt: skip
    table = None if publication.all_tables else publication.table(ancestry.oid)
    if ancestry.schema in publication.schemas:
        table = None
    listed = table.columns if table else None
    generated = publication.generated_columns == STORED_GENERATED_COLUMNS
    columns = [
        column
        for column in relation.live_columns
        if (column.number in listed if listed is not None else _is_shown(column.generated, here.major, generated=generated))
    ]
    above = tuple(oid for oid, _ in ancestry.ancestors)
    return PublicationTableRow(publication, relation, above, columns, listed is not None, table.filter if table else None)


def _is_shown(kind: str, major: int, *, generated: bool) -> bool:
    """Whether a column is there that no list names."""
    if not kind or supports(major, GENERATED_COLUMNS_ALWAYS_SHOWN):
        return True
    return supports(major, PUBLISHED_GENERATED_COLUMNS) and generated and kind == STORED
