"""Publications (`catalog/pg_publication.h`, pg_publication_rel.h): their tables, actions, column lists and row filters.

In: nothing. Out: the nouns of this folder. As in the catalogs, tables and schemas are oids and columns are attribute numbers, so
a table that is renamed remains published."""

from __future__ import annotations

from tailrace.dataclass import dataclass

NODE_TREE = "node tree"
SQL = "SQL"

NO_GENERATED_COLUMNS = "n"
STORED_GENERATED_COLUMNS = "s"
"""pg_publication.pubgencols, since 18."""


@dataclass(frozen=True, slots=True)
class PublicationActions:
    """Which kinds of changes a publication publishes (`PublicationActions`)."""

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
    """The WHERE clause of a table. In the `form` NODE_TREE its `text` is what pg_publication_rel.prqual has; in the form SQL it
    is what the user wrote. A clause in SQL is analysed with the `names` that the table's columns had when it was written, by
    attribute number, and with the expressions of the virtual columns that were `generated` then."""

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
    """A row of pg_publication, with the `tables` and `schemas` that it names; `owner` is a role's name. A publication that is
    `defined_here` stands in a state location of tailrace's, and the server that wrote the log knows nothing of it."""

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
