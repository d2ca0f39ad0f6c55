"""What an output plugin prints, as a DataFrame: the rows of pg_logical_slot_get_changes.

In: options `plugin` and `plugin.NAME`, windows of a log. Out: rows lsn, xid and data, in commit order within each partition; a window is a partition,
and partitions are in order, too. A worker decodes and prints a window; nothing of a row passes through Spark's planner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import cpu_count
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.pipeline.pipeline import Pipeline
from tailrace.pipeline.printed_window import PrintedWindow
from tailrace.pipeline.runner import LocalRunner
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import OutputPlugin, shut_down
from tailrace.plugins.printing import as_text, few_at_a_time
from tailrace.publications.publishing.published_relation import warn_of_missing
from tailrace.publications.subscription import publication_names
from tailrace.replication.slot_plugin import started_plugin
from tailrace.slots.slot import Slot
from tailrace.spark.pickling import pack, unpack
from tailrace.spark.workers import message_first, settle
from tailrace.storage.state_location import definitions_in
from tailrace.types.style import PARAMETERS

OPTION = "plugin."
"""What a plugin's own options begin with."""
_THREADS = 2


def plugin_of(options: Mapping[str, str], major: int, slot: Slot | None = None) -> OutputPlugin:
    """The plugin that the options name, started up with those of its own. With the slot's plugin the slot's options hold, where none is given."""
    given = {name.removeprefix(OPTION): value for name, value in options.items() if name.startswith(OPTION)}
    parameters = {name: options[name] for name in PARAMETERS if name in options}
    plugin = started_plugin(options["plugin"], given, parameters, major, slot, unknown_types=options.get("unknowntypes", ""))
    if slot is not None and plugin.context.two_phase and not slot.two_phase:
        raise UsageError(
            f'replication slot "{slot.name}" gives prepared transactions when they commit',
            hint="Create the slot with two_phase, or leave the option out.",
            sqlstate="55000",
        )
    if "publication" in options:
        plugin.choose(publication_names(options["publication"]))
    if plugin.wants.streaming:
        raise UsageError(
            "transactions in progress are not streamed into DataFrames",
            detail="How a block is told depends on what was printed of its transaction before; the windows of a DataFrame are printed apart.",
            hint="Leave the option out: they come when they end.",
            sqlstate="0A000",
        )
    return plugin


def printed_schema(plugin: OutputPlugin) -> pa.Schema:
    """Positions are numbers, as in the rows of tables. Binary output is binary."""
    data = pa.binary() if plugin.wants.binary_output else pa.string()
    return pa.schema([("lsn", pa.int64()), ("xid", pa.int64()), ("data", data)])


def printed(window: Pipeline, plugin: OutputPlugin, state: str | None) -> PrintedWindow:
    """What the plugin makes of a window, with the publications that are defined in a state location, if there is one."""
    of = window.catalogs.state
    if state and plugin.wants.publication_names is not None:
        plugin.context.definitions = definitions_in(state, of.system, of.database)
    return window.printed(plugin)


def printed_rows(window: PrintedWindow) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: there the plugin is called, from startup to shutdown."""
    runner = LocalRunner(min(_THREADS, cpu_count() or 1))
    with shut_down(window.plugin):
        for lines in window.lines(runner):
            for few in few_at_a_time(lines):
                yield _batch(few, window.plugin)
    if window.publisher is not None:
        warn_of_missing(window.publisher.passed_over)


def _batch(lines: Lines, plugin: OutputPlugin) -> pa.RecordBatch:
    texts = lines.texts if plugin.wants.binary_output else as_text(lines.texts, plugin)
    offsets = pa.py_buffer(texts.offsets.astype(np.int32))
    data = pa.Array.from_buffers(pa.binary(), len(lines), [None, offsets, pa.py_buffer(np.ascontiguousarray(texts.data))])
    schema = printed_schema(plugin)
    try:
        columns = [pa.array(lines.lsn), pa.array(lines.xid.astype(np.int64)), data.cast(schema.field("data").type)]
    except pa.ArrowInvalid:
        raise UsageError(
            'invalid byte sequence for encoding "UTF8"', hint='Take the rows as binary, such as with option "plugin.force-binary".',
            context=f"between {Lsn(int(lines.lsn.min()))} and {Lsn(int(lines.lsn.max()))}", sqlstate="22021",
        ) from None  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class PickledWindow(InputPartition):
    """A window on its way to where a plugin prints it."""

    def __init__(self, window: PrintedWindow) -> None:
        self._packed = pack(window)

    def rows(self) -> Iterator[pa.RecordBatch]:
        window: PrintedWindow = unpack(self._packed)
        yield from printed_rows(window)


class PrintedReader(DataSourceReader):
    """Has a plugin print windows."""

    def __init__(self, windows: list[InputPartition]) -> None:
        self._windows = windows

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_windows": []}

    def partitions(self) -> list[InputPartition]:
        return self._windows

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, PickledWindow):
            with message_first():
                yield from partition.rows()
        settle()
