"""Pages of a log, as a walk over its records is given them: their bytes, and whose log it is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailrace.dataclass import dataclass
from tailrace.model import PAGE_SIZE, Stretch
from tailrace.wal.versions import WalFormat


@dataclass(slots=True)
class WalBytes:
    """Raw pages of one timeline's log, `[base, base + raw)`, with spare room behind for records that cross pages."""

    buf: NDArray[np.uint8]
    base: int
    raw: int
    files: tuple[tuple[int, str], ...] = ()
    """Where each file of it begins (LSN), and its path; none if it is of no files."""

    def name_at(self, lsn: int) -> str:
        """The file that has the byte at `lsn`, empty if that is not known."""
        return next((path for start, path in reversed(self.files) if start <= lsn), "")

    def in_file(self, lsn: int) -> str:
        """That file in words, to be put behind others; nothing if it is not known."""
        name = self.name_at(lsn)
        return f', file "{name}"' if name else ""

    @classmethod
    def of(cls, pages: bytes | NDArray[np.uint8], base: int) -> WalBytes:
        """Copy `pages` into an array with spare room."""
        source = np.frombuffer(pages, np.uint8) if isinstance(pages, bytes) else pages
        buf = np.empty(spacious(len(source)), np.uint8)
        buf[: len(source)] = source
        return cls(buf, base, len(source))


def spacious(raw: int) -> int:
    """How long an array must be to hold `raw` bytes of pages and every record that may have to be put together behind them."""
    return 2 * raw + 2 * PAGE_SIZE


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """Whose log it is, as the first page of a segment says, and of which timeline. `system` 0 is any."""

    form: WalFormat
    segment_size: int
    system: int = 0
    timeline: int = 0


def first_written_page(wal: WalBytes, stretch: Stretch, segment_size: int) -> int:
    """Where to begin. After a segment switch the rest of the segment is zeros, and a stretch may start among them, but not with a segment, nor
    with a record."""
    at = stretch.start - wal.base
    if (
        stretch.start % segment_size
        and not at % PAGE_SIZE
        and at + PAGE_SIZE <= wal.raw
        and not wal.buf[at : at + PAGE_SIZE].any()
    ):
        return -(-(stretch.start + 1) // segment_size) * segment_size
    return stretch.start
