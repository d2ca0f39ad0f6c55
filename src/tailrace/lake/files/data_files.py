"""The Parquet files of a table, and its files of deletion vectors, on whatever store it lies.

In: rows in the columns of the table, and what the log says of a file. Out: files, with exact statistics, and their rows batch by batch, in their
order. What a run writes carries the run's name, and `abandon` takes it away where it was not committed.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.apply.matching import Numbers
from tailrace.delta_log.actions import DataFile
from tailrace.delta_log.deletion_vector import DeletionVector, inline_vector, write_vectors
from tailrace.delta_log.file_bounds import FileBounds, row_count
from tailrace.delta_log.file_statistics import EXACT, FileStatistics
from tailrace.lake.files.column_encodings import column_encodings
from tailrace.lake.files.known_bounds import KnownBounds
from tailrace.lake.files.rows import deleted_rows, file_rows, stored_row_count
from tailrace.storage.store import Store

MOST_ROWS = 1 << 20
"""In a file, whose rows are one group without an index of pages: with a condition delta-rs before 1.6.4 takes a deletion vector for another group's
rows."""
FILE_BYTES = 128 << 20
"""Of rows in memory that become one file."""
_PAGES = {"max_rows_per_page": MOST_ROWS, "write_batch_size": 1 << 14}
"""Pages of a column, of which there is no index, have as many rows as their bytes allow: a megabyte."""
_INLINE = 64
"""So many positions may stand in the log itself, which every reader reads."""
_VECTORS = "_dv"
"""Where files of deletion vectors lie: a vacuum of all that the log does not name takes those away that lie elsewhere."""


_OURS = re.compile(r"(?:data/)?part-([0-9a-f]{32})-[0-9a-f]{32}(-full)?\.parquet|_dv/deletion_vector_[0-9a-f-]{36}\.bin")
_FULL = "-full.parquet"
"""How names end of files whose rows would not have fit into fewer, however small they are on disk."""


def is_ours(name: str) -> bool:
    """Whether a file has a name as these have."""
    return _OURS.fullmatch(name) is not None


def run_of(name: str) -> str:
    """The run that wrote this file of ours; empty where its name does not say."""
    found = _OURS.fullmatch(name)
    return (found[1] or "") if found else ""


def data_file_name(run: str, folder: str = "", *, full: bool = False) -> str:
    """A new name for a file of rows that this run writes."""
    return f"{folder}part-{run}-{uuid.uuid4().hex}{_FULL if full else '.parquet'}"


def is_full(file: DataFile) -> bool:
    return file.path.endswith(_FULL)


class DataFiles:
    """`schema` is the table's; `without_statistics` are columns that get none; `known` is what was read of statistics before; `folder` is where files
    of rows lie, below the table's; with `packs_integers`, its readers know those that are packed. State: what was written and is not committed."""

    def __init__(
        self, store: Store, schema: pa.Schema, run: str, without_statistics: Iterable[str] = (), known: KnownBounds | None = None,
        folder: str = "", *, packs_integers: bool = True,
    ) -> None:  # fmt: skip
        self.store, self.schema, self.run, self.folder, self._packs_integers = store, schema, run, folder, packs_integers
        self._known = known or KnownBounds()
        self._without = frozenset(without_statistics)
        self._written: set[str] = set()
        self._counts: dict[str, int] = {}
        self._may_have_strays = False
        self.bytes_written = 0

    def __getstate__(self) -> dict[str, Any]:
        """What a worker gets: nothing of what was read and written here."""
        return {**self.__dict__, "_known": KnownBounds(), "_written": set(), "_counts": {}, "bytes_written": 0}

    def elsewhere(self) -> DataFiles:
        """The same for who works on its own; `adopt_all` takes what was written so."""
        other = copy(self)
        other._known, other._written, other._counts, other.bytes_written = KnownBounds(), set(), {}, 0
        return other

    def in_columns(self, schema: pa.Schema) -> DataFiles:
        """For files of the same run with other columns; what they write `abandon` of this takes away as well."""
        other = DataFiles(self.store, schema, self.run, self._without, folder=self.folder, packs_integers=self._packs_integers)
        other._written = self._written
        return other

    def expect_strays(self) -> None:
        """Workers write files of this run from now on. One that is killed, or done twice, leaves some of which nobody tells."""
        self._may_have_strays = True

    def leave_out_statistics(self, columns: Iterable[str]) -> None:
        """Of these columns, too, in files that are written from now on."""
        self._without |= frozenset(columns)

    # -- written -----------------------------------------------------------------------------------------------------------------------

    def write_all(self, rows: pa.Table) -> list[DataFile]:
        """These rows, in their order, in as many files as are not too large."""
        if not len(rows):
            return []
        most = max(1, min(MOST_ROWS, len(rows) * FILE_BYTES // max(1, rows.nbytes)))
        count = -(-len(rows) // most)
        each = -(-len(rows) // count)
        return [self.write(rows.slice(start, each), full=count > 1) for start in range(0, len(rows), each)]

    def write(self, rows: pa.Table, *, full: bool = False) -> DataFile:
        """A file of these rows, which are no more than one may have, in their order."""
        rows = rows.cast(self.schema)
        footers = list[pq.FileMetaData]()
        how = column_encodings(rows, packs_integers=self._packs_integers)

        def write(file: BinaryIO) -> None:
            # Not by `pq.write_table`: if a write fails, it closes the writer all the same, and raises that there is no footer.
            writer = pq.ParquetWriter(file, rows.schema, **_PAGES, **how)
            writer.write_table(rows, row_group_size=MOST_ROWS)
            writer.close()
            footers.append(writer.writer.metadata)

        name = data_file_name(self.run, self.folder, full=full)
        self._written.add(name)
        size = self.store.put_written(name, write)
        self.bytes_written += size
        columns = [each for each in self.schema.names if each not in self._without]
        return DataFile(name, size, _now(), FileStatistics.written(rows, footers[0], columns).as_json(), tags=EXACT)

    def take(self, path: Path, statistics: str) -> DataFile:
        """A local Parquet file becomes one of the table's."""
        name, size = data_file_name(self.run, self.folder), path.stat().st_size
        self._written.add(name)
        self.store.put_file(name, path)
        self.bytes_written += size
        return DataFile(name, size, _now(), statistics)

    def adopt(self, name: str, size: int, statistics: str) -> DataFile:
        """A file that this run has written to the store itself, by a `data_file_name`, becomes one of the table's."""
        self._written.add(name)
        self.bytes_written += size
        return DataFile(name, size, _now(), statistics)

    def adopt_all(self, files: Sequence[DataFile]) -> None:
        """Files that workers have written for this run become the table's."""
        self._written |= {file.path for file in files}
        self.bytes_written += sum(file.size for file in files)

    def write_vectors(self, positions: Sequence[Numbers]) -> list[DeletionVector]:
        """A deletion vector for each of these; those that are long go into one file together."""
        long = [each for each in positions if len(each) > _INLINE]
        stored: Iterator[DeletionVector] = iter(())
        if long:
            name, data, vectors = write_vectors(long, uuid.uuid4(), _VECTORS)
            self._written.add(name)
            self.store.put_new(name, data)
            self.bytes_written += len(data)
            stored = iter(vectors)
        return [next(stored) if len(each) > _INLINE else inline_vector(each) for each in positions]

    def drop(self, files: Iterable[DataFile]) -> None:
        """Files of this run that nobody needs any more."""
        names = [file.path for file in files]
        self.store.delete(names)
        self._written -= set(names)

    def abandon(self) -> None:
        """Take away all that this run wrote."""
        self.store.delete(sorted(self._written))
        self._written.clear()
        self.drop_strays()

    def drop_strays(self) -> None:
        """Take away what workers wrote in vain."""
        if self._may_have_strays:
            found = [each.name for each in self.store.list(f"{self.folder}part-{self.run}-")]
            self.store.delete(sorted(set(found) - self._written))

    # -- read --------------------------------------------------------------------------------------------------------------------------

    def rows(self, file: DataFile, columns: Sequence[str]) -> Iterator[tuple[Numbers, pa.RecordBatch]]:
        """The rows of a file that are not deleted, in these columns, with their positions; a column that was added later is null."""
        return file_rows(self.store, file, pa.schema([self.schema.field(name) for name in columns]))

    def deleted(self, file: DataFile) -> Numbers:
        """The positions of its deleted rows."""
        return deleted_rows(self.store, file)

    def row_count(self, file: DataFile) -> int:
        """How many rows it has, those that are deleted among them."""
        if file.path not in self._counts:
            count = row_count(file)
            self._counts[file.path] = stored_row_count(self.store, file) if count is None else count
        return self._counts[file.path]

    def bounds(self, files: Sequence[DataFile], columns: Sequence[str]) -> dict[str, FileBounds]:
        """Of each of these columns, what is known of its least and its greatest value in each file."""
        return self._known.of(files, self.schema, columns)


def _now() -> int:
    """In milliseconds of Unix's clock."""
    return int(time.time() * 1000)
