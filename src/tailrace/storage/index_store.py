"""Where sealed indexes are kept, so that every slot and every restart can share them: a directory, one file per stretch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tailrace.model import Stretch
from tailrace.storage.whole_file import write_whole
from tailrace.wal.index import Index
from tailrace.wal.indexfile import read_index, write_index


@dataclass(frozen=True, slots=True)
class IndexStore:
    """Indexes of any number of systems and timelines below one directory."""

    directory: Path

    def load(self, system: int, timeline: int, stretch: Stretch) -> Index | None:
        path = self._path(system, timeline, stretch)
        return read_index(path.read_bytes(), str(path)) if path.exists() else None

    def save(self, index: Index) -> None:
        path = self._path(index.system, index.timeline, index.stretch)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, write_index(index))

    def _path(self, system: int, timeline: int, stretch: Stretch) -> Path:
        return self.directory / str(system) / f"{timeline:08X}" / f"{int(stretch.start):016X}-{int(stretch.stop):016X}.index"
