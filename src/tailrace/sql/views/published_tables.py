"""pg_publication_tables: which tables, columns and rows each publication has (`pg_get_publication_tables`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tailrace.majors import GENERATED_COLUMNS_ALWAYS_SHOWN, PUBLISHED_GENERATED_COLUMNS, ROW_FILTERS, supports
from tailrace.model import FIRST_NORMAL_OID, Relation
from tailrace.publications.database_snapshot import DatabaseSnapshot
from tailrace.publications.publication import STORED_GENERATED_COLUMNS, Publication
from tailrace.publications.publishing.filter_compiler import filter_text
from tailrace.publications.publishing.published_relation import STORED
from tailrace.publications.publishing.relation_sync_entry import RelationAncestry, is_publishable, topmost_level
from tailrace.publications.source_publications import SourcePublications


def published_tables(here: DatabaseSnapshot, publications: list[Publication]) -> Iterator[list[Any]]:
    """Its rows, by publication, schema and table."""
    tables = _publishable(here)
    for publication in publications:
        rows = []
        for relation, ancestry in tables:
            if _has(publication, ancestry):
                columns, where = _shown(here, publication, relation, ancestry)
                row = [publication.name, relation.schema, relation.name]
                rows.append([*row, columns, where] if supports(here.major, ROW_FILTERS) else row)
        yield from rows


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


def _shown(
    here: DatabaseSnapshot, publication: Publication, relation: Relation, ancestry: RelationAncestry
) -> tuple[list[str], str | None]:
    """The names of its columns, and its row filter as pg_get_expr prints it."""
    table = None if publication.all_tables else publication.table(ancestry.oid)
    if ancestry.schema in publication.schemas:
        table = None
    listed = table.columns if table else None
    generated = publication.generated_columns == STORED_GENERATED_COLUMNS
    names = [
        column.name
        for column in relation.live_columns
        if (column.number in listed if listed is not None else _is_shown(column.generated, here.major, generated=generated))
    ]
    where = filter_text(here.compiler, table.filter, relation) if table and table.filter else None
    return names, where


def _is_shown(kind: str, major: int, *, generated: bool) -> bool:
    """Whether a column is there that no list names."""
    if not kind or supports(major, GENERATED_COLUMNS_ALWAYS_SHOWN):
        return True
    return supports(major, PUBLISHED_GENERATED_COLUMNS) and generated and kind == STORED
