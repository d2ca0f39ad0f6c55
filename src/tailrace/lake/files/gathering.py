"""Files of a table gathered: many small ones into few, and such as all span the same keys into files that each have a part of them.

In: a table, and how its rows are to lie in files. Out: commits that change no row. Each takes a bounded number of bytes and rows, so that
little is lost where somebody else commits first. Small files are gathered with others of about their size: who writes a little every ten seconds
would otherwise write the rows of an hour again every minute. A look-up by key reads all files that span the key; where too many do, some of them
are sorted together and cut by key, so that one of them does.
"""

from __future__ import annotations

import math
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import DataFile
from tailrace.delta_log.file_bounds import rows_left
from tailrace.lake.files.data_files import FILE_BYTES, MOST_ROWS, DataFiles, is_full
from tailrace.lake.files.table_edit import TableEdit
from tailrace.lake.table import CommitNote, FileLayout, Gathered, OpenTable, TableVersion

_SMALL = 16 << 20
"""Bytes; files that are larger stay as they are."""
_TIER = 8
"""Files of a tier are at most so many times as large as each other; all that are smaller than the first are one."""
_SMALLEST = 64 << 10
_TOO_MANY = 10
"""Small files of a tier; so many and more are gathered."""
_AT_ONCE, _ROWS_AT_ONCE = 64 << 20, 2 * MOST_ROWS
"""Bytes of files, and rows, that one commit gathers."""
_TOO_DEEP = 16
"""Files that all span one key; so many and more are cut by key."""
_CUT_AT_ONCE = 256 << 20
"""Bytes of files that are cut by key in one commit: it reads them several times, and holds a part."""
_FEWEST_CUT = 4
_UNPACKED = 4
"""Bytes in memory of a byte in a file, as a guess from which is said into how many parts files are cut."""
_SAMPLES = 100_000


@dataclass(frozen=True, slots=True)
class _Group:
    """Files that are gathered together, and between which values of the first column they are cut."""

    files: Sequence[DataFile]
    cuts: pa.Array | None = None


def gather(found: TableVersion, name: str, layout: FileLayout, deadline: float = math.inf) -> tuple[TableVersion, Gathered]:
    """The table with its files gathered where they should be, as far as that goes up to the `deadline` of `time.monotonic`. Raises Overtaken where
    somebody else commits meanwhile; what was committed before that stays."""
    done = Gathered()
    while time.monotonic() < deadline:
        table = found.open()
        if table.is_partitioned:
            break
        data = found.data_files(table.schema, uuid.uuid4().hex, layout.without_statistics)
        group = _too_many(table, layout, data) or _too_deep(table, layout, data)
        if group is None:
            break
        found, more = _gather(found, name, layout, data, group)
        done += more
    return found, done


def _gather(found: TableVersion, name: str, layout: FileLayout, data: DataFiles, group: _Group) -> tuple[TableVersion, Gathered]:
    table = found.open()
    edit = TableEdit(data, table.files, layout.by or table.schema.names, keeps_vectors=table.keeps_vectors)
    try:
        edit.gather([file.path for file in group.files], group.cuts)
        changes, written = edit.changes(data_change=False)
        after = found.commit(name, changes, CommitNote())
    except BaseException:
        edit.abandon()
        raise
    return after, Gathered(len(group.files), written.files)


def _tiers(files: Sequence[DataFile]) -> dict[int, list[DataFile]]:
    """Small files of about the same size, by how large they are."""
    tiers = defaultdict(list)
    for file in files:
        rows = rows_left(file) if file.size < _SMALL and not is_full(file) else None
        if rows is not None and rows <= MOST_ROWS // 2:
            tiers[max(0, math.ceil(math.log(max(1, file.size) / _SMALLEST, _TIER)))].append(file)
    return tiers


def _too_many(table: OpenTable, layout: FileLayout, data: DataFiles) -> _Group | None:
    """Small files whose keys lie next to each other."""
    for _, files in sorted(_tiers(table.files).items()):
        if len(files) < _TOO_MANY:
            continue
        for group in _next_to_each_other(_in_order(files, layout, data)):
            if len(group) > 1:
                return _Group(group)
    return None


def _in_order(files: Sequence[DataFile], layout: FileLayout, data: DataFiles) -> list[DataFile]:
    if not layout.by or pa.types.is_nested(data.schema.field(layout.by[0]).type):
        return list(files)
    lower = data.bounds(files, layout.by[:1])[layout.by[0]].lower
    return [files[place] for place in pc.sort_indices(lower).to_pylist()]


def _next_to_each_other(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    group: list[DataFile] = []
    size = rows = 0
    for file in files:
        size, rows = size + file.size, rows + (rows_left(file) or 0)
        if group and (size > _AT_ONCE or rows > _ROWS_AT_ONCE):
            yield group
            group, size, rows = [], file.size, rows_left(file) or 0
        group.append(file)
    yield group


def _too_deep(table: OpenTable, layout: FileLayout, data: DataFiles) -> _Group | None:
    """The smallest of the files that all span one key, if those are many."""
    if len(table.files) < _TOO_DEEP or not layout.by or pa.types.is_nested(table.schema.field(layout.by[0]).type):
        return None
    deepest = _spanning_one_key([file for file in table.files if rows_left(file)], data, layout.by[0])
    if len(deepest) < _TOO_DEEP:
        return None
    chosen: list[DataFile] = []
    for file in sorted(deepest, key=lambda each: each.size):
        if sum(each.size for each in chosen) + file.size > _CUT_AT_ONCE:
            break
        chosen.append(file)
    if len(chosen) < _FEWEST_CUT:
        return None
    parts = math.ceil(sum(file.size for file in chosen) * _UNPACKED / FILE_BYTES)
    cuts = _cuts(chosen, data, layout.by[0], parts)
    return _Group(chosen, cuts) if len(cuts) == parts - 1 else None


def _spanning_one_key(files: Sequence[DataFile], data: DataFiles, name: str) -> list[DataFile]:
    """Of all keys, those files that span the one that most files do. A file whose rows have one key spans none."""
    bounds = data.bounds(files, [name])[name]
    known = np.flatnonzero(pc.and_(bounds.lower.is_valid(), bounds.upper.is_valid()).to_numpy(zero_copy_only=False))
    ends = pa.concat_arrays([bounds.lower.take(pa.array(known)), bounds.upper.take(pa.array(known))])
    if not len(known):
        return []
    lower, upper = np.split(_ranks(ends), 2)
    depth = np.zeros(len(ends) + 1, np.int64)
    np.add.at(depth, lower, 1)
    np.subtract.at(depth, upper, 1)
    deepest = int(np.cumsum(depth).argmax())
    return [files[place] for place in known[(lower <= deepest) & (upper > deepest)]]


def _ranks(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Of each value how many different ones are less."""
    order = pc.sort_indices(values)
    ordered = values.take(order)
    steps = pc.not_equal(ordered[1:], ordered[:-1]).to_numpy(zero_copy_only=False)
    ranks = np.zeros(len(values), np.int64)
    ranks[order.to_numpy()] = np.concatenate([[0], np.cumsum(steps)])
    return ranks


def _cuts(files: Sequence[DataFile], data: DataFiles, name: str, parts: int) -> pa.Array:
    """Values that cut the rows of these files into parts of about the same size; fewer where many rows have one value."""
    step = max(1, sum(rows_left(file) or 0 for file in files) // _SAMPLES)
    samples = [
        batch.column(0).take(pa.array(np.arange(0, len(batch), step))) for file in files for _, batch in data.rows(file, [name])
    ]
    values = pa.concat_arrays(samples).drop_null() if samples else pa.array([], data.schema.field(name).type)
    ordered = values.take(pc.sort_indices(values))
    places = np.linspace(0, len(ordered), parts + 1).astype(np.int64)[1:-1]
    return ordered.take(pa.array(places[places < len(ordered)])).unique()
