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
