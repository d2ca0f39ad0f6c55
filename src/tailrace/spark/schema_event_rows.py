"""What became of tables, as a DataFrame (`tailrace.spark.schema_events`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tailrace.catalog.names.qualified_names import read_table_name
from tailrace.errors import UsageError
from tailrace.past.schema_events import SchemaEvent
from tailrace.past.table_events import table_events
from tailrace.pipeline.open_log import open_feed
from tailrace.pipeline.runner import Runner
from tailrace.pipeline.scanning import Scanning
from tailrace.sources.captured import read_captured
from tailrace.sources.stored import STORE_OPTION, take_options
from tailrace.spark.jobs import SparkRunner
from tailrace.spark.schemas import spark_schema
from tailrace.spark.spark_connect import in_one_task, is_client, path_of
from tailrace.types.times.calendar import UNIX_TO_POSTGRES_USECS
from tailrace.window import WindowSize, parse_size

OPTIONS = ("database", "table", "catalog", "window")
SCHEMA = pa.schema(
    [
        ("commit_lsn", pa.int64()), ("lsn", pa.int64()), ("commit_timestamp", pa.timestamp("us", "UTC")), ("xid", pa.int64()), ("oid", pa.int64()),
        ("table", pa.string()), ("event", pa.string()), ("column", pa.string()), ("before", pa.string()), ("after", pa.string()),
    ]
)  # fmt: skip


def schema_events_of(spark: SparkSession, source: str, options: Mapping[str, str]) -> DataFrame:
    """Scan on the executors, or in one of a Connect server's, and tell."""
    for name in options:
        if name not in OPTIONS and not name.startswith(STORE_OPTION):
            raise UsageError(f'unrecognized option "{name}"', hint=f"Options: {', '.join(OPTIONS)}.")
    if "database" not in options:
        raise UsageError('option "database" missing')
    given = path_of(spark, source), dict(options)
    rows = in_one_task(spark, partial(_events, *given, None)) if is_client(spark) else _events(*given, SparkRunner(spark))
    return spark.createDataFrame(rows, spark_schema(SCHEMA))


def _events(source: str, options: Mapping[str, str], runner: Runner | None) -> pa.Table:
    options = take_options({**options, "source": source}, "source", "catalog")
    path, window = options.get("catalog"), options.get("window")
    catalog = read_captured(path) if path else None
    scanning = Scanning(window=WindowSize(parse_size(window)) if window else None)
    feed = open_feed(source, options["database"], runner=runner, catalog=catalog, scanning=scanning)
    events = table_events(feed, read_table_name(options["table"]) if "table" in options else None)
    columns = [list(column) for column in zip(*map(_row, events), strict=True)] if events else [[] for _ in SCHEMA]
    return pa.Table.from_arrays([pa.array(each, field.type) for each, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def _row(event: SchemaEvent) -> tuple[int | str | None, ...]:
    time = event.time + UNIX_TO_POSTGRES_USECS if event.xid else None
    told = event.column or None, event.before or None, event.after or None
    return int(event.commit_lsn), int(event.lsn) or None, time, event.xid or None, event.oid, event.table, event.kind, *told
