"""A snapshot of the source's catalogs: which relations, schemas and roles names mean in it, and which of them a publication may
have (`catalog/namespace.c`, `catalog/pg_publication.c`).

In: a history, an LSN, and names. Out: relations, and oids of schemas and roles. Raises the server's errors for names that mean
nothing, and for tables, columns and schemas that no publication may have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tailrace.catalog.history.history import History
from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.majors import PUBLISHED_GENERATED_COLUMNS, UNOPENED_RELATIONS_EXPLAINED, supports
from tailrace.model import FIRST_UNPINNED_OID, Relation
from tailrace.publications.publishing.published_relation import VIRTUAL

if TYPE_CHECKING:
    from tailrace.publications.commands.statements import PublicationTable

_KINDS = {
    "v": "views", "S": "sequences", "i": "indexes", "t": "TOAST tables", "m": "materialized views", "c": "composite types",
    "f": "foreign tables", "I": "partitioned indexes",
}  # fmt: skip
"""`errdetail_relkind_not_supported`."""
_NOT_OPENED = {"i": "an index", "I": "an index", "c": "a composite type"}
_SYSTEM_COLUMNS = frozenset({"ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"})
_PG_CATALOG, _PG_TOAST = 11, 99
"""Oids of schemas (`catalog/pg_namespace.dat`)."""
_BOOTSTRAP_SUPERUSER = 10
"""An oid of pg_authid."""


@dataclass(frozen=True, slots=True)
class CatalogSnapshot:
    """The catalogs as a transaction that begins at `lsn` sees them."""

    history: History
    lsn: int

    @property
    def search_path(self) -> tuple[str, ...]:
        return self.history.search_path

    # -- relations ---------------------------------------------------------------------------------------------------------------

    def table(self, named: PublicationTable) -> Relation:
        """Raises UsageError if there is none (42P01), or not even its schema (3F000)."""
        if named.schema:
            self.schema(named.schema)
        for schema in [named.schema] if named.schema else self.search_path:
            found = self.history.relation_named(schema, named.name, self.lsn)
            if found is not None:
                _check_opens(found, self.history.major)
                return found
        raise UsageError(f'relation "{named}" does not exist', sqlstate="42P01")

    def virtual_columns(self, table: Relation) -> tuple[tuple[int, str], ...]:
        """Its virtual generated columns, by number, and their expressions, as pg_attrdef has them; without those that a state of
        before has not."""
        virtual = {column.number for column in table.live_columns if column.generated == VIRTUAL}
        if not virtual:
            return ()
        from tailrace.catalog.history.defaults import expressions_of  # noqa: PLC0415 - expressions take long to load

        found = expressions_of(self.history, table.oid, self.lsn, -1)
        return tuple(sorted((number, text) for number, text in found.items() if number in virtual and text))

    def relation(self, oid: int) -> Relation | None:
        return self.history.relation_by_oid(oid, self.lsn)

    def inheriting(self, relation: Relation) -> Iterator[Relation]:
        """The tables that inherit from it, however far down (`find_all_inheritors`); partitions are their partitioned table's."""
        if relation.kind == "p":
            return
        inherits = self.history.table("pg_inherits")
        rows = inherits.seen_where("inhparent", relation.oid, self.lsn, -1)
        for oid in sorted(inherits["inhrelid"][rows].tolist()):
            child = self.relation(oid)
            if child is not None:
                yield child
                yield from self.inheriting(child)

    # -- schemas and roles -------------------------------------------------------------------------------------------------------

    def schema(self, name: str | None) -> int:
        """A schema's oid; of None, the current one's. Raises UsageError (3F000) if there is none, (22023) if it is the
        system's."""
        oid = self._current_schema() if name is None else self._schema(name)
        if oid is None:
            what = "no schema has been selected for CURRENT_SCHEMA" if name is None else f'schema "{name}" does not exist'
            raise UsageError(what, sqlstate="3F000")
        return oid

    def check_publishable_schema(self, oid: int) -> None:
        name = self.schema_name(oid)
        if oid in (_PG_CATALOG, _PG_TOAST):
            raise UsageError(f'cannot add schema "{name}" to publication', detail=_unsupported("system schemas"))
        if name.startswith(("pg_temp_", "pg_toast_temp_")):
            raise UsageError(f'cannot add schema "{name}" to publication', detail="Temporary schemas cannot be replicated.")

    def schema_name(self, oid: int) -> str:
        """Empty if it is not there."""
        namespaces = self.history.table("pg_namespace")
        rows = namespaces.seen_where("oid", oid, self.lsn, -1)
        return namespaces.name("nspname", int(rows[-1])) if len(rows) else ""

    def _schema(self, name: str) -> int | None:
        namespaces = self.history.table("pg_namespace")
        rows = namespaces.seen_where("nspname", name, self.lsn, -1)
        return int(namespaces["oid"][rows[-1]]) if len(rows) else None

    def _current_schema(self) -> int | None:
        return next((oid for name in self.search_path if name != "pg_catalog" and (oid := self._schema(name)) is not None), None)

    def superuser(self) -> str:
        """The name of the bootstrap superuser."""
        roles = self.history.table("pg_authid")
        rows = roles.seen_where("oid", _BOOTSTRAP_SUPERUSER, self.lsn, -1)
        return roles.name("rolname", int(rows[-1])) if len(rows) else "postgres"

    def check_role(self, name: str) -> None:
        roles = self.history.table("pg_authid")
        rows = roles.rows.seen(np.arange(len(roles.rows)), self.lsn, -1)
        if name not in roles.of("rolname", rows).tolist():
            raise UsageError(f'role "{name}" does not exist', sqlstate="42704")


def _check_opens(relation: Relation, major: int) -> None:
    """Raise UsageError (42809) for what is no table of any kind (`table_openrv`)."""
    if relation.kind not in _NOT_OPENED:
        return
    if supports(major, UNOPENED_RELATIONS_EXPLAINED):
        raise UsageError(f'cannot open relation "{relation.name}"', detail=_unsupported(_KINDS[relation.kind]), sqlstate="42809")
    raise UsageError(f'"{relation.name}" is {_NOT_OPENED[relation.kind]}', sqlstate="42809")


def check_publishable(relation: Relation) -> None:
    """Raise UsageError (22023) for what no publication may have (`check_publication_add_relation`)."""
    if relation.kind not in "rp":
        what = _KINDS[relation.kind]
    elif relation.oid < FIRST_UNPINNED_OID:
        what = "system tables"
    else:
        what = {"t": "temporary tables", "u": "unlogged tables"}.get(relation.persistence, "")
    if what:
        raise UsageError(f'cannot add relation "{relation.name}" to publication', detail=_unsupported(what))


def column_numbers(relation: Relation, names: tuple[str, ...], major: int) -> tuple[int, ...]:
    """A column list as ascending attribute numbers. Raises UsageError for columns that no list may have
    (`pub_collist_validate`)."""
    known = {column.name: column for column in relation.live_columns}
    numbers: list[int] = []
    for name in names:
        if name in _SYSTEM_COLUMNS and name not in known:
            raise UsageError(f'cannot use system column "{name}" in publication column list', sqlstate="42P10")
        column = known.get(name)
        if column is None:
            raise UsageError(f'column "{name}" of relation "{relation.name}" does not exist', sqlstate="42703")
        if column.generated and not supports(major, PUBLISHED_GENERATED_COLUMNS):
            raise UsageError(f'cannot use generated column "{name}" in publication column list', sqlstate="42P10")
        if column.generated == VIRTUAL:
            raise UsageError(f'cannot use virtual generated column "{name}" in publication column list', sqlstate="42P10")
        if column.number in numbers:
            raise UsageError(f'duplicate column "{name}" in publication column list', sqlstate="42710")
        numbers.append(column.number)
    return tuple(sorted(numbers))


def _unsupported(what: str) -> str:
    return f"This operation is not supported for {what}."
