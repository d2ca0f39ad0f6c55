"""Tables that join a lake after it has begun: they are found in each window before it is applied, and are copied, or told.

In: windows of a slot's log. Out: the lake's catalog, which names the tables that are to be copied before they get changes (`first_copy.py` copies);
or, where nobody copies, warnings. What the lake is past already is not looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

import numpy as np

from tailrace.catalog.history.change_points import Committed
from tailrace.catalog.history.dropped_and_retyped import last_seen
from tailrace.catalog.history.history import History
from tailrace.catalog.names.qualified_names import write_table_name
from tailrace.dataclass import dataclass
from tailrace.decode import decode
from tailrace.errors import Overtaken
from tailrace.lake.catalog import LakeCatalog
from tailrace.lake.lake import Lake
from tailrace.model import Lsn
from tailrace.past.joined_tables import JoinedTable, JoinedTables
from tailrace.pipeline.pipeline import Pipeline
from tailrace.replication.slot_location import SlotLocation
from tailrace.storage.state_location import definitions_in

_NOT_COPIED = (
    "table {} is published as it is now only since {}: rows of before are not in the lake, or not as the source has them\n"
    "HINT:  tailrace mirror with a server's connection string copies such tables, unless --no-copy says not to; --copy-again has this one copied."
)
_MOVED = {
    False: "partition {} became one of table {}, which is published as a whole, at {}: rows that it had before, if any, are not in the lake",
    True: "partition {} left table {}, which is published as a whole, at {}: rows that it had, if any, stay in the lake",
}
_VERIFY = "\nHINT:  tailrace verify tells such rows, and --repair puts them right."
_AGAIN = (
    "table {} is published as it is now since {}, and was in the lake before: what happened to it in between is not known, and its rows are copied "
    "once more"
)


@dataclass(frozen=True, slots=True)
class Joining:
    """The `lake` has what `publications` publish, those that are defined in the slot's state `location` among them. It `copies` tables that join;
    without, it warns of them."""

    location: SlotLocation
    lake: Lake
    publications: tuple[str, ...]
    copies: bool
    _told: set[str] = field(default_factory=set)

    def note(self, window: Pipeline) -> None:
        """Have the tables wait for a copy that join in this window, or warn of them."""
        if not self.publications:
            return  # a lake of all changes has every table from its first row on
        catalog, behind = self.lake.catalog, None
        if catalog is not None and catalog.is_for_those_behind(window.span.stop):
            catalog = behind = catalog.of_those_behind()
        since = catalog.complete if catalog is not None else window.span.start
        joined = [each for each in self.found(window, since) if behind is None or each.relation.oid in behind.tables]
        self._tell_partitions(window, catalog, since, joined)
        if not self.copies:
            for each in joined:
                self._tell(_NOT_COPIED.format(_name(each), each.since))
            return
        if catalog is None:
            return
        oids = [each.relation.oid for each in joined]
        told = [each for each in joined if not self.lake.layout.has_rows_alone and _was_there(catalog, each)]
        self._replace_catalog(lambda catalog: _without_dropped(catalog, window.history, window.span.stop).joined_by(oids))
        for each in told:
            self._tell(_AGAIN.format(_name(each), each.since))

    def copy_again(self, oids: Sequence[int]) -> None:
        """Have these tables wait for a copy, whatever the lake has of them. A lake that begins copies all of them."""
        self._replace_catalog(lambda catalog: catalog if catalog.awaits_copy else catalog.joined_by(oids))

    def found(self, window: Pipeline, since: Lsn) -> list[JoinedTable]:
        """Those that join in the window by commits at `since` or later, and behind what is copied of them."""
        catalog, span = self.lake.catalog, window.span
        known = {oid: table.copied.end for oid, table in catalog.tables.items() if table.copied is not None} if catalog else {}
        return list(self._tables_of(window).found(max(since, span.start), span.stop, known))

    def _tables_of(self, window: Pipeline) -> JoinedTables:
        span, transactions = window.span, window.plan.transactions
        wanted = np.zeros(len(transactions), np.bool_)
        wanted[window.plan.shown] = True
        committed = Committed(transactions.first_lsn, transactions.commit_lsn, wanted)
        definitions = definitions_in(self.location.path, span.system, span.database)
        return JoinedTables(window.history, self.publications, definitions, committed, _WroteIn(window))

    def _tell_partitions(self, window: Pipeline, catalog: LakeCatalog | None, since: Lsn, joined: Sequence[JoinedTable]) -> None:
        """Warn of rows that came to the catalog's tables, or left them, with a partition."""
        span = window.span
        are_copied = {each.relation.oid for each in joined} if self.copies else set()
        for each in self._tables_of(window).moved_partitions(max(since, span.start), span.stop, are_copied):
            whole = each.whole
            if catalog is not None and not _may_lack(catalog, whole.oid, each.lsn):
                continue
            names = [write_table_name(table.schema, table.name) for table in (each.partition, whole)]
            self._tell(_MOVED[each.has_left].format(*names, each.lsn) + _VERIFY)

    def _tell(self, message: str) -> None:
        """Once: a window comes again."""
        if message not in self._told:
            self._told.add(message)
            self.location.warn(message)

    def _replace_catalog(self, changed: Callable[[LakeCatalog], LakeCatalog]) -> None:
        while (catalog := self.lake.catalog) is not None and (new := changed(catalog)) != catalog:
            try:
                self.lake.replace_catalog(new)
            except Overtaken:
                self.lake.reread()


@dataclass(frozen=True, slots=True)
class _WroteIn:
    window: Pipeline

    def __call__(self, oid: int, ordinal: int, since: int, upto: int) -> bool:
        """Whether the transaction has changes of the table there."""
        window = self.window
        wanted = np.zeros(len(window.plan.transactions), np.bool_)
        wanted[ordinal] = True
        return any(
            bool(((batch.lsn >= since) & (batch.lsn < upto)).any())
            for stretch in window.plan.restricted_to(wanted)
            for batch in decode(stretch, window.source.segments.read, {oid})
        )


def _name(table: JoinedTable) -> str:
    return write_table_name(table.relation.schema, table.relation.name)


def _may_lack(catalog: LakeCatalog, oid: int, lsn: Lsn) -> bool:
    """Whether what happened to a table there without a change is not in its copy."""
    table = catalog.tables.get(oid)
    return catalog.is_at_hand(oid) and not (table is not None and table.copied is not None and table.copied.end > lsn)


def _was_there(catalog: LakeCatalog, table: JoinedTable) -> bool:
    known = catalog.tables.get(table.relation.oid)
    return known is not None and known.version >= 0 and table.relation.oid not in catalog.joining


def _without_dropped(catalog: LakeCatalog, history: History, stop: Lsn) -> LakeCatalog:
    """Nobody waits for a table any more that is dropped in the window. One that is not there yet, or was not any more, is left to who copies."""
    for oid in catalog.joining:
        if history.relation_by_oid(oid, stop) is None and (seen := last_seen(history, oid)) is not None and seen[1] <= stop:
            catalog = catalog.without_joining(oid)
            if (table := catalog.tables.get(oid)) is not None:
                catalog = catalog.with_table(replace(table, dropped=seen[1]))
    return catalog
