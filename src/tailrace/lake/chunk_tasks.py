"""What a chunk of a table's changes comes to, written where workers are: functions of files.

In: files of changes that were staged, and which part of them. Out: files of rows that come, keys of rows that go, and what the table alone knows.
A chunk says what it does to what was there before it, so all can be worked on at once, and are put together in their order (`lake/wide_change.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa

from tailrace.apply.matching import Numbers
from tailrace.apply.net_change import NetChange
from tailrace.apply.tables import filled
from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import DataFile
from tailrace.lake.chunks import Chunk, StagedChanges
from tailrace.lake.files.data_files import DataFiles
from tailrace.lake.files.edit_tasks import in_key_order, numbered, read_staged, staged_rows
from tailrace.lake.files.statistics import columns_beyond_statistics, unbounded_values


@dataclass(frozen=True, slots=True)
class RowsAsked:
    """Rows that were there before, and of which the values of these columns are wanted: the staged keys of them."""

    keys: DataFile
    columns: Sequence[str]


@dataclass(frozen=True, slots=True)
class ChunkDone:
    """What a chunk comes to: `files` of its rows, which replace those of their keys. What else goes is staged in `gone`: keys, or, of a table without
    one, rows, of each as many as `copies` says. If it `asks`, nothing was written yet."""

    files: Sequence[DataFile] = ()
    gone: DataFile | None = None
    copies: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    asks: RowsAsked | None = None
    upserts: int = 0
    deletes: int = 0
    unbounded: frozenset[str] = frozenset()
    beyond: Mapping[str, int] = field(default_factory=dict)


def net_of_chunk(staged: StagedChanges, rows: DataFiles, chunk: Chunk) -> ChunkDone:
    """Runs in a worker."""
    net = staged.net(chunk)
    if net is None:
        return ChunkDone()
    if net.fills:
        keys = numbered(pa.concat_tables([fill.keys for fill in net.fills]))[1]
        columns = list(dict.fromkeys(fill.column for fill in net.fills))
        return ChunkDone(asks=RowsAsked(staged_rows(staged.store, keys.cast(_columns(rows, net.key)), net.key), columns))
    return _written(staged, rows, net)


def answered_chunk(staged: StagedChanges, rows: DataFiles, answered: tuple[Chunk, RowsAsked, Sequence[DataFile]]) -> ChunkDone:
    """The same with what it asked for, which was found in the table and staged. Runs in a worker."""
    chunk, asked, found = answered
    net = staged.net(chunk)
    assert net is not None, "what has no changes asks for nothing"
    schema = _columns(rows, [*net.key, *(name for name in asked.columns if name not in net.key)])
    return _written(staged, rows, filled(net, read_staged(staged.store, found, schema)))


def _written(staged: StagedChanges, rows: DataFiles, net: NetChange) -> ChunkDone:
    unbounded, beyond = columns_beyond_statistics(net.upserts), unbounded_values(net.upserts)
    data = rows.elsewhere()
    data.leave_out_statistics(unbounded)
    gone, copies, by = None, np.zeros(0, np.int64), staged.key or tuple(rows.schema.names)
    if len(net.deletes):
        deletes = net.deletes.select(by).cast(_columns(rows, by))
        if not net.key:
            numbers, deletes = numbered(deletes)
            copies = np.bincount(numbers).astype(np.int64)
        gone = staged_rows(staged.store, in_key_order(deletes, by), by)
    counts = len(net.upserts), len(net.deletes)
    ordered = in_key_order(net.upserts, by)
    del net
    files = data.write_all(ordered)
    return ChunkDone(files, gone, copies, None, *counts, unbounded, beyond)


def _columns(rows: DataFiles, names: Sequence[str]) -> pa.Schema:
    return pa.schema([rows.schema.field(name) for name in names])
