"""A snapshot of a database: its catalogs at an LSN, in which statements about publications are carried out and publications are looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.dataclass import dataclass
from tailrace.model import Lsn
from tailrace.publications.catalog_snapshot import CatalogSnapshot
from tailrace.publications.publication import Publication
from tailrace.publications.source_publications import SourcePublications
from tailrace.types.style import TextStyle

if TYPE_CHECKING:
    from tailrace.publications.publishing.filter_compiler import FilterCompiler


@dataclass(frozen=True, slots=True)
class DatabaseSnapshot:
    """`catalogs` of a source's database at an LSN, with whose they are."""

    system: int
    database_oid: int
    database: str
    catalogs: CatalogSnapshot

    @property
    def major(self) -> int:
        return self.catalogs.history.major

    @property
    def lsn(self) -> Lsn:
        return Lsn(self.catalogs.lsn)

    @property
    def of_source(self) -> list[Publication]:
        """The publications that the source has itself, by name."""
        return SourcePublications(self.catalogs.history).all_at(self.catalogs.lsn)

    @property
    def compiler(self) -> FilterCompiler:
        # Expressions take long to load, and few snapshots are asked for filters.
        from tailrace.publications.publishing.database_facts import facts_of  # noqa: PLC0415
        from tailrace.publications.publishing.filter_compiler import FilterCompiler  # noqa: PLC0415

        return FilterCompiler(self.major, facts_of(self.catalogs.history, TextStyle()))
