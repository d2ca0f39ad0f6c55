"""pg_logical_slot_get_changes and its kin: what a slot has to say, as rows (`replication/logical/logicalfuncs.c`)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.errors import UsageError
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import OutputPlugin, shut_down
from tailrace.plugins.printing import as_text
from tailrace.replication.get_changes import NewChanges
from tailrace.replication.slot_plugin import plugin_of
from tailrace.slots.slot import Slot
from tailrace.sql.functions.calls import FunctionCall
from tailrace.sql.functions.outcome import Outcome
from tailrace.sql.functions.settlement import SlotMoved, StatementSlots
from tailrace.sql.source_database import SourceDatabase
from tailrace.sql.sql_types import ARROW
from tailrace.types.encodings.server_encodings import UTF8


def changes(call: FunctionCall, arguments: list[Any], slots: StatementSlots, parameters: Mapping[str, str]) -> Outcome:
    """The rows. One that consumes has the slot until the statement has ended, and moves it when its rows have been sent."""
    name, upto, most = arguments
    if name is None:
        raise UsageError("slot name must not be null", sqlstate="22004")
    options = _options(call.options)
    slot = _checked(slots.database, name)
    with nullcontext(slots.acquire(name)) if call.function.moves else slots.database.acquired(slot) as acquired:
        plugin = plugin_of(acquired, options, parameters)
        with shut_down(plugin):
            slots.database.privileges.check_publications(plugin.wants.publication_names)
            _check_form(call, plugin, slot)
            new = NewChanges(acquired, plugin, slots.database.warn, upto or None, most or 0)
            rows = []
            for lines in new:
                slots.database.interrupt.check()
                rows.append(lines)
    table = _table(call, rows, plugin)
    if not call.function.moves:
        return Outcome(table)
    return Outcome(table, confirms=SlotMoved(name, new.told, slot.confirmed_flush_lsn))


def _check_form(call: FunctionCall, plugin: OutputPlugin, slot: Slot) -> None:
    """Raise UsageError where text is asked for, and the plugin writes bytes."""
    if plugin.wants.binary_output and call.function.columns[-1][1] == "text":
        raise UsageError(
            f'logical decoding output plugin "{slot.plugin}" produces binary output, but function "{call.function.signature}" expects '
            "textual data",
            sqlstate="0A000",
        )


def _checked(database: SourceDatabase, name: str) -> Slot:
    slot = database.slot(name)
    if slot.database != database.name:
        raise UsageError(f'replication slot "{name}" was not created in this database', sqlstate="55000")
    return slot


def _options(options: list[Any] | None) -> dict[str, str | None]:
    """Pairs of names and values (`pg_logical_slot_get_changes_guts`)."""
    if options is None:
        raise UsageError("options array must not be null", sqlstate="22004")
    if any(isinstance(each, list) for each in options):
        raise UsageError("array must be one-dimensional", sqlstate="0A000")
    if None in options:
        raise UsageError("array must not contain nulls", sqlstate="0A000")
    if len(options) % 2:
        raise UsageError("array must have even number of elements", sqlstate="0A000")
    return dict(zip(options[::2], options[1::2], strict=True))


def _table(call: FunctionCall, parts: list[Lines], plugin: OutputPlugin) -> pa.Table:
    schema = pa.schema([(name, ARROW[kind]) for name, kind in call.function.columns])
    is_text = call.function.columns[-1][1] == "text"
    return pa.Table.from_batches([_batch(lines, schema, plugin, is_text=is_text) for lines in parts], schema)


def _batch(lines: Lines, schema: pa.Schema, plugin: OutputPlugin, *, is_text: bool) -> pa.RecordBatch:
    texts = as_text(lines.texts, plugin) if is_text else lines.texts
    buffers = [None, pa.py_buffer(np.ascontiguousarray(texts.offsets, np.int64)), pa.py_buffer(np.ascontiguousarray(texts.data))]
    data = pa.Array.from_buffers(pa.large_binary(), len(lines), buffers)
    columns = [
        pa.array(lines.lsn.astype(np.uint64)),
        pa.array(lines.xid.astype(np.uint32)),
        _texts(data, plugin.context.codec) if is_text else data.cast(pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _texts(data: pa.Array, codec: str) -> pa.Array:
    """What was written in the encoding of the database, as UTF-8. Bytes that are none, as a logical message may hold, are shown as `\\xNN`."""
    try:
        if codec == UTF8:
            return data.cast(pa.string())
    except pa.ArrowInvalid:
        pass
    return pa.array([each.decode(codec or "utf-8", "backslashreplace") for each in data.to_pylist()], pa.string())
