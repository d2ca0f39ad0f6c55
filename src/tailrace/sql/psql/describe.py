"""What \\d, \\dt and \\d TABLE of psql tell, as far as the log does: tables with their columns, keys and publications (`bin/psql/describe.c`).

In: a catalog snapshot. Out: columns of texts, a title, footers. Which defaults are printed says `sql.psql.column_defaults`. Constraints are
not in what decoding tracks, so there are no footers for them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.model import FIRST_NORMAL_OID, Relation
from tailrace.publications.catalog_snapshot import CatalogSnapshot
from tailrace.sql.psql.column_defaults import default_texts
from tailrace.sql.result import TextColumn
from tailrace.sql.views.catalog_objects import CatalogObjects
from tailrace.types.format_type import format_type_with_typemod
from tailrace.types.style import TextStyle

_KINDS = {
    "r": "table", "p": "partitioned table", "v": "view", "m": "materialized view", "S": "sequence", "f": "foreign table", "i": "index",
    "I": "partitioned index", "c": "composite type", "t": "TOAST table",
}  # fmt: skip
_TITLES = {"r": "Table", "p": "Partitioned table", "v": "View", "m": "Materialized view", "S": "Sequence", "f": "Foreign table"}
_SYSTEM = ("pg_catalog", "information_schema")


@dataclass(frozen=True, slots=True)
class TableContent:
    """What psql prints as one table (`printTableContent` in `fe_utils/print.h`)."""

    columns: list[TextColumn]
    title: str
    footers: list[str] | None = None


def listed(snapshot: CatalogSnapshot, kinds: str) -> TableContent:
    """\\d and \\dt: relations of these kinds that are on the search path."""
    history = snapshot.history
    classes, roles = history.table("pg_class"), history.table("pg_authid")
    rows = []
    for row in classes.rows.seen(np.arange(len(classes.rows)), snapshot.lsn, -1).tolist():
        kind, schema = chr(classes["relkind"][row]), snapshot.schema_name(int(classes["relnamespace"][row]))
        if (
            kind in kinds
            and int(classes["oid"][row]) >= FIRST_NORMAL_OID
            and schema in history.search_path
            and schema not in _SYSTEM
        ):
            owner = roles.seen_where("oid", int(classes["relowner"][row]), snapshot.lsn, -1)
            rows.append(
                (schema, classes.name("relname", row), _KINDS[kind], roles.name("rolname", int(owner[-1])) if len(owner) else "")
            )
    return TableContent(_texts(("Schema", "Name", "Type", "Owner"), sorted(rows)), "List of relations")


def described(
    snapshot: CatalogSnapshot, name: str, published_by: Sequence[str] = (), style: TextStyle | None = None
) -> TableContent:
    """\\d NAME. `style` knows the names behind oids. Raises UsageError (42P01) if there is none."""
    relation = _named(snapshot, name)
    defaults, collations = default_texts(snapshot, relation, style or TextStyle()), _collations(snapshot, relation)
    rows = [
        (
            column.name, format_type_with_typemod(column.type, column.typmod) if column.type else "", collations.get(column.number, ""),
            "not null" if column.not_null else "", defaults.get(column.number, ""),
        )
        for column in relation.live_columns
    ]  # fmt: skip
    footers = _indexes(snapshot, relation, style or TextStyle())
    if published_by:
        footers += ["Publications:", *(f"    {each}" for each in published_by)]
    title = f'{_TITLES.get(relation.kind, "Relation")} "{relation.schema}.{relation.name}"'
    return TableContent(_texts(("Column", "Type", "Collation", "Nullable", "Default"), rows), title, footers)


def _collations(snapshot: CatalogSnapshot, relation: Relation) -> dict[int, str]:
    """By attribute number, those that are not their types' own."""
    history = snapshot.history
    attributes, types, collations = (history.table(name) for name in ("pg_attribute", "pg_type", "pg_collation"))
    found = {}
    for row in attributes.seen_where("attrelid", relation.oid, snapshot.lsn, -1).tolist():
        oid = int(attributes["attcollation"][row])
        of_type = types.seen_where("oid", int(attributes["atttypid"][row]), snapshot.lsn, -1)
        if oid and len(of_type) and oid != int(types["typcollation"][of_type[-1]]):
            named = collations.seen_where("oid", oid, snapshot.lsn, -1)
            found[int(attributes["attnum"][row])] = collations.name("collname", int(named[-1])) if len(named) else ""
    return found


def relation_of(snapshot: CatalogSnapshot, name: str) -> Relation:
    """A table by its name, which may have its schema. Raises UsageError (42P01)."""
    return _named(snapshot, name)


def _named(snapshot: CatalogSnapshot, name: str) -> Relation:
    schema, _, bare = name.rpartition(".")
    for each in [schema] if schema else snapshot.search_path:
        found = snapshot.history.relation_named(_folded(each), _folded(bare), snapshot.lsn)
        if found is not None:
            return found
    raise UsageError(f'Did not find any relation named "{name}".', sqlstate="42P01")


def _folded(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def _indexes(snapshot: CatalogSnapshot, relation: Relation, style: TextStyle) -> list[str]:
    indexes, classes = snapshot.history.table("pg_index"), snapshot.history.table("pg_class")
    objects = CatalogObjects(snapshot, style)
    lines = []
    for row in indexes.seen_where("indrelid", relation.oid, snapshot.lsn, -1).tolist():
        oid, is_primary = int(indexes["indexrelid"][row]), bool(indexes["indisprimary"][row])
        name = classes.name("relname", int(classes.seen_where("oid", oid, snapshot.lsn, -1)[-1]))
        head, _, definition = (objects.index_definition(oid, 0, pretty=True) or "").partition(" USING ")
        kind = " PRIMARY KEY," if is_primary else " UNIQUE," if head.startswith("CREATE UNIQUE") else ""
        identity = " REPLICA IDENTITY" if indexes["indisreplident"][row] else ""
        lines.append((not is_primary, name, f'    "{name}"{kind} {definition}{identity}'))
    return ["Indexes:", *(line for _, _, line in sorted(lines))] if lines else []


def _texts(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[TextColumn]:
    return [TextColumn(head, [row[at] for row in rows]) for at, head in enumerate(heads)]
