"""The indexes of a log between the first pass and the windows: in memory up to so many bytes, in files of a temporary folder beyond.

In: indexes, in the order of the log. Out: the same again, one or a few at a time. What must be known of all to cut windows stays in memory.
"""

from __future__ import annotations

import tempfile
import weakref
from dataclasses import field
from pathlib import Path

import numpy as np

from tailrace.dataclass import dataclass
from tailrace.storage.scratch_folder import ScratchFolder
from tailrace.wal.index import Index
from tailrace.wal.indexfile import read_index, write_index
from tailrace.window import Weight

_IN_MEMORY = 32 << 20
_PREFIX = "tailrace-indexes-"


@dataclass(slots=True, weakref_slot=True)
class IndexPile:
    """`weights[i]` is of the i-th index that was put there. The folder goes with the pile; that of a process which was
    killed goes with the next pile that needs one."""

    in_memory: int = _IN_MEMORY
    weights: list[Weight] = field(default_factory=list)
    _indexes: list[Index | None] = field(default_factory=list)
    _folder: ScratchFolder | None = None

    def put(self, part: Index) -> None:
        """Behind those that are there. The one in which the log ends is kept as it is."""
        self.weights.append(Weight.of(part))
        size = _bytes_of(part)
        if not part.sealed or size <= self.in_memory:
            self.in_memory -= size
            self._indexes.append(part)
            return
        if self._folder is None:
            self._folder = ScratchFolder(Path(tempfile.gettempdir()), _PREFIX)
            weakref.finalize(self, self._folder.remove)
        self._indexes.append(None)
        self._file(len(self._indexes) - 1).write_bytes(write_index(part))

    def __len__(self) -> int:
        return len(self._indexes)

    def read(self, number: int) -> Index:
        """The index that was put there as that one."""
        part = self._indexes[number]
        if part is None:
            file = self._file(number)
            part = read_index(file.read_bytes(), str(file)).index
        return part

    def take(self, number: int) -> Index:
        """The same, and the pile forgets it."""
        part = self.read(number)
        if self._indexes[number] is None:
            self._file(number).unlink()
        self._indexes[number] = None
        return part

    def _file(self, number: int) -> Path:
        assert self._folder is not None
        return self._folder.path / f"{number}.index"


def _bytes_of(part: Index) -> int:
    """Of its arrays."""
    columns = (part.xids, part.files, part.ends, part.kept)
    arrays = [getattr(each, name) for each in columns for name in each.__slots__]
    return sum(
        array.nbytes for array in (*arrays, part.waiting_xid, part.waiting_lsn, part.waiting_crc) if isinstance(array, np.ndarray)
    )
