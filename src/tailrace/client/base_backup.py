"""The files of a running server that say what its tables are, out of a base backup: for a role that may not read them over SQL.

In: a connection of a role with REPLICATION. Out: a data directory with these files alone, of which a catalog state can be captured. The server sends
all files of the cluster, in the order in which its file system names them, and pg_control last; so a backup is taken to its end, and what is not
wanted is dropped as it comes. The log is needed from the backup's start to its end, which is not in it.

Names and sizes are the server's word: nothing is written but under names that are known beforehand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import BinaryIO

from tailrace.catalog.pages.catalog_files import FileKey
from tailrace.catalog.pages.heap_pages import CatalogPages
from tailrace.client.replication_connection import ReplicationConnection
from tailrace.dataclass import dataclass
from tailrace.errors import FailedWrite, PeerError
from tailrace.majors import BACKUPS_IN_ONE_COPY, supports
from tailrace.model import FIRST_NORMAL_OID, PAGE_SIZE, Lsn
from tailrace.storage.directory import DEFAULT_TABLESPACE, GLOBAL_TABLESPACE, DataDirectory
from tailrace.wal.index import TRACKED_CATALOGS
from tailrace.wire.base_backup import NewArchive, TarMember, TarStream, backup_command, read_backup_message

_CONTROL = "global/pg_control"
_SMALL = 1 << 20
"""More than the largest of the files that are no relation's."""
_XIDS_PER_STATUS_PAGE, _XIDS_PER_STATUS_FILE, _STATUS_FILES = 1 << 15, 1 << 20, 1 << 12
_STATUS = re.compile(r"global/pg_control|pg_xact/[0-9A-F]{4}|pg_multixact/(?:offsets|members)/[0-9A-F]{4,5}")
_PREPARED = re.compile(r"pg_twophase/(?:[0-9A-F]{8}|[0-9A-F]{16})")
_RELATION = re.compile(
    r"(?P<folder>global|(?:base|PG_\d{1,9}_\d{1,9})/\d{1,10})/(?:pg_filenode\.map|(?P<number>\d{1,10})(?:\.\d{1,6})?)", re.ASCII
)
_ARCHIVE = re.compile(r"(\d{1,10}|base)\.tar", re.ASCII)


@dataclass(frozen=True, slots=True)
class WantedFiles:
    """What to keep of a cluster's relations: the shared catalogs; and of `database`, or where nobody knows its oid of all databases, the catalogs'
    files as initdb numbers them, and those that are `named`."""

    database: int | None = None
    named: frozenset[FileKey] = frozenset()

    def has(self, database: int, number: int) -> bool:
        if database not in (0, self.database or database):
            return False
        return number in TRACKED_CATALOGS or (database, number) in self.named or (not database and number >= FIRST_NORMAL_OID)


Place = tuple[int, int]
"""(tablespace, database)"""


@dataclass(slots=True)
class DroppedFiles:
    """The numbers of files that a backup had and that were not kept, by their place: of those with content, and of empty ones."""

    full: dict[Place, set[int]] = field(default_factory=dict)
    empty: dict[Place, set[int]] = field(default_factory=dict)

    def add(self, place: Place, number: int, size: int) -> None:
        (self.full if size else self.empty).setdefault(place, set()).add(number)

    def among(self, others: DroppedFiles) -> DroppedFiles:
        """Those that were dropped of another backup, too."""
        return DroppedFiles({place: numbers & others.full.get(place, set()) for place, numbers in self.full.items()}, self.empty)


class FilesNotKept(Exception):
    """Somebody asks for files that the backup had, and that were dropped."""

    def __init__(self, files: Collection[FileKey]) -> None:
        super().__init__(f"{len(files)} files of the base backup are wanted that were not kept")
        self.files = frozenset(files)


@dataclass(frozen=True, slots=True)
class BackupDirectory(DataDirectory):
    """A data directory made of a base backup. It raises FilesNotKept when it is asked for a file that was `dropped`."""

    dropped: DroppedFiles = field(default_factory=DroppedFiles)

    def pages(self, files: dict[FileKey, int], tablespace: int = DEFAULT_TABLESPACE) -> CatalogPages:
        self._check(files, tablespace)
        return DataDirectory.pages(self, files, tablespace)

    def sizes(self, numbers: Iterable[int], database: int, tablespace: int = DEFAULT_TABLESPACE) -> dict[int, int]:
        numbers = set(numbers)
        self._check([(database, number) for number in numbers], tablespace)
        empty = dict.fromkeys(numbers & self.dropped.empty.get((tablespace, database), set()), 0)
        return empty | DataDirectory.sizes(self, numbers, database, tablespace)

    def _check(self, files: Collection[FileKey] | Mapping[FileKey, int], tablespace: int) -> None:
        full = self.dropped.full
        lacking = [key for key in files if key[1] in full.get((tablespace if key[0] else GLOBAL_TABLESPACE, key[0]), ())]
        if lacking:
            raise FilesNotKept(lacking)


@dataclass(slots=True)
class BaseBackup:
    """A base backup that has begun, at the checkpoint whose redo pointer is `start`. Its files wait to be taken."""

    connection: ReplicationConnection
    start: Lsn
    tablespaces: list[int]
    """Of the archives in their order; 0 is the data directory."""
    is_one_copy: bool

    @classmethod
    def begun(cls, connection: ReplicationConnection, max_rate: int | None = None) -> BaseBackup:
        """A checkpoint is made at once, and waited for; a standby takes its last restartpoint. Raises PeerError as the server does."""
        major = int(connection.show("server_version_num")) // 10000
        connection.begin(backup_command(major, max_rate))
        start = _position_in(connection.next_rows())
        tablespaces = [int(oid or 0) for oid, *_ in connection.next_rows() or []]
        return cls(connection, start, tablespaces, supports(major, BACKUPS_IN_ONE_COPY))

    def take(self, directory: Path, wanted: WantedFiles, tell: Callable[[int], None]) -> tuple[Lsn, DroppedFiles]:
        """Make of `directory` a data directory with what is wanted. Up to where the log is needed with it, and what was dropped. `tell` hears with
        each file how many bytes have come. Raises PeerError, and FailedWrite for what the file system refuses."""
        kept = KeptFiles(directory, wanted, tell)
        for folder in ("global", "pg_xact", "pg_twophase"):
            (directory / folder).mkdir(parents=True)
        archives = iter(self.tablespaces)
        while (rows := self.connection.next_rows()) is None:
            if not self.is_one_copy:
                kept.begin(next(archives, 0))
            for data in self.connection.copied():
                message = read_backup_message(data) if self.is_one_copy else data
                if isinstance(message, NewArchive):
                    kept.begin(_tablespace_of(message))
                elif message is not None:
                    kept.take(message)
            kept.end()
        end = _position_in(rows)
        while self.connection.next_rows():
            pass
        if not (directory / _CONTROL).exists():
            raise PeerError(f'the base backup has no "{_CONTROL}"')
        complete_commit_status(DataDirectory(directory))
        return end, kept.dropped


def complete_commit_status(directory: DataDirectory) -> None:
    """What began after pg_xact was copied stands in no file of it, but pg_control, which came last, knows of it: it was in progress then, and what
    became of it is in the log."""
    copied = directory.commit_status()
    number, within = divmod((copied.next_xid - 1) % (1 << 32), _XIDS_PER_STATUS_FILE)
    size = (within // _XIDS_PER_STATUS_PAGE + 1) * PAGE_SIZE
    while copied.files:
        data = copied.files.get(number, b"")
        (directory.path / f"pg_xact/{number:04X}").write_bytes(data.ljust(size, b"\0"))
        if data:
            return
        number, size = (number - 1) % _STATUS_FILES, _XIDS_PER_STATUS_FILE // 4


def _position_in(rows: Sequence[Sequence[str]] | None) -> Lsn:
    """Where a backup begins or ends: the first column of the one row that says so."""
    if rows is None or len(rows) != 1:
        raise PeerError("the server does not say where the base backup begins, or ends")
    return Lsn.parse(rows[0][0])


def _tablespace_of(archive: NewArchive) -> int:
    if (match := _ARCHIVE.fullmatch(archive.name)) is None:
        raise PeerError(f'unexpected archive "{archive.name}" in base backup')
    return 0 if match[1] == "base" else int(match[1])


@dataclass(slots=True)
class KeptFiles:
    """What is kept of archives while they come. State: the archive and its tablespace, the file that is being written, and what was dropped."""

    directory: Path
    wanted: WantedFiles
    tell: Callable[[int], None]
    dropped: DroppedFiles = field(default_factory=DroppedFiles)
    received: int = 0
    _tar: TarStream = field(default_factory=TarStream)
    _tablespace: int = 0
    _path: Path = field(default_factory=Path)
    _file: BinaryIO | None = None

    def begin(self, tablespace: int) -> None:
        self.end()
        self._tar, self._tablespace = TarStream(), tablespace

    def take(self, data: memoryview) -> None:
        """More of the archive."""
        self.received += len(data)
        for each in self._tar.feed(data):
            if isinstance(each, TarMember):
                self._close()
                self._begin_file(each)
                self.tell(self.received)
            elif self._file is not None:
                with self._writing():
                    self._file.write(each)

    def end(self) -> None:
        """The archive's end."""
        self._tar.end()
        self._close()

    def _begin_file(self, member: TarMember) -> None:
        path = self._place_of(member) if member.is_file else None
        if path is None:
            return
        self._path = self.directory / path
        with self._writing():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("xb")
        if _PREPARED.fullmatch(path):
            file.close()  # its name is all that is asked
        else:
            self._file = file

    def _place_of(self, member: TarMember) -> str | None:
        """Below the data directory, of a file that is wanted."""
        name = member.name
        if not self._tablespace and (_STATUS.fullmatch(name) or _PREPARED.fullmatch(name)):
            return _small(member) if _STATUS.fullmatch(name) else name
        match = _RELATION.fullmatch(name)
        if match is None or match["folder"].startswith("PG_") != bool(self._tablespace):
            return None
        is_shared = match["folder"] == "global"
        database = 0 if is_shared else int(match["folder"].rpartition("/")[2])
        path = f"pg_tblspc/{self._tablespace}/{name}" if self._tablespace else name
        if match["number"] is None:
            _small(member)
            return path if database in (0, self.wanted.database or database) else None
        number = int(match["number"])
        if self.wanted.has(database, number):
            return path
        self.dropped.add(
            (GLOBAL_TABLESPACE if is_shared else self._tablespace or DEFAULT_TABLESPACE, database), number, member.size
        )
        return None

    def _close(self) -> None:
        """Of a page that was just being added the rest is zeros."""
        if self._file is not None:
            file, self._file = self._file, None
            with self._writing(), file:
                if not self._path.name.startswith("pg_"):
                    file.truncate(-(-file.tell() // PAGE_SIZE) * PAGE_SIZE)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except FileExistsError as error:
            raise PeerError(f'file "{self._path.name}" comes twice in the base backup') from error
        except OSError as error:
            raise FailedWrite(f'could not write to file "{self._path}": {error.strerror}', file=str(self._path)) from error


def _small(member: TarMember) -> str:
    """The name of a file of which it is known about how large it is."""
    if member.size > _SMALL:
        raise PeerError(f'file "{member.name}" of the base backup has {member.size} bytes')
    return member.name
