"""`tailrace wal ls`: which files of a log there are. No record is read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from tailrace.cli.tables import Listing, write_json, write_listing
from tailrace.errors import TailraceError
from tailrace.model import Lsn
from tailrace.sources.dsn import is_dsn
from tailrace.sources.named import existing, files_of
from tailrace.sources.source import Source
from tailrace.storage.segment import Segment
from tailrace.storage.segment_files import arrange, identity_of, list_segments
from tailrace.storage.segments import Segments
from tailrace.wal.page_header import SHORT_PAGE_HEADER, page_address


def ls(source: str, *, as_json: bool) -> None:
    """Print the segments of a data directory, or of a directory of segments."""
    received = Source.open(source) if is_dsn(source) else None
    segments = arrange(received.segments.lies_in if received else files_of(existing(source)))
    files = list(_files(segments))
    if as_json:
        write_json(
            {
                "system": str(segments.system), "major": segments.major, "segment_size": segments.segment_size,
                "timelines_left": [{"timeline": timeline, "at": str(left)} for timeline, left in segments.history], "files": files,
            }
        )  # fmt: skip
        return
    sys.stdout.write(f"system {segments.system}, PostgreSQL {segments.major}, segments of {segments.segment_size >> 20} MB\n")
    for timeline, left in segments.history:
        sys.stdout.write(f"timeline {timeline} was left at {left}\n")
    columns = ("segment", "timeline", "from", "file size", "notes")
    rows = [(file["name"], file["timeline"], file["from"], file["size"], ", ".join(file["notes"])) for file in files]
    write_listing(Listing(columns, [tuple("" if cell is None else cell for cell in row) for row in rows]))


def _files(segments: Segments) -> Iterator[dict[str, Any]]:
    """Every segment file, in the order of the log, and where some are missing; those that are not read come last."""
    gaps = dict(segments.gaps)
    for position, segment in sorted(segments.by_number.items()):
        start = Lsn(position * segments.segment_size)
        yield _file(segment, str(start), _notes(segments, segment, start))
        if position + 1 in gaps:
            missing, gap = gaps[position + 1] - position - 1, Lsn((position + 1) * segments.segment_size)
            yield {"name": "…", "timeline": None, "from": str(gap), "size": None, "notes": [f"{missing} missing"]}
    chosen = {segment.path for segment in segments.by_number.values()}
    for segment in list_segments(segments.lies_in):
        if segment.path not in chosen:
            notes = ["other history, or a second copy"] if segment.size is not None else ["not a regular file"]
            yield _file(segment, None, notes)


def _file(segment: Segment, start: str | None, notes: list[str]) -> dict[str, Any]:
    return {
        "name": segment.name, "timeline": segment.timeline, "from": start, "size": segment.size, "notes": notes
    }  # fmt: skip


def _notes(segments: Segments, segment: Segment, start: Lsn) -> list[str]:
    """What is special about a segment. A server makes segments ahead, from old files: their first page is from elsewhere."""
    if segment.size is None:
        return ["not a regular file"]
    notes = [segment.compression.removeprefix(".")] if segment.compression else []
    if segment.partial:
        notes.append("partial")
    elif not segment.compression and segment.size != segments.segment_size:
        notes.append(f"not {segments.segment_size} bytes long")
    try:
        identity = identity_of(segment)
    except TailraceError as error:
        return [*notes, error.message]
    if identity is None or page_address(segment.read(SHORT_PAGE_HEADER)) != start:
        notes.append("not written yet")
    if identity is not None and identity.system != segments.system:
        notes.append(f"of system {identity.system}")
    if identity is not None and identity.form.major != segments.major:
        notes.append(f"of PostgreSQL {identity.form.major}")
    return notes
