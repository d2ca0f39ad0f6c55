"""The whole river on one screen: open a source, scan it, know its catalogs, plan, and let changes run out.

Here the shore meets the stages: files are found and read, work is handed to a `Runner` (threads of this process, or Spark),
and the pure stages decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tailrace.catalog.state import CatalogState
from tailrace.errors import MissingHistory, UsageError
from tailrace.model import Lsn
from tailrace.plan import Plan, make_plan
from tailrace.plan.decodable import check_decodable, foreign_records
from tailrace.plan.demand import OF_TABLES, Demand
from tailrace.plan.stretch import StretchPlan
from tailrace.plan.ties import find_ties, resolved
from tailrace.plugins.driver import drive, format_stretch
from tailrace.plugins.ordering import Formatted, Lines
from tailrace.plugins.plugin import OutputPlugin
from tailrace.river.capture import capture
from tailrace.river.catalogs import Catalogs, check_state, know_catalogs, with_full_xids
from tailrace.river.runner import LocalRunner, Runner
from tailrace.river.scanning import STRETCH_BYTES, check_reaches, count_log, files_named, read_whole, scan_log
from tailrace.river.source import Source
from tailrace.storage.index_store import IndexStore
from tailrace.storage.segments import Segments
from tailrace.transactions.fates import NEVER
from tailrace.types.encodings.server_encodings import codec_named
from tailrace.wal.index import Index
from tailrace.wal.queues import Queued, QueueErrand, queued

__all__ = [
    "STRETCH_BYTES",
    "Catalogs",
    "LocalRunner",
    "River",
    "Runner",
    "Source",
    "capture",
    "check_reaches",
    "count_log",
    "files_named",
    "know_catalogs",
    "open_river",
    "scan_log",
    "with_full_xids",
]


@dataclass(slots=True)
class River:
    """A source, scanned and planned for one database: the door to everything that comes out of it."""

    source: Source
    runner: Runner
    indexes: list[Index]
    catalogs: Catalogs
    plan: Plan

    @property
    def warning(self) -> str:
        """What in this log is passed over, empty if nothing is."""
        return "; ".join(filter(None, (foreign_records(self.indexes), *self.plan.warnings, self._end())))

    def planned_for(self, demand: Demand) -> River:
        """The same log, planned for another demand: what is told of which row, not when its transaction is."""
        start = self.plan.start_lsn if self.plan.start_lsn != self.plan.consistent_from else None
        plan = make_plan(
            self.indexes, self.catalogs.history(demand.search_path), self.catalogs.fates, self.catalogs.clock, start_lsn=start,
            upto_lsn=self.plan.upto_lsn, segment_size=self.source.segments.segment_size, open_at_start=self.catalogs.open_at_start, demand=demand,
        )  # fmt: skip
        return replace(self, plan=plan)

    def _end(self) -> str:
        """What is odd about where the log ends: a broken record, which a crash cut off or which is damaged; or whole segments behind the end that
        hold nothing of this log, where no data directory says that they were made ahead. A running server's may be read while it is written."""
        last, segments = self.indexes[-1], self.source.segments
        if self.source.lease is not None or self.plan.upto_lsn <= last.next_lsn:
            return ""
        if last.torn:
            return f'the log ends at a record that is not whole, or damaged: {last.reason}, file "{segments.name_at(last.place)}"'
        behind = -(-last.next_lsn // segments.segment_size)
        if self.source.directory is None and (segment := segments.by_number.get(behind)) is not None and not segment.partial:
            return f'the log ends at {last.next_lsn}, and holds nothing of what "{segment.path}" should: it was made ahead, or is another\'s'
        return ""

    def lines(self, plugin: OutputPlugin) -> Iterator[Lines]:
        """What the plugin prints, in commit order. Raises UsageError if the plan was made for another demand than the plugin's."""
        plugin.demand.check_met(self.plan.demand, plugin.name)
        plugin = plugin.knowing(None, codec_named(self.catalogs.state.encoding))
        plan = self._with_ties_resolved()
        return drive(plan, plugin, partial(self.runner.run, heavy=True), partial(_format, self.source.segments, plugin))

    def _with_ties_resolved(self) -> Plan:
        ties = find_ties(self.indexes, self.catalogs.fates, self.plan, self.catalogs.state.database)
        if ties is None:
            return self.plan
        results = list(self.runner.run(partial(_queued, self.source.segments), ties.errands))
        return replace(self.plan, messages=resolved(ties, self.plan, results))


def _queued(segments: Segments, errand: QueueErrand) -> Queued:
    return read_whole(segments, errand.stretch, partial(queued, errand=errand, segment_size=segments.segment_size))


def _format(segments: Segments, plugin: OutputPlugin, plan: StretchPlan) -> Formatted:
    return format_stretch(plan, segments.read, plugin)


def open_river(
    source: str | Path | Source, database: str, *, runner: Runner | None = None, catalog: CatalogState | None = None, start_lsn: Lsn | None = None,
    upto_lsn: Lsn | None = None, stretch_bytes: int = STRETCH_BYTES, index_store: IndexStore | None = None, demand: Demand = OF_TABLES,
) -> River:  # fmt: skip
    """Scan `source` and plan the decoding of `database` as an outlet demands it (`plugin.demand`; tables of changes ask for the default). See
    `tailrace decode` for what the positions mean."""
    runner = runner or LocalRunner()
    scan_from = catalog.needs_wal_from if catalog is not None else None
    source = source if isinstance(source, Source) else Source.open(source, scan_from)
    if catalog is not None:
        check_state(catalog, source.segments, database)
    if scan_from is not None and scan_from < source.segments.first_lsn:
        raise MissingHistory(f"the catalog state needs WAL from {scan_from}, the source begins at {source.segments.first_lsn}")
    indexes = scan_log(source.segments, runner, scan_from, stretch_bytes, index_store)
    check_reaches(indexes, source.control)
    if start_lsn is not None and not indexes[0].stretch.start <= start_lsn <= indexes[-1].next_lsn:
        raise UsageError(
            f"start LSN {start_lsn} is outside of the WAL at hand",
            hint=f"It reaches from {indexes[0].first} to {indexes[-1].next_lsn}.",
        )
    indexes, clock = with_full_xids(source, indexes, catalog)
    catalogs = know_catalogs(source, indexes, clock, runner, database, catalog, demand.two_phase)
    level = source.control.wal_level if source.control else None
    check_decodable(indexes, catalogs.fates.transactions, start_lsn or 0, upto_lsn or int(NEVER), level)
    plan = make_plan(
        indexes, catalogs.history(demand.search_path), catalogs.fates, clock, start_lsn=start_lsn, upto_lsn=upto_lsn,
        segment_size=source.segments.segment_size, open_at_start=catalogs.open_at_start, demand=demand,
    )  # fmt: skip
    return River(source, runner, indexes, catalogs, plan)
