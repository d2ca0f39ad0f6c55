"""Where sealed indexes are kept, so that every slot and every restart can share them: a directory, one file per stretch."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tailrace.errors import TailraceError
from tailrace.model import Lsn, Stretch
from tailrace.storage.file_lock import FileLock
from tailrace.storage.whole_file import make_folder, write_whole
from tailrace.wal.index import Index
from tailrace.wal.indexfile import read_index, write_index

_NAME = re.compile(r"([0-9A-F]{16})-([0-9A-F]{16})\.index")
_TURN = "turn"


@dataclass(frozen=True, slots=True)
class IndexStore:
    """Indexes of any number of systems and timelines below one directory."""

    directory: Path
    warn: Callable[[str], None] = warnings.warn
    """Is told of a file that cannot be used. An index is only a cache: the caller makes it again, and `save` replaces the file."""

    def load(self, system: int, timeline: int, stretch: Stretch) -> Index | None:
        """The index of this stretch of this log; None if there is none, or none that can be believed."""
        path = self._path(system, timeline, stretch)
        if not path.is_file():
            return None
        try:
            part = read_index(path.read_bytes(), str(path))
        except TailraceError as error:
            self.warn(f"{error.message}; it is made again")
            return None
        if (part.system, part.timeline, part.stretch, part.also) != (system, timeline, stretch, ()):
            self.warn(
                f'"{path}" is the index of {part.stretch} of system {part.system}, timeline {part.timeline}, not what its name says; '
                "it is made again"
            )
            return None
        return part

    def has(self, system: int, timeline: int, stretch: Stretch) -> bool:
        """Whether there is one, be it to be believed or not."""
        return self._path(system, timeline, stretch).is_file()

    @contextmanager
    def turn(self, system: int, timeline: int) -> Iterator[None]:
        """While the block lasts, nobody else of those who share the store makes indexes of this log."""
        folder = self._folder(system, timeline)
        make_folder(folder)
        lock = FileLock.wait(folder / _TURN)
        try:
            yield
        finally:
            lock.release()

    def prune(self, system: int, below: Lsn) -> None:
        """Remove the indexes of stretches that stop at `below` or before."""
        for path in (self.directory / str(system)).glob("*/*.index"):
            if (match := _NAME.fullmatch(path.name)) and int(match[2], 16) <= below:
                path.unlink(missing_ok=True)

    def save(self, index: Index) -> None:
        path = self._path(index.system, index.timeline, index.stretch)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, write_index(index))

    def _path(self, system: int, timeline: int, stretch: Stretch) -> Path:
        return self._folder(system, timeline) / f"{int(stretch.start):016X}-{int(stretch.stop):016X}.index"

    def _folder(self, system: int, timeline: int) -> Path:
        return self.directory / str(system) / f"{timeline:08X}"
