"""What one commit does to the files of a table: some rows go, others come, and only files in which that happens are looked at or written.

In: a table at the version that was found, keys or rows that are to go, and rows that are to come, in as many steps as memory asks for. Out: the
files that one commit takes out and brings. A row goes by its position, which the file's deletion vector takes up; a file of which many rows are
gone is written anew, and so is every file in which one is if readers of the table know no deletion vectors. New rows lie in files of their own, in
the order of the key, so that the least and the greatest key of a file say whether it has to be looked at.

Nobody sees the files that are written here before they are committed; `abandon` takes them away again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from functools import partial, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.apply.matching import KeyIndex, Numbers, first_of_each
from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import DataFile
from tailrace.delta_log.deletion_vector import union
from tailrace.lake.files.data_files import FILE_BYTES, DataFiles
from tailrace.lake.files.edit_tasks import (
    Search,
    flat,
    in_key_order,
    numbered,
    plain_columns,
    rows_left,
    written_anew,
    written_otherwise,
)
from tailrace.lake.files.file_changes import EditedFiles, FileChanges
from tailrace.lake.files.known_bounds import KeysInFiles
from tailrace.lake.files.workers import HERE, Workers
from tailrace.threads import Threads

_MOST_GONE = 0.25
"""Share of a file's rows that may be gone before the file is written anew."""
_MOST_REWRITTEN = 8
"""Files that one commit writes anew because of that share."""
_GATHERED_BYTES = 2 * FILE_BYTES
"""Of rows in memory that are gathered at once."""
_THREADS = min(4, os.cpu_count() or 1)
_NONE: Numbers = np.zeros(0, np.int64)


@dataclass(slots=True)
class EditedFile:
    """A file as the commit leaves it: `gone` are the positions of rows that go, beside those of its deletion vector."""

    file: DataFile
    is_new: bool = False
    gone: Numbers = field(default_factory=lambda: _NONE)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A file that may have some keys, as the bounds of these columns say of the file in its place."""

    file: EditedFile
    place: int
    in_files: Sequence[KeysInFiles]

    def numbers(self, keys: int) -> Numbers:
        """Of so many keys, those that it may have."""
        if not self.in_files:
            return np.arange(keys)
        return reduce(partial(np.intersect1d, assume_unique=True), [each.keys_of(self.place) for each in self.in_files])


@dataclass(frozen=True, slots=True)
class _Matches:
    """Rows of a file that are looked for: where they lie, which of the keys each has, and its columns."""

    file: EditedFile
    positions: Numbers
    numbers: Numbers
    rows: pa.Table


class TableEdit:
    """`files` are the table's; `by` the columns that tell its rows apart, all of them where nothing less does. With `keeps_vectors`, the table's
    readers know deletion vectors. With `only_null`, only rows in which that column is null are found, whatever else is in the files. What is much to
    write anew is given to `workers`."""

    def __init__(
        self, data: DataFiles, files: Sequence[DataFile], by: Sequence[str], *, keeps_vectors: bool, only_null: str | None = None,
        workers: Workers = HERE,
    ) -> None:  # fmt: skip
        self._data, self._by, self.keeps_vectors, self._only_null = data, tuple(by), keeps_vectors, only_null
        self._workers = workers
        self._files = [EditedFile(file) for file in files]
        self._removed: list[DataFile] = []

    @property
    def data(self) -> DataFiles:
        """What reads and writes the table's files."""
        return self._data

    # -- steps -------------------------------------------------------------------------------------------------------------------------

    def clear(self, data: DataFiles) -> None:
        """All rows of before go; those that come have the columns of `data`."""
        self._removed += [each.file for each in self._files]
        self._files, self._data = [], data

    def conform(self, data: DataFiles, conform: Callable[[pa.Table], pa.Table]) -> None:
        """All rows of before get other columns, those of `data`."""
        try:
            if self._workers.should_rewrite([each.file.size for each in self._files]):
                new = self._by_workers(partial(written_otherwise, self._data, data, conform), self._files, data)
            else:
                new = [file for each in self._files for rows in self._rows_of(each) for file in data.write_all(conform(rows))]
        except BaseException:
            data.abandon()
            raise
        self.clear(data)
        self._files = [EditedFile(file, is_new=True) for file in new]

    def leave_out_statistics(self, columns: Iterable[str]) -> None:
        """Of these columns, too, in files that are written from now on."""
        self._data.leave_out_statistics(columns)

    def lookup(self, keys: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Of the rows that have these keys, the key and these columns."""
        wanted = list(dict.fromkeys([*self._by, *columns]))
        parts = [found.rows for found in self._found(numbered(keys.select(self._by))[1], wanted)]
        schema = pa.schema([self._data.schema.field(name) for name in wanted])
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def delete(self, keys: pa.Table) -> int:
        """The rows that have these keys, all different, go; how many that are."""
        gone = 0
        for found in self._found(keys.select(self._by), self._by):
            found.file.gone = union(found.file.gone, found.positions)
            gone += len(found.positions)
        return gone

    def delete_copies(self, rows: pa.Table) -> int:
        """For each of these rows one that is equal goes, if there is one; how many that are."""
        rows = rows.select(self._by)
        numbers, distinct = numbered(rows)
        left = np.bincount(numbers).astype(np.int64)
        for candidate in self._that_may_have(distinct):
            found, each = self._found_in(candidate, distinct, self._by), candidate.file
            if found is None:
                continue
            taken = first_of_each(found.numbers, left)
            each.gone = union(each.gone, found.positions[taken])
            np.subtract.at(left, found.numbers[taken], 1)
            if not left.any():
                break
        return len(rows) - int(left.sum())

    def take(self, keys: pa.Table, most: Numbers | None, order: str) -> tuple[Numbers, pa.Table]:
        """The rows that have one of these different keys go, of each key no more than `most` says, the first in the `order` of a column. Gives them
        whole, each with the number of its key, in the order of these numbers and then that one."""
        names = self._data.schema.names
        found = list(self._found(keys.select(self._by), names)) if len(keys) else []
        if not found:
            return _NONE, self._data.schema.empty_table()
        numbers = np.concatenate([each.numbers for each in found])
        rows = pa.concat_tables([each.rows for each in found])
        ranked = np.lexsort((rows[order].to_numpy(), numbers))
        if most is not None:
            sorted_numbers = numbers[ranked]
            rank = np.arange(len(ranked)) - np.searchsorted(sorted_numbers, sorted_numbers)
            ranked = ranked[rank < most[sorted_numbers]]
        taken = np.zeros(len(numbers), np.bool_)
        taken[ranked] = True
        at = 0
        for each in found:
            each.file.gone = union(each.file.gone, each.positions[taken[at : at + len(each.positions)]])
            at += len(each.positions)
        return numbers[ranked], rows.take(pa.array(ranked))

    def take_all(self) -> Iterator[pa.Table]:
        """All rows go. Gives them, batch by batch."""
        for each in list(self._files):
            for places, batch in self._left_in(each, self._data.schema.names):
                each.gone = union(each.gone, places)
                yield pa.Table.from_batches([batch])

    def insert(self, rows: pa.Table) -> None:
        """These rows come, in the order of the key."""
        if not len(rows):
            return
        self._files += [EditedFile(file, is_new=True) for file in self._data.write_all(in_key_order(rows, self._by))]

    def gather(self, paths: Sequence[str], cuts: pa.Array | None = None) -> None:
        """The rows of these files come to lie in fewer, in the order of the key; no row comes or goes. Between `cuts`, values of the key's first
        column, rows lie in files of their own."""
        wanted = set(paths)
        together = [each for each in self._files if each.file.path in wanted]
        self._files = [each for each in self._files if each.file.path not in wanted]
        ends = [None, *(cuts if cuts is not None else ()), None]
        for low, high in zip(ends, ends[1:], strict=False):
            rows: list[pa.Table] = []
            for part in (part for each in together for part in self._rows_of(each)):
                chosen = _from_to(part, self._by[0], low, high)
                if rows and sum(each.nbytes for each in rows) + chosen.nbytes > _GATHERED_BYTES:
                    self.insert(pa.concat_tables(rows))
                    rows = []
                rows.append(chosen)
            if rows:
                self.insert(pa.concat_tables(rows))
        self._removed += [each.file for each in together]

    # -- what it comes to ----------------------------------------------------------------------------------------------------------------

    def changes(self, *, data_change: bool = True) -> tuple[FileChanges, EditedFiles]:
        """What the commit is to do to files. Without `data_change`, no row came or went."""
        removed = list(self._removed)
        added: list[DataFile] = []
        kept: list[tuple[EditedFile, Numbers]] = []
        anew: list[EditedFile] = []
        for each in self._by_share_gone():
            if not len(each.gone):
                if each.is_new:
                    added.append(each.file)
                continue
            gone = union(self._data.deleted(each.file), each.gone)
            count = self._data.row_count(each.file)
            if not each.is_new:
                removed.append(each.file)
            if len(gone) == count:
                if each.is_new:
                    self._data.drop([each.file])
            elif not self.keeps_vectors or (len(gone) > _MOST_GONE * count and len(anew) < _MOST_REWRITTEN):
                anew.append(each)
            else:
                kept.append((each, gone))
        added += self._written_anew(anew)
        self._data.drop([each.file for each in anew if each.is_new])
        vectors = self._data.write_vectors([gone for _, gone in kept])
        added += [each.file.without(vector) for (each, _), vector in zip(kept, vectors, strict=True)]
        self._data.drop_strays()
        changes = FileChanges(tuple(removed), tuple(added), data_change)
        return changes, EditedFiles(len(added) - len(kept), len(anew), len(vectors), self._data.bytes_written)

    def _written_anew(self, files: Sequence[EditedFile]) -> list[DataFile]:
        """Files of what is left in these."""
        if self._workers.should_rewrite([each.file.size for each in files]):
            return self._by_workers(partial(written_anew, self._data, self._by), files, self._data)
        return [
            file for each in files for rows in self._rows_of(each) for file in self._data.write_all(in_key_order(rows, self._by))
        ]

    def _by_workers(
        self, write: Callable[[Search], list[DataFile]], files: Sequence[EditedFile], data: DataFiles
    ) -> list[DataFile]:  # fmt: skip
        """The files that workers write of these, in the columns of `data`."""
        data.expect_strays()
        new: list[DataFile] = []
        for written in self._workers.run(write, [Search(each.file, (), each.gone) for each in files]):
            data.adopt_all(written)
            new += written
        return new

    def abandon(self) -> None:
        """Nothing of this is committed: take away what was written."""
        self._data.abandon()

    def _by_share_gone(self) -> list[EditedFile]:
        """Files that are worth it most are written anew first."""
        return sorted(
            self._files, key=lambda each: -len(each.gone) / max(1, self._data.row_count(each.file)) if len(each.gone) else 0.0
        )

    # -- looking through files ------------------------------------------------------------------------------------------------------------

    def _found(self, keys: pa.Table, columns: Sequence[str]) -> Iterator[_Matches]:
        if not len(keys):
            return
        with Threads(_THREADS) as threads:
            for found in threads.map(lambda each: self._found_in(each, keys, columns), self._that_may_have(keys)):
                if found is not None:
                    yield found

    def _found_in(self, candidate: _Candidate, keys: pa.Table, columns: Sequence[str]) -> _Matches | None:
        """The rows of a file that have one of these different keys and are not gone; None if none has."""
        each, at = candidate.file, candidate.numbers(len(keys))
        keys = keys if len(at) == len(keys) else keys.take(pa.array(at))
        if not len(at):
            return None
        index = KeyIndex([flat(keys[name]) for name in self._by])
        positions, numbers, rows = [], [], []
        for places, batch in self._sought_in(each, columns):
            found = index.find([batch[name] for name in self._by])
            there = np.flatnonzero(found >= 0)
            there = there[~np.isin(places[there], each.gone)]
            if len(there):
                positions.append(places[there])
                numbers.append(at[found[there]])
                rows.append(batch.take(pa.array(there)))
        if not rows:
            return None
        return _Matches(each, np.concatenate(positions), np.concatenate(numbers), pa.Table.from_batches(rows))

    def _that_may_have(self, keys: pa.Table) -> list[_Candidate]:
        """Files that may have some of the keys, by their statistics."""
        columns = plain_columns(self._data.schema, self._by)
        bounds = self._data.bounds([each.file for each in self._files], columns)
        known = [name for name, of in bounds.items() if of.lower.null_count + of.upper.null_count < 2 * len(self._files)]
        in_files = [KeysInFiles.of(bounds[name], flat(keys[name])) for name in known]
        there = reduce(np.intersect1d, [each.files for each in in_files], np.arange(len(self._files)))
        return [_Candidate(self._files[place], place, in_files) for place in there.tolist()]

    def _sought_in(self, each: EditedFile, columns: Sequence[str]) -> Iterator[tuple[Numbers, pa.RecordBatch]]:
        """The rows of a file among which is looked; those that go with this commit are among them."""
        if self._only_null is None:
            yield from self._data.rows(each.file, columns)
            return
        for places, batch in self._data.rows(each.file, list(dict.fromkeys([*columns, self._only_null]))):
            column = batch[self._only_null]
            if column.null_count == len(batch):
                yield places, batch.select(columns)
            elif column.null_count:
                wanted = column.is_null()
                yield places[wanted.to_numpy(zero_copy_only=False)], batch.filter(wanted).select(columns)

    def _left_in(self, each: EditedFile, columns: Sequence[str]) -> Iterator[tuple[Numbers, pa.RecordBatch]]:
        """The same without those."""
        before = each.gone
        for places, batch in self._sought_in(each, columns):
            left = ~np.isin(places, before)
            if left.all():
                yield places, batch
            elif left.any():
                yield places[left], batch.filter(pa.array(left))

    def _rows_of(self, each: EditedFile) -> Iterator[pa.Table]:
        return rows_left(self._data, each.file, each.gone)


def _from_to(rows: pa.Table, name: str, low: pa.Scalar | None, high: pa.Scalar | None) -> pa.Table:
    """Rows whose value is not less than `low`, and less than `high`; NULL comes behind all values."""
    keep = None if low is None else pc.fill_null(pc.greater_equal(rows[name], low), True)
    if high is not None:
        below = pc.fill_null(pc.less(rows[name], high), False)
        keep = below if keep is None else pc.and_(keep, below)
    return rows if keep is None else rows.filter(keep)
