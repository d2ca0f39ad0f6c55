"""The publications that a source's catalogs had at any moment, and the partitioned tables above its relations then.

In: a history. Out: `Publication`s, whole or only what they say of some relations; the `RelationAncestry` of a relation; and
`about`, the catalog rows that both are made of, which tell where in the log an answer may change."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.change_points import About, about_relation
from tailrace.catalog.history.history import History
from tailrace.catalog.rows.column_values import int2_vector
from tailrace.errors import MissingHistory
from tailrace.model import Lsn
from tailrace.publications.publication import NO_GENERATED_COLUMNS, Publication, PublicationActions, PublishedTable, RowFilter
from tailrace.publications.publishing.relation_sync_entry import RelationAncestry

_KEPT_HEADS = 1 << 12


class SourcePublications:
    """Reads pg_publication, pg_publication_rel and pg_publication_namespace of a database as a change at `lsn` in committed
    transaction `ordinal` saw them (-1: one that changed no catalog)."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._head = lru_cache(_KEPT_HEADS)(self._read_head)
        self._ancestors_ever: dict[int, tuple[int, ...]] = {}

    # -- publications ------------------------------------------------------------------------------------------------------------

    def all_at(self, lsn: int) -> list[Publication]:
        """Every publication, whole, by name, as transactions see it that change none."""
        publications = self.history.table("pg_publication")
        rows = publications.rows.seen(np.arange(len(publications.rows)), lsn, -1)
        names = sorted(publications.of("pubname", rows).tolist())
        return [found for name in names if (found := self.named(name, lsn)) is not None]

    def named(self, name: str, lsn: int, ordinal: int = -1, about: Sequence[tuple[int, int]] | None = None) -> Publication | None:
        """The publication of that name, None if there is none; with `about`, with only what it says of these relations, each an
        oid and its schema's oid. Raises MissingHistory for a WHERE clause that is stored out of line, elsewhere than in what is
        known."""
        oid, head = self._head(name, lsn, ordinal)
        if head is None:
            return None
        members, schemas = self.history.table("pg_publication_rel"), self._schemas_of(oid, lsn, ordinal)
        if about is None:
            rows = members.seen_where("prpubid", oid, lsn, ordinal)
        else:
            rows = np.concatenate([_NO_ROWS, *(members.seen_where("prrelid", relation, lsn, ordinal) for relation, _ in about)])
            rows = rows[members["prpubid"][rows] == oid]
            schemas = schemas & {schema for _, schema in about}
        tables = tuple(sorted((self._table(row, name, lsn) for row in rows.tolist()), key=lambda table: table.oid))
        return Publication(
            name=head.name, owner=head.owner, all_tables=head.all_tables, actions=head.actions, via_root=head.via_root,
            generated_columns=head.generated_columns, tables=tables, schemas=tuple(sorted(schemas)),
        )  # fmt: skip

    def _read_head(self, name: str, lsn: int, ordinal: int) -> tuple[int, Publication | None]:
        """A publication's oid, and what its row in pg_publication says."""
        publications = self.history.table("pg_publication")
        rows = publications.seen_where("pubname", name, lsn, ordinal)
        if not len(rows):
            return 0, None
        row = int(rows[-1])
        flags = {column: bool(publications[f"pub{column}"][row]) for column in ("insert", "update", "delete", "truncate")}
        generated = publications.rows.columns.get("pubgencols")
        head = Publication(
            name=name,
            owner=self._role(int(publications["pubowner"][row]), lsn, ordinal),
            all_tables=bool(publications["puballtables"][row]),
            actions=PublicationActions(**flags),
            via_root=bool(publications["pubviaroot"][row]),
            generated_columns=NO_GENERATED_COLUMNS if generated is None else chr(generated[row]),
        )
        return int(publications["oid"][row]), head

    def _table(self, row: int, name: str, lsn: int) -> PublishedTable:
        """What a row of pg_publication_rel says."""
        members = self.history.table("pg_publication_rel")
        oid = int(members["prrelid"][row])
        filters, lists = members.rows.columns.get("prqual"), members.rows.columns.get("prattrs")  # since 15
        where = None if filters is None else filters[row]
        listed = None if lists is None else lists[row]
        if where == b"":
            raise MissingHistory(
                f'the WHERE clause of table {oid} in publication "{name}" is stored out of line, and not in what is known of the catalogs',
                hint="A catalog state, or a slot's mark, is older than the reading of such clauses. Make it again.",
                lsn=Lsn(lsn),
            )
        return PublishedTable(
            oid=oid,
            columns=None if listed is None else tuple(sorted(int2_vector(listed))),
            filter=None if where is None else RowFilter(where.decode(self.history.codec or "utf-8", "surrogateescape")),
        )

    def _schemas_of(self, publication: int, lsn: int, ordinal: int) -> set[int]:
        members = self.history.table("pg_publication_namespace")
        rows = members.seen_where("pnpubid", publication, lsn, ordinal)
        return set(members["pnnspid"][rows].tolist())

    def _role(self, oid: int, lsn: int, ordinal: int) -> str:
        """A role's name; its oid where it is not known, as in pg_get_userbyid."""
        roles = self.history.table("pg_authid")
        rows = roles.seen_where("oid", oid, lsn, ordinal)
        return roles.name("rolname", int(rows[-1])) if len(rows) else f"unknown (OID={oid})"

    # -- relations ---------------------------------------------------------------------------------------------------------------

    def ancestry(self, oid: int, lsn: int, ordinal: int = -1) -> RelationAncestry | None:
        """The relation's schema, and the partitioned tables above it; None if there is no such relation."""
        classes = self.history.table("pg_class")
        rows = classes.seen_where("oid", oid, lsn, ordinal)
        if not len(rows):
            return None
        row = int(rows[-1])
        ancestors = self._ancestors(oid, lsn, ordinal) if classes["relispartition"][row] else ()
        return RelationAncestry(oid, int(classes["relnamespace"][row]), chr(classes["relkind"][row]), ancestors)

    def _ancestors(self, oid: int, lsn: int, ordinal: int) -> tuple[tuple[int, int], ...]:
        """The partitioned tables above a partition, nearest first; none above one that is being detached
        (`get_partition_ancestors`)."""
        classes, inherits = self.history.table("pg_class"), self.history.table("pg_inherits")
        found: list[tuple[int, int]] = []
        while True:
            links = inherits.seen_where("inhrelid", oid, lsn, ordinal)
            if not len(links) or inherits["inhdetachpending"][links[-1]]:
                return tuple(found)
            oid = int(inherits["inhparent"][links[-1]])
            rows = classes.seen_where("oid", oid, lsn, ordinal)
            if not len(rows):
                raise MissingHistory(f"could not open relation with OID {oid}", lsn=Lsn(lsn))
            found.append((oid, int(classes["relnamespace"][rows[-1]])))
            if not classes["relispartition"][rows[-1]]:
                return tuple(found)

    # -- which catalog rows an answer is made of ---------------------------------------------------------------------------------

    def about(self, oid: int, names: Collection[str]) -> Iterator[About]:
        """All catalog rows, of any time, that tell what publications of these names say of the relation, and as what it is
        published."""
        table = self.history.table
        above = self._above_ever(oid)
        schemas: set[int] = set()
        for relation in (oid, *above):
            yield table("pg_class"), "oid", relation
            yield table("pg_inherits"), "inhrelid", relation
            yield table("pg_publication_rel"), "prrelid", relation
            classes = table("pg_class")
            schemas |= set(classes["relnamespace"][classes.where("oid", relation)].tolist())
        for relation in above:
            yield from about_relation(self.history, relation)
        for schema in schemas:
            yield table("pg_publication_namespace"), "pnnspid", schema
        for name in names:
            yield table("pg_publication"), "pubname", name

    def _above_ever(self, oid: int) -> tuple[int, ...]:
        """Every relation that it was ever attached below, however far up."""
        if oid not in self._ancestors_ever:
            inherits = self.history.table("pg_inherits")
            found: dict[int, None] = {}
            todo = [oid]
            while todo:
                for parent in inherits["inhparent"][inherits.where("inhrelid", todo.pop())].tolist():
                    if parent not in found:
                        found[parent] = None
                        todo.append(parent)
            self._ancestors_ever[oid] = tuple(found)
        return self._ancestors_ever[oid]


_NO_ROWS: NDArray[np.int64] = np.zeros(0, np.int64)
