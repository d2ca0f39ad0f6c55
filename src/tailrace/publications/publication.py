"""A publication: which tables, which of their changes, and which columns and rows (`catalog/pg_publication.h`,
pg_publication_rel.h).

In: nothing. Out: the nouns of this folder. Tables and schemas are known by their oids, columns by attribute numbers, as
PostgreSQL knows them: a table that is renamed remains published."""

from __future__ import annotations

from dataclasses import dataclass

NODE_TREE = "node tree"
SQL = "SQL"

NO_GENERATED_COLUMNS = "n"
STORED_GENERATED_COLUMNS = "s"
"""pg_publication.pubgencols, since 18."""


@dataclass(frozen=True, slots=True)
class PublicationActions:
    """The changes that are published (`PublicationActions`)."""

    insert: bool = False
    update: bool = False
    delete: bool = False
    truncate: bool = False

    def __or__(self, other: PublicationActions) -> PublicationActions:
        return PublicationActions(
            self.insert or other.insert, self.update or other.update, self.delete or other.delete, self.truncate or other.truncate
        )

    @property
    def rows(self) -> bool:
        """Whether any change of a row is published."""
        return self.insert or self.update or self.delete


NO_ACTIONS = PublicationActions()
ALL_ACTIONS = PublicationActions(insert=True, update=True, delete=True, truncate=True)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A WHERE clause. `text` is an expression in the `form` of the catalog (pg_node_tree), whose columns are attribute numbers,
    or in SQL. `names` are, for SQL, the table's columns by the number and the name that they had when it was written, and
    `generated` the expressions of its virtual generated columns, which stand for those columns."""

    text: str
    form: str = NODE_TREE
    names: tuple[tuple[int, str], ...] = ()
    generated: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of a publication: the attribute numbers of its column list, in ascending order, and its WHERE clause, if it has
    them."""

    oid: int
    columns: tuple[int, ...] | None = None
    filter: RowFilter | None = None


@dataclass(frozen=True, slots=True)
class Publication:
    """`tables` and `schemas` are what it names itself; `owner` the name of a role. One that is `defined_here` is in a state
    location of ours, and the server that wrote the log knows nothing of it."""

    name: str
    owner: str = ""
    all_tables: bool = False
    actions: PublicationActions = ALL_ACTIONS
    via_root: bool = False
    generated_columns: str = NO_GENERATED_COLUMNS
    tables: tuple[PublishedTable, ...] = ()
    schemas: tuple[int, ...] = ()
    defined_here: bool = False

    def table(self, oid: int) -> PublishedTable | None:
        """What it says of this table; None if it does not name it."""
        return next((table for table in self.tables if table.oid == oid), None)
