"""A lake as it was at one moment, whatever is written to it meanwhile; and, aside, as it becomes with more of the log.

In: the store of a lake. Out: `LakeAtRest`: its tables, each at a version that it keeps for as long as this is used. `bring` applies a feed to it as
`tailrace mirror` would, but into a folder of this machine: the lake itself stays as it is, and its followers see nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.feed import Feed, FeedSpan
from tailrace.lake.catalog import CATALOG, LakeCatalog, LakeTable, no_lake
from tailrace.lake.lake import Lake
from tailrace.lake.layouts.named import MIRROR
from tailrace.lake.position import TablePosition, position_of
from tailrace.lake.table import TableVersion
from tailrace.lake.trouble import QUARANTINE
from tailrace.model import Lsn
from tailrace.storage.local_store import LocalStore
from tailrace.storage.overlay_store import OverlayStore
from tailrace.storage.scratch_folder import scratch_folder
from tailrace.storage.store import Store


@dataclass(frozen=True, slots=True)
class LakeAtRest:
    """`store` is the lake's own, and `lake` what is seen of it. `pinned` are its tables' versions, by oid, and `pinned_catalog` its catalog, as they
    were before anything was brought to it here."""

    store: Store
    lake: Lake
    pinned: Mapping[int, TableVersion]
    pinned_catalog: LakeCatalog

    @classmethod
    @contextmanager
    def taken(cls, store: Store) -> Iterator[LakeAtRest]:
        """Raises UsageError where there is no lake, or none whose tables are to be as the source's."""
        with scratch_folder(Path(tempfile.gettempdir()), "tailrace-lake-aside-") as folder:
            seen = OverlayStore(store, LocalStore(folder))
            with suppress(FileNotFoundError):
                seen.put(CATALOG, store.read(CATALOG))
            lake = Lake.open(seen, on_error=QUARANTINE)  # what one table cannot take is not to end the comparison of the others
            if lake.catalog is None:
                raise no_lake(store.url)
            if lake.layout is not MIRROR:
                raise UsageError(
                    f'lake "{store.url}" has layout {lake.layout.name}, whose tables are not as the source\'s',
                    hint="Only a lake of layout mirror can be compared with its source.", sqlstate="55000",
                )  # fmt: skip
            if lake.catalog.awaits_tables:
                raise UsageError(
                    f'lake "{store.url}" awaits a copy of {lake.catalog.awaited}',
                    hint="tailrace replicate or mirror takes it; if it is doing so, compare once it has.",
                    sqlstate="55000",
                )
            yield cls(store, lake, {oid: lake.opened(table) for oid, table in lake.catalog.tables.items()}, lake.catalog)

    @property
    def catalog(self) -> LakeCatalog:
        assert self.lake.catalog is not None, "it was there when this was taken"
        return self.lake.catalog

    @property
    def tables(self) -> list[LakeTable]:
        """Those that the source has not dropped."""
        return [each for each in self.catalog.tables.values() if each.dropped is None]

    def version(self, table: LakeTable) -> TableVersion:
        return self.lake.opened(table)

    def own_version(self, table: LakeTable) -> TableVersion:
        """The version that was pinned, where it lies: for workers on other machines, and to go on from."""
        found: Any = self.pinned[table.oid]
        return replace(found, store=self.store.below(table.folder))

    def position(self, table: LakeTable) -> TablePosition | None:
        """None where the table is not made yet."""
        return self._position(self.version(table))

    def pinned_position(self, table: LakeTable) -> TablePosition | None:
        return self._position(self.pinned[table.oid])

    def _position(self, found: TableVersion) -> TablePosition | None:
        return position_of(found.open(), self.span) if found.is_there else None

    @property
    def span(self) -> FeedSpan:
        catalog = self.catalog
        return FeedSpan(catalog.system, catalog.timeline, Lsn(0), catalog.complete, catalog.database, catalog.publications)

    def bring(self, feed: Feed) -> None:
        """To the end of the feed's span. Raises as `Lake.apply` does."""
        self.lake.apply(feed)
