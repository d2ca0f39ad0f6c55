"""Which files make up a log: a directory's or a store's segments, put in order along the newest timeline.

In: where segments lie (`storage/wal_files.py`), plain or compressed, of one or several timelines, with their history files. Out: `Segments`. Nothing
but regular files of the right size is read: a pipe would never end, a short file may be a copy that somebody is still making.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal, MissingHistory, TailraceError
from tailrace.model import PAGE_SIZE, Lsn
from tailrace.storage.segment import Segment, in_place
from tailrace.storage.wal_files import SEGMENT_NAME, WalFiles, files_in
from tailrace.wal.page_header import LONG_HEADER, LONG_PAGE_HEADER, LongPageHeader
from tailrace.wal.versions import WalFormat, format_of_magic

if TYPE_CHECKING:
    from tailrace.storage.segments import Segments


@dataclass(frozen=True, slots=True)
class Identity:
    """What the long header of a segment's first page says."""

    segment_size: int
    system: int
    form: WalFormat


def list_segments(place: str | Path | WalFiles, since: Lsn | None = None) -> list[Segment]:
    """Every segment file there (not deeper), numbered as if of 16 MB until the size is known; see `open_segments`."""
    files, segments = files_in(place), []
    for file in files.segments(since):
        match = SEGMENT_NAME.match(file.name)
        assert match is not None
        listed = Segment(
            timeline=int(match[1], 16),
            number=int(match[2], 16) << 32 | int(match[3], 16),
            lies_in=file.lies_in or files,
            name=file.name,
            compression=match[5] or match[6] or "",
            partial=bool(match[4] or match[7]),
            size=file.size,
        )
        segments.append(listed)
    return segments


def place_of_name(name: str) -> str | None:
    """What a segment's name says of its place, whatever its timeline: the greater, the later. None for names of other things."""
    return name[8:24] if SEGMENT_NAME.match(name) else None


def open_segments(files: str | Path | WalFiles, since: Lsn | None = None) -> Segments:
    """The log in a directory or a store, along the newest timeline. Raises MissingHistory if there is none, UnsupportedWal for other versions,
    CorruptWal for files that are no segments though they are named so, or do not belong together. What lies before `since` may be listed, and is not
    looked at."""
    segments = arrange(files, since)
    first = int(since or 0) // segments.segment_size
    for place, segment in segments.by_number.items():
        if place < first:
            continue
        if segment.size is None:
            raise CorruptWal(
                f'WAL segment "{segment.path}" is not a regular file',
                hint="Put the segment in its place.", context=f"LSN {Lsn(place * segments.segment_size)}",
                lsn=Lsn(place * segments.segment_size), file=segment.path,
            )  # fmt: skip
        if segment.size != segments.segment_size and not segment.partial and not segment.compression:
            raise segments.wrong_size(segment, segment.size)
    _check_ends(segments, first)
    return segments


def arrange(place: str | Path | WalFiles, since: Lsn | None = None, *, system: int | None = None) -> Segments:
    """The same, whatever the files hold: to look at them. Where they are of several systems, `system` says whose log it is."""
    files = files_in(place)
    listed = list_segments(files, since)
    if not listed:
        raise MissingHistory(
            f'no WAL segments in "{files.where}"',
            hint="Give a data directory, its pg_wal, a directory of archived segments, or the URL of an archive in a store.",
        )
    # Where `since` lies nobody knows before the size of segments is known, but the last one does not lie before it.
    identity = _first_identity(
        listed if since is None else sorted(listed, key=lambda segment: segment.number, reverse=True), system
    )
    size = identity.segment_size
    newest = max(segment.timeline for segment in listed)
    history = history_of(files, newest)
    by_number: dict[int, Segment] = {}
    for raw in listed:
        segment = in_place(raw, size)
        if not _on_line(segment, newest, history, size):
            continue
        rival = by_number.get(segment.number)
        if rival is None or _rank(segment) > _rank(rival):
            by_number[segment.number] = segment
    from tailrace.storage.segments import Segments  # noqa: PLC0415 - who lists files needs no arrays

    return Segments(files, size, identity.system, identity.form.major, by_number, history)


def _rank(segment: Segment) -> tuple[int, bool, bool]:
    """Of two files for one place, the greater is read."""
    return segment.timeline, not segment.partial, not segment.compression


def identity_of(segment: Segment) -> Identity | None:
    """What the segment says of itself; None if it has no page yet. Raises UnsupportedWal, CorruptWal for what is no segment's page."""
    if segment.size is None:
        return None
    page = segment.read(PAGE_SIZE)
    if len(page) < LONG_PAGE_HEADER or not any(page[:LONG_PAGE_HEADER]):
        return None
    header = LongPageHeader.read(page)
    form = format_of_magic(header.magic, segment.path)
    if not header.info & LONG_HEADER:
        raise CorruptWal(f'WAL segment "{segment.path}" does not begin with a long page header', file=segment.path)
    size = header.segment_size
    if size & (size - 1) or not 1 << 20 <= size <= 1 << 30:
        raise CorruptWal(f'invalid WAL segment size {size} in WAL segment "{segment.path}"', file=segment.path)
    return Identity(size, header.system, form)


def holds_wal(place: str | Path | WalFiles) -> bool:
    """Whether it has segments in which something is written. A receiver that was killed before its first byte leaves an empty one."""
    for segment in list_segments(place):
        try:
            if identity_of(segment) is not None:
                return True
        except (TailraceError, FileNotFoundError):  # what is wrong with it is told where it is read
            return True
    return False


def _first_identity(listed: list[Segment], system: int | None = None) -> Identity:
    """Size, system and version, from the first segment that has a page at all (an empty one may be made ahead), and one that we know: what is wrong
    with another is told where it is read. That of `system`, if there is one."""
    refused: TailraceError | None = None
    others: Identity | None = None
    for segment in listed:
        try:
            identity = identity_of(segment)
        except TailraceError as error:
            refused = refused or error
            continue
        except FileNotFoundError:  # renamed or removed since it was listed
            continue
        if identity is not None and system in (None, identity.system):
            return identity
        others = others or identity
    if others is not None:
        return others
    raise refused or MissingHistory("the WAL segments are empty", context=listed[0].path, file=listed[0].path)


def _check_ends(segments: Segments, first: int) -> None:
    """From `first` on, the first and the last segment that have a page must be of the same cluster: another's, in one archive, would look like the
    end of the log, or like its beginning. One in the middle is met when the log is read, and so is garbage."""
    places = [place for place in sorted(segments.by_number) if place >= first]
    begin, end = _first_with_a_page(segments, places), _first_with_a_page(segments, places[::-1])
    if begin is None or end is None:
        return
    (early, of_first), (late, of_last) = begin, end
    if of_first != of_last:
        raise CorruptWal(
            f"the WAL segments are not of one cluster: the first are of system {of_first.system}, PostgreSQL {of_first.form.major}, the last of "
            f"system {of_last.system}, PostgreSQL {of_last.form.major}",
            hint="Keep the log of each cluster in a directory of its own.",
            context=f'file "{early.path}" and file "{late.path}"',
            lsn=Lsn(late.number * segments.segment_size),
            file=late.path,
        )


def _first_with_a_page(segments: Segments, places: list[int]) -> tuple[Segment, Identity] | None:
    """And what it says; what is wrong with another is told where that is read."""
    for place in places:
        try:
            identity = identity_of(segments.by_number[place])
        except (TailraceError, FileNotFoundError):
            continue
        if identity is not None:
            return segments.by_number[place], identity
    return None


def history_of(place: str | Path | WalFiles, timeline: int) -> list[tuple[int, Lsn]]:
    """(timeline, where it was left) for each ancestor, from the newest timeline's history file."""
    files, name = files_in(place), history_name(timeline)
    text = files.history(name)
    return [] if text is None else parse_history(text, files.named(name))


def history_name(timeline: int) -> str:
    return f"{timeline:08X}.history"


def parse_history(text: str, where: str) -> list[tuple[int, Lsn]]:
    """The same, of what stands in a history file; `where` names it in the error."""
    lines = (line.split() for line in text.splitlines() if line.strip() and not line.startswith("#"))
    try:
        return [(int(parts[0]), Lsn.parse(parts[1])) for parts in lines]
    except (ValueError, IndexError) as error:
        raise CorruptWal(
            f'invalid data in history file "{where}"', hint="Take the file from another copy or the archive.", file=where
        ) from error


def _on_line(segment: Segment, newest: int, history: list[tuple[int, Lsn]], size: int) -> bool:
    """Whether the segment is the newest timeline's, or of its past: an ancestor's, that begins before the ancestor was left. Without a history all
    are taken for ancestors."""
    for timeline, left in history:
        if segment.timeline == timeline:
            return segment.number * size < left
    return segment.timeline == newest or not history
