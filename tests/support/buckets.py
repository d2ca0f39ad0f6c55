"""Archives of WAL in buckets: what an archiver puts there of a server's log, and what of a recorded one."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from support.s3_servers import SeaweedFS
from support.segments import NAME
from support.servers import Server
from tailrace.storage.open_store import open_store
from tailrace.storage.store import Store


def _arrow(codec: str) -> Callable[[bytes], bytes]:
    return lambda data: pa.compress(data, codec, asbytes=True)


PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": lambda data: gzip.compress(data, 1),
    ".zst": _arrow("zstd"),
    ".lz4": lambda data: pa.compress(data, "lz4", asbytes=True),
}
"""By the ending of the names that archivers give."""


@dataclass(frozen=True, slots=True)
class BucketArchive:
    """`ending` says how segments are compressed."""

    url: str
    options: Mapping[str, object]
    ending: str = ""

    @classmethod
    def new(cls, server: SeaweedFS, ending: str = "") -> BucketArchive:
        return cls(server.url, server.options, ending)

    @property
    def store(self) -> Store:
        return open_store(self.url, self.options)

    @property
    def environment(self) -> dict[str, str]:
        """What a process finds it with."""
        return {
            name.upper(): str(value).lower() if isinstance(value, bool) else str(value) for name, value in self.options.items()
        }

    def put(self, segment: Path, upto: int | None = None) -> None:
        """A segment; or, as one that is being received, its first bytes."""
        data = segment.read_bytes()[:upto]
        self.store.put(f"{segment.name}{self.ending}{'' if upto is None else '.partial'}", PACKERS[self.ending](data))

    def put_all(self, wal: Path) -> None:
        """All that a directory has, history files too."""
        for path in sorted(wal.glob(NAME)):
            self.put(path)
        for path in wal.glob("*.history"):
            self.store.put(path.name, path.read_bytes())

    def ship(self, server: Server) -> None:
        """What an archiver would have put there by now: each segment that the server has finished, and it is made to finish the one it is in."""
        server.switch_wal()
        begun = server.value("SELECT pg_walfile_name(pg_current_wal_insert_lsn())")
        there = {each.name[:24] for each in self.store.list()}
        for path in sorted(server.wal_dir.glob(NAME)):
            if path.name < begun and path.name not in there:
                self.put(path)
