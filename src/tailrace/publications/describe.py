"""Publications as psql describes them: `\\dRp`, `\\dRp+`, and under a table in `\\d` (`bin/psql/describe.c`).

In: publications, and a snapshot of the catalogs, from which tables, columns and schemas have their names. Out: lines, or values
for JSON, with the columns that a psql of the source's major has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.majors import PUBLISHED_GENERATED_COLUMNS, supports
from tailrace.model import Relation
from tailrace.publications.catalog_snapshot import CatalogSnapshot
from tailrace.publications.publication import STORED_GENERATED_COLUMNS, Publication, PublishedTable, RowFilter
from tailrace.publications.publishing.relation_sync_entry import is_publishable

FilterText = Callable[[RowFilter, Relation], str]
"""A WHERE clause as pg_get_expr prints it, in its parentheses."""


@dataclass(frozen=True, slots=True)
class PublicationDescriber:
    """Describes publications with the names of the snapshot."""

    snapshot: CatalogSnapshot
    major: int
    filter_text: FilterText

    def described(self, publication: Publication) -> list[str]:
        """What `\\dRp+` prints of one, with the empty line behind it."""
        heads, cells = zip(*self._facts(publication).items(), strict=True)
        lines = [*_aligned(f"Publication {publication.name}", heads, [cells])]
        if publication.tables:
            lines += ["Tables:", *(f"    {self._table_line(table)}" for table in self._in_order(publication))]
        if publication.schemas:
            names = sorted(self.snapshot.schema_name(schema) for schema in publication.schemas)
            lines += ["Tables from schemas:", *(f'    "{name}"' for name in names)]
        if not publication.tables and not publication.schemas:
            lines.append(_count(1))
        return [*lines, ""]

    def listed(self, publications: Sequence[Publication]) -> list[str]:
        """What `\\dRp` prints of all."""
        rows = [(each.name, *self._facts(each).values()) for each in sorted(publications, key=lambda each: each.name)]
        heads = ("Name", *self._facts(Publication("")))
        return [*_aligned("List of publications", heads, rows), _count(len(rows)), ""]

    def of_table(self, publications: Sequence[Publication], relation: Relation) -> list[str]:
        """What `\\d` prints under a table: a line for each that names it or its schema, or has all tables; not for those of a
        partition's root."""
        lines = []
        for each in sorted(publications, key=lambda each: each.name):
            named = [table for table in each.tables if table.oid == relation.oid]
            lines += [f'"{each.name}"{self._what_of(relation, table)}' for table in named]
            in_schema = relation.schema in map(self.snapshot.schema_name, each.schemas)
            if (each.all_tables or in_schema) and is_publishable(relation):
                lines.append(f'"{each.name}"')
        return list(dict.fromkeys(lines))

    def value(self, publication: Publication) -> dict[str, Any]:
        """The same for programs; `defined_here` tells whether it is of the state location, or the source's own."""
        return {
            "name": publication.name, "owner": publication.owner, "all_tables": publication.all_tables,
            "insert": publication.actions.insert, "update": publication.actions.update, "delete": publication.actions.delete,
            "truncate": publication.actions.truncate, "publish_via_partition_root": publication.via_root,
            **({"publish_generated_columns": _generated(publication)} if supports(self.major, PUBLISHED_GENERATED_COLUMNS) else {}),
            "tables": [self._table_value(table) for table in self._in_order(publication)],
            "schemas": sorted(self.snapshot.schema_name(schema) for schema in publication.schemas),
            "defined_here": publication.defined_here,
        }  # fmt: skip

    def _facts(self, publication: Publication) -> dict[str, str]:
        actions = publication.actions
        facts = {
            "Owner": publication.owner, "All tables": _letter(publication.all_tables), "Inserts": _letter(actions.insert),
            "Updates": _letter(actions.update), "Deletes": _letter(actions.delete), "Truncates": _letter(actions.truncate),
        }  # fmt: skip
        if supports(self.major, PUBLISHED_GENERATED_COLUMNS):
            facts["Generated columns"] = _generated(publication)
        return facts | {"Via root": _letter(publication.via_root)}

    def _in_order(self, publication: Publication) -> list[tuple[Relation, PublishedTable]]:
        """Its tables that are there, by schema and name."""
        found = [(relation, table) for table in publication.tables if (relation := self.snapshot.relation(table.oid)) is not None]
        return sorted(found, key=lambda pair: (pair[0].schema, pair[0].name))

    def _table_line(self, pair: tuple[Relation, PublishedTable]) -> str:
        relation, table = pair
        return f'"{relation}"{self._what_of(relation, table)}'

    def _what_of(self, relation: Relation, table: PublishedTable) -> str:
        columns = "" if table.columns is None else f" ({', '.join(_names(relation, table.columns))})"
        where = "" if table.filter is None else f" WHERE {self.filter_text(table.filter, relation)}"
        return f"{columns}{where}"

    def _table_value(self, pair: tuple[Relation, PublishedTable]) -> dict[str, Any]:
        relation, table = pair
        return {
            "schema": relation.schema,
            "table": relation.name,
            "columns": None if table.columns is None else _names(relation, table.columns),
            "where": None if table.filter is None else self.filter_text(table.filter, relation),
        }


def _names(relation: Relation, numbers: Sequence[int]) -> list[str]:
    names = {column.number: column.name for column in relation.live_columns}
    return [names[number] for number in numbers if number in names]


def _count(rows: int) -> str:
    return f"({rows} row{'' if rows == 1 else 's'})"


def _letter(flag: bool) -> str:
    return "t" if flag else "f"


def _generated(publication: Publication) -> str:
    return "stored" if publication.generated_columns == STORED_GENERATED_COLUMNS else "none"


def _aligned(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in psql's format `aligned`, without what it says at the end."""
    widths = [max(len(head), *(len(row[i]) for row in rows)) if rows else len(head) for i, head in enumerate(heads)]
    total = sum(widths) + 3 * len(widths) - 1
    header = "|".join(f" {_centred(head, width)} " for head, width in zip(heads, widths, strict=True))
    body = ["|".join(f" {cell.ljust(width)} " for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    rule = "+".join("-" * (width + 2) for width in widths)
    return [" " * ((total - len(title)) // 2) + title, header, rule, *body]


def _centred(text: str, width: int) -> str:
    left = (width - len(text)) // 2
    return " " * left + text + " " * (width - len(text) - left)
