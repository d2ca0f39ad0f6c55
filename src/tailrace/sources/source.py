"""Where WAL comes from, as the user names it: files of a directory or of a store, or a server by its connection string."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.catalog.data_directory.commit_status import CommitStatus
from tailrace.catalog.data_directory.control_file import ControlFile
from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal
from tailrace.model import Lsn
from tailrace.sources.dsn import is_dsn
from tailrace.sources.named import directory_of, existing, files_of
from tailrace.sources.source_name import SourceName
from tailrace.storage.directory import DataDirectory
from tailrace.storage.lease import Lease
from tailrace.storage.segment_files import open_segments
from tailrace.storage.segments import Segments
from tailrace.storage.spool import spool_directory, spooled, with_copies

if TYPE_CHECKING:
    from tailrace.sources.server_copy import ServerCopy


@dataclass(slots=True)
class Source:
    """WAL, and the data directory that it belongs to if there is one, with its control file; of a running server also pg_xact. Both are as they were
    before the WAL was copied, so that they know of nothing that is not in there. `lease` keeps the copy in its place while the source lives, and
    `received` that of a server's log."""

    segments: Segments
    directory: DataDirectory | None
    status: CommitStatus | None = None
    control: ControlFile | None = None
    lease: Lease | None = None
    received: ServerCopy | None = None

    @classmethod
    def open(
        cls, name: SourceName, since: Lsn | None = None, lasting: float = 0, *, for_catalogs: bool = True, database: str = "",
        tell: Callable[[str], None] = lambda _: None,
    ) -> Source:  # fmt: skip
        """A data directory or base backup, a pg_wal, or an archive of segments, also one in a store. Of a running server's WAL only what lies
        at `since` or behind it is copied, and kept for at least `lasting` seconds. pg_xact is read for those who look at pages of catalogs.

        Of a server, by its connection string, what it has now is received: WAL from `since` on; or from its last checkpoint on, with the catalogs of
        `database`. `tell` hears how that goes."""
        if isinstance(name, str) and is_dsn(name):
            from tailrace.sources.server_copy import received_copy  # noqa: PLC0415 - of files nothing is received

            copy = received_copy(name, database, since, lasting, tell)
            return replace(cls.open(copy.path, since), lease=copy.lease, received=copy)
        name = existing(name)
        directory = directory_of(name)
        status = directory.commit_status() if directory and directory.is_running and for_catalogs else None
        control = directory.control() if directory else None
        segments = open_segments(files_of(name), since)
        if directory and control:
            if control.system != segments.system:
                raise CorruptWal(
                    "WAL file is from different database system: WAL file database system identifier is "
                    f"{segments.system}, pg_control database system identifier is {control.system}",
                    context=segments.directory,
                    file=segments.directory,
                )
            if directory.is_running:
                segments, lease = spooled(segments, spool_directory(), since, lasting)
                return cls(segments, directory, status, control, lease)
            if since is not None:
                segments, kept = with_copies(segments, spool_directory(), since)
                return cls(segments, directory, status, control, kept)
        return cls(segments, directory, status, control)


def major_of(source: str) -> int:
    """Of the server that writes a SOURCE's log. Raises as opening it does."""
    if not is_dsn(source):
        return Source.open(source).segments.major
    from tailrace.client.replication_connection import server_major  # noqa: PLC0415 - as above

    return server_major(source)
