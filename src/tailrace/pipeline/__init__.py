"""The whole pipeline on one screen: open a source, scan it, know its catalogs, plan, and let changes run out.

Here the shore meets the stages: files are found and read, work is handed to a `Runner` (threads of this process, or Spark),
and the pure stages decide.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from tailrace.catalog.history.history import History
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.errors import MissingHistory
from tailrace.feed import CommittedTruncation, Decoder, FeedPart, FeedSpan, decode_piece
from tailrace.model import STRETCH_BYTES, Lsn, Relation
from tailrace.pipeline.asked import Asked
from tailrace.pipeline.capture import capture
from tailrace.pipeline.catalogs import Catalogs, know_catalogs, with_full_xids
from tailrace.pipeline.given import GivenLsn, GivenState, lsn_of, state_of
from tailrace.pipeline.runner import LocalRunner, Runner
from tailrace.pipeline.scanning import (
    AS_SUITS,
    Scanning,
    count_log,
    oddity_at_end,
    scan_log,
)
from tailrace.pipeline.subscribing import TEXT_STYLE, subscription
from tailrace.pipeline.tables_of_log import TablesOfLog
from tailrace.plan import Plan, make_plan
from tailrace.plan.consistency import consistency
from tailrace.plan.decodable import check_decodable, drops_of, foreign_records, raised_at
from tailrace.plan.demand import OF_TABLES, Demand
from tailrace.plan.invalidations import relation_invalidations
from tailrace.plan.message_order import find_ties, resolved
from tailrace.plan.pieces import Piece, pieces_of
from tailrace.plan.stretch import StretchPlan
from tailrace.plan.whole_log import check_reaches
from tailrace.plugins.driver import drive, format_stretch
from tailrace.plugins.formatted_changes import FormattedChanges
from tailrace.plugins.formatter import Formatter
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.plugins.relation_callbacks import PlanFacts, RelationCallbacks
from tailrace.publications.publishing.published_pieces import published_pieces
from tailrace.publications.publishing.published_relation import warn_of_missing
from tailrace.publications.publishing.publisher import Publisher, publisher_of
from tailrace.publications.subscription import Subscription, shown_relation
from tailrace.storage.segments import Segments
from tailrace.storage.source import Source
from tailrace.transactions.blocks import NO_BLOCKS, Blocks, InProgress, with_blocks
from tailrace.transactions.fates import NEVER
from tailrace.transactions.scanned_log import ScannedLog
from tailrace.transactions.unfinished import unfinished
from tailrace.types.encodings.server_encodings import SQL_ASCII, codec_named
from tailrace.types.style import TextStyle
from tailrace.wal.index import Index
from tailrace.wal.queued_changes import QueuedChanges, QueuedChangesRequest, queued_changes
from tailrace.wal.reading import read_whole
from tailrace.wal.stood import Difference, Stood, difference, stood_before

__all__ = [
    "STRETCH_BYTES",
    "Catalogs",
    "LocalRunner",
    "Pipeline",
    "PrintedWindow",
    "Runner",
    "Scanning",
    "Source",
    "capture",
    "check_reaches",
    "count_log",
    "know_catalogs",
    "open_pipeline",
    "scan_log",
    "with_full_xids",
]

Result = TypeVar("Result")


@dataclass(slots=True)
class Pipeline(TablesOfLog):
    """A source, scanned and planned for one database: the door to everything that comes out of it. As a :class:`tailrace.feed.Feed` it is what lake
    tables and DataFrames are made from. `told` is the log with the `blocks` that the plan gives of transactions in progress."""

    source: Source
    runner: Runner
    log: ScannedLog
    catalogs: Catalogs
    history: History
    plan: Plan
    told: ScannedLog
    blocks: Blocks
    to: Subscription | None = None
    publisher: Publisher | None = None

    @classmethod
    def planned(cls, source: Source, runner: Runner, log: ScannedLog, catalogs: Catalogs, asked: Asked) -> Pipeline:
        """What is asked for of a scanned log."""
        told, blocks, demand = log, NO_BLOCKS, asked.demand
        if demand.streaming is not None:
            unread, _ = consistency(log)
            in_progress = InProgress(
                before=asked.streamed, limit=demand.streaming, known_from=max(catalogs.known_from, raised_at(log)),
                at_end=asked.upto > log.end,
            )  # fmt: skip
            told, blocks = with_blocks(
                log, unfinished(log, unread, unread), in_progress, catalogs.state.database, demand.two_phase
            )
            catalogs = catalogs.as_told(told)
        history = catalogs.history(demand.search_path, demand.defaults)
        plan = make_plan(
            told, history, start_lsn=asked.start, upto_lsn=asked.upto, demand=demand, is_strict=asked.is_strict, blocks=blocks
        )
        return cls(source, runner, log, catalogs, history, plan, told, blocks)

    @property
    def warning(self) -> str:
        """What in this log is passed over, empty if nothing is."""
        at_end = oddity_at_end(self.log, self.source) if self.plan.upto_lsn > self.log.end else ""
        state = self.catalogs.state
        drops = [lsn for lsn in drops_of(self.log.scanned, state.database) if lsn < self.plan.upto_lsn]
        dropped = f'database "{state.database_name}" was dropped at {drops[0]}' if drops else ""
        return "; ".join(filter(None, (foreign_records(self.log.indexes), *self.plan.warnings, dropped, at_end)))

    # -- typed changes ---------------------------------------------------------------------------------------------------------------

    @property
    def span(self) -> FeedSpan:
        segments = self.source.segments
        stop = min(int(self.plan.upto_lsn), int(self.log.end), int(NEVER) - 1)
        names = self.to.names if self.to is not None else ()
        return FeedSpan(segments.system, segments.timeline, self.plan.start_lsn, Lsn(stop), self.catalogs.state.database, names)

    @property
    def demand(self) -> Demand:
        return self.plan.demand

    def publishing(
        self, publication: str | Sequence[str], state: str | Path | None = None, style: TextStyle = TEXT_STYLE
    ) -> Pipeline:  # fmt: skip
        """As a feed, what these publications publish, and no more: names, or a list of them in one text as pgoutput takes it. Those that are
        defined in the state location `state` count beside the source's own. Filters are evaluated with the settings of `style`. What the server would
        end a stream with is raised where changes are decoded."""
        return self.published_to(subscription(self.catalogs.state, publication, state, style))

    def published_to(self, to: Subscription) -> Pipeline:
        """The same for who knows the definitions."""
        return replace(self, to=to, publisher=publisher_of(self.plan, self.history, to.names, to.style, to.definitions))

    def stood_before(self, lsn: Lsn) -> Stood | None:
        segments = self.source.segments
        return stood_before(segments.read, segments.identity, lsn, segments.first_lsn)

    def difference(self, stood: Stood) -> Difference | None:
        segments = self.source.segments
        return difference(stood, segments.read, segments.identity, segments.first_lsn)

    def shown(self, relation: Relation) -> Relation | None:
        """The relation with the columns that are published of it; None if nothing is."""
        return relation if self.to is None else shown_relation(self.history, relation, self.to, int(self.span.stop))

    @property
    def relations(self) -> tuple[Relation, ...]:
        if self.publisher is None:
            return self.plan.relations
        tables = (table for relation in self.plan.relations for table in self.publisher.tables_of(relation))
        return tuple(dict.fromkeys(tables))

    @property
    def truncations(self) -> list[CommittedTruncation]:
        commits = self.plan.transactions.commit_lsn
        told = self.plan.truncations if self.publisher is None else self.publisher.truncations(self.plan.truncations)
        return [CommittedTruncation(Lsn(int(commits[each.ordinal])), each) for each in told]

    @property
    def stretches(self) -> int:
        return len(self.plan.stretches)

    @property
    def most_bytes(self) -> int:
        return sys.maxsize

    @property
    def decoder(self) -> Decoder:
        return partial(decode_piece, self.source.segments.read)

    def pieces(self, oids: frozenset[int], since: int = 0) -> list[Piece]:
        if self.publisher is not None:
            return published_pieces(self.plan, self.publisher, oids, since)
        return pieces_of(self.plan, oids, since)

    def parts(self, oids: frozenset[int], since: int = 0) -> Iterator[FeedPart]:
        yield FeedPart(self.pieces(oids, since), self.stretches)

    def run(self, work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Iterator[Result]:
        return self.runner.run(work, pieces)

    def with_rewrites(self) -> Pipeline:
        """The same log, with the rows that ALTER TABLE wrote anew, if it may have done so."""
        if not self.history.table("pg_class")["relrewrite"].any():
            return self
        plan = make_plan(
            self.log,
            self.history,
            start_lsn=self.plan.start_lsn,
            upto_lsn=self.plan.upto_lsn,
            demand=replace(self.demand, rewrites=True),
            is_strict=self.plan.is_strict,
        )
        remade = replace(self, plan=plan)
        return remade if self.to is None else remade.published_to(self.to)

    # -- a plugin's output -----------------------------------------------------------------------------------------------------------

    def lines(self, plugin: OutputPlugin) -> Iterator[Lines]:
        """What the plugin prints, in commit order. Raises UsageError if the plan was made for another demand than the plugin's; warns
        (`PublicationWarning`) of publications that do not exist, where the server does."""
        return self._warning_behind(self.printed(plugin))

    def _warning_behind(self, printed: PrintedWindow) -> Iterator[Lines]:
        yield from printed.lines(self.runner)
        if printed.publisher is not None:
            warn_of_missing(printed.publisher.passed_over)

    def printed(self, plugin: OutputPlugin) -> PrintedWindow:
        """The same, to be run elsewhere."""
        plugin.demand.check_met(self.plan.demand, plugin.name)
        context, state = plugin.context, self.catalogs.state
        context.codec, context.database = codec_named(state.encoding), state.database_name
        context.is_sql_ascii = state.encoding == SQL_ASCII
        plan = self._with_ties_resolved()
        publisher = None
        if plugin.wants.publication_names is not None:
            publisher = publisher_of(plan, self.history, plugin.wants.publication_names, context.style, context.definitions)
        if isinstance(plugin, RelationCallbacks):
            plugin.planned(
                PlanFacts(plan, self.history, relation_invalidations(self.told, state.database, state.major), publisher)
            )
        return PrintedWindow(plan, plugin, self.source.segments, publisher, Lsn(min(self.log.end, plan.upto_lsn)))

    def _with_ties_resolved(self) -> Plan:
        ties = find_ties(self.told, self.plan, self.catalogs.state.database)
        if ties is None:
            return self.plan
        results = list(self.runner.run(partial(_queued, self.source.segments), ties.requests))
        return replace(self.plan, messages=resolved(ties, self.plan, results))


@dataclass(frozen=True, slots=True)
class PrintedWindow:
    """All that it takes to have a plugin print a window, which ends at `upto`, and no more: it travels."""

    plan: Plan
    plugin: OutputPlugin
    segments: Segments
    publisher: Publisher | None
    upto: Lsn

    def lines(self, runner: Runner) -> Iterator[Lines]:
        """What the plugin prints, in commit order."""
        format_one = partial(_format, self.segments, self.plugin.formatter, self.publisher)
        yield from drive(self.plan, self.plugin, partial(runner.run, heavy=True), format_one, self.publisher)
        self.plugin.written_upto(self.upto)


def _queued(segments: Segments, request: QueuedChangesRequest) -> QueuedChanges:
    return read_whole(
        segments.read, request.stretch, partial(queued_changes, request=request, segment_size=segments.segment_size)
    )


def _format(segments: Segments, formatter: Formatter, publisher: Publisher | None, plan: StretchPlan) -> FormattedChanges:
    return format_stretch(plan, segments.read, formatter, publisher)


def open_pipeline(
    source: str | Path | Source, database: str, *, runner: Runner | None = None, catalog: GivenState = None, start_lsn: GivenLsn = None,
    upto_lsn: GivenLsn = None, scanning: Scanning = AS_SUITS, demand: Demand = OF_TABLES,
) -> Pipeline:  # fmt: skip
    """Scan `source` and plan the decoding of `database` as an outlet demands it (`plugin.demand`; tables of changes ask for the default). See
    `tailrace decode` for what the positions mean; they may be text, and the state the file that it is in."""
    runner = runner or LocalRunner()
    since, until, captured = lsn_of(start_lsn), lsn_of(upto_lsn), state_of(catalog)
    source, scan_from = opened(source, database, captured)
    indexes = scan_log(source.segments, runner, scan_from, scanning)
    check_holds(source, indexes, since)
    log = with_full_xids(source, indexes, captured, demand.two_phase)
    catalogs = know_catalogs(source, runner, log, database, captured)
    level = source.control.wal_level if source.control else None
    check_decodable(log, since or 0, until or int(NEVER), level)
    start = since if since is not None else consistency(log)[1]
    upto = until if until is not None else Lsn(NEVER)
    return Pipeline.planned(source, runner, log, catalogs, Asked(start, upto, demand, is_strict=since is not None))


def opened(source: str | Path | Source, database: str, catalog: CatalogState | None) -> tuple[Source, Lsn | None]:
    """The source, and from where it is to be read (None: from its beginning). Raises where the state does not fit it, or needs WAL that it lacks."""
    scan_from = catalog.needs_wal_from if catalog is not None else None
    source = source if isinstance(source, Source) else Source.open(source, scan_from)
    segments = source.segments
    if catalog is not None:
        catalog.check_fits(database, segments.system, segments.major, segments.timeline, segments.history)
    if scan_from is not None and scan_from < segments.first_lsn:
        raise MissingHistory(
            f"the catalog state needs WAL from {scan_from}, the source begins at {segments.first_lsn}", lsn=scan_from
        )
    return source, scan_from


def check_holds(source: Source, indexes: Sequence[Index], start_lsn: Lsn | None) -> None:
    """Raise where the log ends before its control file says, or `start_lsn` lies outside."""
    check_reaches(indexes, source.control)
    if start_lsn is not None and not indexes[0].stretch.start <= start_lsn <= indexes[-1].next_lsn:
        raise MissingHistory(
            f"start LSN {start_lsn} is outside of the WAL at hand",
            hint=f"It reaches from {indexes[0].first} to {indexes[-1].next_lsn}.",
            lsn=start_lsn,
        )
