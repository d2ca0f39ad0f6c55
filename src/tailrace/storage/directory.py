"""A data directory or base backup: what decoding reads of it besides the WAL. Files in, `catalog` values out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tailrace.catalog.multixacts import Multixacts
from tailrace.catalog.pages import CommitStatus, ControlFile, read_control, read_relation_map
from tailrace.catalog.state import CatalogPages, FileKey
from tailrace.errors import CorruptWal, UsageError
from tailrace.model import PAGE_SIZE
from tailrace.transactions.epochs import XidClock

GLOBAL_TABLESPACE = 1664
DEFAULT_TABLESPACE = 1663


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

    def control(self) -> ControlFile:
        file = self.path / "global" / "pg_control"
        return read_control(file.read_bytes(), str(file))

    def relation_map(self, database: int, tablespace: int = DEFAULT_TABLESPACE) -> dict[int, int]:
        file = self.files_of(database, tablespace) / "pg_filenode.map"
        return read_relation_map(file.read_bytes(), str(file)) if file.exists() else {}

    def files_of(self, database: int, tablespace: int = DEFAULT_TABLESPACE) -> Path:
        """Where a database's files lie; 0 is the shared ones'."""
        if database == 0:
            return self.path / "global"
        if tablespace == DEFAULT_TABLESPACE:
            return self.path / "base" / str(database)
        versions = sorted((self.path / "pg_tblspc" / str(tablespace)).glob("PG_*"))
        if not versions:
            raise UsageError(f"tablespace {tablespace} is not below the data directory", context=str(self.path))
        return versions[-1] / str(database)

    def commit_status(self) -> CommitStatus:
        files = (self.path / "pg_xact").glob("[0-9A-F]" * 4)
        return CommitStatus({int(file.name, 16): file.read_bytes() for file in files}, self.control().next_xid)

    def prepared(self) -> set[int]:
        """Full xids of transactions that were prepared and had not ended by the last checkpoint. Files are named after them, since 17 in full."""
        control = self.control()
        clock = XidClock.of((), (control.checkpoint, control.next_xid))
        return {clock.full(int(file.name[-8:], 16), control.checkpoint) for file in (self.path / "pg_twophase").glob("[0-9A-F]*")}

    def multixacts(self) -> Multixacts:
        def read(folder: str, number: int) -> bytes:
            file = self.path / "pg_multixact" / folder / f"{number:04X}"
            return file.read_bytes() if file.exists() else b""

        return Multixacts(read)

    def pages(self, files: dict[FileKey, int], tablespace: int = DEFAULT_TABLESPACE) -> CatalogPages:
        """The main forks of these files, as far as they exist (all their 1 GB parts)."""
        found = {}
        for database, number in files:
            base = self.files_of(database, tablespace) / str(number)
            data = b"".join(part.read_bytes() for part in _parts(base))
            if len(data) % PAGE_SIZE:
                raise CorruptWal(f'catalog file "{base}" is not a whole number of pages')
            if data:
                found[(database, number)] = np.frombuffer(data, np.uint8).reshape(-1, PAGE_SIZE).copy()
        return CatalogPages(found)


def _parts(base: Path) -> Iterator[Path]:
    """The file, as far as it exists, and what it goes on in after each GB: parts follow one another without a gap (`storage/smgr/md.c`)."""
    part, number = base, 0
    while part.exists():
        yield part
        number += 1
        part = base.with_name(f"{base.name}.{number}")
