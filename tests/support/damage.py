"""Bytes of a file changed on purpose, and the files of a case that one may want to damage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.cases import Case
from support.segments import NAME

PAGE = 8192


def segments_of(case: Case) -> list[Path]:
    return sorted(case.wal_dir.glob(NAME))


def write_at(path: Path, at: int, data: bytes) -> None:
    """Write over what is there."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def flip(path: Path, at: int, mask: int = 0x01) -> None:
    """Change these bits of one byte."""
    write_at(path, at, bytes([path.read_bytes()[at] ^ mask]))


@contextmanager
def flipped(path: Path, at: int, mask: int = 0x01) -> Iterator[None]:
    """The same, for a while."""
    flip(path, at, mask)
    try:
        yield
    finally:
        flip(path, at, mask)


def cut_off(wal_dir: Path, lsn: int) -> None:
    """No page of the log (segments of 1 MB) from there on was ever written."""
    for path in wal_dir.glob(NAME):
        begin = (int(path.name[8:16], 16) << 32) + (int(path.name[16:], 16) << 20)
        if begin >= lsn:
            path.unlink()
        elif begin + (1 << 20) > lsn:
            within = lsn % (1 << 20) // PAGE * PAGE
            path.write_bytes(path.read_bytes()[:within].ljust(1 << 20, b"\0"))
