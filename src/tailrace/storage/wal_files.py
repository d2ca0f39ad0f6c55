"""Where the segment files of a log lie: a directory, or the objects of a store.

In: names, as PostgreSQL gives them to segments and history files. Out: which of them there are, and their bytes. This is the door; a directory is
behind it here, a store in `storage/wal_objects.py`. What is done with files that only directories have (a spool, an archive that is received into,
one that is cleaned up) goes by their paths.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal, FailedWrite

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PARTIAL = ".partial"
SEGMENT_NAME = re.compile(
    r"([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})(?:(\.partial)?(\.gz|\.zst|\.lz4)?|(\.gz|\.zst|\.lz4)(\.partial))\Z"
)
"""pg_receivewal puts `.partial` behind the compression, an archiver that compresses what it gets puts it before."""
_ON_DISK_ALREADY = (errno.ENOENT, errno.EROFS, errno.EINVAL)
"""It is complete by now, and was synced before it was renamed; or it lies where nobody writes, or nothing can be synced."""


@dataclass(frozen=True, slots=True)
class WalFile:
    """`size` is None for what is no regular file. It `lies_in` another place than it was asked for in, if that is said."""

    name: str
    size: int | None
    lies_in: WalFiles | None = None


class WalFiles(Protocol):
    """Workers get it by pickle."""

    @property
    def where(self) -> str:
        """The directory or the URL, as messages have it."""
        ...

    def named(self, name: str) -> str:
        """A file, as messages have it."""
        ...

    def segments(self, since: int | None = None) -> Iterator[WalFile]:
        """Every file that is named as a segment, in the order of names. A store need not list what lies well before the LSN `since`."""
        ...

    def read_into(self, name: str, offset: int, target: NDArray[np.uint8], *, is_partial: bool) -> int:
        """Fill `target` from there on; how many bytes there were. What follows in a partial one's place may stay as it is where the file has only
        zeros. Raises FileNotFoundError."""
        ...

    def head(self, name: str, most: int) -> bytes:
        """The first bytes, or all of them (-1). Raises FileNotFoundError."""
        ...

    def packed(self, name: str, most: int) -> str | bytes:
        """A compressed file, to be expanded: its path; or its bytes, at least as many as begin a file of which so many are wanted. Raises
        FileNotFoundError, or leaves that to who opens the path."""
        ...

    def history(self, name: str) -> str | None:
        """The text of a history file, None if there is none. Raises CorruptWal for what cannot be one."""
        ...

    def sync(self, name: str) -> None:
        """What was read of the file outlives a crash when this returns. Raises FailedWrite."""
        ...


@dataclass(frozen=True, slots=True)
class WalDirectory:
    """Files are opened when they are read."""

    directory: str

    @property
    def where(self) -> str:
        return self.directory

    def named(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def segments(self, since: int | None = None) -> Iterator[WalFile]:
        """A partial one may have become whole, and another name, since it was listed; a running server may have removed one."""
        for name in sorted(os.listdir(self.directory)):
            if not SEGMENT_NAME.match(name):
                continue
            for each in (name, name.replace(PARTIAL, "")):
                with suppress(FileNotFoundError):
                    status = os.stat(self.named(each))
                    yield WalFile(each, status.st_size if stat.S_ISREG(status.st_mode) else None)
                    break

    def read_into(self, name: str, offset: int, target: NDArray[np.uint8], *, is_partial: bool) -> int:
        done = 0
        with open(self.named(name), "rb", buffering=0) as file:
            view = memoryview(target)  # type: ignore[arg-type]
            there = _written(file, offset, len(view)) if is_partial else len(view)
            file.seek(offset)
            while done < there and (n := file.readinto(view[done:there])):
                done += n
        return len(view) if done == there else done

    def head(self, name: str, most: int) -> bytes:
        with open(self.named(name), "rb") as file:
            return file.read(most)

    def packed(self, name: str, most: int) -> str:
        return self.named(name)

    def history(self, name: str) -> str | None:
        path = Path(self.named(name))
        if not path.exists():
            return None
        if not path.is_file():
            raise CorruptWal(
                f'history file "{path}" is not a regular file',
                hint="Take the file from another copy or the archive.",
                file=str(path),
            )
        return path.read_text("utf-8", "surrogateescape")

    def sync(self, name: str) -> None:
        path = self.named(name)
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fdatasync(file)
            finally:
                os.close(file)
        except OSError as error:
            if error.errno not in _ON_DISK_ALREADY:
                raise FailedWrite(f'could not fsync file "{path}": {error.strerror}', file=path) from error


def files_in(place: str | Path | WalFiles) -> WalFiles:
    """Those of a directory, or what was opened already."""
    return WalDirectory(str(place)) if isinstance(place, str | Path) else place


def _written(file: FileIO, offset: int, length: int) -> int:
    """How many of these bytes of a file there are before a hole that reaches to its end: the others read as zeros."""
    number = file.fileno()
    if not length or os.fstat(number).st_size < offset + length:
        return length
    hole = os.lseek(number, offset, os.SEEK_HOLE)
    if hole < offset + length:
        try:
            os.lseek(number, hole, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return hole - offset
            raise
    return length
