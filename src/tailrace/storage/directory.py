"""A data directory or base backup: what decoding reads of it besides the WAL. Files in, `catalog` values out."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.data_directory.commit_status import CommitStatus
from tailrace.catalog.data_directory.control_file import ControlFile, read_control
from tailrace.catalog.data_directory.multixacts import Multixacts
from tailrace.catalog.data_directory.relation_map import read_relation_map
from tailrace.catalog.pages.catalog_files import FileKey
from tailrace.catalog.pages.heap_pages import CatalogPages
from tailrace.dataclass import dataclass
from tailrace.errors import CorruptFile, MissingHistory
from tailrace.model import PAGE_SIZE
from tailrace.transactions.epochs import XidClock

GLOBAL_TABLESPACE = 1664
DEFAULT_TABLESPACE = 1663
_BLOCKS_PER_PART = 131_072
_TRIES = 10
_MOMENT = 0.005
"""Longer than a server takes to write a page."""


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """Paths below a cluster's data directory."""

    path: Path

    @classmethod
    def at(cls, path: str | Path) -> DataDirectory | None:
        """The directory, if that is what `path` is."""
        return cls(Path(path)) if (Path(path) / "global" / "pg_control").is_file() else None

    @property
    def wal(self) -> Path:
        return self.path / "pg_wal"

    @property
    def is_running(self) -> bool:
        """Whether a server owns it; its pg_wal is then recycled under our feet."""
        return (self.path / "postmaster.pid").exists()

    @property
    def is_abandoned(self) -> bool:
        """Whether surely no server runs here, though its postmaster.pid may be left from one that was killed. One that says another path was copied
        here, or is a container's, whose processes cannot be told from here."""
        try:
            pid, path, *_ = (self.path / "postmaster.pid").read_text().splitlines()
            number = abs(int(pid))
        except FileNotFoundError:
            return True
        except ValueError:
            return False  # it is just being written
        if Path(path).resolve() != self.path.resolve():
            return False
        try:
            os.kill(number, 0)
            return Path(f"/proc/{number}/cwd").readlink() != self.path.resolve()
        except ProcessLookupError:
            return True
        except FileNotFoundError:
            return Path(f"/proc/{number}").exists()  # it has ended, and nobody has asked how
        except OSError:
            return False  # another user's

    def control(self) -> ControlFile:
        """Raises as `read_control` does. A running server may just be writing it."""
        file = self.path / "global" / "pg_control"
        for _ in range(_TRIES if self.is_running else 0):
            with suppress(CorruptFile):
                return read_control(_content(file), str(file))
            time.sleep(_MOMENT)
        return read_control(_content(file), str(file))

    def relation_map(self, database: int, tablespace: int = DEFAULT_TABLESPACE) -> dict[int, int]:
        file = self.files_of(database, tablespace) / "pg_filenode.map"
        try:
            return read_relation_map(_content(file), str(file))
        except FileNotFoundError as error:
            raise CorruptFile(f'could not open relation mapping file "{file}": {error.strerror}', file=str(file)) from error

    def files_of(self, database: int, tablespace: int = DEFAULT_TABLESPACE) -> Path:
        """Where a database's files lie; 0 is the shared ones'."""
        if database == 0:
            return self.path / "global"
        if tablespace == DEFAULT_TABLESPACE:
            return self.path / "base" / str(database)
        versions = sorted((self.path / "pg_tblspc" / str(tablespace)).glob("PG_*"))
        if not versions:
            raise MissingHistory(f"tablespace {tablespace} is not below the data directory", context=str(self.path))
        return versions[-1] / str(database)

    def commit_status(self) -> CommitStatus:
        next_xid = self.control().next_xid  # asked before, so that the files are not older
        files = (self.path / "pg_xact").glob("[0-9A-F]" * 4)
        return CommitStatus({int(file.name, 16): _content(file) for file in files}, next_xid)

    def prepared(self) -> set[int]:
        """Full xids of transactions that were prepared and had not ended by the last checkpoint. Files are named after them, since 17 in full."""
        control = self.control()
        clock = XidClock.of((), (control.checkpoint, control.next_xid))
        return {clock.full(int(file.name[-8:], 16), control.checkpoint) for file in (self.path / "pg_twophase").glob("[0-9A-F]*")}

    def multixacts(self) -> Multixacts:
        def read(folder: str, number: int) -> bytes:
            file = self.path / "pg_multixact" / folder / f"{number:04X}"
            return _content(file) if file.exists() else b""

        return Multixacts(read)

    def sizes(self, numbers: Iterable[int], database: int, tablespace: int = DEFAULT_TABLESPACE) -> dict[int, int]:
        """Bytes of the first parts of those files of a database that exist, by their numbers."""
        folder = self.files_of(database, tablespace)
        files = {number: folder / str(number) for number in numbers}
        return {number: file.stat().st_size for number, file in files.items() if file.exists()}

    def pages(self, files: dict[FileKey, int], tablespace: int = DEFAULT_TABLESPACE) -> CatalogPages:
        """The main forks of these files, as far as they exist (all their 1 GB parts)."""
        pages, paths = {}, {}
        for database, number in files:
            base = self.files_of(database, tablespace) / str(number)
            data = b"".join(_content(part) for part in _parts(base))
            if len(data) % PAGE_SIZE:
                raise CorruptFile(
                    f'catalog file "{base}" has {len(data)} bytes, which is no whole number of pages',
                    file=str(base),
                    block=len(data) // PAGE_SIZE,
                )
            if data:
                pages[(database, number)] = np.frombuffer(data, np.uint8).reshape(-1, PAGE_SIZE).copy()
                paths[(database, number)] = str(base)
        read_again = partial(_block_of, paths) if self.is_running else None
        return CatalogPages(pages, paths, self.control().checksums, read_again)


def _content(file: Path) -> bytes:
    """All of a file. Raises CorruptFile for a pipe or a device in its place, which might be waited for without end."""
    if file.exists() and not file.is_file():
        raise CorruptFile(f'"{file}" is not a regular file', file=str(file))
    return file.read_bytes()


def _parts(base: Path) -> Iterator[Path]:
    """The file, as far as it exists, and what it goes on in after each GB: parts follow one another without a gap (`storage/smgr/md.c`)."""
    part, number = base, 0
    while part.exists():
        yield part
        number += 1
        part = base.with_name(f"{base.name}.{number}")


def _block_of(paths: dict[FileKey, str], key: FileKey, block: int) -> NDArray[np.uint8]:
    """One page as it is a moment later. One that is gone by then is none."""
    time.sleep(_MOMENT)
    part, within = divmod(block, _BLOCKS_PER_PART)
    try:
        with open(f"{paths[key]}.{part}" if part else paths[key], "rb") as file:
            file.seek(within * PAGE_SIZE)
            return np.frombuffer(file.read(PAGE_SIZE).ljust(PAGE_SIZE, b"\0"), np.uint8)
    except FileNotFoundError:
        return np.zeros(PAGE_SIZE, np.uint8)
