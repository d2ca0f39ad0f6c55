"""Where sealed indexes are kept, so that every slot and every restart can share them: a directory, one file per stretch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tailrace.errors import TailraceError
from tailrace.model import Stretch
from tailrace.storage.whole_file import write_whole
from tailrace.wal.index import Index
from tailrace.wal.indexfile import read_index, write_index


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

    def save(self, index: Index) -> None:
        path = self._path(index.system, index.timeline, index.stretch)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, write_index(index))

    def _path(self, system: int, timeline: int, stretch: Stretch) -> Path:
        return self.directory / str(system) / f"{timeline:08X}" / f"{int(stretch.start):016X}-{int(stretch.stop):016X}.index"
