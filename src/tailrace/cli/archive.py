"""`tailrace archive cleanup`: what slots no longer need of an archive."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tailrace.cli.progress import warn
from tailrace.cli.tables import Listing, write_json, write_listing
from tailrace.errors import count_of
from tailrace.model import Lsn
from tailrace.replication.archive import Cleanup, WaysBack, clean_up, look_through
from tailrace.replication.slot_location import SlotLocation
from tailrace.storage.segment import Segment


def cleanup(source: Path, state: list[Path], backups: list[Path], catalogs: list[Path], *, delete: bool, as_json: bool) -> None:
    """Print which segments no slot, backup or catalog state needs, or remove them if `delete`."""
    locations = [SlotLocation.open(each, warn=warn) for each in state]
    cleaned = (clean_up if delete else look_through)(source, locations, WaysBack(backups, catalogs))
    rows = [_row(cleaned, segment) for segment in cleaned.unneeded]
    size = sum(segment.size or 0 for segment in cleaned.unneeded)
    if as_json:
        kept = [{"why": each.why, "files": each.files} for each in cleaned.kept]
        write_json({"deleted": delete, "bytes": size, "segments": rows, "kept": kept})
        return
    if rows:
        write_listing(Listing(("segment", "timeline", "from", "file size"), [tuple(row.values()) for row in rows]))
    became = f"{'was' if len(rows) == 1 else 'were'} removed" if delete else f"{'is' if len(rows) == 1 else 'are'} not needed"
    sys.stdout.write(f"{count_of(len(rows), 'segment')}, {size:,} bytes, {became}\n")
    for each in cleaned.kept:
        names = each.files[0] if len(each.files) == 1 else f"{len(each.files):,} files, {each.files[0]} to {each.files[-1]}"
        sys.stdout.write(f"kept: {names}: {each.why}\n")


def _row(cleaned: Cleanup, segment: Segment) -> dict[str, Any]:
    return {
        "name": segment.name, "timeline": segment.timeline, "from": str(Lsn(segment.number * cleaned.segments.segment_size)),
        "size": segment.size,
    }  # fmt: skip
