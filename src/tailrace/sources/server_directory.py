"""What a server has of its log and catalogs, as a data directory: WAL that is received, and beside it the catalogs' files of one database.

In: a connection string, a database, and the directory into which the server's log is received. Out: `ServerDirectory`. No file of a user's table is
there; decoding needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tailrace.catalog.data_directory.control_file import ControlFile
from tailrace.client.catalog_files import ServerFiles, copy_catalog_files
from tailrace.client.receiver import Receiver
from tailrace.client.reception import receiving
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory
from tailrace.model import Lsn
from tailrace.storage.segment_files import arrange, list_segments


@dataclass(frozen=True, slots=True)
class ServerDirectory:
    """A data directory at `path`, all of whose pages are known with the log up to `upto`; and the server's pg_control as it was before."""

    path: Path
    control: ControlFile
    upto: Lsn


@contextmanager
def server_directory(dsn: str, database: str, path: Path, wal: Path, tell: Callable[[str], None]) -> Iterator[ServerDirectory]:
    """Make one at `path`, with `wal` as its pg_wal. The log is received there until the block ends: by this process, if by no other.

    Raises:
        PeerError: what the server said, with what is missing of rights.
        MissingHistory: `wal` does not reach back to the server's last checkpoint.
    """
    with ServerFiles.connected(dsn, database) as files:
        control = files.control()
        with receiving(Receiver(dsn, wal, begin=control.redo, retries=False, tell=tell)) as reception:
            reception.wait(control.redo)
            _check_reaches_back(wal, control.redo)
            upto = copy_catalog_files(files, database, path, wal)
            reception.wait(upto)
            yield ServerDirectory(path, control, upto)


def _check_reaches_back(wal: Path, redo: Lsn) -> None:
    """Raise unless the archive has the log from the last checkpoint on."""
    first = arrange(wal).first_lsn if list_segments(wal) else redo
    if first > redo:
        raise MissingHistory(
            f'"{wal}" begins at {first}, which is behind the redo pointer of the server\'s last checkpoint, {redo}',
            hint="Capture the state once the server has made another checkpoint (CHECKPOINT makes one at once).", lsn=redo,
        )  # fmt: skip
