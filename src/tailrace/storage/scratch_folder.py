"""Folders for as long as a process needs them. A run that is killed leaves its own behind; the next one that makes a folder of the kind removes it.

In: a directory, and how names of the kind begin. Out: a folder, and a lock on it, which the system lets go of when the process ends. Where a file
system has no locks, nobody knows whose a folder is, and all stay.
"""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tailrace.storage.file_lock import FileLock


class ScratchFolder:
    """A new folder below `directory`, until `remove`, or until somebody else finds that this process has gone."""

    def __init__(self, directory: Path, prefix: str) -> None:
        _remove_abandoned(directory, prefix)
        self.path, self._lock = _made(directory, prefix)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            self._lock.release()


@contextmanager
def scratch_folder(directory: Path, prefix: str) -> Iterator[Path]:
    """The same, until the block ends."""
    folder = ScratchFolder(directory, prefix)
    try:
        yield folder.path
    finally:
        folder.remove()


def _made(directory: Path, prefix: str) -> tuple[Path, FileLock | None]:
    while True:
        folder = Path(tempfile.mkdtemp(dir=directory, prefix=prefix))
        try:
            lock = _lock(folder)
        except OSError:
            return folder, None
        if lock is not None:  # or else another run took it for an abandoned one, in the moment between
            return folder, lock


def _remove_abandoned(directory: Path, prefix: str) -> None:
    for folder in directory.glob(f"{prefix}*"):
        with suppress(OSError):
            # In a temporary folder that all share, a link of this name may be anybody's, and lead anywhere.
            if stat.S_ISDIR(folder.lstat().st_mode) and (lock := _lock(folder)):
                shutil.rmtree(folder, ignore_errors=True)
                lock.release()


def _lock(folder: Path) -> FileLock | None:
    """The folder's, if it is still there and nobody has it."""
    lock = FileLock.take(folder)
    if lock is None or folder.is_dir():
        return lock
    folder.unlink(missing_ok=True)  # to take the lock of what is not there makes a file
    lock.release()
    return None
