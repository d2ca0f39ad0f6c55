"""Rows that a worker has, as they come, in files of a table that is not made yet.

In: batches of rows in the table's columns. Out: files in the table's folder, with exact statistics, each as large as one should be; and what is to be
known of the rows when the table is made. No file holds more in memory than itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import DataFile
from tailrace.lake.files.data_files import MOST_ROWS, DataFiles
from tailrace.lake.files.statistics import columns_beyond_statistics, unbounded_values

_FILE_BYTES = 48 << 20
"""Of rows in memory that become one file: several workers write at a time. Those of a part of a server's table (32 MB there) are one, as a rule."""


@dataclass(frozen=True, slots=True)
class RowFiles:
    """Files of so many `rows`, of `bytes` on the store. `beyond` are times that statistics cannot hold, by column, and `unbounded` the columns whose
    statistics would be wrong."""

    files: tuple[DataFile, ...] = ()
    rows: int = 0
    bytes: int = 0
    unbounded: frozenset[str] = frozenset()
    beyond: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: RowFiles) -> RowFiles:
        return RowFiles(
            self.files + other.files, self.rows + other.rows, self.bytes + other.bytes, self.unbounded | other.unbounded,
            Counter(self.beyond) + Counter(other.beyond),
        )  # fmt: skip


def write_rows(new_files: Callable[[], DataFiles], batches: Iterable[pa.RecordBatch]) -> RowFiles:
    """The rows of these batches, in their order. Nothing of it is left where that fails."""
    data, written = new_files(), RowFiles()
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    try:
        for batch in batches:
            count, size = count + len(batch), size + batch.nbytes
            if waiting and (count > MOST_ROWS or size > _FILE_BYTES):
                written += _write(data, waiting, full=True)
                waiting, count, size = [], len(batch), batch.nbytes
            waiting.append(batch)
        if waiting:
            written += _write(data, waiting, full=count > MOST_ROWS // 2 or size > _FILE_BYTES // 2)
    except BaseException:
        data.abandon()
        raise
    return written


def _write(data: DataFiles, batches: list[pa.RecordBatch], *, full: bool) -> RowFiles:
    rows = pa.Table.from_batches(batches)
    unbounded = columns_beyond_statistics(rows)
    data.leave_out_statistics(unbounded)
    files = data.write_all(rows) if len(rows) > MOST_ROWS else [data.write(rows, full=full)]
    return RowFiles(tuple(files), len(rows), sum(file.size for file in files), unbounded, unbounded_values(rows))
