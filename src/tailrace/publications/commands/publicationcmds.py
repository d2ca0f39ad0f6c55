"""CREATE, ALTER and DROP PUBLICATION, of publications that stand in a state location (`commands/publicationcmds.c`).

In: a statement, the publications as they are, and a snapshot of the source's catalogs. Out: the publications as the statement
leaves them, and the command tag and notices that the server would send. Names become oids here, so that a table may be renamed
later; all checks and errors are the server's. Privileges are not checked: who runs tailrace may read the whole log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.model import Relation
from tailrace.publications.catalog_snapshot import CatalogSnapshot, check_publishable, column_numbers
from tailrace.publications.commands.publication_options import PublicationOptions, parse_options
from tailrace.publications.commands.statements import (
    ADD,
    DROP,
    SET,
    AlterObjects,
    AlterOptions,
    AlterOwner,
    CreatePublication,
    DropPublication,
    PublicationTable,
    RenamePublication,
    Statement,
    WhereClause,
)
from tailrace.publications.publication import ALL_ACTIONS, NO_GENERATED_COLUMNS, Publication, PublishedTable, RowFilter

Analyse = Callable[[WhereClause, Relation], RowFilter]
"""Makes a row filter of a table's WHERE clause, or raises the server's error."""


@dataclass(slots=True)
class PublicationCommands:
    """Carries out statements on the publications that are `defined`, by name. `of_source` names those that the source has itself,
    which cannot be altered here. `notices` collects the server's."""

    snapshot: CatalogSnapshot
    major: int
    defined: dict[str, Publication]
    of_source: frozenset[str]
    analyse: Analyse
    notices: list[str] = field(default_factory=list)

    def run(self, statement: Statement) -> str:
        """Carry out the statement; return its command tag. Raises UsageError as the server does, and then nothing has changed."""
        match statement:
            case CreatePublication():
                self._create(statement)
                return "CREATE PUBLICATION"
            case DropPublication():
                self._drop(statement)
                return "DROP PUBLICATION"
            case RenamePublication():
                self._check_free(statement.new)
                renamed = replace(self._publication(statement.name), name=statement.new)
                del self.defined[statement.name]
                self.defined[statement.new] = renamed
            case AlterOwner():
                owner = statement.owner or self.snapshot.superuser()
                publication = self._publication(statement.name)
                self.snapshot.check_role(owner)
                self.defined[statement.name] = replace(publication, owner=owner)
            case AlterOptions():
                self._alter_options(statement)
            case AlterObjects():
                self._alter_objects(statement)
        return "ALTER PUBLICATION"

    # -- statements --------------------------------------------------------------------------------------------------------------

    def _create(self, statement: CreatePublication) -> None:
        self._check_free(statement.name)
        given = parse_options(statement.options, self.major)
        publication = Publication(
            name=statement.name, owner=self.snapshot.superuser(), all_tables=statement.all_tables,
            actions=given.actions or ALL_ACTIONS, via_root=bool(given.via_root),
            generated_columns=given.generated_columns or NO_GENERATED_COLUMNS, defined_here=True,
        )  # fmt: skip
        schemas = self._schemas(statement.objects.schemas)
        relations = self._opened(statement.objects.tables)
        publication = self._with_tables(publication, relations, has_schemas=bool(schemas))
        self.defined[statement.name] = self._with_schemas(publication, schemas)

    def _drop(self, statement: DropPublication) -> None:
        for name in statement.names:
            if name not in self.defined and statement.if_exists:
                self.notices.append(f'publication "{name}" does not exist, skipping')
            else:
                self._publication(name)
        for name in statement.names:
            self.defined.pop(name, None)

    def _alter_options(self, statement: AlterOptions) -> None:
        publication = self._publication(statement.name)
        given = parse_options(statement.options, self.major)
        if given.via_root is False and not publication.all_tables:
            self._check_without_root(publication)
        self.defined[statement.name] = _with_options(publication, given)

    def _alter_objects(self, statement: AlterObjects) -> None:
        publication = self._publication(statement.name)
        tables, schemas = statement.objects.tables, self._schemas(statement.objects.schemas)
        for what, named in (("Schemas", schemas), ("Tables", tables)):
            if named and publication.all_tables:
                raise UsageError(
                    f'publication "{publication.name}" is defined as FOR ALL TABLES',
                    detail=f"{what} cannot be added to or dropped from FOR ALL TABLES publications.",
                    sqlstate="55000",
                )
        relations = self._opened(tables)
        if statement.action == DROP:
            altered = self._without(publication, relations, schemas)
        elif statement.action == ADD:
            altered = self._with_tables(publication, relations, has_schemas=bool(schemas or publication.schemas))
            if schemas and any(table.columns is not None for table in publication.tables):
                raise UsageError(
                    f'cannot add schema to publication "{publication.name}"',
                    detail="Schemas cannot be added if any tables that specify a column list are already part of the publication.",
                )
            altered = self._with_schemas(altered, schemas)
        else:
            assert statement.action == SET
            empty = replace(publication, tables=(), schemas=())
            altered = self._with_schemas(self._with_tables(empty, relations, has_schemas=bool(schemas)), schemas)
        self.defined[statement.name] = altered

    # -- their parts -------------------------------------------------------------------------------------------------------------

    def _publication(self, name: str) -> Publication:
        if name not in self.defined:
            hint = "It is the source's own, and can be altered there." if name in self.of_source else ""
            raise UsageError(f'publication "{name}" does not exist', sqlstate="42704", hint=hint)
        return self.defined[name]

    def _check_free(self, name: str) -> None:
        if name in self.defined or name in self.of_source:
            raise UsageError(f'publication "{name}" already exists', sqlstate="42710")

    def _schemas(self, names: Sequence[str | None]) -> list[int]:
        return list(dict.fromkeys(self.snapshot.schema(name) for name in names))

    def _opened(self, tables: Sequence[PublicationTable]) -> list[tuple[Relation, PublicationTable]]:
        """The tables, with those that inherit from them, each once (`OpenTableList`)."""
        found: dict[int, tuple[Relation, PublicationTable]] = {}
        for named in tables:
            relation = self.snapshot.table(named)
            if relation.oid in found:
                _check_not_twice(named, found[relation.oid][1], relation)
                continue
            found[relation.oid] = relation, named
            for child in self.snapshot.inheriting(relation) if named.inherits else ():
                if child.oid in found:
                    _check_not_twice(named, found[child.oid][1], child)
                else:
                    found[child.oid] = child, named
        return list(found.values())

    def _with_tables(
        self, publication: Publication, relations: Sequence[tuple[Relation, PublicationTable]], *, has_schemas: bool
    ) -> Publication:
        """The publication with these tables, too."""
        filters: dict[int, RowFilter] = {}
        for relation, named in relations:
            if named.where is not None:
                if not publication.via_root and relation.kind == "p":
                    raise UsageError(
                        f'cannot use publication WHERE clause for relation "{relation.name}"',
                        detail="WHERE clause cannot be used for a partitioned table when publish_via_partition_root is false.",
                    )
                filters[relation.oid] = self.analyse(named.where, relation)
        for relation, named in relations:
            if named.columns is not None and (has_schemas or (not publication.via_root and relation.kind == "p")):
                raise UsageError(
                    f'cannot use column list for relation "{relation}" in publication "{publication.name}"',
                    detail="Column lists cannot be specified in publications containing FOR TABLES IN SCHEMA elements."
                    if has_schemas
                    else "Column lists cannot be specified for partitioned tables when publish_via_partition_root is false.",
                )
        added: list[PublishedTable] = []
        for relation, named in relations:
            if publication.table(relation.oid) is not None:
                raise UsageError(
                    f'relation "{relation.name}" is already member of publication "{publication.name}"', sqlstate="42710"
                )
            check_publishable(relation)
            columns = None if named.columns is None else column_numbers(relation, named.columns, self.major)
            added.append(PublishedTable(relation.oid, columns, filters.get(relation.oid)))
        tables = sorted((*publication.tables, *added), key=lambda table: table.oid)
        return replace(publication, tables=tuple(tables))

    def _with_schemas(self, publication: Publication, schemas: Sequence[int]) -> Publication:
        for schema in schemas:
            if schema in publication.schemas:
                name = self.snapshot.schema_name(schema)
                raise UsageError(f'schema "{name}" is already member of publication "{publication.name}"', sqlstate="42710")
            self.snapshot.check_publishable_schema(schema)
        return replace(publication, schemas=tuple(sorted((*publication.schemas, *schemas))))

    def _without(
        self, publication: Publication, relations: Sequence[tuple[Relation, PublicationTable]], schemas: Sequence[int]
    ) -> Publication:
        for relation, named in relations:
            if named.columns is not None:
                raise UsageError("column list must not be specified in ALTER PUBLICATION ... DROP", sqlstate="42601")
            if publication.table(relation.oid) is None:
                raise UsageError(f'relation "{relation.name}" is not part of the publication', sqlstate="42704")
            if named.where is not None:
                raise UsageError("cannot use a WHERE clause when removing a table from a publication", sqlstate="42601")
        for schema in schemas:
            if schema not in publication.schemas:
                name = self.snapshot.schema_name(schema)
                raise UsageError(f'tables from schema "{name}" are not part of the publication', sqlstate="42704")
        gone = {relation.oid for relation, _ in relations}
        return replace(
            publication,
            tables=tuple(table for table in publication.tables if table.oid not in gone),
            schemas=tuple(schema for schema in publication.schemas if schema not in schemas),
        )

    def _check_without_root(self, publication: Publication) -> None:
        """Raise if a partitioned table has what only publish_via_partition_root allows."""
        for table in publication.tables:
            relation = self.snapshot.relation(table.oid)
            what = "a WHERE clause" if table.filter is not None else "a column list" if table.columns is not None else ""
            if what and relation is not None and relation.kind == "p":
                raise UsageError(
                    f'cannot set parameter "publish_via_partition_root" to false for publication "{publication.name}"',
                    detail=f'The publication contains {what} for partitioned table "{relation.name}", which is not allowed when '
                    '"publish_via_partition_root" is false.',
                )


def _check_not_twice(again: PublicationTable, before: PublicationTable, relation: Relation) -> None:
    """A table may be named twice if neither time says more of it."""
    for what, each in (("WHERE clauses", "where"), ("column lists", "columns")):
        if getattr(again, each) is not None or getattr(before, each) is not None:
            raise UsageError(f'conflicting or redundant {what} for table "{relation.name}"', sqlstate="42710")


def _with_options(publication: Publication, given: PublicationOptions) -> Publication:
    return replace(
        publication,
        actions=given.actions or publication.actions,
        via_root=publication.via_root if given.via_root is None else given.via_root,
        generated_columns=given.generated_columns or publication.generated_columns,
    )
