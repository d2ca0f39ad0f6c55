"""What a server has of its log now, for who reads it once: received into a folder of the spool, which goes when nobody reads it any more.

In: a connection string. Out: `ServerCopy`: a data directory with the catalogs' files of a database, which tells of all that has been committed since
the server's last checkpoint; or WAL alone from some LSN on, for who has a catalog state. Nothing is asked of the server that a standby would not ask.
"""

from __future__ import annotations

import shutil
import time
import uuid
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tailrace.client.catalog_files import ServerFiles
from tailrace.client.receiver import Receiver
from tailrace.client.reception import receiving
from tailrace.client.replication_connection import server_identity
from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
from tailrace.model import Lsn
from tailrace.sources.server_directory import server_directory
from tailrace.storage.lease import Lease, first_leased
from tailrace.storage.spool import spool_directory
from tailrace.storage.whole_file import make_folder

_FOLDER, _FIRST = "received", "0" * 16
_NEW = 60.0
"""Seconds in which a folder may have no lease yet."""


@dataclass(slots=True, weakref_slot=True)
class ServerCopy:
    """`path` is a data directory, or a directory of segments. It is kept while this object lives, and for as long as was asked for besides."""

    path: Path
    lease: Lease


def received_copy(
    dsn: str, database: str, since: Lsn | None, lasting: float, tell: Callable[[str], None], back_to: Lsn | None = None
) -> ServerCopy:
    """What the server has now: from `since` on, WAL alone; else from its last checkpoint on, or from `back_to`, which may lie before it, with the
    catalogs of `database`, if it is said. The copy is kept for `lasting` seconds even if this process ends before."""
    home = _new_folder()
    copy = ServerCopy(home / "wal", Lease.take(home, _FIRST, lasting))
    if not lasting:
        weakref.finalize(copy, shutil.rmtree, home, ignore_errors=True)
    if since is None and database:
        with server_directory(dsn, database, home / "data", home / "wal", tell, back_to):
            copy.path = home / "data"
            return copy
    begin = since if since is not None else last_redo(dsn)
    with receiving(Receiver(dsn, copy.path, begin=begin, retries=False, tell=tell)) as reception:
        reception.wait(server_identity(dsn).flushed)
    return copy


def last_redo(dsn: str, database: str = "") -> Lsn | None:
    """The redo pointer of the server's last checkpoint, if SQL can be asked for it, in this database or the one that the connection string names: a
    standby may not."""
    with suppress(PeerError), ServerFiles.connected(dsn, database) as files:
        ((redo,),) = files.rows("SELECT redo_lsn::text FROM pg_control_checkpoint()")
        return Lsn.parse(redo)
    return None


def _new_folder() -> Path:
    """Beside it, those go that were left by processes which have ended."""
    directory = spool_directory() / _FOLDER
    make_folder(directory)
    for folder in directory.iterdir():
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _NEW and first_leased(folder) is None:
                shutil.rmtree(folder, ignore_errors=True)
    home = directory / uuid.uuid4().hex
    home.mkdir(mode=0o700)
    return home
