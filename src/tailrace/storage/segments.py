"""Where WAL segments lie, and their bytes.

In: a directory of segments, plain or compressed, of one or several timelines. Out: `Segments`, which reads any range of the log as an array with
spare room for framing. Files are opened when read, so a `Segments` travels to Spark's workers as a few paths.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.errors import CorruptWal, UnsupportedWal, UsageError
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.wal.framing import LONG_HEADER, LONG_PAGE_HEADER, WalBytes, spacious
from tailrace.wal.loads import number
from tailrace.wal.versions import WalFormat, format_of_magic

_NAME = re.compile(r"([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})(\.partial)?(\.gz|\.zst|\.lz4)?\Z")
_HISTORY_NAME = re.compile(r"([0-9A-F]{8})\.history\Z")


def _arrow_stream(codec: str) -> Callable[[bytes], bytes]:
    def expand(data: bytes) -> bytes:
        with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
            return bytes(stream.read())

    return expand


_EXPANDERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".zst": _arrow_stream("zstd"),
    ".lz4": _arrow_stream("lz4"),
}


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of the log."""

    timeline: int
    number: int
    path: str
    compression: str = ""
    partial: bool = False

    def read(self) -> bytes:
        data = Path(self.path).read_bytes()
        if not self.compression:
            return data
        try:
            return _EXPANDERS[self.compression](data)
        except (OSError, EOFError, zlib.error, pa.ArrowInvalid) as error:
            raise CorruptWal(f'could not decompress WAL segment "{self.path}": {error}') from error


@dataclass(slots=True)
class Segments:
    """The segments that make up one line of history, by segment number. `system` 0 means unknown."""

    directory: str
    segment_size: int
    system: int
    major: int
    magic: int
    by_number: dict[int, Segment]
    history: list[tuple[int, Lsn]] = field(default_factory=list)

    @property
    def first_lsn(self) -> Lsn:
        return Lsn(min(self.by_number) * self.segment_size)

    @property
    def stop_lsn(self) -> Lsn:
        """End of the last segment that follows the first without a gap."""
        number = min(self.by_number)
        while number in self.by_number:
            number += 1
        return Lsn(number * self.segment_size)

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """(first missing, next present) segment numbers."""
        numbers = sorted(self.by_number)
        return [(a + 1, b) for a, b in zip(numbers, numbers[1:], strict=False) if b != a + 1]

    @property
    def timeline(self) -> int:
        return max(segment.timeline for segment in self.by_number.values())

    def name_at(self, lsn: int) -> str:
        """Path of the segment that holds `lsn`, or the name that it would have."""
        number = int(lsn) // self.segment_size
        segment = self.by_number.get(number)
        return segment.path if segment else segment_name(self.timeline, number, self.segment_size)

    def read(self, start: int, stop: int, extra: int = 0) -> WalBytes:
        """Bytes of `[start, stop)`, as far as files follow one another, with spare room behind (`extra` more if asked)."""
        size = self.segment_size
        wanted = max(0, stop - start)
        buf = np.empty(spacious(wanted) + extra, np.uint8)
        got = 0
        files: list[tuple[int, str]] = []
        while got < wanted:
            number, within = divmod(start + got, size)
            segment = self.by_number.get(number)
            if segment is None:
                break
            files.append((number * size, segment.path))
            take = min(size - within, wanted - got)
            done = _read_into(segment, within, buf[got : got + take])
            got += done
            if done < take:
                if number < max(self.by_number):
                    raise _wrong_size(segment, within + done, number, size)
                break
        return WalBytes(buf, start, got // PAGE_SIZE * PAGE_SIZE, tuple(files))


def _read_into(segment: Segment, offset: int, target: NDArray[np.uint8]) -> int:
    if segment.compression:
        data = np.frombuffer(segment.read(), np.uint8)[offset : offset + len(target)]
        target[: len(data)] = data
        return len(data)
    with open(segment.path, "rb", buffering=0) as file:
        file.seek(offset)
        view = memoryview(target)  # type: ignore[arg-type]
        done = 0
        while done < len(target):
            n = file.readinto(view[done:])
            if not n:
                break
            done += n
        return done


def segment_name(timeline: int, number: int, size: int) -> str:
    per = (1 << 32) // size
    return f"{timeline:08X}{number // per:08X}{number % per:08X}"


def list_segments(directory: str | Path) -> list[Segment]:
    """Every segment file below `directory` (not deeper), numbered as if of 16 MB until the size is known; see `open_segments`."""
    found = []
    for path in sorted(Path(directory).iterdir()):
        match = _NAME.match(path.name)
        if match and path.is_file():
            found.append(
                Segment(int(match[1], 16), int(match[2], 16) << 32 | int(match[3], 16), str(path), match[5] or "", bool(match[4]))
            )
    return found


def open_segments(directory: str | Path) -> Segments:
    """The log in `directory`, along the newest timeline. Raises UsageError if there is none, UnsupportedWal for other versions."""
    listed = list_segments(directory)
    if not listed:
        raise UsageError(
            f'no WAL segments in "{directory}"', hint="Give a data directory, its pg_wal, or a directory of archived segments."
        )
    size, system, form = _first_page(listed)
    per = (1 << 32) // size
    newest = max(segment.timeline for segment in listed)
    history = _history_of(directory, newest)
    by_number: dict[int, Segment] = {}
    for raw in listed:
        segment = Segment(
            raw.timeline, (raw.number >> 32) * per + (raw.number & 0xFFFFFFFF), raw.path, raw.compression, raw.partial
        )
        if not _on_line(segment, newest, history, size):
            continue
        rival = by_number.get(segment.number)
        if rival is None or (segment.timeline, not segment.partial, not segment.compression) > (
            rival.timeline, not rival.partial, not rival.compression,
        ):  # fmt: skip
            by_number[segment.number] = segment
    _check_sizes(by_number, size)
    return Segments(str(directory), size, system, form.major, form.page_magic, by_number, history)


def _check_sizes(by_number: dict[int, Segment], size: int) -> None:
    """Only the last segment may be shorter than a segment is."""
    for position, segment in by_number.items():
        if segment.compression or position == max(by_number):
            continue
        found = Path(segment.path).stat().st_size
        if found != size:
            raise _wrong_size(segment, found, position, size)


def _wrong_size(segment: Segment, found: int, position: int, size: int) -> CorruptWal:
    return CorruptWal(
        f'WAL segment "{segment.path}" has {found} bytes, expected {size}',
        hint="Take the segment from another copy or the archive.", context=f"LSN {Lsn(position * size)}",
    )  # fmt: skip


def _first_page(listed: list[Segment]) -> tuple[int, int, WalFormat]:
    """Size, system identifier and version from the first segment that has a page at all (an empty one may be preallocated)."""
    for segment in listed:
        head = segment.read()[:PAGE_SIZE] if segment.compression else _head(segment.path)
        if len(head) < LONG_PAGE_HEADER or not any(head[:LONG_PAGE_HEADER]):
            continue
        page = np.frombuffer(head, np.uint8)
        form = format_of_magic(number(page, 0, 2), f'WAL segment "{segment.path}"')
        if not number(page, 2, 2) & LONG_HEADER:
            raise CorruptWal(f'WAL segment "{segment.path}" does not begin with a long page header')
        size = number(page, 32, 4)
        if size & (size - 1) or not 1 << 20 <= size <= 1 << 30:
            raise CorruptWal(f'invalid WAL segment size {size} in WAL segment "{segment.path}"')
        return size, number(page, 24, 8), form
    raise UnsupportedWal("the WAL segments are empty", context=listed[0].path)


def _head(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(PAGE_SIZE)


def _history_of(directory: str | Path, timeline: int) -> list[tuple[int, Lsn]]:
    """(timeline, where it was left) for each ancestor, from the newest timeline's history file."""
    path = Path(directory) / f"{timeline:08X}.history"
    if not path.exists():
        return []
    lines = (line.split() for line in path.read_text(errors="replace").splitlines() if line.strip() and not line.startswith("#"))
    try:
        return [(int(parts[0]), Lsn.parse(parts[1])) for parts in lines]
    except (ValueError, IndexError) as error:
        raise CorruptWal(
            f'invalid data in history file "{path}"', hint="Take the file from another copy or the archive."
        ) from error


def _on_line(segment: Segment, newest: int, history: list[tuple[int, Lsn]], size: int) -> bool:
    """Whether the segment is the newest timeline's, or of its past: an ancestor's, that begins before the ancestor was left. Without a history all
    are taken for ancestors."""
    for timeline, left in history:
        if segment.timeline == timeline:
            return segment.number * size < left
    return segment.timeline == newest or not history
