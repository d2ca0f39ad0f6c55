"""`spark.readStream.format("tailrace")`: what a slot gives, micro-batch by micro-batch.

In: a slot (options `state` and `slot`), or a log alone (`source`, `database`, `catalog`); and `table`, or `tables`, or neither for all; or `plugin`.
Out: rows as `spark.read` has them, typed of one table, maps of text of several, or what the plugin prints. An offset is an LSN, and what stood before
it in the log: a batch is what commits from one up to the next, whoever asks, so a batch that is repeated is the same, and of no other log.

One process per query plans, and owns the slot from the first `latestOffset` on (Spark makes a second reader, which only hands `read` to workers; and
it ends processes without a word, so nothing is left to `stop`). `commit` confirms the slot: one batch late, as Spark calls it. Where the query's
checkpoint is ahead of the slot, the checkpoint counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from tailrace.catalog.history.partitions import partitions_of
from tailrace.catalog.names.qualified_names import read_table_name, read_table_names
from tailrace.client.reception import Reception
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory, UsageError
from tailrace.model import Lsn, Relation
from tailrace.piece_changes import decode_piece
from tailrace.pipeline.pipeline import Pipeline
from tailrace.plan.demand import OF_TABLES, Demand
from tailrace.plugins.output_plugin import OutputPlugin
from tailrace.publications.subscription import Subscription, publication_names, shown_relation
from tailrace.replication.acquired_slot import AcquiredSlot
from tailrace.replication.get_changes import new_windows
from tailrace.replication.next_window import Limit
from tailrace.replication.retention import receiving_log
from tailrace.sources.received_log import ReceivedLog
from tailrace.spark.changed_table import ChangedTable, has_partitions
from tailrace.spark.offset import Offset
from tailrace.spark.pickling import pack, unpack
from tailrace.spark.plugin_rows import plugin_of, printed, printed_rows, printed_schema
from tailrace.spark.rows import RowShape, oids_of, rows_of
from tailrace.spark.stream_source import StreamSource
from tailrace.spark.workers import message_first, settle
from tailrace.storage.state_location import definitions_in
from tailrace.window import WindowSize, parse_size

_BATCH = WindowSize()


@dataclass(frozen=True, slots=True)
class StreamOfPlugin:
    """A stream gives what this plugin prints. Publications of its are looked for in `state`, too."""

    plugin: OutputPlugin
    state: str | None

    def demand(self) -> Demand:
        return self.plugin.demand

    def schema(self) -> pa.Schema:
        return printed_schema(self.plugin)

    def packed(self, window: Pipeline) -> list[InputPartition]:
        return [_Packed(printed_rows, printed(window, self.plugin, self.state))]


class _Packed(InputPartition):
    """All that a worker needs, Spark's reader there knowing nothing of the batch: a function that gives rows, and its arguments."""

    def __init__(self, *parts: Any) -> None:
        self._packed = pack(parts)

    def parts(self) -> tuple[Any, ...]:
        parts: tuple[Any, ...] = unpack(self._packed)
        return parts


@dataclass(frozen=True, slots=True)
class StreamOfTables:
    """Whose changes a stream gives: of the tables of these names, or of all (None). `shape` says how; where rows are typed, they are those of
    `relation` as it was at `known_at`, where the log ended when the query began. Of those what `publication` publishes (empty: all); `state` has
    more of them."""

    names: tuple[tuple[str, str], ...] | None
    shape: RowShape
    publication: str = ""
    state: str | None = None
    relation: Relation | None = None
    known_at: Lsn = Lsn(0)

    def demand(self) -> Demand:
        return replace(OF_TABLES, search_path=self.shape.style.text.schemas)

    def schema(self) -> pa.Schema:
        return self.shape.schema(self.relation)

    def packed(self, window: Pipeline) -> list[InputPartition]:
        """Pickle the window's partitions."""
        if self.publication:
            window = window.publishing(self.publication, self.state, self.shape.style.text)
        tables = self.tables(window)
        decode = partial(decode_piece, window.source.segments.read)
        return [_Packed(rows_of, decode, piece, tables, self.shape) for piece in window.pieces(oids_of(tables))]

    def tables(self, window: Pipeline) -> tuple[ChangedTable, ...]:
        """As they are at the end of the window; of all, those that changed. Raises UsageError if the one table has other columns by then than the
        query's rows."""
        if self.relation is not None:
            self._check_columns(window)
            partitions = partitions_of(window.history, self.relation.oid) if has_partitions(self.relation, window) else None
            return (ChangedTable(self.relation, partitions),)
        if self.names is not None:
            return tuple(ChangedTable.named(window, schema, name) for schema, name in self.names)
        relations: dict[int, Relation] = {relation.oid: relation for relation in window.relations}
        return tuple(ChangedTable(relation, None) for relation in relations.values())

    def _check_columns(self, window: Pipeline) -> None:
        assert self.relation is not None
        end = window.span.stop
        now = window.history.relation_by_oid(self.relation.oid, int(end)) if end > self.known_at else None
        now = window.shown(now) if now is not None else None
        if now is not None and now.live_columns != self.relation.live_columns:
            raise UsageError(
                f"the columns of {self.relation} changed before {end}",
                hint="Start the query again: its rows then have the new columns. Rows as maps of text (tables, instead of table) bear such changes.",
                lsn=end,
            )


class TailraceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches where Spark keeps it, and decodes pieces where Spark sends it."""

    def __init__(self, origin: StreamSource, wanted: StreamOfTables | StreamOfPlugin, most_bytes: str | None) -> None:
        self._origin, self._wanted = origin, wanted
        self._most_bytes = parse_size(most_bytes) if most_bytes else _BATCH.wal_bytes
        self._acquired: AcquiredSlot | None = None
        self._reception: Reception | None = None
        self._held = ExitStack()
        """Closed when Spark ends this process."""
        self._stop: Lsn | None = None
        self._latest: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_acquired": None, "_reception": None, "_held": ExitStack(), "_latest": None}

    @message_first()
    def initialOffset(self) -> dict[str, Any]:
        slot = self._origin.slot() or self._slot().slot
        return Offset(slot.confirmed_flush_lsn, slot.fingerprint).written()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(self._most_bytes)

    @message_first()
    def prepareForTriggerAvailableNow(self) -> None:
        self._stop = self._slot().written_upto

    @message_first()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """`start` itself where nothing is new, which is how Spark knows."""
        at, acquired = self._at(start), self._slot()
        if self._stop is not None and at >= self._stop:
            return start
        most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._most_bytes
        upto = acquired.end_of_batch(replace(_BATCH, wal_bytes=most))
        if upto <= at:
            return start
        self._latest = Offset(upto, acquired.fingerprint_at(upto)).written()
        return self._latest

    @message_first()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._at(start)
        upto = Offset.read(end)
        packed: list[InputPartition] = []
        acquired = self._slot()
        for window in new_windows(acquired, self._wanted.demand(), Limit(upto.lsn)):
            packed += self._wanted.packed(window)
        if acquired.read_upto < upto.lsn:
            raise MissingHistory(
                f"the log ends at {acquired.read_upto}, but the query's checkpoint says {upto.lsn}",
                hint="It was read from another log, or this one lost its end.",
                lsn=upto.lsn,
            )
        self._check(end)
        return packed

    @message_first()
    def commit(self, end: dict[str, Any]) -> None:
        self._slot().confirm(Offset.read(end).lsn)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, _Packed):
            rows, *arguments = partition.parts()
            with message_first():
                yield from rows(*arguments)
        settle()

    def _slot(self) -> AcquiredSlot:
        if self._acquired is None:
            acquired = self._acquired = self._origin.acquire()
            if (log := ReceivedLog.of(acquired.slot.source)) is not None:
                self._reception = self._held.enter_context(receiving_log(log, lambda _: None, warn=acquired.location.warn))
        if self._reception is not None:
            self._reception.check()
        return self._acquired

    def _at(self, start: dict[str, Any]) -> Lsn:
        """The slot goes on from there."""
        self._check(start)
        lsn = Offset.read(start).lsn
        self._slot().go_to(lsn)
        return lsn

    def _check(self, offset: dict[str, Any]) -> None:
        """Raise unless the log is the one that this offset is of. That of the one that was planned last is known, and followed from there."""
        if offset != self._latest:
            self._slot().check_fingerprint(Offset.read(offset).fingerprint, "the streaming query")
            self._latest = offset


def wanted_of(origin: StreamSource, options: Mapping[str, str], shape: RowShape) -> StreamOfTables | StreamOfPlugin:
    """Which tables the options name; of one, what it is at the end of the log. Or the plugin that they name."""
    if "plugin" in options:
        return StreamOfPlugin(plugin_of(options, origin.major(), origin.slot()), options.get("state"))
    publication, state = options.get("publication", ""), options.get("state")
    if "tables" in options:
        return StreamOfTables(tuple(read_table_names(options["tables"])), shape, publication, state)
    if "table" not in options:
        return StreamOfTables(None, shape, publication, state)
    schema, name = read_table_name(options["table"])
    history, end = origin.catalogs_at_end()
    relation = history.relation_named(schema, name, int(end) + 1)
    if relation is None:
        raise UsageError(f'relation "{schema}.{name}" does not exist', sqlstate="42P01", context=f"at {end}")
    if publication:
        definitions = definitions_in(state, origin.system(), history.database) if state else ()
        to = Subscription(publication_names(publication), definitions, shape.style.text)
        shown = shown_relation(history, relation, to, int(end))
        if shown is None:
            raise UsageError(f'relation "{schema}.{name}" is not part of the publication', sqlstate="42704", context=f"at {end}")
        relation = shown
    return StreamOfTables(((schema, name),), shape, publication, state, relation, end)
