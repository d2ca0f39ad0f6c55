"""`spark.read.format("tailrace")`: the committed changes of a table as a typed DataFrame, or of several as maps of text.

In: options `source`, `database`, `table` (schema.name) or `tables`, and, if wanted, `catalog`, `startLsn`, `endLsn`, `columns`, and the settings of
ArrowStyle. Out: one row per change, with the columns of `tailrace.changes` or those that `columns` names (Spark does not tell a Python
source what a query leaves out); a partition per stretch of each window. Scan and plan happen once, where Spark plans the read (from threads: no
job can be started there), window by window; what is left of the plan travels with the source, packed, and only decoding goes wide. Order is in the
columns (commit_lsn, lsn, sequence), not in the rows.

Never implements pushFilters: Spark 4.1 to 4.3 caches a filtered plan and answers later queries from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from tailrace.catalog.names.qualified_names import read_table_name, read_table_names
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.changes import COLUMNS
from tailrace.errors import UsageError
from tailrace.model import STRETCH_BYTES
from tailrace.piece_changes import Decoder
from tailrace.pipeline.arguments import lsn_of
from tailrace.pipeline.log_feed import LogFeed
from tailrace.pipeline.open_log import open_feed, open_windows
from tailrace.pipeline.scanning import Scanning
from tailrace.plan.demand import OF_TABLES
from tailrace.plan.pieces import Piece
from tailrace.plugins.output_plugin import shut_down
from tailrace.sources.captured import read_captured
from tailrace.sources.dsn import is_dsn
from tailrace.sources.named import restore_with
from tailrace.sources.source import Source, major_of
from tailrace.sources.stored import take_options
from tailrace.spark.changed_table import ChangedTable
from tailrace.spark.pickling import pack, unpack
from tailrace.spark.plugin_rows import OPTION, PickledWindow, PrintedReader, plugin_of, printed, printed_schema
from tailrace.spark.rows import RowShape, oids_of, rows_of
from tailrace.spark.schemas import spark_schema, with_comments
from tailrace.spark.stream import StreamOfPlugin, StreamOfTables, TailraceStreamReader, wanted_of
from tailrace.spark.stream_source import KeptSlot, LogAlone, StreamSource
from tailrace.spark.workers import message_first, settle
from tailrace.storage.index_store import IndexStore
from tailrace.types.style import PARAMETERS
from tailrace.window import WindowSize, parse_size

OPTIONS = {
    "source": "data directory, base backup, pg_wal, directory of archived segments, URL of an archive in a store, or connection string or URI of a "
    "server; or what is given to `load`",
    "database": "the table's database",
    "table": "schema.name, as in SQL and as it is called at the end of the range; it is followed through renames and rewrites; "
    "a partitioned table has the changes of its leaves",
    "tables": "several, with commas between them, instead: rows are maps of PostgreSQL's text, and say their schema and table",
    "plugin": "an output plugin, instead: rows lsn, xid and data of what it prints, in commit order",
    "plugin.": "what an option of the plugin's own begins with, as plugin.skip-empty-xacts",
    "restorecommand": "shell command that brings segments which the directory lacks, as a server's restore_command. Executors read what it brought "
    "in the spool of the process that plans",
    "catalog": "file of a captured catalog state, or its URL in a store",
    "store.": "what an option begins with of the store in which `source` or `catalog` is, as store.aws_region. Else the environment "
    "tells, which is that of Spark's JVM",
    "window": "how much WAL to plan at once, such as 64MB; 256MB unless told. The memory of Spark's planner follows it",
    "index": "directory where indexes are kept, and used again, so that WAL is scanned once",
    "startlsn": "transactions that commit here or later",
    "endlsn": "and before here",
    "publication": "what this publication publishes, and no more; or several, with commas between them",
    "state": "of a stream: the state location in which its slot is kept; and where publications are that are defined here",
    "slot": "of a stream: the slot that it consumes",
    "maxbytespertrigger": "of a stream: how much WAL a batch may have, such as 256MB, which is the default",
    "columns": f"which columns a row has, of {', '.join(COLUMNS)}; each that is left out is time saved",
    "readchangefeed": "of one table: rows of its own columns and those of Spark's change feeds, _change_type, _commit_version and _commit_timestamp; "
    "`columns` then names these and the table's, * being all of the table's, and may add _lsn, _sequence and _unchanged",
    "numeric": "decimal, where the column's precision fits, or text",
    "arrays": "list, or text, which keeps bounds and any number of dimensions",
    "times": "bounded, to the years 1 to 9999, their ends for the infinities; native, as stored, the ends of the type for the infinities; "
    "or text, which keeps all",
    "unknowntypes": "error, or hex, for values whose type is not known",
    **dict.fromkeys(PARAMETERS, "as PostgreSQL's parameter, for what becomes text"),
}
"""What may be asked; Spark gives the names in lower case."""
PLANNED_SECONDS = 3600
"""How long the copy of a running server's WAL that a plan was made from is kept for its tasks."""


class _PickledPiece(InputPartition):
    """A piece on its way, and the tables as its window tells of them."""

    def __init__(self, piece: Piece, tables: tuple[ChangedTable, ...]) -> None:
        self._packed = pack((piece, tables))

    def parts(self) -> tuple[Piece, tuple[ChangedTable, ...]]:
        parts: tuple[Piece, tuple[ChangedTable, ...]] = unpack(self._packed)
        return parts


class TailraceReader(DataSourceReader):
    """Decodes the stretches of one plan."""

    def __init__(self, decode: Decoder, pieces: list[InputPartition], shape: RowShape) -> None:
        self._decode = decode
        self._pieces = pieces
        self._shape = shape

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pieces": []}

    def partitions(self) -> list[InputPartition]:
        return self._pieces

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _PickledPiece):
            return  # Spark's own, of no content, where there are no stretches
        piece, tables = partition.parts()
        with message_first():
            yield from rows_of(self._decode, piece, tables, self._shape)
        settle()


class TailraceSource(DataSource):
    """Found by Spark under its name through `pyspark_tailrace`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._planned: tuple[Decoder, list[InputPartition], tuple[ChangedTable, ...], RowShape] | None = None
        self._printed: list[InputPartition] | None = None
        self._comments: dict[str, str] = {}
        self._of_stream: StreamOfTables | StreamOfPlugin | None = None

    @classmethod
    def name(cls) -> str:
        settle()  # in the process that looks for sources, and in those that ask one for its schema and reader
        return "tailrace"

    @message_first()
    def schema(self) -> StructType:
        settle()
        options = self._options
        if _names_slot(options):
            return spark_schema(self._wanted().schema())
        if "plugin" in options:
            plugin = plugin_of(options, major_of(_needed(options, "source")))
            with shut_down(plugin):
                return spark_schema(printed_schema(plugin))
        if "catalog" in options and not {"table", "tables"} & options.keys():  # a stream of all tables
            return spark_schema(RowShape.of(options).schema(None))
        _, _, tables, shape = self._plan()
        made = spark_schema(shape.schema(tables[0].relation if tables else None))
        return made if shape.several else with_comments(made, self._comments, in_rows=not shape.is_feed)

    @message_first()
    def reader(self, schema: StructType) -> DataSourceReader:
        settle()
        if "plugin" in self._options:
            windows, self._printed = self._plan_printed(), None
            return PrintedReader(windows)
        # Spark sends source and reader along with every task: neither must hold the stretches of all.
        (decode, pieces, _, shape), self._planned = self._plan(), None
        return TailraceReader(decode, pieces, shape)

    @message_first()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        settle()
        options = self._options
        return TailraceStreamReader(_origin(options), self._wanted(), options.get("maxbytespertrigger"))

    @property
    def _options(self) -> dict[str, str]:
        return _checked({name.lower(): value for name, value in self.options.items()})

    def _wanted(self) -> StreamOfTables | StreamOfPlugin:
        """Of a stream; asked for once, where Spark asks for the schema, and again in the process that plans batches."""
        if self._of_stream is None:
            options = self._options
            self._of_stream = wanted_of(_origin(options), options, RowShape.of(options))
        return self._of_stream

    def _plan_printed(self) -> list[InputPartition]:
        if self._printed is None:
            options = self._options
            database = _needed(options, "database")
            source, catalog, scanning = _source(options)
            plugin = plugin_of(options, source.segments.major)
            with shut_down(plugin):
                windows = open_windows(
                    source, database, catalog=catalog, start_lsn=lsn_of(options.get("startlsn") or None),
                    upto_lsn=lsn_of(options.get("endlsn") or None), scanning=scanning, demand=plugin.demand,
                )  # fmt: skip
                self._printed = [PickledWindow(printed(window, plugin, options.get("state"))) for window in windows]
        return self._printed

    def _plan(self) -> tuple[Decoder, list[InputPartition], tuple[ChangedTable, ...], RowShape]:
        if self._planned is None:
            options = self._options
            one = "tables" if "tables" in options else "table"
            if "slot" in options:
                raise UsageError(
                    "a slot is read as a stream", hint='spark.readStream.format("tailrace") reads slots.', sqlstate="0A000"
                )
            for name in ("source", "database", one):
                _needed(options, name)
            shape = RowShape.of(options)
            feed = _open(options, shape.style.text.schemas)
            if "publication" in options:
                feed = feed.publishing(options["publication"], options.get("state"), shape.style.text)
            named = read_table_names(options[one]) if shape.several else [read_table_name(options[one])]
            tables = tuple(ChangedTable.named(feed, schema, name) for schema, name in named)
            if not shape.several:
                self._comments = tables[0].comments(feed)
            pieces: list[InputPartition] = []
            for window in feed.windows():
                theirs = tuple(table.within(window) for table in tables)
                pieces += [_PickledPiece(piece, theirs) for piece in window.pieces(oids_of(theirs))]
            self._planned = feed.decoder, pieces, tables, shape
        return self._planned


def _checked(options: dict[str, str]) -> dict[str, str]:
    """The options, each one known, with what `load(path)` gives as the source. Raises UsageError for others."""
    path = options.pop("path", None)
    if path is not None:
        if options.get("source", path) != path:
            raise UsageError(
                "conflicting or redundant options", hint="Give the source once: as the path, or as an option.", sqlstate="42601"
            )
        options["source"] = path
    options = take_options(options, "source", "catalog")
    restore_with(options.get("source", ""), options.pop("restorecommand", ""))
    if sum(name in options for name in ("table", "tables", "plugin")) > 1:
        raise UsageError("conflicting or redundant options", hint="Give one of table, tables and plugin.", sqlstate="42601")
    for name in options:
        if name not in OPTIONS and not ("plugin" in options and name.startswith(OPTION)):
            raise UsageError(f'unrecognized option "{name}"', hint=f"Options: {', '.join(OPTIONS)}.")
    return options


def _source(options: Mapping[str, str]) -> tuple[Source, CatalogState | None, Scanning]:
    """The source, a captured state, and how to scan."""
    path, index, window = options.get("catalog"), options.get("index"), options.get("window")
    catalog = read_captured(path) if path else None
    # Spark plans in a process of its own, which ends before the tasks begin.
    since = catalog.needs_wal_from if catalog else None
    source = Source.open(options["source"], since, lasting=PLANNED_SECONDS, database=options.get("database", ""))
    scanning = Scanning(
        STRETCH_BYTES, IndexStore(Path(index).absolute()) if index else None, WindowSize(parse_size(window)) if window else None
    )
    return source, catalog, scanning


def _open(options: Mapping[str, str], search_path: tuple[str, ...]) -> LogFeed:
    source, catalog, scanning = _source(options)
    return open_feed(
        source, options["database"], catalog=catalog, start_lsn=lsn_of(options.get("startlsn") or None), upto_lsn=lsn_of(options.get("endlsn") or
        None), scanning=scanning, demand=replace(OF_TABLES, search_path=search_path), )  # fmt: skip


def _needed(options: Mapping[str, str], name: str, hint: str = "") -> str:
    if not options.get(name):
        raise UsageError(f'option "{name}" missing', hint=hint)
    return options[name]


def _names_slot(options: Mapping[str, str]) -> bool:
    """Whether a slot is named, if only by its state location. With a source that may be where publications are."""
    publishes = "source" in options and bool({"publication", "plugin"} & options.keys())
    return "slot" in options or ("state" in options and not publishes)


def _origin(options: Mapping[str, str]) -> StreamSource:
    """The origin of a stream's changes: a slot, or a log alone."""
    hint = "A stream is what a slot gives (state, slot), or a log alone (source, database, catalog)."
    if _names_slot(options) or "source" not in options:
        return KeptSlot(_needed(options, "state", hint), _needed(options, "slot", hint))
    source, database, catalog = (_needed(options, name, hint) for name in ("source", "database", "catalog"))
    if is_dsn(source):
        raise UsageError(
            "a stream from a server needs a slot", sqlstate="0A000",
            hint="Create one (tailrace slot create NAME DSN --database DATABASE --state STATE), and give the options state and slot: the server's "
            "log is received into the state location.",
        )  # fmt: skip
    return LogAlone(source, database, catalog, lsn_of(options.get("startlsn") or None))
