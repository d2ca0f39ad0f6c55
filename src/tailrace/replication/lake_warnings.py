"""What a run of `tailrace mirror` warns of: what of the source is not in the lake, or not as the source has it. Each is told once.

In: the lake's catalog, windows of the log, and what went into quarantine. Out: warnings. Catalogs are looked through again when they have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

import numpy as np

from tailrace.catalog.names.qualified_names import write_table_name
from tailrace.catalog.rows.catalog_rows import CatalogTable
from tailrace.dataclass import dataclass
from tailrace.errors import count_of
from tailrace.lake.catalog import LakeCatalog
from tailrace.lake.trouble import QuarantineNews
from tailrace.model import FIRST_NORMAL_OID, Lsn
from tailrace.past.tables_at_end import tables_there
from tailrace.pipeline.pipeline import Pipeline
from tailrace.publications.publishing.published_relation import VIRTUAL
from tailrace.publications.subscription import missing_publications
from tailrace.types.quoting import quote_identifier

_NAMED = 10
_NO_COMMENTS = (
    "comments of the source are not known, and those of the lake stay as they are: the slot was made by a version that did not keep them\n"
    "HINT:  A new slot knows them."
)


@dataclass(slots=True)
class LakeWarnings:
    """`warn` tells one. A lake `is_new` before its first window. State: what has been told."""

    warn: Callable[[str], None]
    is_new: bool
    _told: set[str] = field(default_factory=set)
    _missing: list[str] = field(default_factory=list)
    _seen: tuple[CatalogTable, ...] = ()

    def of_catalog(self, catalog: LakeCatalog) -> None:
        """Tables that earlier runs have left where they are."""
        for table in sorted(catalog.tables.values(), key=lambda each: (each.schema, each.name)):
            if table.held is not None and table.dropped is None:
                name = write_table_name(table.schema, table.name)
                self._once(
                    f"table {name} does not go on since {table.held.since}, and its changes go into quarantine: {table.held.message}"
                )

    def of_window(self, feed: Pipeline) -> None:
        """Before it is applied."""
        if self.is_new:
            self._of_earlier_rows(feed)
        self._of_missing_publications(feed)
        catalogs = feed.history.table("pg_class"), feed.history.table("pg_attribute")
        if self._seen and all(one is other for one, other in zip(self._seen, catalogs, strict=True)):
            return
        self._seen = catalogs
        if not feed.history.knows_comments:
            self._once(_NO_COMMENTS)
        self._of_unlogged(feed)
        self._of_virtual(feed)

    def of_quarantine(self, news: Iterable[QuarantineNews]) -> None:
        for each in news:
            if not each.is_held:
                self.warn(f"{count_of(each.changes, 'change')} of table {each.table} went into quarantine: {each.reason}")
            elif each.begins:
                self.warn(f"table {each.table} does not go on, and its changes go into quarantine: {each.reason}")

    def _once(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            self.warn(message)

    def _of_names(self, names: Sequence[str], message: str) -> None:
        """Of those that were not told before; they stand behind the message."""
        new = [name for name in names if message + name not in self._told]
        self._told |= {message + name for name in new}
        if new:
            self.warn(message + ", ".join(new[:_NAMED]) + (f" and {len(new) - _NAMED:,} others" if len(new) > _NAMED else ""))

    def _of_earlier_rows(self, feed: Pipeline) -> None:
        """Of a lake that begins with this window."""
        self.is_new = False
        start = Lsn(max(feed.span.start, feed.history.known_from))
        there = [each for each in tables_there(feed.history, start) if feed.shown(each) is not None]
        names = [write_table_name(each.schema, each.name) for each in there]
        self._of_names(names, f"rows that were written before {start} are not in the lake, if these tables had any: ")

    def _of_missing_publications(self, feed: Pipeline) -> None:
        """Of publications that do not exist, once of each: nothing of theirs is in the lake."""
        missing = missing_publications(feed.history, feed.to, int(feed.span.stop)) if feed.to is not None else []
        for name in missing:
            if name not in self._missing:
                self.warn(f'publication "{name}" does not exist at {feed.span.stop}: nothing of it is in the lake')
        self._missing = missing

    def _of_unlogged(self, feed: Pipeline) -> None:
        """Tables that would be in the lake if their changes were in the log."""
        unlogged = tables_there(feed.history, feed.span.stop, persistence="u")
        names = [write_table_name(each.schema, each.name) for each in unlogged if feed.would_show(each)]
        self._of_names(names, "unlogged tables are not in the lake, or stay there as they were, since no log has their changes: ")

    def _of_virtual(self, feed: Pipeline) -> None:
        """Columns that are computed when somebody reads them."""
        history, stop = feed.history, int(feed.span.stop)
        attributes = history.table("pg_attribute")
        is_one = (attributes["attgenerated"] == ord(VIRTUAL)) & (attributes["attrelid"] >= FIRST_NORMAL_OID)
        if not is_one.any():
            return
        names = []
        for row in attributes.rows.seen(np.flatnonzero(is_one), stop, -1).tolist():
            relation = history.relation_by_oid(int(attributes["attrelid"][row]), stop)
            if relation is not None and relation.kind in "rp" and feed.would_show(relation):
                table = write_table_name(relation.schema, relation.name)
                names.append(f"{table}.{quote_identifier(attributes.name('attname', row))}")
        self._of_names(sorted(names), "virtual generated columns are not in the lake, since their values are not stored: ")
