"""pg_logical_slot_get_changes and its kin: what a slot has to say, as rows (`replication/logical/logicalfuncs.c`)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.plugins.lines import Lines
from tailrace.plugins.output_plugin import OutputPlugin, shut_down
from tailrace.plugins.printing import as_text
from tailrace.replication.acquired import Consumer, consuming, consuming_owned
from tailrace.replication.slot_plugin import plugin_of
from tailrace.slots.slot import Slot
from tailrace.sql.functions.calls import Call
from tailrace.sql.functions.outcome import Outcome
from tailrace.sql.place import Place
from tailrace.sql.sql_types import ARROW
from tailrace.types.encodings.server_encodings import UTF8


def changes(call: Call, arguments: list[Any], place: Place, parameters: dict[str, str], held: ExitStack) -> Outcome:
    """The rows. One that consumes holds the slot, in `held`, until the statement has ended, and confirms when its rows have been printed."""
    name, upto, most = arguments
    if name is None:
        raise UsageError("slot name must not be null", sqlstate="22004")
    options = _options(call.options)
    slot = _checked(place, name)
    stack = held if call.function.moves else ExitStack()
    consumer = stack.enter_context(consumer_of(place, slot))
    try:
        plugin = plugin_of(consumer, options, parameters)
        plugin.context.upto_nchanges = max(0, most or 0)
        with shut_down(plugin):
            _check_form(call, plugin, slot)
            rows, told = _taken(consumer, plugin, upto or None, most or 0, place)
    finally:
        if stack is not held:
            stack.close()
    table = _table(call, rows, plugin)
    if not call.function.moves:
        return Outcome(table)
    return Outcome(table, confirm=lambda: consumer.confirm(told), told=told)


def _check_form(call: Call, plugin: OutputPlugin, slot: Slot) -> None:
    """Raise UsageError where text is asked for, and the plugin writes bytes."""
    if plugin.wants.binary_output and call.function.columns[-1][1] == "text":
        raise UsageError(
            f'logical decoding output plugin "{slot.plugin}" produces binary output, but function "{call.function.signature}" expects '
            "textual data",
            sqlstate="0A000",
        )


def consumer_of(place: Place, slot: Slot) -> Any:
    """Of a slot, which may be one that this session has made for itself."""
    runner = place.runner_for(max(0, place.segments().stop_lsn - slot.confirmed_flush_lsn))
    if slot.name in place.temporary:
        return consuming_owned(place.owned_by[slot.name], slot, runner)
    return consuming(place.location, slot.name, runner)


def _checked(place: Place, name: str) -> Slot:
    slot = place.slot(name)
    if slot.database != place.database:
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


def _taken(consumer: Consumer, plugin: OutputPlugin, upto: Lsn | None, most: int, place: Place) -> tuple[list[Lines], Lsn]:
    """What is new, whole transactions until there are `most` rows (0: all), and where a consumer stands that has it."""
    told = consumer.read_upto
    if (upto is not None and upto <= told) or most < 0:
        return [], told
    found: list[Lines] = []
    count = 0
    for window in consumer.take(plugin.demand, upto):
        if window.warning:
            place.warn(window.warning)
        for lines in window.lines(plugin):
            enough = _enough(lines, most - count) if most else 0
            if enough:
                found.append(lines.part(0, enough))
                return found, found[-1].position_behind(told)
            found.append(lines)
            told = lines.position_behind(told)
            count += len(lines)
    if consumer.gap:
        place.warn(consumer.gap)
    return found, consumer.read_upto


def _enough(lines: Lines, wanted: int) -> int:
    """How many of the rows to give so that no transaction is cut and there are as many as wanted, or more; 0 if that takes what follows as well."""
    ends = np.union1d(lines.ends, lines.stops)
    ends = ends[ends >= wanted]
    return int(ends[0]) if len(ends) else 0


def _table(call: Call, parts: list[Lines], plugin: OutputPlugin) -> pa.Table:
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
