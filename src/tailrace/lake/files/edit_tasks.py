"""Steps of an edit that look through a table's files or write them: functions of files, which any worker can carry out.

In: what reads a table's files (`DataFiles`), a store in which keys were staged, and names of files, with positions in them. Out: positions, and files
that were written. Rows stay where the work is done. Whoever asks has to see to it that files are complete: a worker may be killed, and its work be
done again by another.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.apply.matching import KeyIndex, KeySet, Numbers, first_of_each, is_in_order
from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import DataFile
from tailrace.delta_log.deletion_vector import union
from tailrace.delta_log.file_statistics import EXACT, FileStatistics
from tailrace.lake.files.data_files import FILE_BYTES, DataFiles
from tailrace.lake.files.rows import BATCH_ROWS, KeyRange, file_rows, is_within
from tailrace.storage.store import Store

_KEYS_AT_ONCE = 32 << 20
"""Bytes of keys for which a file is looked through at once."""
_AT_HAND = 64 << 20
"""Bytes of keys that are kept for the next files."""
_NONE: Numbers = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class KeyFile:
    """Keys, or whole rows, to look for: the columns of a file that tell rows apart. It `is_staged`, or one of the table's."""

    file: DataFile
    is_staged: bool


@dataclass(frozen=True, slots=True)
class Search:
    """A file to look for keys in, but for the rows at `gone`."""

    file: DataFile
    keys: Sequence[KeyFile]
    gone: Numbers = field(default_factory=lambda: _NONE)


# -- keys that wait in files -------------------------------------------------------------------------------------------------------------


def staged_rows(staged: Store, rows: pa.Table, by: Sequence[str] = ()) -> DataFile:
    """A file of these rows, which says within what they lie in the columns of `by`, and is found by that as a table's file is."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=BATCH_ROWS, compression="lz4", use_dictionary=False)
    name = f"found/part-{uuid.uuid4().hex}.parquet"
    data = sink.getvalue().to_pybytes()
    staged.put(name, data)
    return DataFile(name, len(data), 0, FileStatistics.of(rows, plain_columns(rows.schema, by)).as_json(), tags=EXACT)


def read_staged(staged: Store, files: Iterable[DataFile], schema: pa.Schema) -> pa.Table:
    """All of their rows."""
    return pa.Table.from_batches([batch for file in files for _, batch in file_rows(staged, file, schema)], schema)


def plain_columns(schema: pa.Schema, names: Iterable[str]) -> list[str]:
    """Those of these columns whose values have an order."""
    return [name for name in names if not pa.types.is_nested(schema.field(name).type)]


class KeysAtHand:
    """Keys that were read of files, for threads of this process that look for the same ones in several files. Of files for which `_AT_HAND` leaves no
    room none are kept, and who needs them reads those that it needs."""

    def __init__(self) -> None:
        self._kept: dict[str, list[pa.RecordBatch] | None] = {}
        self._left = _AT_HAND
        self._reading = Lock()

    def within(self, store: Store, file: DataFile, schema: pa.Schema, within: KeyRange) -> Iterator[pa.RecordBatch]:
        with self._reading:  # who needs the same keys waits for them, instead of reading them as well
            if file.path not in self._kept:
                self._keep(file.path, [batch for _, batch in file_rows(store, file, schema)])
            batches = self._kept[file.path]
        if batches is None:
            yield from (batch for _, batch in file_rows(store, file, schema, within))
            return
        for batch in batches:
            inside = is_within(batch, within)
            if inside.any():
                yield batch if inside.all() else batch.filter(pa.array(inside))

    def _keep(self, path: str, batches: list[pa.RecordBatch]) -> None:
        size = sum(batch.nbytes for batch in batches)
        has_room = size <= self._left
        self._kept[path] = batches if has_room else None
        self._left -= size if has_room else 0


def _keys_for(
    rows: DataFiles, staged: Store, by: Sequence[str], search: Search, at_hand: KeysAtHand | None
) -> Iterator[pa.Table]:  # fmt: skip
    """The keys that the file may have, as its statistics say, so many at once as may be in memory."""
    schema = pa.schema([rows.schema.field(name) for name in by])
    bounds = rows.bounds([search.file], plain_columns(schema, by))
    known = {name: (of.lower[0].as_py(), of.upper[0].as_py()) for name, of in bounds.items()}
    within = {name: ends for name, ends in known.items() if None not in ends}
    parts: list[pa.RecordBatch] = []
    for keys in search.keys:
        store = staged if keys.is_staged else rows.store
        if at_hand is not None:
            found = at_hand.within(store, keys.file, schema, within)
        else:
            found = (batch for _, batch in file_rows(store, keys.file, schema, within))
        for batch in found:
            parts.append(batch)
            if sum(part.nbytes for part in parts) >= _KEYS_AT_ONCE:
                yield pa.Table.from_batches(parts)
                parts = []
    if parts:
        yield pa.Table.from_batches(parts)


# -- looking ------------------------------------------------------------------------------------------------------------------------------


def positions_of_keys(
    rows: DataFiles, staged: Store, by: Sequence[str], at_hand: KeysAtHand | None, search: Search
) -> Numbers:  # fmt: skip
    """Where in the file rows lie that have one of the keys."""
    gone = _NONE
    for keys in _keys_for(rows, staged, by, search, at_hand):
        wanted = KeySet([flat(keys[name]) for name in by])
        found = [places[wanted.has([batch[name] for name in by])] for places, batch in rows.rows(search.file, by)]
        gone = union(gone, np.concatenate([_NONE, *found]))
    return gone


def positions_of_copies(
    rows: DataFiles, staged: Store, by: Sequence[str], most: Numbers, search: Search
) -> tuple[Numbers, Numbers]:
    """Where in the file rows lie that equal one of the rows looked for, of each no more than `most` says, and which of these each is."""
    schema = pa.schema([rows.schema.field(name) for name in by])
    keys = read_staged(staged, [each.file for each in search.keys], schema)
    index = KeyIndex([flat(keys[name]) for name in by])
    positions, numbers, left = [_NONE], [_NONE], most.copy()
    for places, batch in rows.rows(search.file, by):
        found = index.find([batch[name] for name in by])
        found[np.isin(places, search.gone)] = -1
        taken = first_of_each(found, left)
        positions.append(places[taken])
        numbers.append(found[taken])
        np.subtract.at(left, found[taken], 1)
    return np.concatenate(positions), np.concatenate(numbers)


def rows_of_keys(
    rows: DataFiles, staged: Store, by: Sequence[str], columns: Sequence[str], search: Search
) -> DataFile | None:  # fmt: skip
    """A staged file of the rows of a file that have one of the keys, in these columns; None if none has."""
    found = []
    for keys in _keys_for(rows, staged, by, search, None):
        wanted = KeySet([flat(keys[name]) for name in by])
        for places, batch in rows.rows(search.file, columns):
            there = wanted.has([batch[name] for name in by]) & ~np.isin(places, search.gone)
            if there.any():
                found.append(batch.filter(pa.array(there)))
    return staged_rows(staged, pa.Table.from_batches(found)) if found else None


# -- writing ------------------------------------------------------------------------------------------------------------------------------


def written_anew(rows: DataFiles, by: Sequence[str], search: Search) -> list[DataFile]:
    """New files of the rows of a file that are not gone."""
    data = rows.elsewhere()
    return [file for left in rows_left(rows, search.file, search.gone) for file in data.write_all(in_key_order(left, by))]


def written_otherwise(
    rows: DataFiles, data: DataFiles, conform: Callable[[pa.Table], pa.Table], search: Search
) -> list[DataFile]:  # fmt: skip
    """New files, in the columns of `data`, of what becomes of the rows of a file that are not gone."""
    data = data.elsewhere()
    return [file for left in rows_left(rows, search.file, search.gone) for file in data.write_all(conform(left))]


def rows_left(rows: DataFiles, file: DataFile, gone: Numbers) -> Iterator[pa.Table]:
    """What of a file is not gone, in tables that become one file each."""
    parts: list[pa.RecordBatch] = []
    for places, batch in rows.rows(file, rows.schema.names):
        kept = batch.filter(pa.array(~np.isin(places, gone))) if len(gone) else batch
        if len(kept):
            parts.append(kept)
        if sum(part.nbytes for part in parts) > FILE_BYTES:
            yield pa.Table.from_batches(parts)
            parts = []
    if parts:
        yield pa.Table.from_batches(parts)


def in_key_order(rows: pa.Table, by: Sequence[str]) -> pa.Table:
    """The rows in the order of the key; as they are where all columns together are the key, or its values have no order."""
    if len(by) == len(rows.schema) > 1 or len(plain_columns(rows.schema, by)) < len(by):
        return rows
    if len(by) == 1 and is_in_order(rows[by[0]]):
        return rows
    return rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in by]))


def numbered(rows: pa.Table) -> tuple[Numbers, pa.Table]:
    """For each row the number of its values, and the different rows in the order of these numbers."""
    numbers = KeyIndex([flat(rows[name]) for name in rows.schema.names]).of_rows
    first = np.unique(numbers, return_index=True)[1]
    return numbers, rows.take(pa.array(first))


def flat(column: pa.ChunkedArray) -> pa.Array:
    """In one piece."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
