"""What a server has of its log and catalogs, as a data directory: WAL that is received, and beside it the catalogs' files of one database.

In: a connection string, a database, and the directory into which the server's log is received. Out: `ServerDirectory`. No file of a user's table is
there; decoding needs none. The files are read over SQL, which takes a grant; or they come out of a base backup, which takes REPLICATION alone: for
that the server makes a checkpoint, and reads and sends all of its files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from tailrace.catalog.data_directory.control_file import ControlFile
from tailrace.client.base_backup import BaseBackup, DroppedFiles, WantedFiles
from tailrace.client.catalog_files import NotLetIn, ServerFiles, copy_catalog_files
from tailrace.client.receiver import Receiver
from tailrace.client.reception import Reception, receiving
from tailrace.client.replication_connection import ReplicationConnection
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory, TailraceError
from tailrace.model import Lsn
from tailrace.storage.directory import DataDirectory
from tailrace.storage.segment_files import arrange, list_segments

_TOLD_EVERY = 1 << 30


@dataclass(frozen=True, slots=True)
class ServerDirectory:
    """A data directory at `path`, all of whose pages are known with the log up to `upto`, from `since` on if that is said; and the server's
    pg_control, as it was before, or of a base backup at its end. `dropped` are files that the server had and that are not here."""

    path: Path
    control: ControlFile
    upto: Lsn
    since: Lsn | None = None
    dropped: DroppedFiles = field(default_factory=DroppedFiles)


@contextmanager
def server_directory(
    dsn: str, database: str, path: Path, wal: Path, tell: Callable[[str], None], since: Lsn | None = None
) -> Iterator[ServerDirectory]:
    """Make one at `path`, with `wal` as its pg_wal. The log is received there until the block ends: by this process, if by no other; from the last
    checkpoint on, or from `since` and a little before it, if that lies before the checkpoint.

    Raises:
        PeerError: what the server said, with what is missing of rights.
        MissingHistory: `wal` does not reach back to the server's last checkpoint, or the server not to `since`.
    """
    with ServerFiles.connected(dsn, database) as files:
        if (obstacle := files.obstacle(database)) is not None:
            raise obstacle
        control = files.control()
        begin = control.redo if since is None else min(files.log_begins(control, since), control.redo)
        with _received(dsn, wal, begin, tell) as reception:
            upto = copy_catalog_files(files, database, path, wal)
            reception.wait(upto)
            yield ServerDirectory(path, control, upto)


def obstacle_to_reading(dsn: str, database: str) -> TailraceError | None:
    """Why that would be refused, though a base backup may be had: NotLetIn where the server does not even say in which files the catalogs are. Raises
    PeerError for what is in the way of either."""
    try:
        with ServerFiles.connected(dsn, database) as files:
            obstacle = files.obstacle(database)
    except NotLetIn as error:
        obstacle = error
    if obstacle is not None:
        with ReplicationConnection(dsn):
            pass
    return obstacle


def named_files(dsn: str, database: str) -> WantedFiles:
    """The files of the catalogs, as the server says now. Asked once a backup has begun: of files that are made later the log has all."""
    with ServerFiles.connected(dsn, database) as files:
        return WantedFiles(*files.catalog_files())


@contextmanager
def backup_directory(
    dsn: str, path: Path, wal: Path, wanted: Callable[[], WantedFiles], tell: Callable[[str], None], max_rate: int | None
) -> Iterator[ServerDirectory]:  # fmt: skip
    """The same out of a base backup, which begins with a checkpoint. `wanted` is asked once it has begun. Where pages have images only while a backup
    is taken, the log counts from its start on."""
    with ReplicationConnection(dsn) as connection:
        backup = BaseBackup.begun(connection, max_rate)
        with _received(dsn, wal, backup.start, tell) as reception:
            upto, dropped = backup.take(path, wanted(), _BackupProgress(tell, reception).bytes_came)
            reception.wait(upto)
            (path / "pg_wal").symlink_to(wal.absolute(), target_is_directory=True)
            control = DataDirectory(path).control()
            yield ServerDirectory(path, control, upto, None if control.full_page_writes else backup.start, dropped)


@contextmanager
def _received(dsn: str, wal: Path, redo: Lsn, tell: Callable[[str], None]) -> Iterator[Reception]:
    """Within the block the log comes in, from the redo pointer on."""
    with receiving(Receiver(dsn, wal, begin=redo, retries=False, tell=tell)) as reception:
        reception.wait(Lsn(redo + 1))  # where a segment begins, its file may be there, and empty
        _check_reaches_back(wal, redo)
        yield reception


@dataclass(slots=True)
class _BackupProgress:
    """Who waits for a base backup hears how far it is, and what has ended the reception."""

    tell: Callable[[str], None]
    reception: Reception
    told: int = 0

    def bytes_came(self, received: int) -> None:
        self.reception.check()
        if received - self.told >= _TOLD_EVERY:
            self.told = received
            self.tell(f"{received >> 30} GB of the base backup have come")


def _check_reaches_back(wal: Path, redo: Lsn) -> None:
    """Raise unless the archive has the log from the last checkpoint on."""
    first = arrange(wal).first_lsn if list_segments(wal) else redo
    if first > redo:
        raise MissingHistory(
            f'"{wal}" begins at {first}, which is behind the redo pointer of the server\'s last checkpoint, {redo}',
            hint="Capture the state once the server has made another checkpoint (CHECKPOINT makes one at once).", lsn=redo,
        )  # fmt: skip
