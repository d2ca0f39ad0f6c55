"""A running server recycles its pg_wal under our feet (rule 9), so its segments are copied before anything is read of them.

In: the segments of a live pg_wal. Out: the same segments in a directory of ours, which goes when the process does. A segment
that was renamed while it was
copied no longer begins with its own address; it is left out, and whoever needs it learns that it has been removed.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from tailrace.storage.segments import Segment, Segments, segment_name
from tailrace.wal.loads import number

_PAGE_ADDRESS = 8


def spooled(segments: Segments) -> Segments:
    """Copies of all segments."""
    spool = Path(tempfile.mkdtemp(prefix="tailrace-spool-"))
    atexit.register(shutil.rmtree, spool, ignore_errors=True)
    copies: dict[int, Segment] = {}
    for position, segment in sorted(segments.by_number.items()):
        target = spool / segment_name(segment.timeline, position, segments.segment_size)
        try:
            shutil.copyfile(segment.path, target)
        except FileNotFoundError:
            continue  # recycled since it was listed
        with target.open("rb") as file:
            head = file.read(16)
        if len(head) == 16 and number(head, _PAGE_ADDRESS, 8) == position * segments.segment_size:
            copies[position] = replace(segment, path=str(target))
    first = min(copies, default=0)
    # Segments made ahead of the log hold old pages and drop out above; what remains must hang together from its first on.
    return replace(
        segments, directory=str(spool), by_number={position: copies[position] for position in copies if position >= first}
    )
