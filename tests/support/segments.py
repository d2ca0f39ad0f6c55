"""The files of `pg_wal`, by LSN: which of them a case needs, and how to be rid of the rest.

Kept apart from the package under test, which reads the same names, since a test should not ask the accused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

NAME = "[0-9A-F]" * 24


def redo(control: bytes) -> int:
    """The redo pointer of the last checkpoint (catalog/pg_control.h); after a clean shutdown, the checkpoint itself."""
    (found,) = struct.unpack_from("<Q", control, 40)
    return int(found)


def segments(wal_dir: Path, *, since: int, until: int) -> Iterator[Path]:
    """The segments from the one that holds `since` to the one that holds `until`, both LSNs."""
    for path in sorted(wal_dir.glob(NAME)):
        size = path.stat().st_size
        if since // size <= number_of(path) <= until // size:
            yield path


def number_of(path: Path) -> int:
    """Which segment of the log a file holds, by its name and length."""
    return int(path.name[8:16], 16) * (2**32 // path.stat().st_size) + int(path.name[16:], 16)


def forget_other_segments(data_dir: Path) -> None:
    """Of a stopped server, only the segment of its last checkpoint stays: as in a server that has long recycled the older ones.

    Newer ones go, too: initdb has recycled some already, so they are not empty, and would swell every case.
    """
    at = redo((data_dir / "global" / "pg_control").read_bytes())
    kept = set(segments(data_dir / "pg_wal", since=at, until=at))
    for path in (data_dir / "pg_wal").glob(NAME):
        if path not in kept:
            path.unlink()


def forget_segments_before(data_dir: Path, lsn: int) -> None:
    """As a server does that has recycled all that lies before the segment of this position."""
    for path in (data_dir / "pg_wal").glob(NAME):
        if number_of(path) < lsn // path.stat().st_size:
            path.unlink()
