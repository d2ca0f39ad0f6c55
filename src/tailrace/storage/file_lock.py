"""A lock that the system lets go of when its owner's process ends, however that happens: a file or a folder, and `flock` on it.

Two handles of one process exclude each other as two processes do. A program that is started inherits no lock (O_CLOEXEC), and neither does a forked
child: its copy of the handle would keep the lock when the parent has gone.
"""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from typing import Self
from weakref import WeakSet


class FileLock:
    """Held from `take` or `wait` until `release`, the end of a `with` block, or that of the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = -1
        _EVERY.add(self)

    @classmethod
    def take(cls, path: Path) -> FileLock | None:
        """The lock, if nobody has it. The file is made if there is none."""
        lock = cls(path)
        return lock if lock._locked(fcntl.LOCK_EX | fcntl.LOCK_NB) else None

    @classmethod
    def wait(cls, path: Path) -> FileLock:
        """The lock, once nobody else has it."""
        lock = cls(path)
        lock._locked(fcntl.LOCK_EX)
        return lock

    @classmethod
    def share(cls, path: Path) -> FileLock:
        """The lock, together with others who share it, once nobody has it alone."""
        lock = cls(path)
        lock._locked(fcntl.LOCK_SH)
        return lock

    @classmethod
    def on_file(cls, path: Path) -> FileLock:
        """The lock on the file that goes by this name, once nobody else has it. Raises FileNotFoundError where there is none, and makes none."""
        while True:
            lock = cls(path)
            try:
                lock._locked(fcntl.LOCK_EX, os.O_RDWR)
                if os.path.samestat(os.fstat(lock._file), os.stat(path)):
                    return lock
            except BaseException:
                lock.release()
                raise
            lock.release()  # another file has taken its place while this one was waited for

    @classmethod
    def is_taken(cls, path: Path) -> bool:
        """Whether somebody has it. Those who only ask do not take one another for an owner. False where there is no file."""
        if not path.exists():
            return False
        lock = cls(path)
        is_free = lock._locked(fcntl.LOCK_SH | fcntl.LOCK_NB)
        lock.release()
        return not is_free

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def is_held(self) -> bool:
        return self._file >= 0

    def write(self, text: str) -> None:
        """Put `text` into the file, in place of what was there."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, text.encode(), 0)

    def release(self) -> None:
        if self.is_held:
            fcntl.flock(self._file, fcntl.LOCK_UN)  # even if a child that was just forked has not yet closed its copy
        self._close()

    def _close(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _locked(self, how: int, kind: int | None = None) -> bool:
        with _FORKING:
            if kind is None:
                kind = os.O_RDONLY | os.O_DIRECTORY if self.path.is_dir() else os.O_RDWR | os.O_CREAT
            self._file = os.open(self.path, kind | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, how)
        except BlockingIOError:
            self.release()
        except BaseException:
            self.release()
            raise
        return self.is_held


_EVERY: WeakSet[FileLock] = WeakSet()
_FORKING = threading.Lock()
"""A handle is opened while no other thread forks, so that a child knows of all that it has."""


def _forget_all() -> None:
    """In a forked child. The parent's locks stay: closing a copy of a handle does not unlock."""
    for lock in list(_EVERY):
        lock._close()
    _FORKING.release()


os.register_at_fork(before=_FORKING.acquire, after_in_parent=_FORKING.release, after_in_child=_forget_all)
