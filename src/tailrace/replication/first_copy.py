"""The first copy of a lake: what the source's tables hold before their changes are followed.

In: a lake that awaits it, a snapshot of the live server in which the tables are locked, and a window of the log that begins where the lake does and
reaches beyond the snapshot. Out: the lake with all rows that the snapshot sees, and which transactions it has seen, whose changes are not applied
again. While they are locked nobody alters or truncates the tables: they are in the snapshot as the log has them where it was taken.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tailrace.catalog.history.comments import comments_at
from tailrace.client.server_snapshot import ServerSnapshot
from tailrace.copy_feed import CopiedTable, CopyFeed
from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.lake.lake import Lake, TableApplied
from tailrace.lake.staging import Progress
from tailrace.model import Lsn, Relation
from tailrace.past.tables_at_end import tables_there
from tailrace.pipeline.pipeline import Pipeline
from tailrace.publications.catalog_snapshot import CatalogSnapshot
from tailrace.publications.database_snapshot import DatabaseSnapshot
from tailrace.publications.subscription import only_columns, stored_columns
from tailrace.publications.table_to_copy import tables_published
from tailrace.storage.state_location import definitions_in
from tailrace.wire.copied_rows import CopiedRows

BEFORE = 8
"""Bytes before the LSN at which its rows count as committed a lake stands that awaits its copy: no record begins in between."""
THREADS = min(4, os.cpu_count() or 1)
"""That copy at once, each in a session of its own."""


@dataclass(frozen=True, slots=True)
class FirstCopy:
    """Of the tables that is copied what `publications` publish, those that are defined in the state location `state` among them; all if there are
    none. `progress(done, of)` counts parts that are copied, and tables written."""

    database: str
    lake: Lake
    publications: Sequence[str]
    state: Path
    progress: Progress | None = None

    def take(self, snapshot: ServerSnapshot, window: Pipeline) -> list[TableApplied]:
        """Copy the tables. Raises UsageError for one that cannot be copied, PeerError as the server does, and Overtaken where somebody else has
        written to the lake."""
        relations = [each for each in tables_there(window.history, snapshot.seen.end) if each.oid in snapshot.tables]
        for relation in relations:
            snapshot.tables[relation.oid].check_is(relation, snapshot.seen.end)
        begin, names = window.span.start, tuple(self.publications)
        span = replace(window.span, start=Lsn(begin - BEFORE), stop=begin, publications=names)
        wanted = self._wanted(window, relations, snapshot.seen.end)
        tables = [
            CopiedTable(
                relation, snapshot.parts(CopiedRows(relation, self.lake.style), where),
                comments_at(window.history, relation.oid, snapshot.seen.end),
            )
            for relation, where in wanted
        ]  # fmt: skip
        return self.lake.copy(CopyFeed(span, tables, snapshot.time, THREADS), snapshot.seen, self.progress)

    def _wanted(self, window: Pipeline, relations: Sequence[Relation], at: Lsn) -> Iterator[tuple[Relation, str | None]]:
        """The relations with the columns that are wanted, each with the condition that its rows meet."""
        if not self.publications:
            yield from ((stored_columns(relation), None) for relation in relations)
            return
        by_name = {(relation.schema, relation.name): relation for relation in relations}
        span = window.span
        here = DatabaseSnapshot(span.system, span.database, self.database, CatalogSnapshot(window.history, int(at)))
        for table in tables_published(here, self.publications, definitions_in(self.state, span.system, span.database)):
            relation = by_name.get((table.schema, table.name))
            if relation is None:
                raise UsageError(
                    f'"{table.schema}.{table.name}" is published as a whole, and cannot be copied yet',
                    hint="Publish its partitions (publish_via_partition_root = false), or --no-copy.", sqlstate="0A000",
                )  # fmt: skip
            numbers = {column.number for column in relation.live_columns if column.name in table.columns}
            yield only_columns(relation, numbers), table.copied
