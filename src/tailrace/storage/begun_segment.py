"""The segment that somebody still receives into, as far as it is written now: who goes over a log twice must find the same both times.

In: segments, the last of which may be a partial one. Out: the same, of which nothing is read that comes later. All pages but the last that is in its
place are done with, since they are written in their order; that one is kept as it was.
"""

from __future__ import annotations

import os
from dataclasses import replace

from tailrace.model import PAGE_SIZE
from tailrace.storage.segments import Segments
from tailrace.storage.spool_copies import written_pages


def as_written(segments: Segments) -> Segments:
    """A partial segment that is compressed is not written to any more."""
    number = segments.stop_lsn // segments.segment_size - 1
    last = segments.by_number[number]
    if not last.partial or last.compression or last.settled is not None:
        return segments
    try:
        file = os.open(last.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # it is whole by now, and has its own name
        return replace(segments, by_number=segments.by_number | {number: last.completed()})
    try:
        pages = written_pages(file, number * segments.segment_size, segments.segment_size)
        settled = max(0, pages - 1) * PAGE_SIZE
        filling = os.pread(file, PAGE_SIZE, settled) if pages else b""
    finally:
        os.close(file)
    return replace(segments, by_number=segments.by_number | {number: replace(last, settled=settled, filling=filling)})
