"""Which files make up a log: a directory's segments, put in order along the newest timeline.

In: a directory of segments, plain or compressed, of one or several timelines, with their history files. Out: `Segments`. Nothing but regular files of
the right size is read: a pipe would never end, a short file may be a copy that somebody is still making.
"""

from __future__ import annotations

import re
import stat
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tailrace.errors import CorruptWal, TailraceError, UnsupportedWal, UsageError
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.storage.segments import Segment, Segments, wrong_size
from tailrace.wal.framing import LONG_HEADER, LONG_PAGE_HEADER
from tailrace.wal.unaligned import number
from tailrace.wal.versions import WalFormat, format_of_magic

_NAME = re.compile(r"([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})(?:(\.partial)?(\.gz|\.zst|\.lz4)?|(\.gz|\.zst|\.lz4)(\.partial))\Z")
"""pg_receivewal puts `.partial` behind the compression, an archiver that compresses what it gets puts it before."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What the long header of a segment's first page says."""

    segment_size: int
    system: int
    form: WalFormat


def list_segments(directory: str | Path) -> list[Segment]:
    """Every segment file in `directory` (not deeper), numbered as if of 16 MB until the size is known; see `open_segments`."""
    files = []
    for path in sorted(Path(directory).iterdir()):
        match = _NAME.match(path.name)
        if not match:
            continue
        with suppress(FileNotFoundError):  # a running server has removed it since
            status = path.stat()
            files.append(
                Segment(
                    int(match[1], 16), int(match[2], 16) << 32 | int(match[3], 16), str(path), match[5] or match[6] or "",
                    bool(match[4] or match[7]), status.st_size if stat.S_ISREG(status.st_mode) else None,
                )
            )  # fmt: skip
    return files


def place_of_name(name: str) -> str | None:
    """What a segment's name says of its place, whatever its timeline: the greater, the later. None for names of other things."""
    return name[8:24] if _NAME.match(name) else None


def open_segments(directory: str | Path) -> Segments:
    """The log in `directory`, along the newest timeline. Raises UsageError if there is none, UnsupportedWal for other versions, CorruptWal for files
    that are no segments though they are named so, or do not belong together."""
    segments = arrange(directory)
    for place, segment in segments.by_number.items():
        if segment.size is None:
            raise CorruptWal(
                f'WAL segment "{segment.path}" is not a regular file',
                hint="Put the segment in its place.", context=f"LSN {Lsn(place * segments.segment_size)}",
            )  # fmt: skip
        if segment.size != segments.segment_size and not segment.partial and not segment.compression:
            raise wrong_size(segment, segment.size, place, segments.segment_size)
    _check_last(segments)
    return segments


def arrange(directory: str | Path) -> Segments:
    """The same, whatever the files hold: to look at them."""
    listed = list_segments(directory)
    if not listed:
        raise UsageError(
            f'no WAL segments in "{directory}"', hint="Give a data directory, its pg_wal, or a directory of archived segments."
        )
    identity = _first_identity(listed)
    size = identity.segment_size
    per = (1 << 32) // size
    newest = max(segment.timeline for segment in listed)
    history = _history_of(directory, newest)
    by_number: dict[int, Segment] = {}
    for raw in listed:
        segment = replace(raw, number=(raw.number >> 32) * per + (raw.number & 0xFFFFFFFF))
        if not _on_line(segment, newest, history, size):
            continue
        rival = by_number.get(segment.number)
        if rival is None or _rank(segment) > _rank(rival):
            by_number[segment.number] = segment
    return Segments(str(directory), size, identity.system, identity.form.major, identity.form.page_magic, by_number, history)


def _rank(segment: Segment) -> tuple[int, bool, bool]:
    """Of two files for one place, the greater is read."""
    return segment.timeline, not segment.partial, not segment.compression


def identity_of(segment: Segment) -> Identity | None:
    """What the segment says of itself; None if it has no page yet. Raises UnsupportedWal, CorruptWal for what is no segment's page."""
    if segment.size is None:
        return None
    page = np.frombuffer(segment.read(PAGE_SIZE), np.uint8)
    if len(page) < LONG_PAGE_HEADER or not page[:LONG_PAGE_HEADER].any():
        return None
    form = format_of_magic(number(page, 0, 2), f'WAL segment "{segment.path}"')
    if not number(page, 2, 2) & LONG_HEADER:
        raise CorruptWal(f'WAL segment "{segment.path}" does not begin with a long page header')
    size = number(page, 32, 4)
    if size & (size - 1) or not 1 << 20 <= size <= 1 << 30:
        raise CorruptWal(f'invalid WAL segment size {size} in WAL segment "{segment.path}"')
    return Identity(size, number(page, 24, 8), form)


def _first_identity(listed: list[Segment]) -> Identity:
    """Size, system and version, from the first segment that has a page at all (an empty one may be made ahead), and one that we know: what is wrong
    with another is told where it is read."""
    refused: TailraceError | None = None
    for segment in listed:
        try:
            identity = identity_of(segment)
        except TailraceError as error:
            refused = refused or error
            continue
        if identity is not None:
            return identity
    raise refused or UnsupportedWal("the WAL segments are empty", context=listed[0].path)


def _check_last(segments: Segments) -> None:
    """The last segment that has a page must be of the same cluster as the first: another's, in one archive, would look like the end of the log, or
    like its beginning. One in the middle is met when the log is read, and so is garbage."""
    for place in sorted(segments.by_number, reverse=True):
        segment = segments.by_number[place]
        try:
            identity = identity_of(segment)
        except TailraceError:
            return
        if identity is not None:
            break
    else:
        return
    if (identity.segment_size, identity.system, identity.form.major) != (segments.segment_size, segments.system, segments.major):
        raise CorruptWal(
            f"the WAL segments are not of one cluster: the first are of system {segments.system}, PostgreSQL {segments.major}, the last of "
            f"system {identity.system}, PostgreSQL {identity.form.major}",
            hint="Keep the log of each cluster in a directory of its own.",
            context=f'file "{segments.by_number[min(segments.by_number)].path}" and file "{segment.path}"',
        )


def _history_of(directory: str | Path, timeline: int) -> list[tuple[int, Lsn]]:
    """(timeline, where it was left) for each ancestor, from the newest timeline's history file."""
    path = Path(directory) / f"{timeline:08X}.history"
    if not path.exists():
        return []
    if not path.is_file():
        raise CorruptWal(f'history file "{path}" is not a regular file', hint="Take the file from another copy or the archive.")
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
