"""A store that is a directory: an object is a file.

A new object gets its name by `link`, which fails where the name is taken, so of several writers one wins. Who replaces or deletes an object holds
the lock on its file while he looks which it is and gives its name to another. Nobody sees half of an object, and what a killed writer leaves is not
listed.

The tag of an object is the time at which its file was written, in nanoseconds, and the file's inode and size. That time is set here, and is later
than that of the object that was replaced: the kernel's own clock stands still for some milliseconds at a time.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.storage.file_lock import FileLock
from tailrace.storage.object_names import check_name, is_name, name_key
from tailrace.storage.store import ObjectChanged, StoredObject
from tailrace.storage.whole_file import make_folder, sync_folder, whole_file

_COPIED = 1 << 20
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)


@dataclass(frozen=True, slots=True)
class LocalStore:
    """`folder` is absolute, and need not be there before something is put."""

    folder: Path

    @property
    def url(self) -> str:
        return str(self.folder)

    def below(self, prefix: str) -> LocalStore:
        return LocalStore(self.folder / check_name(prefix.removesuffix("/"))) if prefix else self

    def read(self, name: str) -> bytes:
        return self.read_tagged(name)[0]

    def read_tagged(self, name: str) -> tuple[bytes, str]:
        with self._opened(name) as file:
            return file.read(), _tag(os.fstat(file.fileno()))

    def read_range(self, name: str, start: int, length: int) -> bytes:
        with self._opened(name) as file:
            file.seek(start)
            return file.read(max(0, length))

    def open(self, name: str) -> pa.NativeFile:
        path = self._path(name)
        if not path.is_file():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return pa.memory_map(str(path))

    def put(self, name: str, data: bytes) -> str:
        return self._put(name, lambda file: file.write(data), _replace)

    def put_file(self, name: str, path: Path) -> None:
        with path.open("rb") as source:
            self._put(name, lambda file: shutil.copyfileobj(source, file, _COPIED), _replace)

    def put_written(self, name: str, write: Callable[[BinaryIO], object]) -> int:
        def written(file: BinaryIO) -> None:
            write(file)
            sizes.append(file.tell())

        sizes = list[int]()
        self._put(name, written, _replace)
        return sizes[0]

    def put_new(self, name: str, data: bytes) -> str:
        return self._put(name, lambda file: file.write(data), _link)

    def put_over(self, name: str, data: bytes, tag: str) -> str:
        if not self._path(name).is_file():
            raise ObjectChanged(f"{self.folder / name} is no longer there")
        return self._put(name, lambda file: file.write(data), lambda new, target: _replace(new, target, tag))

    def list(self, prefix: str = "", after: str = "") -> Iterator[StoredObject]:
        folder = prefix.rpartition("/")[0]
        if folder and not is_name(folder):
            return iter(())
        return _listed(self.folder / folder, f"{folder}/" if folder else "", prefix, after)

    def folders(self, prefix: str = "") -> Sequence[str]:
        folder = self.folder / check_name(prefix.removesuffix("/")) if prefix else self.folder
        inside = [(name, path) for name, path in _entries(folder) if name.endswith("/")]
        found = [name.removesuffix("/") for name, path in inside if next(_listed(Path(path), prefix + name, "", ""), None)]
        return sorted(found, key=name_key)

    def delete(self, names: Iterable[str]) -> None:
        folders = set()
        for name in names:
            path = self._path(name)
            try:
                lock = FileLock.on_file(path)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                continue
            try:
                path.unlink()
            finally:
                lock.release()
            folders.add(path.parent)
        for folder in folders:
            sync_folder(folder)

    def _path(self, name: str) -> Path:
        return self.folder / check_name(name)

    @contextmanager
    def _opened(self, name: str) -> Iterator[BinaryIO]:
        path = self._path(name)
        try:
            file = path.open("rb")
        except (NotADirectoryError, IsADirectoryError):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
        with file:
            yield file

    def _put(self, name: str, write: Callable[[BinaryIO], object], place: Callable[[Path, Path], str]) -> str:
        """The new tag, which `place` knows when it gives the file its name."""
        path = self._path(name)
        try:
            make_folder(path.parent)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(
                f'"{path}" cannot be put: what would be its folder is a file',
                hint="An object cannot have other objects below it.",
            ) from None
        tags: list[str] = []
        with whole_file(path, place=lambda new, target: tags.append(place(new, target))) as file:
            write(file)
            file.flush()
            os.utime(file.fileno(), ns=(now := time.time_ns(), now))
        return tags[0]


def _link(new: Path, target: Path) -> str:
    tag = _tag(new.stat())
    try:
        os.link(os.fspath(new), target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise UsageError(
            f'"{target}" is on a file system without hard links ({error.strerror})',
            hint="Without them two writers could both take the same name. Use a directory on another file system, or an object store.",
        ) from None
    return tag


def _replace(new: Path, target: Path, tag: str | None = None) -> str:
    """In place of the object with this tag, or of any. Raises ObjectChanged."""
    while True:
        try:
            lock = FileLock.on_file(target)
        except FileNotFoundError:
            if tag is not None:
                raise ObjectChanged(f"{target} is no longer there") from None
            try:
                return _link(new, target)
            except FileExistsError:
                continue  # somebody was quicker: it is replaced like any other
        try:
            before = target.stat()
            if tag is not None and tag != _tag(before):
                raise ObjectChanged(f"{target} is another than it was")
            _make_later(new, before.st_mtime_ns)
            made = _tag(new.stat())
            new.rename(target)
            return made
        finally:
            lock.release()


def _make_later(new: Path, than: int) -> None:
    """A clock may have been set back, or be coarse."""
    if new.stat().st_mtime_ns <= than:
        os.utime(new, ns=(than + 1, than + 1))
        with new.open("rb") as file:
            os.fsync(file.fileno())


def _tag(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_ino:x}-{status.st_size:x}"


def _listed(folder: Path, at: str, prefix: str, after: str) -> Iterator[StoredObject]:
    """Objects in this folder, whose names begin with `at`, and in those below, which are read when their turn comes."""
    wanted, behind = name_key(prefix), name_key(after)
    for entry, path in _entries(folder):
        name = at + entry
        key = name_key(name)
        if name.endswith("/"):
            is_behind = key > behind or behind.startswith(key)
            if is_behind and (key.startswith(wanted) or wanted.startswith(key)):
                yield from _listed(Path(path), name, prefix, after)
        elif key > behind and key.startswith(wanted) and is_name(name):
            try:
                status = os.stat(path)
            except FileNotFoundError:  # it was deleted since
                continue
            yield StoredObject(name, status.st_size, status.st_mtime, _tag(status))


def _entries(folder: Path) -> list[tuple[str, str]]:
    """Names and paths of files and folders; a folder's name ends in `/`, and so stands where the names of its objects do."""
    try:
        with os.scandir(folder) as entries:
            found = [(each.name + "/" * each.is_dir(), each.path) for each in entries if each.is_dir() or each.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found, key=lambda each: name_key(each[0]))
