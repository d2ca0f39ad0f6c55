"""Where sealed indexes are kept, so that every slot and every restart can share them: a directory, one file per stretch."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError
from tailrace.model import Lsn, Stretch
from tailrace.storage.file_lock import FileLock
from tailrace.storage.whole_file import make_folder, write_whole
from tailrace.wal.index import Index
from tailrace.wal.indexfile import read_index, write_index
from tailrace.wal.log_fingerprint import difference, fingerprint_before
from tailrace.wal.pages import LogIdentity
from tailrace.wal.stretch_bytes import Reader

_NAME = re.compile(r"([0-9A-F]{16})-([0-9A-F]{16})\.index")
_TURN = "turn"
_HOUR, _DAY = 3600, 86400


@dataclass(frozen=True, slots=True)
class IndexStore:
    """Indexes of any number of systems and timelines below one directory."""

    directory: Path
    warn: Callable[[str], None] = warnings.warn
    """Is told of a file that cannot be used. An index is only a cache: the caller makes it again, and `save` replaces the file."""

    def load(self, log: LogIdentity, read: Reader, stretch: Stretch) -> Index | None:
        """The index of this stretch of this log; None if there is none, or none that can be believed. The end of the stretch is read again, since a
        server that was put back to an earlier copy of itself writes another log to the same place. Raises what reading WAL raises."""
        path = self._path(log, stretch)
        if not path.is_file():
            return None
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _HOUR:
                path.touch()  # still in use
        try:
            written = read_index(path.read_bytes(), str(path))
        except TailraceError as error:
            self.warn(f"{error.message}; it is made again")
            return None
        part, fingerprint = written.index, written.fingerprint
        if (part.system, part.timeline, part.stretch, part.also) != (log.system, log.timeline, stretch, ()):
            self.warn(
                f'"{path}" is the index of {part.stretch} of system {part.system}, timeline {part.timeline}, not what its name says; '
                "it is made again"
            )
            return None
        if fingerprint is None or difference(fingerprint, read, log, stretch.start) is not None:
            self.warn(f'"{path}" is the index of a log that had other records before {stretch.stop}; it is made again')
            return None
        return part

    def has(self, log: LogIdentity, stretch: Stretch) -> bool:
        """Whether there is one, be it to be believed or not."""
        return self._path(log, stretch).is_file()

    def is_empty(self, system: int) -> bool:
        """Whether it has no index of this system."""
        return not any((self.directory / str(system)).glob("*/*.index"))

    @contextmanager
    def turn(self, log: LogIdentity) -> Iterator[None]:
        """While the block lasts, nobody else of those who share the store makes indexes of this log."""
        folder = self._folder(log)
        make_folder(folder)
        with FileLock.wait(folder / _TURN):
            yield

    def prune(self, system: int, below: Lsn) -> None:
        """Remove the indexes of stretches that stop at `below` or before."""
        for path in (self.directory / str(system)).glob("*/*.index"):
            if (match := _NAME.fullmatch(path.name)) and int(match[2], 16) <= below:
                path.unlink(missing_ok=True)

    def forget_unused(self, days: float, most_bytes: int) -> None:
        """Remove the indexes that nobody has made or loaded for so many days, and of more than `most_bytes` those that were not for the longest time;
        but none of the last day, since somebody may have planned with them to go on."""
        kept, now = 0, time.time()
        for used, size, path in sorted(_files_in(self.directory), reverse=True):
            kept += size
            if now - used > days * _DAY or (kept > most_bytes and now - used > _DAY):
                path.unlink(missing_ok=True)

    def save(self, log: LogIdentity, read: Reader, index: Index) -> None:
        """Of a stretch in which records begin."""
        fingerprint = fingerprint_before(read, log, index.stretch.stop, index.stretch.start)
        path = self._path(log, index.stretch)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, write_index(index, fingerprint))

    def _path(self, log: LogIdentity, stretch: Stretch) -> Path:
        return self._folder(log) / f"{int(stretch.start):016X}-{int(stretch.stop):016X}.index"

    def _folder(self, log: LogIdentity) -> Path:
        return self.directory / str(log.system) / f"{log.timeline:08X}"


def _files_in(directory: Path) -> Iterator[tuple[float, int, Path]]:
    """When each index was made or loaded last, and its size."""
    for path in directory.glob("*/*/*.index"):
        with suppress(FileNotFoundError):
            status = path.stat()
            yield status.st_mtime, status.st_size, path
