"""A `Pipeline` is a log that has been scanned and planned for one database; its methods decode it, into typed changes or into what a plugin
prints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Self

from tailrace.catalog.history.history import History
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.dataclass import dataclass
from tailrace.feed import FeedPart
from tailrace.model import Lsn, Relation
from tailrace.pipeline.catalogs import Catalogs
from tailrace.pipeline.decoding_range import DecodingRange
from tailrace.pipeline.planned_log import Bounds, PlannedLog
from tailrace.pipeline.printed_window import PrintedWindow, queued_in
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import oddity_at_end
from tailrace.plan import Plan, make_plan
from tailrace.plan.consistency import consistency
from tailrace.plan.decodable import drops_of, foreign_records, raised_at
from tailrace.plan.demand import Demand
from tailrace.plan.events import CommittedTruncation
from tailrace.plan.invalidations import relation_invalidations
from tailrace.plan.message_order import find_ties, resolved
from tailrace.plan.pieces import Piece, pieces_of
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.plugins.relation_callbacks import PlanFacts, RelationCallbacks
from tailrace.publications.publishing.published_pieces import published_pieces
from tailrace.publications.publishing.published_relation import warn_of_missing
from tailrace.publications.publishing.publisher import Publisher, publisher_of
from tailrace.publications.subscription import Subscription
from tailrace.sources.source import Source
from tailrace.transactions.blocks import NO_BLOCKS, Blocks, InProgress, with_blocks
from tailrace.transactions.scanned_log import ScannedLog
from tailrace.transactions.unfinished import unfinished
from tailrace.types.encodings.server_encodings import SQL_ASCII, codec_named


@dataclass(slots=True)
class Pipeline(PlannedLog):
    """A log, scanned and planned for one database. As a `Feed` it gives lake tables and DataFrames their changes; `lines` runs an output plugin.
    `planned_log` is the log with the `blocks` that the plan gives of transactions in progress."""

    source: Source
    runner: Runner
    log: ScannedLog
    catalogs: Catalogs
    history: History
    plan: Plan
    planned_log: ScannedLog
    blocks: Blocks
    to: Subscription | None = None
    publisher: Publisher | None = None

    @classmethod
    def planned(cls, source: Source, runner: Runner, log: ScannedLog, catalogs: Catalogs, wanted: DecodingRange) -> Pipeline:
        """Plan those transactions of a scanned log that are `wanted`."""
        planned, blocks, demand = log, NO_BLOCKS, wanted.demand
        if demand.streaming is not None:
            unread, _ = consistency(log)
            in_progress = InProgress(
                before=wanted.streamed, limit=demand.streaming, known_from=max(catalogs.known_from, raised_at(log)),
                at_end=wanted.upto > log.end,
            )  # fmt: skip
            planned, blocks = with_blocks(
                log, unfinished(log, unread, unread), in_progress, catalogs.state.database, demand.two_phase
            )
            catalogs = catalogs.as_told(planned)
        history = catalogs.history(demand.search_path, demand.defaults)
        plan = make_plan(
            planned,
            history,
            start_lsn=wanted.start,
            upto_lsn=wanted.upto,
            demand=demand,
            is_strict=wanted.is_strict,
            asked_from=wanted.asked_from,
            blocks=blocks,
        )
        return cls(source, runner, log, catalogs, history, plan, planned, blocks)

    @property
    def newest_open(self) -> int:
        """Of the transactions that are open where the log ends, the newest by full xid; 0 if none is."""
        unread, _ = consistency(self.log)
        return int(unfinished(self.log, unread, unread).xid.max(initial=0))

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
    def bounds(self) -> Bounds:
        return Bounds(self.plan.start_lsn, self.plan.upto_lsn, self.log.end)

    @property
    def state(self) -> CatalogState:
        return self.catalogs.state

    @property
    def demand(self) -> Demand:
        return self.plan.demand

    def published_to(self, to: Subscription) -> Self:
        log = self.source.segments.identity
        return replace(self, to=to, publisher=publisher_of(self.plan, self.history, to.names, to.style, to.definitions, log))

    @property
    def relations(self) -> tuple[Relation, ...]:
        if self.publisher is None:
            return self.plan.relations
        tables = (table for relation in self.plan.relations for table in self.publisher.tables_of(relation))
        return tuple(dict.fromkeys(tables))

    @property
    def truncations(self) -> list[CommittedTruncation]:
        commits, times = self.plan.transactions.commit_lsn, self.plan.transactions.time
        truncations = self.plan.truncations
        published = truncations if self.publisher is None else self.publisher.truncations(truncations)
        return [CommittedTruncation(Lsn(int(commits[each.ordinal])), each, int(times[each.ordinal])) for each in published]

    @property
    def stretches(self) -> int:
        return len(self.plan.stretches)

    def pieces(self, oids: frozenset[int], since: int = 0) -> list[Piece]:
        if self.publisher is not None:
            return published_pieces(self.plan, self.publisher, oids, since)
        return pieces_of(self.plan, oids, since)

    def parts(self, oids: frozenset[int], since: int = 0) -> Iterator[FeedPart]:
        yield FeedPart(self.pieces(oids, since), self.stretches)

    def with_rewrites(self) -> Self:
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
        """What the plugin prints, in commit order. Raises UsageError if the plan was made for another demand than the
        plugin's; warns (`PublicationWarning`) of publications that do not exist, where the server does."""
        return self._warning_behind(self.printed(plugin))

    def _warning_behind(self, printed: PrintedWindow) -> Iterator[Lines]:
        yield from printed.lines(self.runner)
        if printed.publisher is not None:
            warn_of_missing(printed.publisher.passed_over)

    def printed(self, plugin: OutputPlugin) -> PrintedWindow:
        """All that it takes to run the plugin over this window, here or in a worker."""
        plugin.demand.check_met(self.plan.demand, plugin.name)
        context, state = plugin.context, self.catalogs.state
        context.codec, context.database = codec_named(state.encoding), state.database_name
        context.is_sql_ascii = state.encoding == SQL_ASCII
        plan = self._with_ties_resolved()
        publisher = None
        if plugin.wants.publication_names is not None:
            names, log = plugin.wants.publication_names, self.source.segments.identity
            publisher = publisher_of(plan, self.history, names, context.style, context.definitions, log)
        if isinstance(plugin, RelationCallbacks):
            plugin.planned(
                PlanFacts(plan, self.history, relation_invalidations(self.planned_log, state.database, state.major), publisher)
            )
        return PrintedWindow(plan, plugin, self.source.segments, publisher, Lsn(min(self.log.end, plan.upto_lsn)))

    def _with_ties_resolved(self) -> Plan:
        ties = find_ties(self.planned_log, self.plan, self.catalogs.state.database)
        if ties is None:
            return self.plan
        results = list(self.runner.run(partial(queued_in, self.source.segments), ties.requests))
        return replace(self.plan, messages=resolved(ties, self.plan, results))
