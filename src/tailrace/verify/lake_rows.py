"""The rows of a table of a lake, at a version, as one side of a comparison.

In: the table's files as the version has them, and the columns that are compared. Out: sums by bucket, file by file wherever the runner's workers are;
the rows of buckets that differ, for which the files are read once more; and rows by their places, which are positions in files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import DataFile
from tailrace.lake.files.rows import file_rows
from tailrace.lake.table import TableVersion
from tailrace.pipeline.runner import Runner
from tailrace.storage.store import Store
from tailrace.verify.checksums import BucketSums, Mask, RowNumbers
from tailrace.verify.hashed_columns import HashedColumns

_TASK_BYTES = 32 << 20
"""Of files that a worker reads one after the other."""
_FILE = 32
"""Bits of a place behind the number of the file."""
_Files = Sequence[tuple[int, DataFile]]


@dataclass(frozen=True, slots=True)
class LakeRows:
    """`found` is the version; a table that is not there has no rows. `schema` are the columns that are compared, as its files have them."""

    store: Store
    files: Sequence[DataFile]
    schema: pa.Schema
    columns: HashedColumns

    @classmethod
    def of(cls, found: TableVersion, columns: HashedColumns) -> LakeRows:
        if not found.is_there:
            return cls.none(found.store)
        table = found.open()
        return cls(found.store, table.files, pa.schema([table.schema.field(name) for name in columns.names]), columns)

    @classmethod
    def none(cls, store: Store) -> LakeRows:
        """Of a table that the lake does not have."""
        return cls(store, (), pa.schema([]), HashedColumns((), ()))

    def sums(self, runner: Runner) -> BucketSums:
        """Of all rows."""
        whole = BucketSums.none()
        for found in runner.run(partial(_sums_of, self.store, self.schema, self.columns), self._tasks()):
            whole.add(found)
        return whole

    def numbers(self, runner: Runner, buckets: Mask) -> RowNumbers:
        """Those of the rows in these buckets."""
        work = partial(_numbers_of, self.store, self.schema, self.columns, buckets)
        return RowNumbers.joined(list(runner.run(work, self._tasks())))

    def rows(self, places: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
        """The rows in these places, in any order, each with its place."""
        for number in np.unique(places >> _FILE).tolist():
            wanted = places[places >> _FILE == number] & ((1 << _FILE) - 1)
            for positions, batch in file_rows(self.store, self.files[number], self.schema):
                here = np.isin(positions, wanted)
                if here.any():
                    yield positions[here] | number << _FILE, batch.filter(pa.array(here))

    def _tasks(self) -> list[_Files]:
        tasks: list[list[tuple[int, DataFile]]] = []
        size = _TASK_BYTES
        for number, file in enumerate(self.files):
            if size >= _TASK_BYTES:
                tasks.append([])
                size = 0
            tasks[-1].append((number, file))
            size += file.size
        return list(tasks)


def _sums_of(store: Store, schema: pa.Schema, columns: HashedColumns, files: _Files) -> BucketSums:
    found = BucketSums.none()
    for _, file in files:
        for _, batch in file_rows(store, file, schema):
            found.add_rows(*columns.numbers(batch))
    return found


def _numbers_of(store: Store, schema: pa.Schema, columns: HashedColumns, buckets: Mask, files: _Files) -> RowNumbers:
    parts = []
    for number, file in files:
        for positions, batch in file_rows(store, file, schema):
            parts.append(RowNumbers(*columns.numbers(batch), positions | number << _FILE).of_buckets(buckets))
    return RowNumbers.joined(parts)
