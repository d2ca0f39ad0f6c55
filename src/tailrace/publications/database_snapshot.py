"""A source's database at one moment, where statements about publications are carried out, and what they publish is asked."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.model import Lsn
from tailrace.publications.catalog_snapshot import CatalogSnapshot
from tailrace.publications.publication import Publication
from tailrace.publications.publishing.database_facts import facts_of
from tailrace.publications.publishing.filter_compiler import FilterCompiler
from tailrace.publications.source_publications import SourcePublications
from tailrace.types.style import TextStyle


@dataclass(frozen=True, slots=True)
class SourceMoment:
    """A source's database at an LSN: which system and database that is, and its catalogs."""

    system: int
    database_oid: int
    database: str
    moment: CatalogSnapshot
    style: TextStyle

    @property
    def major(self) -> int:
        return self.moment.history.major

    @property
    def lsn(self) -> Lsn:
        return Lsn(self.moment.lsn)

    @property
    def of_source(self) -> list[Publication]:
        """The publications that the source has itself, by name."""
        return SourcePublications(self.moment.history).all_at(self.moment.lsn)

    @property
    def compiler(self) -> FilterCompiler:
        return FilterCompiler(self.major, facts_of(self.moment.history, self.style))
