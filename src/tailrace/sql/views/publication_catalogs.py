"""pg_publication and the catalogs beside it, with what is defined here: its rows have oids from the end of their range, where the server has none.

In: a snapshot, and the publications in it. Out: rows. A publication of the source's that has the name of one defined here is in none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.majors import PUBLISHED_GENERATED_COLUMNS, supports
from tailrace.publications.database_snapshot import DatabaseSnapshot
from tailrace.publications.publication import Publication
from tailrace.sql.views.published_tables import published_tables, tables_of

_LAST_OID = (1 << 32) - 1


@dataclass
class PublicationCatalogs:
    """`publications` are in the order of their names."""

    here: DatabaseSnapshot
    publications: Sequence[Publication]

    @cached_property
    def _oids(self) -> dict[str, int]:
        history = self.here.catalogs.history
        heads = history.table("pg_publication")
        defined = iter(range(_LAST_OID, 0, -1))
        return {
            each.name: next(defined)
            if each.defined_here
            else int(heads["oid"][heads.seen_where("pubname", each.name, int(self.here.lsn), -1)[-1]])
            for each in self.publications
        }

    @property
    def _defined(self) -> list[tuple[int, Publication]]:
        return [(self._oids[each.name], each) for each in self.publications if each.defined_here]

    def heads(self) -> Iterator[list[Any]]:
        """pg_publication."""
        roles, lsn = self.here.catalogs.history.table("pg_authid"), int(self.here.lsn)
        for each in self.publications:
            owners = roles.seen_where("rolname", each.owner, lsn, -1)
            owner = int(roles["oid"][owners[-1]]) if len(owners) else None
            actions = each.actions
            values = [
                self._oids[each.name], each.name, owner, each.all_tables, actions.insert, actions.update, actions.delete, actions.truncate,
                each.via_root,
            ]  # fmt: skip
            yield [*values, each.generated_columns] if supports(self.here.major, PUBLISHED_GENERATED_COLUMNS) else values

    def tables(self, stored: pa.Table) -> Iterator[list[Any]]:
        """pg_publication_rel; `stored` are the source's rows."""
        yield from self._of_source(stored, "prpubid")
        oids = iter(range(_LAST_OID, 0, -1))
        for publication, each in self._defined:
            for table in each.tables:
                relation = self.here.catalogs.relation(table.oid)
                is_filtered = table.filter is not None and relation is not None
                where = self.here.compiler.stored(table.filter, relation).text if is_filtered else None  # type: ignore[arg-type]
                listed = None if table.columns is None else " ".join(map(str, table.columns))
                yield [next(oids), publication, table.oid, where, listed][: stored.num_columns]

    def schemas(self, stored: pa.Table) -> Iterator[list[Any]]:
        """pg_publication_namespace."""
        yield from self._of_source(stored, "pnpubid")
        oids = iter(range(_LAST_OID, 0, -1))
        yield from ([next(oids), publication, schema] for publication, each in self._defined for schema in each.schemas)

    def _of_source(self, stored: pa.Table, publication: str) -> Iterator[list[Any]]:
        known = set(self._oids.values())
        return (list(row.values()) for row in stored.to_pylist() if row[publication] in known)

    def published_tables(self) -> Iterator[list[Any]]:
        """pg_publication_tables."""
        return published_tables(self.here, self.publications)

    def tables_of(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """pg_get_publication_tables."""
        known = {each.name: each for each in self.publications}
        for name in names:
            if name not in known:
                raise UsageError(f'publication "{name}" does not exist', sqlstate="42704")
        return tables_of(self.here, [known[name] for name in names], self._oids)
