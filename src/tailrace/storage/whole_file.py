"""The one way in which files of ours come to be: beside their place, synced, renamed, the folder synced. Readers see all of a file or none of it, and
so does who looks after a crash.

Only a regular file is ever replaced, or a name that nothing has: whoever may write to a device's folder must not find the device gone.
"""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tailrace.errors import UsageError

_KINDS = {
    stat.S_IFDIR: "a directory", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket",
}  # fmt: skip
UNFINISHED = ".new"
"""How the names of files end that are still being written, or were when their writer died."""


def check_replaceable(path: Path) -> None:
    """Raise UsageError unless `path` is a regular file, or nothing yet. To be asked before long work whose result goes there."""
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise UsageError(
                f'"{path}" is {_KINDS.get(stat.S_IFMT(mode), "no regular file")}, it cannot be replaced by a file',
                hint="Name a file, or a name that nothing has.",
            )


@contextmanager
def whole_file(path: Path, mode: int = 0o666, place: Callable[[Path, Path], object] = Path.rename) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` once all is written, and is dropped if anything fails. Behind a symbolic link it is the
    link's target that is replaced. `mode` is what it allows at most. `place` gives the finished file its name, and may decide that it gets none.
    Raises UsageError as `check_replaceable` does, OSErrors name `path`."""
    check_replaceable(path)
    target = Path(os.path.realpath(path))
    new = target.with_name(f".{target.name}.{uuid.uuid4().hex}{UNFINISHED}")
    try:
        with open(new, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        place(new, target)
        sync_folder(target.parent)
    except OSError as error:
        if error.filename in (None, str(new)):
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        new.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes, mode: int = 0o666) -> None:
    """All of `data`, or nothing. Raises as `whole_file` does."""
    with whole_file(path, mode) as file:
        file.write(data)


Written = tuple[int, int, int]
"""Inode, time and size."""


def as_written(path: str | Path) -> Written | None:
    """What tells a file from another that was written in its place; None where there is none."""
    with suppress(FileNotFoundError):
        status = os.stat(path)
        return status.st_ino, status.st_mtime_ns, status.st_size
    return None


def make_folder(path: Path) -> None:
    """The folder, and those that it lies in, as far as they are not there; on disk when this returns."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """A name is on disk only once its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_unfinished(folder: Path) -> None:
    """What writers left there that were killed; for who knows that none is at work whose file counts."""
    for name in os.listdir(folder) if folder.is_dir() else ():
        if name.startswith(".") and name.endswith(UNFINISHED):
            (folder / name).unlink(missing_ok=True)  # one may have been renamed meanwhile
