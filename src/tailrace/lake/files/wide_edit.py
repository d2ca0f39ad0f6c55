"""An edit whose rows no single process holds: keys and rows wait in files, and workers look through the table's files and write them.

In: the files of a table, and, step by step, files of keys that are to go and of rows that have come. Out: what `TableEdit` gives. What this process
holds is positions, and names of files. Looking for keys is put off until many can be looked for at once: a file that has come takes part from then
on, and so loses rows to later keys alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.apply.matching import Numbers, first_of_each
from tailrace.delta_log.actions import DataFile
from tailrace.delta_log.deletion_vector import union
from tailrace.delta_log.file_bounds import file_bounds, null_counts
from tailrace.lake.files.data_files import DataFiles
from tailrace.lake.files.edit_tasks import (
    KeyFile,
    KeysAtHand,
    Search,
    plain_columns,
    positions_of_copies,
    positions_of_keys,
    rows_of_keys,
)
from tailrace.lake.files.file_changes import EditedFiles, FileChanges
from tailrace.lake.files.table_edit import EditedFile, TableEdit
from tailrace.lake.files.workers import Workers
from tailrace.storage.store import Store


class WideEdit(TableEdit):
    """`staged` is where keys wait. State, beside that of a `TableEdit`: which keys are still to be looked for in which file."""

    def __init__(
        self, data: DataFiles, files: Sequence[DataFile], by: Sequence[str], *, keeps_vectors: bool, workers: Workers, staged: Store
    ) -> None:  # fmt: skip
        super().__init__(data, files, by, keeps_vectors=keeps_vectors, workers=workers)
        self._staged = staged
        self._awaited: dict[str, list[KeyFile]] = {}
        data.expect_strays()

    def adopt(self, files: Sequence[DataFile]) -> None:
        """Files that a worker has written of rows that come."""
        self._data.adopt_all(files)
        self._files += [EditedFile(file, is_new=True) for file in files]

    def delete_keys(self, keys: KeyFile) -> None:
        """The rows that have these keys go, of those that there are by now."""
        for each in self._that_overlap(keys.file):
            self._awaited.setdefault(each.file.path, []).append(keys)

    def settle(self) -> None:
        """Look for all keys that are still to be looked for."""
        there = [each for each in self._files if each.file.path in self._awaited]
        searches = [Search(each.file, self._awaited[each.file.path]) for each in there]
        at_hand = None if self._workers.are_elsewhere else KeysAtHand()
        work = partial(positions_of_keys, self._data, self._staged, self._by, at_hand)
        for each, positions in zip(there, self._workers.run(work, searches), strict=True):
            each.gone = union(each.gone, positions)
        self._awaited.clear()

    def find_rows(self, keys: DataFile, columns: Sequence[str]) -> list[DataFile]:
        """Staged files of the rows that have these staged keys: the key and these columns."""
        self.settle()
        wanted = list(dict.fromkeys([*self._by, *columns]))
        searches = [Search(each.file, [KeyFile(keys, is_staged=True)], each.gone) for each in self._that_overlap(keys)]
        found = self._workers.run(partial(rows_of_keys, self._data, self._staged, self._by, wanted), searches)
        return [each for each in found if each is not None]

    def remove_copies(self, rows: DataFile, most: Numbers) -> None:
        """Of these staged rows, all different, as many equal ones go as `most` says, if there are so many."""
        there, left = self._that_overlap(rows), most.copy()
        searches = [Search(each.file, [KeyFile(rows, is_staged=True)], each.gone) for each in there]
        work = partial(positions_of_copies, self._data, self._staged, self._by, most)
        for each, (positions, numbers) in zip(there, self._workers.run(work, searches), strict=True):
            taken = first_of_each(numbers, left)
            each.gone = union(each.gone, positions[taken])
            np.subtract.at(left, numbers[taken], 1)

    def changes(self, *, data_change: bool = True) -> tuple[FileChanges, EditedFiles]:
        self.settle()
        return super().changes(data_change=data_change)

    def _that_overlap(self, keys: DataFile) -> list[EditedFile]:
        """Files that may have any of the keys, as the bounds of both say."""
        schema, files = self._data.schema, [each.file for each in self._files]
        nulls = null_counts(keys)
        columns = [name for name in plain_columns(schema, self._by) if not nulls.get(name)]
        ours, theirs = self._data.bounds(files, columns), file_bounds([keys], schema, columns)
        may_have = np.ones(len(files), np.bool_)
        for name in columns:
            mine, least, greatest = ours[name], theirs[name].lower[0], theirs[name].upper[0]
            may_have &= ~_known(pc.less(mine.upper, least)) & ~_known(pc.greater(mine.lower, greatest))
        return [self._files[place] for place in np.flatnonzero(may_have)]


def _known(found: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """What is not known is not so."""
    return pc.fill_null(found, False).to_numpy(zero_copy_only=False)
